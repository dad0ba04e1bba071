"""Validate resource names and amounts of containers."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject
from dra_shared.names import is_extended_resource_name, label_key
from dra_shared.quantity import Quantity

from dra_apiserver.errors import FieldError, forbidden_field, invalid, missing_field

_COMPUTE = ("cpu", "memory")
_OF_CONTAINERS = frozenset({"cpu", "memory", "ephemeral-storage"})
_STANDARD = _OF_CONTAINERS | {
    "storage", "requests.cpu", "requests.memory", "requests.storage", "requests.ephemeral-storage", "limits.cpu",
    "limits.memory", "limits.ephemeral-storage", "pods", "resourcequotas", "services", "replicationcontrollers",
    "secrets", "configmaps", "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
}  # fmt: skip
_HUGE_PAGES = "hugepages-"
_ZERO = Quantity.parse("0")


def amounts(values: JsonObject | None) -> dict[str, Quantity]:
    """Return the quantities of a list of resources."""
    return {name: Quantity.parse(str(value)) for name, value in (values or {}).items()}


def is_native(name: str) -> bool:
    """True if Kubernetes itself defines the resource."""
    return "/" not in name or "kubernetes.io/" in name


def may_overcommit(name: str) -> bool:
    """True if a limit may exceed the request."""
    return is_native(name) and not name.startswith(_HUGE_PAGES)


def check_amount(name: str, amount: Quantity, path: str) -> list[FieldError]:
    """Check that an amount is not negative, and whole for extended resources (`ValidateResourceQuantityValue`)."""
    errors = []
    if amount < _ZERO:
        errors.append(invalid(path, str(amount), "must be greater than or equal to 0"))
    if is_extended_resource_name(name) and amount.milli_value() % 1000:
        errors.append(invalid(path, str(amount), "must be an integer"))
    return errors


def is_standard(name: str) -> bool:
    """True if the name, which has no domain, is a standard resource."""
    return name in _STANDARD or name.startswith(_HUGE_PAGES)


def check_resource_name(name: str, path: str) -> list[FieldError]:
    """Check that a name is a standard resource or has a domain (`validateResourceName`)."""
    if problems := label_key(name):
        return [invalid(path, name, text) for text in problems]
    if "/" in name or is_standard(name) or name.startswith("requests.hugepages-"):
        return []
    return [invalid(path, name, "must be a standard resource type or fully qualified")]


def check_container_resource_name(name: str, path: str) -> list[FieldError]:
    """Check that containers may request the resource (`validateContainerResourceName`)."""
    errors = check_resource_name(name, path)
    if "/" not in name:
        if name not in _OF_CONTAINERS and not name.startswith(_HUGE_PAGES):
            errors.append(invalid(path, name, "must be a standard resource for containers"))
    elif not is_native(name) and not is_extended_resource_name(name):
        errors.append(invalid(path, name, "doesn't follow extended resource name standard"))
    return errors


def check_requirements(resources: JsonObject, path: str) -> list[FieldError]:
    """Validate the requests and limits of a container."""
    errors: list[FieldError] = []
    limits, requests = amounts(resources.get("limits")), amounts(resources.get("requests"))
    for name, limit in limits.items():
        at = f"{path}.limits[{name}]"
        errors += check_container_resource_name(name, at) + check_amount(name, limit, at)
    for name, request in requests.items():
        at = f"{path}.requests[{name}]"
        errors += check_container_resource_name(name, at) + check_amount(name, request, at)
        known = limits.get(name)
        if known is None:
            if not may_overcommit(name):
                text = "Limit must be set for non overcommitable resources"
                errors.append(missing_field(f"{path}.limits", text))
        elif request != known and not may_overcommit(name):
            errors.append(
                invalid(f"{path}.requests", str(request), f"must be equal to {name} limit of {known}")
            )
        elif request > known:
            text = f"must be less than or equal to {name} limit of {known}"
            errors.append(invalid(f"{path}.requests", str(request), text))
    every = [*limits, *requests]
    if any(name.startswith(_HUGE_PAGES) for name in every) and not any(name in _COMPUTE for name in every):
        errors.append(forbidden_field(path, "HugePages require cpu or memory"))
    return errors
