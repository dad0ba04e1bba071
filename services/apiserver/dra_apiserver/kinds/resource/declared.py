"""The limits and values that the types of resource.k8s.io declare.

In Kubernetes 1.36 hand-written code still answers for claims, classes and slices, with its own texts and order. What it
compares with stands in the types' tags, and nowhere else.
"""

from __future__ import annotations

from dra_apiserver.kinds.common.declarative.structs import Field, fields

_PACKAGE = "io.k8s.api.resource.v1"
_LIMITS = ("maxItems", "maxBytes")


def limit(type_name: str, name: str) -> int:
    """How many items, or bytes, a field may have.

    Raises:
        LookupError: there is no such field, or it declares no limit.
    """
    for rule in _field(type_name, name).rules:
        if rule.name in _LIMITS:
            return int(rule.value)
    raise LookupError(f"{type_name}.{name} declares no limit")


def values(type_name: str, name: str) -> tuple[str, ...]:
    """The values that a field may have, sorted.

    Raises:
        LookupError: there is no such field, or it may have any value.
    """
    found = _field(type_name, name).values
    if not found:
        raise LookupError(f"{type_name}.{name} declares no values")
    return found


def _field(type_name: str, name: str) -> Field:
    for field in fields(f"{_PACKAGE}.{type_name}"):
        if field.name == name:
            return field
    raise LookupError(f"{type_name} has no field {name}")
