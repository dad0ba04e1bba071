"""Count what pods and resource claims use of a ResourceQuota (pkg/quota/v1/evaluator/core). Pure."""

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from dra_shared.api.container import Container
from dra_shared.api.core import ResourceQuota, ScopedResourceSelectorRequirement
from dra_shared.api.meta import OwnerReference
from dra_shared.api.pod import Pod
from dra_shared.api.resource import DeviceClass, DeviceRequest, ResourceClaim
from dra_shared.claims import EXTENDED_RESOURCE_ANNOTATION, controller_of
from dra_shared.names import is_extended_resource_name
from dra_shared.quantity import Quantity

CLAIM_COUNT = "count/resourceclaims.resource.k8s.io"
IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"
_DEVICES_SUFFIX = ".deviceclass.resource.k8s.io/devices"
# The devices of allocationMode All: no claim can have more results.
_MOST_DEVICES = 32
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_POD_RESOURCES = {
    "count/pods",
    "pods",
    *_COMPUTE,
    *(f"{side}.{name}" for side in ("requests", "limits") for name in _COMPUTE),
}

Usage = dict[str, Quantity]


class ClassNames:
    """The extended resource names of the device classes (upstream's ExtendedResourceCache)."""

    def __init__(self, classes: Iterable[DeviceClass]) -> None:
        self._explicit = {one.metadata.name: one.spec.extended_resource_name for one in classes}
        self._names = {name for name in self._explicit.values() if name}
        self._names.update(f"{IMPLICIT_PREFIX}{name}" for name in self._explicit)

    def __contains__(self, resource: str) -> bool:
        """True if a class has the extended resource."""
        return resource in self._names

    def explicit(self, device_class: str) -> str | None:
        """Return the ``extendedResourceName`` of the class."""
        return self._explicit.get(device_class)


def is_claim_resource(name: str, classes: ClassNames | None) -> bool:
    """True if claims count for a quota of that name. Without ``classes``, no extended resource is a claim's."""
    if name == CLAIM_COUNT or name.endswith(_DEVICES_SUFFIX):
        return True
    return classes is not None and is_shared_resource(name) and name.removeprefix("requests.") in classes


def is_shared_resource(name: str) -> bool:
    """True if pods count for a quota of that name, and claims too if a class has the extended resource."""
    return name.startswith("requests.") and _is_extended(name.removeprefix("requests."))


def claim_usage(claim: ResourceClaim, classes: ClassNames | None, counted: Usage) -> Usage:
    """Return the usage of one claim.

    Devices count under the name of their class. With ``classes``, they also count under the implicit extended
    resource of the class and under its ``extendedResourceName``. `counted` is the part that a pod's usage
    includes already. It is subtracted.
    """
    devices: Counter[str] = Counter()
    for request in claim.spec.devices.requests:
        for device_class, number in _devices(request).items():
            devices[device_class] += number
    usage = Counter({CLAIM_COUNT: 1})
    usage.update({f"{device_class}{_DEVICES_SUFFIX}": number for device_class, number in devices.items()})
    result = {name: _quantity(number) for name, number in usage.items()}
    if classes is None:
        return result
    extended: Counter[str] = Counter()
    for device_class, number in devices.items():
        extended[f"requests.{IMPLICIT_PREFIX}{device_class}"] += number
        if explicit := classes.explicit(device_class):
            extended[f"requests.{explicit}"] += number
    for name, number in extended.items():
        left = _quantity(number)
        if name in counted:
            left = left.sub(counted[name])
        if left.compare(_quantity(0)) > 0:
            result[name] = left
    return result


def _quantity(number: int) -> Quantity:
    return Quantity.parse(str(number))


def _devices(request: DeviceRequest) -> dict[str, int]:
    """Return the highest number of devices of each class that the request may get."""
    most: dict[str, int] = {}
    if request.exactly is not None:
        exactly = request.exactly
        most[exactly.device_class_name] = _number(exactly.allocation_mode, exactly.count)
    for alternative in request.first_available:
        number = _number(alternative.allocation_mode, alternative.count)
        name = alternative.device_class_name
        most[name] = max(most.get(name, 0), number)
    return most


def _number(mode: str, count: int | None) -> int:
    if mode == "All":
        return _MOST_DEVICES
    if mode in ("", "ExactCount"):
        return 1 if count is None else count
    return 0


