"""Validation of quantities and selectors of objects from a file, which no API server has checked."""

from collections.abc import Iterator, Mapping
from typing import Any

from dra_shared.api.meta import Object, Struct
from dra_shared.api.resources import (
    CSI_STORAGE_CAPACITIES,
    LIMIT_RANGES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    RESOURCE_SLICES,
    RUNTIME_CLASSES,
    Resource,
)
from dra_shared.quantity import Quantity, QuantityError
from dra_shared.selectors import SelectorError, label_selector

_POD = tuple(
    f"spec.{holder}.resources.{side}"
    for holder in ("containers.*", "init_containers.*")
    for side in ("requests", "limits")
)
_REQUESTS = ("exactly.capacity.requests", "first_available.*.capacity.requests")
# For each resource, the paths of quantities and of maps of quantities.
_PATHS: Mapping[Resource[Any], tuple[str, ...]] = {
    NODES: ("status.allocatable", "status.capacity"),
    PODS: (*_POD, "spec.resources.requests", "spec.resources.limits", "spec.overhead"),
    RESOURCE_SLICES: (
        "spec.shared_counters.*.counters.*.value",
        "spec.devices.*.consumes_counters.*.counters.*.value",
        "spec.devices.*.capacity.*.value",
        "spec.devices.*.capacity.*.request_policy.default",
        "spec.devices.*.capacity.*.request_policy.valid_values.*",
        "spec.devices.*.capacity.*.request_policy.valid_range.min",
        "spec.devices.*.capacity.*.request_policy.valid_range.max",
        "spec.devices.*.capacity.*.request_policy.valid_range.step",
    ),
    RESOURCE_CLAIMS: (
        *(f"spec.devices.requests.*.{path}" for path in _REQUESTS),
        "status.allocation.devices.results.*.consumed_capacity",
    ),
    RESOURCE_CLAIM_TEMPLATES: tuple(f"spec.spec.devices.requests.*.{path}" for path in _REQUESTS),
    PERSISTENT_VOLUME_CLAIMS: ("spec.resources.requests", "status.capacity"),
    PERSISTENT_VOLUMES: ("spec.capacity",),
    CSI_STORAGE_CAPACITIES: ("capacity", "maximum_volume_size"),
    RESOURCE_QUOTAS: ("spec.hard",),
    LIMIT_RANGES: tuple(
        f"spec.limits.*.{name}"
        for name in ("max", "min", "default", "default_request", "max_limit_request_ratio")
    ),
    RUNTIME_CLASSES: ("overhead.pod_fixed",),
}
_TERMS = tuple(
    f"spec.affinity.{kind}.{terms}"
    for kind in ("pod_affinity", "pod_anti_affinity")
    for terms in (
        "required_during_scheduling_ignored_during_execution.*",
        "preferred_during_scheduling_ignored_during_execution.*.pod_affinity_term",
    )
)
_POD_SELECTORS = (
    "spec.topology_spread_constraints.*.label_selector",
    *(f"{term}.{name}" for term in _TERMS for name in ("label_selector", "namespace_selector")),
)
_SPLIT = {resource: [path.split(".") for path in paths] for resource, paths in _PATHS.items()}
_SELECTORS = {
    PODS: [path.split(".") for path in _POD_SELECTORS],
    POD_DISRUPTION_BUDGETS: [["spec", "selector"]],
}


def check_values(resource: Resource[Any], obj: Object) -> None:
    """Check every quantity and label selector of the object.

    Raises:
        ValueError: one cannot be parsed. The message has its path.
    """
    for path in _SPLIT.get(resource, ()):
        for where, text in _values(obj, path, ""):
            try:
                Quantity.parse(text)
            except QuantityError as error:
                raise ValueError(f"{where.lstrip('.')}: {text!r} is not a quantity: {error}") from error
    for path in _SELECTORS.get(resource, ()):
        for where, selector in _values(obj, path, ""):
            try:
                label_selector(selector)
            except SelectorError as error:
                raise ValueError(f"{where.lstrip('.')}: {error}") from error


def _values(value: Any, path: list[str], where: str) -> Iterator[tuple[str, Any]]:
    """Yield the values at the path, including the texts in maps and lists, each with its full path."""
    if value is None:
        return
    if isinstance(value, str) or (not path and isinstance(value, Struct)):
        yield where, value
    elif isinstance(value, Mapping):
        rest = path[1:] if path and path[0] == "*" else path
        for key, each in value.items():
            yield from _values(each, rest, f"{where}[{key}]")
    elif isinstance(value, tuple):
        for index, each in enumerate(value):
            yield from _values(each, path[1:], f"{where}[{index}]")
    elif path:
        name = path[0]
        yield from _values(getattr(value, name, None), path[1:], f"{where}.{_json(name)}")


def _json(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.title() for word in rest)
