"""What a question is about: the pods of manifests, with all that they bring along."""

from collections.abc import Sequence
from typing import Any

import msgspec
from dra_scheduler.plan.fit import Wanted
from dra_scheduler.plan.objects import BY_KIND, Objects
from dra_scheduler.plan.workloads import TEMPLATED, pods_of
from dra_shared.api.meta import Object
from dra_shared.api.pod import Pod
from dra_shared.api.resources import NODES, POD_GROUPS, PODS, PRIORITY_CLASSES, Resource

from dra_cli.errors import CommandError
from dra_cli.plan.reading import Typed, completed, from_source, typed

_replace = msgspec.structs.replace
_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def wanted(source: str, objects: Objects, namespace: str | None = None) -> Wanted:
    """The pods of the manifests.

    Raises:
        CommandError: they cannot be read, or there are none.
    """
    problems: list[str] = []
    found = [
        _placed(each, namespace) for each in typed(from_source(source, problems), problems, manifests=True)
    ]
    if problems:
        raise CommandError(problems[0])
    made = of(found, objects)
    if not made.pods:
        raise CommandError(f"no pods, and nothing that makes pods, in {source}")
    return made


def of(found: Sequence[Typed], objects: Objects) -> Wanted:
    """The pods among these objects and of the workloads among them; the rest is what they refer to."""
    values = _PRIORITIES | {
        obj.metadata.name: getattr(obj, "value", 0) for r, obj in found if r is PRIORITY_CLASSES
    }
    pods: list[Pod] = []
    others: list[tuple[Resource[Any], Object]] = []
    for resource, obj in found:
        if isinstance(obj, Pod):
            pods.append(obj)
        elif resource in TEMPLATED:
            pods += _completed(list(pods_of(resource, obj, objects.of(NODES))))
        if (
            not isinstance(obj, Pod)
            and resource is not POD_GROUPS
            and (resource.group, resource.kind) in BY_KIND
        ):
            others.append((resource, obj))
    groups = [obj for resource, obj in found if resource is POD_GROUPS]
    return Wanted([_fresh(pod, values) for pod in pods], groups, others)  # type: ignore[arg-type]  # all of POD_GROUPS


def _completed(pods: list[Pod]) -> list[Pod]:
    """With the defaults that pods alone have, not templates, such as requests from limits."""
    if pods and all(pod.spec is pods[0].spec for pod in pods):
        spec = completed(PODS, pods[0]).spec
        return [_replace(pod, spec=spec) for pod in pods]
    return [completed(PODS, pod) for pod in pods]


def _fresh(pod: Pod, priorities: dict[str, int]) -> Pod:
    """The pod as if it came now, wherever it was."""
    spec = _replace(pod.spec, node_name="")
    if not spec.scheduler_name:
        spec = _replace(spec, scheduler_name="default-scheduler")
    if spec.priority is None:
        spec = _replace(spec, priority=priorities.get(spec.priority_class_name or "", 0))
    meta = _replace(pod.metadata, uid="", resource_version="", deletion_timestamp=None)
    if not meta.name:
        meta = _replace(meta, name=f"{meta.generate_name}plan")
    return Pod(metadata=meta, spec=spec)


def _placed(each: Typed, namespace: str | None) -> Typed:
    resource, obj = each
    if namespace is None or not resource.namespaced or obj.metadata.namespace not in ("", "default"):
        return each
    return resource, _replace(obj, metadata=_replace(obj.metadata, namespace=namespace))
