"""What pods and resource claims use of a ResourceQuota (pkg/quota/v1/evaluator/core). Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from dra_shared.api.container import Container
from dra_shared.api.core import ResourceQuota, ScopedResourceSelectorRequirement
from dra_shared.api.pod import Pod
from dra_shared.api.resource import DeviceRequest, ResourceClaim
from dra_shared.claims import EXTENDED_RESOURCE_ANNOTATION
from dra_shared.quantity import Quantity

CLAIM_COUNT = "count/resourceclaims.resource.k8s.io"
IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"
_DEVICES_SUFFIX = ".deviceclass.resource.k8s.io/devices"
# What allocationMode All counts as: no claim can have more results.
_MOST_DEVICES = 32
_COMPUTE = ("cpu", "memory", "ephemeral-storage")

Usage = dict[str, Quantity]


def is_claim_resource(name: str) -> bool:
    """Whether claims are what a quota for that name limits."""
    return (
        name == CLAIM_COUNT
        or name.endswith(_DEVICES_SUFFIX)
        or (name.startswith("requests.") and "/" in name)
    )


def claim_usage(
    claim: ResourceClaim, pod: Pod | None, extended_name: Callable[[str], str | None]
) -> dict[str, int]:
    """What one claim uses.

    Devices count under their class's name, under the implicit extended resource of the class, and under the class's
    ``extendedResourceName``. A claim that stands for a pod's extended resources leaves out the name that the pod itself
    counts under already. ``pod`` is that pod, ``extended_name`` gives a class's ``extendedResourceName``.
    """
    usage: Counter[str] = Counter({CLAIM_COUNT: 1})
    is_extended = claim.metadata.annotations.get(EXTENDED_RESOURCE_ANNOTATION) == "true"
    for request in claim.spec.devices.requests:
        counted = _counted_by_pod(request, pod) if is_extended else None
        for device_class, number in _devices(request).items():
            usage[f"{device_class}{_DEVICES_SUFFIX}"] += number
            implicit, explicit = f"{IMPLICIT_PREFIX}{device_class}", extended_name(device_class)
            for name in (implicit, explicit):
                if name is not None and name != counted and number:
                    usage[f"requests.{name}"] += number
    return dict(usage)


def _devices(request: DeviceRequest) -> dict[str, int]:
    """How many devices of each class the request may get at most."""
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


def _counted_by_pod(request: DeviceRequest, pod: Pod | None) -> str | None:
    """The extended resource in the pod that the request stands for, as far as the pod's status says it."""
    status = pod.status.extended_resource_claim_status if pod is not None else None
    for mapping in status.request_mappings if status is not None else ():
        if mapping.request_name == request.name:
            return mapping.resource_name
    return None


def pod_usage(pod: Pod) -> Usage:
    """What one pod uses; one that has ended uses only its count."""
    usage: Usage = {"count/pods": Quantity.parse("1")}
    if pod.status.phase in ("Succeeded", "Failed"):
        return usage
    usage["pods"] = Quantity.parse("1")
    for name, amount in _total(
        pod, lambda c: c.resources.requests if c.resources is not None else {}
    ).items():
        if name in _COMPUTE:
            usage[name] = amount
            usage[f"requests.{name}"] = amount
        elif "/" in name or name.startswith("hugepages-"):
            usage[f"requests.{name}"] = amount
            if name.startswith("hugepages-"):
                usage[name] = amount
    for name, amount in _total(pod, lambda c: c.resources.limits if c.resources is not None else {}).items():
        if name in _COMPUTE:
            usage[f"limits.{name}"] = amount
    return usage


def _total(pod: Pod, amounts: Callable[[Container], Mapping[str, str]]) -> Usage:
    """The sum over what runs together, or the most that an init container needs, whichever is more."""
    together: Usage = {}
    most: Usage = {}
    for container in pod.spec.init_containers:
        here = _parsed(amounts(container))
        if container.restart_policy == "Always":
            together = add(together, here)
            here = together
        else:
            here = add(together, here)
        most = {name: max(most.get(name, amount), amount, key=_key) for name, amount in here.items()} | {
            name: amount for name, amount in most.items() if name not in here
        }
    for container in pod.spec.containers:
        together = add(together, _parsed(amounts(container)))
    for name, amount in most.items():
        if name not in together or together[name].compare(amount) < 0:
            together[name] = amount
    return add(together, _parsed(pod.spec.overhead))


def _parsed(amounts: Mapping[str, str]) -> Usage:
    return {name: Quantity.parse(text) for name, text in amounts.items()}


def _key(amount: Quantity) -> float:
    return amount.as_approximate_float()


def add(first: Usage, second: Usage) -> Usage:
    """The sum by name."""
    result = dict(first)
    for name, amount in second.items():
        result[name] = result[name].add(amount) if name in result else amount
    return result


def equal(amounts: Mapping[str, str], others: Mapping[str, str]) -> bool:
    """Whether the same is named with the same amounts, however these are spelled (quota.Equals)."""
    return amounts.keys() == others.keys() and _parsed(amounts) == _parsed(others)


def selects(quota: ResourceQuota, pod: Pod) -> bool:
    """Whether the quota's scopes include the pod."""
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
            return _is_best_effort(pod.spec.containers, pod.spec.init_containers)
        case "NotBestEffort":
            return not _is_best_effort(pod.spec.containers, pod.spec.init_containers)
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


def _is_best_effort(*groups: Iterable[Container]) -> bool:
    return not any(
        container.resources is not None
        and (
            any(name in ("cpu", "memory") for name in container.resources.requests)
            or any(name in ("cpu", "memory") for name in container.resources.limits)
        )
        for group in groups
        for container in group
    )
