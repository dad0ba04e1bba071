"""Validate capacities of devices, and the policies for requesting a part of one."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.quantity import Quantity
from dra_shared.version import V1_37

from dra_apiserver.common.lists import check_set
from dra_apiserver.errors import FieldError, forbidden_field, invalid, missing_field
from dra_apiserver.kinds.resource.capacityrange import CapacityRange, check_steps

_VALID_VALUES = 10
_FRACTIONS = "DRAFractionalCapacityRange"


def check_shared_capacity(capacity: JsonObject, path: str, gates: FeatureGates) -> list[FieldError]:
    """Validate a capacity of a device that allows multiple allocations."""
    policy = capacity.get("requestPolicy")
    if policy is None:
        return []
    return _check_policy(_parse(capacity.get("value", "0")), policy, f"{path}.requestPolicy", gates)


def check_exclusive_capacity(capacity: JsonObject, path: str) -> list[FieldError]:
    """Validate a capacity of a device that is allocated once. It has no request policy."""
    if capacity.get("requestPolicy") is None:
        return []
    return [forbidden_field(f"{path}.requestPolicy", "allowMultipleAllocations must be true")]


def _parse(value: Any) -> Quantity:
    return Quantity.parse(str(value))


def _check_policy(limit: Quantity, policy: JsonObject, path: str, gates: FeatureGates) -> list[FieldError]:
    values, range_ = policy.get("validValues") or [], policy.get("validRange")
    default = policy.get("default")
    if values and range_ is not None:
        text = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        return [forbidden_field(path, text)]
    if values:
        if default is None:
            return [missing_field(f"{path}.default", "required when validValues is defined")]
        options = [_parse(value) for value in values]
        key = _decimal if gates.enabled(_FRACTIONS) else _whole
        return _check_values(_parse(default), limit, options, f"{path}.validValues", key)
    if range_ is not None:
        if default is None:
            return [missing_field(f"{path}.default", "required when validRange is defined")]
        return _check_range(_parse(default), limit, range_, f"{path}.validRange", gates)
    return []


def _whole(value: Quantity) -> str:
    return str(value.value())


def _decimal(value: Quantity) -> str:
    """Format a quantity with all written digits, like Go's inf.Dec: 1.5 differs from 1500m."""
    if value.exponent >= 0:
        return str(value.number * 10**value.exponent)
    digits = str(abs(value.number)).rjust(1 - value.exponent, "0")
    sign = "-" if value.number < 0 else ""
    return f"{sign}{digits[: value.exponent]}.{digits[value.exponent :]}"


def _check_values(
    default: Quantity, limit: Quantity, options: list[Quantity], path: str, key: Callable[[Quantity], str]
) -> list[FieldError]:
    errors = [
        invalid(f"{path}[{index}]", str(after), "values must be sorted in ascending order")
        for index, (before, after) in enumerate(itertools.pairwise(options), start=1)
        if before.compare(after) > 0
    ]

    def check(option: Quantity, at: str) -> list[FieldError]:
        if option.compare(limit) > 0:
            return [invalid(at, str(option), f"option is larger than capacity value: {limit}")]
        return []

    errors += check_set(options, _VALID_VALUES, check, key, path)
    if len(options) > _VALID_VALUES or not any(option.compare(default) == 0 for option in options):
        text = "default value is not valid according to the requestPolicy"
        errors.append(invalid(path, str(default), text))
    return errors


def _default_path_is_its_own(gates: FeatureGates) -> bool:
    """True if a default that is out of bounds is reported at the default's path instead of the bound's."""
    return gates.version >= V1_37


def _check_range(
    default: Quantity, limit: Quantity, range_: JsonObject, path: str, gates: FeatureGates
) -> list[FieldError]:
    if range_.get("min") is None:
        return [missing_field(f"{path}.min", "required when validRange is defined")]
    errors: list[FieldError] = []
    low = _parse(range_["min"])
    high = _parse(range_["max"]) if range_.get("max") is not None else None
    step = _parse(range_["step"]) if range_.get("step") is not None else None
    own = _default_path_is_its_own(gates)
    if low.compare(limit) > 0:
        errors.append(invalid(f"{path}.min", str(low), f"min is larger than capacity value: {limit}"))
    if default.compare(low) < 0:
        at = f"{path}.{'default' if own else 'min'}"
        errors.append(invalid(at, str(default), f"default is less than min: {low}"))
    if high is not None:
        if low.compare(high) > 0:
            errors.append(invalid(f"{path}.max", str(low), f"min is larger than max: {high}"))
        if high.compare(limit) > 0:
            errors.append(invalid(f"{path}.max", str(high), f"max is larger than capacity value: {limit}"))
        if default.compare(high) > 0:
            at = f"{path}.{'default' if own else 'max'}"
            errors.append(invalid(at, str(default), f"default is more than max: {high}"))
    known = CapacityRange(default, low, high, step)
    return errors + check_steps(known, limit, path, gates.version, fractions=gates.enabled(_FRACTIONS))
