"""Capacities of devices, and the policies for requests of a part of one."""

from __future__ import annotations

import itertools
from typing import Any

from dra_shared.quantity import Quantity

from dra_apiserver.errors import FieldError, forbidden_field, invalid, required
from dra_apiserver.kinds.common.lists import check_set

JsonObject = dict[str, Any]
_VALID_VALUES = 10


def check_shared_capacity(capacity: JsonObject, path: str) -> list[FieldError]:
    """A capacity of a device that allows multiple allocations."""
    policy = capacity.get("requestPolicy")
    if policy is None:
        return []
    return _check_policy(_parsed(capacity.get("value", "0")), policy, f"{path}.requestPolicy")


def check_exclusive_capacity(capacity: JsonObject, path: str) -> list[FieldError]:
    """A capacity of a device that is allocated once: it has no request policy."""
    if capacity.get("requestPolicy") is None:
        return []
    return [forbidden_field(f"{path}.requestPolicy", "allowMultipleAllocations must be true")]


def _parsed(value: Any) -> Quantity:
    return Quantity.parse(str(value))


def _check_policy(limit: Quantity, policy: JsonObject, path: str) -> list[FieldError]:
    values, range_ = policy.get("validValues") or [], policy.get("validRange")
    default = policy.get("default")
    if values and range_ is not None:
        text = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        return [forbidden_field(path, text)]
    if values:
        if default is None:
            return [required(f"{path}.default", "required when validValues is defined")]
        options = [_parsed(value) for value in values]
        return _check_values(_parsed(default), limit, options, f"{path}.validValues")
    if range_ is not None:
        if default is None:
            return [required(f"{path}.default", "required when validRange is defined")]
        return _check_range(_parsed(default), limit, range_, f"{path}.validRange")
    return []


def _check_values(default: Quantity, limit: Quantity, options: list[Quantity], path: str) -> list[FieldError]:
    errors = [
        invalid(f"{path}[{index}]", str(after), "values must be sorted in ascending order")
        for index, (before, after) in enumerate(itertools.pairwise(options), start=1)
        if before.compare(after) > 0
    ]

    def check(option: Quantity, at: str) -> list[FieldError]:
        if option.compare(limit) > 0:
            return [invalid(at, str(option), f"option is larger than capacity value: {limit}")]
        return []

    errors += check_set(options, _VALID_VALUES, check, lambda option: str(option.value()), path)
    if len(options) > _VALID_VALUES or not any(option.compare(default) == 0 for option in options):
        text = "default value is not valid according to the requestPolicy"
        errors.append(invalid(path, str(default), text))
    return errors


def _check_range(default: Quantity, limit: Quantity, range_: JsonObject, path: str) -> list[FieldError]:
    if range_.get("min") is None:
        return [required(f"{path}.min", "required when validRange is defined")]
    errors: list[FieldError] = []
    low = _parsed(range_["min"])
    high = _parsed(range_["max"]) if range_.get("max") is not None else None
    step = _parsed(range_["step"]) if range_.get("step") is not None else None
    if low.compare(limit) > 0:
        errors.append(invalid(f"{path}.min", str(low), f"min is larger than capacity value: {limit}"))
    if default.compare(low) < 0:
        errors.append(invalid(f"{path}.min", str(default), f"default is less than min: {low}"))
    if high is not None:
        if low.compare(high) > 0:
            errors.append(invalid(f"{path}.max", str(low), f"min is larger than max: {high}"))
        if high.compare(limit) > 0:
            errors.append(invalid(f"{path}.max", str(high), f"max is larger than capacity value: {limit}"))
        if default.compare(high) > 0:
            errors.append(invalid(f"{path}.max", str(default), f"default is more than max: {high}"))
    if step is not None:
        one = low.add(step)
        if one.compare(limit) > 0:
            text = f"one step {one} is larger than capacity value: {limit}"
            errors.append(invalid(f"{path}.step", str(step), text))
        errors += _check_step(default, low, step, f"{path}.step")
        if high is not None:
            errors += _check_step(high, low, step, f"{path}.step")
    return errors


def _check_step(value: Quantity, low: Quantity, step: Quantity, path: str) -> list[FieldError]:
    # A step of zero would stop upstream's server with a division by zero; here nothing is a multiple of it.
    if step.value() != 0 and (value.value() - low.value()) % step.value() == 0:
        return []
    text = f"value is not a multiple of a given step ({step}) from ({low})"
    return [invalid(path, str(value), text)]
