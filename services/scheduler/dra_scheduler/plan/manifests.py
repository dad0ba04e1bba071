"""The manifests of a question to the planner: the objects, and workloads of unknown kinds."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
from dra_shared.api.codec import convert
from dra_shared.api.meta import Object
from dra_shared.api.resources import CRON_JOBS, PODS, RESOURCE_CLAIM_TEMPLATES, WORKLOADS, Resource
from dra_shared.jsontypes import JsonObject

from dra_scheduler.plan.errors import PlanError
from dra_scheduler.plan.jobpods import expand, is_job, join_gang
from dra_scheduler.plan.objects import BY_KIND
from dra_scheduler.plan.values import check_values

Typed = tuple[Resource[Any], Object]
# Returns an object with defaults, in the version of its resource.
Complete = Callable[[JsonObject], JsonObject]

_replace = msgspec.structs.replace
_KINDS: Mapping[tuple[str, str], Resource[Any]] = {
    **{(r.group, r.kind): r for r in (WORKLOADS, CRON_JOBS)},
    **BY_KIND,
}
_COMPUTE_DOMAIN = ("resource.nvidia.com", "ComputeDomain")
# The class for channels of a compute domain (templates/ of dra-driver-nvidia-gpu).
_CHANNELS = "compute-domain-default-channel.nvidia.com"

# Groups of Kubernetes itself. Custom resources may end with .k8s.io only if the Kubernetes project approves
# them.
_OWN_GROUPS = ("", "apps", "autoscaling", "batch", "extensions", "policy")
_OWN_SUFFIX = ".k8s.io"
# Kinds that have a pod template but create no pods.
_RECORDS = ("PodTemplate", "ControllerRevision", "CustomResourceDefinition")
# Groups of common custom resources that create no pods.
_GROUPS_WITHOUT_PODS = (
    "cert-manager.io",
    "cilium.io",
    "external-secrets.io",
    "istio.io",
    "kueue.x-k8s.io",
    "projectcalico.org",
)
_KINDS_WITHOUT_PODS = (
    "AlertmanagerConfig",
    "PodMonitor",
    "Probe",
    "PrometheusRule",
    "ScrapeConfig",
    "ServiceMonitor",
)


class Manifests:
    """Typed objects, and in ``left_out`` the names of objects that may create pods in an unknown way.

    Until :meth:`expand_jobs` is called, they include jobs of operators, such as JobSets.
    """

    def __init__(self, complete: Complete = lambda value: value) -> None:
        self.objects: list[Typed] = []
        self.left_out: list[str] = []
        # Assumptions about objects that the manifests refer to and the world lacks.
        self.assumed: list[str] = []
        self._complete = complete
        self._jobs: list[JsonObject] = []

    @classmethod
    def of(cls, values: Iterable[JsonObject]) -> "Manifests":
        """Read complete objects. Raises like :meth:`add`."""
        made = cls()
        for value in values:
            made.add(value)
        return made

    def add(self, value: JsonObject) -> None:
        """Read one object.

        Raises:
            ValueError: it is not an API object, or a field has the wrong type.
        """
        kind, api_version = value.get("kind"), value.get("apiVersion")
        if not isinstance(kind, str) or not isinstance(api_version, str):
            raise ValueError("an object needs apiVersion and kind")
        if kind.endswith("List") and isinstance(value.get("items"), list):
            for item in value["items"]:
                self.add({"apiVersion": api_version, "kind": kind.removesuffix("List"), **item})
            return
        group = api_version.rpartition("/")[0]
        resource = _KINDS.get((group, kind))
        try:
            if resource is not None:
                given = join_gang(value) if resource is PODS else value
                self._put(resource, convert(resource, self._complete(given)))
            elif is_job(value):
                self._jobs.append(value)
                if _may_make_pods(group, kind, value):
                    self.left_out.append(_full_name(value))
            elif (group, kind) == _COMPUTE_DOMAIN:
                for template in _channel_template(value):
                    self._put(RESOURCE_CLAIM_TEMPLATES, convert(RESOURCE_CLAIM_TEMPLATES, template))
            elif _may_make_pods(group, kind, value):
                self.left_out.append(_full_name(value))
        except (msgspec.DecodeError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"a {kind} cannot be read: {error}") from error

    def expand_jobs(self) -> None:
        """Replace jobs that operators define, such as JobSets, by their pods.

        Raises:
            PlanError: a job or its pod template is invalid.
        """
        jobs, self._jobs = self._jobs, []
        self.left_out = [name for name in self.left_out if name not in map(_full_name, jobs)]
        for obj, copies in expand(jobs, self.assumed, self.left_out):
            resource = _KINDS[obj["apiVersion"].rpartition("/")[0], obj["kind"]]
            try:
                # Defaults are the same for all copies.
                made = convert(resource, self._complete(obj))
                for number in range(copies):
                    name = f"{made.metadata.name}-{number}" if resource is PODS else made.metadata.name
                    self._put(resource, _replace(made, metadata=_replace(made.metadata, name=name)))
            except (msgspec.DecodeError, ValueError, TypeError, KeyError, AttributeError) as error:
                raise PlanError(
                    f"the {obj['kind']} {obj['metadata']['name']} cannot be read: {error}"
                ) from error

    def _put(self, resource: Resource[Any], obj: Any) -> None:
        if not obj.metadata.name and not obj.metadata.generate_name:
            raise ValueError("it has no name")
        check_values(resource, obj)
        if resource.namespaced and not obj.metadata.namespace:
            obj = _replace(obj, metadata=_replace(obj.metadata, namespace="default"))
        self.objects.append((resource, obj))


def _channel_template(domain: JsonObject) -> Iterator[JsonObject]:
    """Yield the claim template that the compute domain controller creates for the domain's workload."""
    channel = (domain.get("spec") or {}).get("channel") or {}
    name = (channel.get("resourceClaimTemplate") or {}).get("name")
    if name:
        request = {
            "name": "channel",
            "exactly": {"deviceClassName": _CHANNELS, "allocationMode": "ExactCount", "count": 1},
        }
        yield {
            "metadata": {"name": name, "namespace": domain["metadata"].get("namespace", "")},
            "spec": {"spec": {"devices": {"requests": [request]}}},
        }


def _may_make_pods(group: str, kind: str, value: JsonObject) -> bool:
    if kind in _RECORDS:
        return False
    if _has_pod_spec(value):
        return True
    if group in _OWN_GROUPS or group.endswith(_OWN_SUFFIX) or kind in _KINDS_WITHOUT_PODS:
        return False
    return not any(group == known or group.endswith(f".{known}") for known in _GROUPS_WITHOUT_PODS)


def _has_pod_spec(value: Any) -> bool:
    """True if the value contains a list of containers at any depth."""
    left = [value]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            containers = value.get("containers")
            if isinstance(containers, list) and any(isinstance(each, dict) for each in containers):
                return True
            left += value.values()
        elif isinstance(value, list):
            left += value
    return False


def _full_name(value: JsonObject) -> str:
    meta = value.get("metadata") or {}
    name = meta.get("name") or meta.get("generateName") or "without a name"
    return f"{value['kind']} {meta.get('namespace') or 'default'}/{name}"
