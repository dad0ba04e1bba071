"""The pods of a question, with everything that they refer to."""

import msgspec
from dra_shared.api.pod import Pod
from dra_shared.api.resources import NODES, POD_GROUPS, PRIORITY_CLASSES

from dra_scheduler.config import DEFAULT_SCHEDULER_NAME
from dra_scheduler.plan.errors import PlanError
from dra_scheduler.plan.fit import Wanted
from dra_scheduler.plan.manifests import Manifests
from dra_scheduler.plan.objects import BY_KIND, Objects
from dra_scheduler.plan.workloads import TEMPLATED, pods_of

_replace = msgspec.structs.replace
_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def of(manifests: Manifests, objects: Objects) -> Wanted:
    """Return the pods in the manifests, and those of workloads in them. All other objects become ``others``.

    Raises:
        PlanError: there are no pods, or a job is invalid.
    """
    manifests.expand_jobs()
    found = manifests.objects
    values = _PRIORITIES | {name: each.value for name, each in objects.of(PRIORITY_CLASSES).items()}
    values |= {obj.metadata.name: getattr(obj, "value", 0) for r, obj in found if r is PRIORITY_CLASSES}
    pods: list[Pod] = []
    others = []
    for resource, obj in found:
        if isinstance(obj, Pod):
            pods.append(obj)
        elif resource in TEMPLATED:
            pods += pods_of(resource, obj, objects.of(NODES))
        if (
            not isinstance(obj, Pod)
            and resource is not POD_GROUPS
            and (resource.group, resource.kind) in BY_KIND
        ):
            others.append((resource, obj))
    left_out = tuple(manifests.left_out)
    if not pods:
        unknown = f"; of unknown kinds: {', '.join(left_out)}" if left_out else ""
        raise PlanError(f"no pods, and nothing that makes pods{unknown}", left_out)
    groups = [obj for resource, obj in found if resource is POD_GROUPS]
    return Wanted(
        [_fresh(pod, values) for pod in pods],
        groups,  # type: ignore[arg-type]  # all of POD_GROUPS
        others,
        left_out,
        tuple(manifests.assumed),
    )


def _fresh(pod: Pod, priorities: dict[str, int]) -> Pod:
    """Return the pod as a new one without its node and status."""
    spec = _replace(pod.spec, node_name="")
    if not spec.scheduler_name:
        spec = _replace(spec, scheduler_name=DEFAULT_SCHEDULER_NAME)
    if spec.priority is None:
        spec = _replace(spec, priority=priorities.get(spec.priority_class_name or "", 0))
    meta = _replace(pod.metadata, uid="", resource_version="", deletion_timestamp=None)
    if not meta.name:
        meta = _replace(meta, name=f"{meta.generate_name}plan")
    return Pod(metadata=meta, spec=spec)