class NamespaceUsage:
    """The usage of the pods and claims of one namespace. The functions are called once, when they are needed.

    ``classes`` returns None if the feature gate DRAExtendedResource is off.
    """

    def __init__(
        self,
        pods: Callable[[], Iterable[Pod]],
        claims: Callable[[], Iterable[ResourceClaim]],
        classes: Callable[[], Iterable[DeviceClass] | None],
    ) -> None:
        self._list_pods, self._list_claims, self._list_classes = pods, claims, classes

    @functools.cached_property
    def classes(self) -> ClassNames | None:
        found = self._list_classes()
        return ClassNames(found) if found is not None else None

    @functools.cached_property
    def _pods(self) -> dict[str, Pod]:
        return {pod.metadata.name: pod for pod in self._list_pods()}

    @functools.cached_property
    def _claims(self) -> list[ResourceClaim]:
        return list(self._list_claims())

    @functools.cached_property
    def _claims_by_pod(self) -> dict[str, list[ResourceClaim]]:
        """Return the claims for extended resources by the UID of their pod."""
        found: dict[str, list[ResourceClaim]] = {}
        for claim in self._claims:
            if owner := extended_resource_owner(claim):
                found.setdefault(owner.uid, []).append(claim)
        return found

    def of_claim(self, claim: ResourceClaim) -> Usage:
        """Return the usage of a claim, which need not be stored yet."""
        return claim_usage(
            claim, self.classes, self._counted_by_pod(claim) if self.classes is not None else {}
        )

    def _counted_by_pod(self, claim: ResourceClaim) -> Usage:
        """Return the usage of the pod whose extended resources the claim provides."""
        owner = extended_resource_owner(claim)
        pod = self._pods.get(owner.name) if owner is not None else None
        if owner is None or pod is None or pod.metadata.uid != owner.uid:
            return {}
        status = pod.status.extended_resource_claim_status
        if status is not None:
            return pod_usage(pod) if status.resource_claim_name == claim.metadata.name else {}
        # The pod does not name its claim yet. Only the first one that it owns is covered by the pod's own usage.
        owned = self._claims_by_pod.get(owner.uid, ())
        return {} if any(_age(one) < _age(claim) for one in owned) else pod_usage(pod)

    def sum_usage(self, quota: ResourceQuota, names: Iterable[str]) -> Usage:
        """Return the usage of those pods and claims that may count for one of the quota's `names`."""
        total: Usage = {}
        wanted = list(names)
        scoped = bool(quota.spec.scopes) or quota.spec.scope_selector is not None
        if any(name in _POD_RESOURCES or _is_pod_prefixed(name) for name in wanted):
            for pod in self._pods.values():
                if selects(quota, pod):
                    total = add(total, pod_usage(pod))
        # Scopes select pods only, so a quota with scopes counts no claims.
        if not scoped and any(is_claim_resource(name, self.classes) for name in wanted):
            for claim in self._claims:
                total = add(total, self.of_claim(claim))
        return total


def extended_resource_owner(claim: ResourceClaim) -> OwnerReference | None:
    """Return the pod that the claim was created for, if it was created for a pod's extended resources."""
    if claim.metadata.annotations.get(EXTENDED_RESOURCE_ANNOTATION) != "true":
        return None
    owner = controller_of(claim)
    return owner if owner is not None and (owner.api_version, owner.kind) == ("v1", "Pod") else None


def _age(claim: ResourceClaim) -> tuple[str, str]:
    return claim.metadata.creation_timestamp or "", claim.metadata.name


def _is_pod_prefixed(name: str) -> bool:
    return name.startswith(("hugepages-", "requests.hugepages-")) or is_shared_resource(name)


def pod_usage(pod: Pod) -> Usage:
    """Return the usage of one pod. A finished pod only counts for the number of objects."""
    usage: Usage = {"count/pods": _quantity(1)}
    if pod.status.phase in ("Succeeded", "Failed"):
        return usage
    usage["pods"] = _quantity(1)
    for name, amount in _requests(pod).items():
        if name in _COMPUTE or name.startswith("hugepages-"):
            usage[name] = amount
            usage[f"requests.{name}"] = amount
        elif _is_extended(name):
            usage[f"requests.{name}"] = amount
    for name, amount in _limits(pod).items():
        if name in _COMPUTE:
            usage[f"limits.{name}"] = amount
    return usage


def has_pod_level_resources(pod: Pod) -> bool:
    """True if the pod as a whole has requests or limits (`IsPodLevelResourcesSet`)."""
    resources = pod.spec.resources
    return resources is not None and any(map(_is_pod_level, (*resources.requests, *resources.limits)))


def _is_extended(name: str) -> bool:
    """True if device plugins or device classes provide the resource (schedutil.IsDRAExtendedResourceName)."""
    return name.startswith(IMPLICIT_PREFIX) or is_extended_resource_name(name)


