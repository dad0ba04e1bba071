"""Quantities of objects that an API server did not check, because they come from a file."""

from collections.abc import Iterator, Mapping
from typing import Any

from dra_shared.api.meta import Object
from dra_shared.api.resources import (
    CSI_STORAGE_CAPACITIES,
    LIMIT_RANGES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    RESOURCE_SLICES,
    RUNTIME_CLASSES,
    Resource,
)
from dra_shared.quantity import Quantity, QuantityError

_POD = tuple(
    f"spec.{holder}.resources.{side}"
    for holder in ("containers.*", "init_containers.*")
    for side in ("requests", "limits")
)
_REQUESTS = ("exactly.capacity.requests", "first_available.*.capacity.requests")
# By resource, paths to quantities and to maps of them.
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
_SPLIT = {resource: [path.split(".") for path in paths] for resource, paths in _PATHS.items()}


def check_amounts(resource: Resource[Any], obj: Object) -> None:
    """Check every quantity of the object.

    Raises:
        ValueError: one cannot be parsed. The message has its path.
    """
    for path in _SPLIT.get(resource, ()):
        for where, text in _values(obj, path, ""):
            try:
                Quantity.parse(text)
            except QuantityError as error:
                raise ValueError(f"{where.lstrip('.')}: {text!r} is no quantity: {error}") from error


def _values(value: Any, path: list[str], where: str) -> Iterator[tuple[str, str]]:
    if value is None:
        return
    if isinstance(value, str):
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
