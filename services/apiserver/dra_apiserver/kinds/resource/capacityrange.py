"""Validate the steps of a capacity's valid range, in whole units or, if a value is a fraction, in thousandths.

Mirrors validateRequestPolicyRange of ``pkg/apis/resource/validation``. 1.37 fixed an overflow in it.
"""

from __future__ import annotations

from typing import NamedTuple

from dra_shared.quantity import Quantity
from dra_shared.version import V1_37, Version

from dra_apiserver.errors import FieldError, invalid

_MAX_INT64 = (1 << 63) - 1


class CapacityRange(NamedTuple):
    """The amounts that may be requested: ``low`` plus multiples of ``step``, up to ``high``."""

    default: Quantity
    low: Quantity
    high: Quantity | None
    step: Quantity | None

    def parts(self) -> list[tuple[str, Quantity]]:
        """Return the values that are set, by their name in the API, in the order of errors."""
        named = (("default", self.default), ("min", self.low), ("max", self.high), ("step", self.step))
        return [(name, value) for name, value in named if value is not None]


def check_steps(
    known: CapacityRange, limit: Quantity, path: str, kubernetes: Version, *, fractions: bool
) -> list[FieldError]:
    """Check that default and maximum are a multiple of the step above the minimum.

    With ``fractions``, they may be fractions.
    """
    if kubernetes < V1_37:
        return _check_whole_steps(known, limit, path)
    milli = fractions and any(_is_fraction(value) for _, value in known.parts())
    if milli:
        text = "value cannot be represented as a milli value"
        errors = [
            invalid(f"{path}.{name}", str(value), text)
            for name, value in known.parts()
            if value.compare(Quantity(value.milli_value(), -3, value.format)) != 0
        ]
        if errors:
            return errors
    if known.step is None:
        return []
    at = f"{path}.step"
    if known.step.sign() <= 0:
        return [invalid(at, str(known.step), "must be greater than zero")]
    errors = _check_first(known.low, known.step, limit, at)
    unsafe = [] if milli else _check_int64(known, path)
    return errors + (unsafe or _check_multiples(known, known.step, at, milli))


def _check_whole_steps(known: CapacityRange, limit: Quantity, path: str) -> list[FieldError]:
    if known.step is None:
        return []
    at = f"{path}.step"
    errors = _check_first(known.low, known.step, limit, at)
    return errors + _check_multiples(known, known.step, at, False)


def _is_fraction(value: Quantity) -> bool:
    return value.exponent < 0 and value.number % 10**-value.exponent != 0


def _check_first(low: Quantity, step: Quantity, limit: Quantity, path: str) -> list[FieldError]:
    one = low.add(step)
    if one.compare(limit) <= 0:
        return []
    return [invalid(path, str(step), f"one step {one} is larger than capacity value: {limit}")]


def _check_int64(known: CapacityRange, path: str) -> list[FieldError]:
    errors = []
    for name, value in known.parts():
        if value.sign() < 0:
            errors.append(invalid(f"{path}.{name}", str(value), "must be greater than or equal to 0"))
        elif value.compare(Quantity(_MAX_INT64)) > 0:
            text = f"must not be larger than {_MAX_INT64}"
            errors.append(invalid(f"{path}.{name}", str(value), text))
    return errors


def _check_multiples(known: CapacityRange, step: Quantity, path: str, milli: bool) -> list[FieldError]:
    low = known.low

    def units(value: Quantity) -> int:
        return value.milli_value() if milli else value.value()

    text = f"value is not a multiple of a given step ({step}) from ({low})"
    checked = (known.default,) if known.high is None else (known.default, known.high)
    # A step of zero would stop the server of 1.36 with a division by zero. Here, no value is a multiple of
    # it.
    return [
        invalid(path, str(value), text)
        for value in checked
        if units(step) == 0 or (units(value) - units(low)) % units(step) != 0
    ]