def _is_pod_level(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def _requests(pod: Pod) -> Usage:
    """Return the requests of the pod with its overhead (component-helpers' `PodRequests`)."""
    total = _total(pod, lambda c: c.resources.requests if c.resources is not None else {})
    if pod.spec.resources is not None:
        total |= _pod_level(pod.spec.resources.requests)
    return add(total, _parse(pod.spec.overhead))


def _limits(pod: Pod) -> Usage:
    """Return the limits of the pod.

    Overhead is added only to resources that have a limit (component-helpers' `PodLimits`).
    """
    total = _total(pod, lambda c: c.resources.limits if c.resources is not None else {})
    if pod.spec.resources is not None:
        total |= _pod_level(pod.spec.resources.limits)
    overhead = _parse(pod.spec.overhead)
    limited = {name for name, amount in total.items() if amount.compare(_quantity(0))}
    return add(total, {name: amount for name, amount in overhead.items() if name in limited})


def _pod_level(amounts: Mapping[str, str]) -> Usage:
    return {name: amount for name, amount in _parse(amounts).items() if _is_pod_level(name)}


def _total(pod: Pod, amounts: Callable[[Container], Mapping[str, str]]) -> Usage:
    """Return the sum over the containers that run together, or the peak of an init container if it is higher."""
    together: Usage = {}
    most: Usage = {}
    for container in pod.spec.init_containers:
        here = _parse(amounts(container))
        if container.restart_policy == "Always":
            together = add(together, here)
            here = together
        else:
            here = add(together, here)
        most = {name: max(most.get(name, amount), amount, key=_key) for name, amount in here.items()} | {
            name: amount for name, amount in most.items() if name not in here
        }
    for container in pod.spec.containers:
        together = add(together, _parse(amounts(container)))
    for name, amount in most.items():
        if name not in together or together[name].compare(amount) < 0:
            together[name] = amount
    return together


def _parse(amounts: Mapping[str, str]) -> Usage:
    return {name: Quantity.parse(text) for name, text in amounts.items()}


def _key(amount: Quantity) -> float:
    return amount.as_approximate_float()


def add(first: Usage, second: Usage) -> Usage:
    """Return the sum by name."""
    result = dict(first)
    for name, amount in second.items():
        result[name] = result[name].add(amount) if name in result else amount
    return result


def equal(amounts: Mapping[str, str], others: Mapping[str, str]) -> bool:
    """True if both have the same names with the same amounts, in any spelling (quota.Equals)."""
    return amounts.keys() == others.keys() and _parse(amounts) == _parse(others)


def selects(quota: ResourceQuota, pod: Pod) -> bool:
    """True if the quota's scopes include the pod."""
    requirements = [
        ScopedResourceSelectorRequirement(operator="Exists", scope_name=s) for s in quota.spec.scopes
    ]
    if quota.spec.scope_selector is not None:
        requirements += quota.spec.scope_selector.match_expressions
    return all(_holds(requirement, pod) for requirement in requirements)


def _holds(requirement: ScopedResourceSelectorRequirement, pod: Pod) -> bool:
    ends = pod.spec.active_deadline_seconds is not None
    match requirement.scope_name:
        case "Terminating":
            return ends
        case "NotTerminating":
            return not ends
        case "BestEffort":
            return _is_best_effort(pod)
        case "CrossNamespacePodAffinity":
            return _has_terms_of_other_namespaces(pod)
        case "NotBestEffort":
            return not _is_best_effort(pod)
        case "PriorityClass":
            name = pod.spec.priority_class_name
            match requirement.operator:
                case "In":
                    return name in requirement.values
                case "NotIn":
                    return name not in requirement.values
                case "Exists":
                    return bool(name)
                case "DoesNotExist":
                    return not name
    return False


def _has_terms_of_other_namespaces(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    if affinity is None:
        return False
    terms = [
        term
        for one in (affinity.pod_affinity, affinity.pod_anti_affinity)
        if one is not None
        for term in (
            *one.required_during_scheduling_ignored_during_execution,
            *(
                weighted.pod_affinity_term
                for weighted in one.preferred_during_scheduling_ignored_during_execution
            ),
        )
    ]
    return any(term.namespaces or term.namespace_selector is not None for term in terms)


def _is_best_effort(pod: Pod) -> bool:
    if has_pod_level_resources(pod):
        return False
    return not any(
        container.resources is not None
        and (
            any(name in ("cpu", "memory") for name in container.resources.requests)
            or any(name in ("cpu", "memory") for name in container.resources.limits)
        )
        for container in (*pod.spec.containers, *pod.spec.init_containers)
    )
