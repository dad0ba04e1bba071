"""Validate limit ranges (`ValidateLimitRange`)."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject
from dra_shared.names import label_key
from dra_shared.quantity import Quantity

from dra_apiserver.errors import FieldError, duplicate, forbidden_field, invalid, json_value, missing_field
from dra_apiserver.kinds.pods.quantities import (
    amounts,
    check_container_resource_name,
    check_resource_name,
    may_overcommit,
)

Amounts = dict[str, Quantity]
_TYPES = ("Pod", "Container", "PersistentVolumeClaim")
_RATIO = "maxLimitRequestRatio"
# Amounts beyond that are compared in whole units.
_MOST_MILLI = (2**63 - 1) // 1000


def check_limit_range(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Validate a limit range: each type once, and consistent limits."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, limit in enumerate((obj.get("spec") or {}).get("limits") or ()):
        path, kind = f"spec.limits[{index}]", limit.get("type", "")
        errors += _check_type(kind, f"{path}.type")
        if kind in seen:
            errors.append(duplicate(f"{path}.type", json_value(kind)))
        seen.add(kind)
        errors += _check_limit(limit, kind, path)
    return errors


def _check_type(kind: str, path: str) -> list[FieldError]:
    if problems := label_key(kind):
        return [invalid(path, json_value(kind), text) for text in problems]
    if "/" in kind or kind in _TYPES:
        return []
    return [invalid(path, json_value(kind), "must be a standard limit type or fully qualified")]


def _check_limit(limit: JsonObject, kind: str, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    given: dict[str, Amounts] = {}
    check_name = check_container_resource_name if kind in ("Pod", "Container") else check_resource_name
    for field in ("max", "min", "default", "defaultRequest", _RATIO):
        if field == _RATIO and kind == "PersistentVolumeClaim" and not _bounds_storage(limit):
            text = "either minimum or maximum storage value is required, but neither was provided"
            errors.append(missing_field(f"{path}.limits", text))
        if kind == "Pod" and field.startswith("default"):
            if limit.get(field):
                errors.append(forbidden_field(f"{path}.{field}", "may not be specified when `type` is 'Pod'"))
            continue
        given[field] = amounts(limit.get(field))
        for name in given[field]:
            errors += check_name(name, f"{path}.{field}[{name}]")
    for name in dict.fromkeys(name for values in given.values() for name in values):
        of_name = {field: values[name] for field, values in given.items() if name in values}
        errors += _check_order(name, of_name, path) + _check_ratio(name, of_name, path)
    return errors


def _bounds_storage(limit: JsonObject) -> bool:
    return any("storage" in (limit.get(field) or {}) for field in ("min", "max"))


def _check_order(name: str, given: Amounts, path: str) -> list[FieldError]:
    """Check that the first of two amounts does not exceed the second. Upstream reports the third."""
    words = {
        "min": "min value",
        "max": "max value",
        "default": "default value",
        "defaultRequest": "default request value",
    }
    errors = []
    for low, high, field, shown in (
        ("min", "max", "min", "min"),
        ("min", "defaultRequest", "defaultRequest", "defaultRequest"),
        ("defaultRequest", "max", "defaultRequest", "defaultRequest"),
        ("defaultRequest", "default", "defaultRequest", "defaultRequest"),
        ("min", "default", "default", "min"),
        ("default", "max", "default", "max"),
    ):
        if low in given and high in given and given[low] > given[high]:
            above = "default limit value" if (low, high) == ("defaultRequest", "default") else words[high]
            text = f"{words[low]} {given[low]} is greater than {above} {given[high]}"
            errors.append(invalid(f"{path}.{field}[{name}]", str(given[shown]), text))
    return errors


def _check_ratio(name: str, given: Amounts, path: str) -> list[FieldError]:
    errors = []
    at, ratio = f"{path}.{_RATIO}[{name}]", given.get(_RATIO)
    if ratio is not None and ratio < Quantity.parse("1"):
        errors.append(invalid(at, str(ratio), f"ratio {ratio} is less than 1"))
    if ratio is not None and "min" in given and "max" in given:
        allowed = _number(given["max"]) / _number(given["min"]) if _number(given["min"]) else float("inf")
        if _number(ratio) > allowed:
            errors.append(invalid(at, str(ratio), f"ratio {ratio} is greater than max/min = {allowed:f}"))
    default, request = given.get("default"), given.get("defaultRequest")
    if not may_overcommit(name) and default is not None and request is not None and default != request:
        text = f"default value {default} must equal to defaultRequest value {request} in {name}"
        errors.append(invalid(f"{path}.defaultRequest[{name}]", str(request), text))
    return errors


def _number(amount: Quantity) -> float:
    return amount.milli_value() / 1000 if amount.value() < _MOST_MILLI else float(amount.value())
