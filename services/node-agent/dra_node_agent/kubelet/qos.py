"""A pod's quality-of-service class (pkg/apis/core/v1/helper/qos)."""

from collections.abc import Mapping

from dra_shared.api.pod import Pod
from dra_shared.quantity import Quantity

_RESOURCES = ("cpu", "memory")


def qos_class(pod: Pod) -> str:
    """``Guaranteed``, ``Burstable`` or ``BestEffort``."""
    if pod.status.qos_class:
        return pod.status.qos_class
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    parts = [pod.spec.resources] if pod.spec.resources is not None else [c.resources for c in containers]
    if not any(_has_amounts(part.requests) or _has_amounts(part.limits) for part in parts):
        return "BestEffort"
    for part in parts:
        for name in _RESOURCES:
            limit = part.limits.get(name)
            if limit is None or part.requests.get(name, limit) != limit:
                return "Burstable"
    return "Guaranteed"


def _has_amounts(amounts: Mapping[str, str]) -> bool:
    return any(not Quantity.parse(amounts[name]).is_zero() for name in _RESOURCES if name in amounts)
