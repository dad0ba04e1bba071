"""Rounding to a capacity's valid range since 1.37: in thousandths if fractions are allowed, with errors for overflows.

Mirrors ``roundUpRange`` and ``violateValidRange`` of ``structured/internal/*/consumable_capacity.go``.
"""

from dra_shared.api.resource import CapacityRequestPolicyRange
from dra_shared.quantity import Quantity

_MAX_INT64 = (1 << 63) - 1
_NO_NUMBER = "capacity request cannot be represented in the device's range arithmetic"


class CapacityError(Exception):
    """The amount of capacity that a request consumes cannot be computed. The allocation ends with this error."""


def round_up(wanted: Quantity, valid_range: CapacityRequestPolicyRange, *, fractions: bool) -> Quantity:
    """Return the smallest amount in the range that is at least ``wanted``.

    ``wanted`` must not be below the range's minimum.

    Raises:
        CapacityError: the amount does not fit in 64 bits.
    """
    if valid_range.step is None:
        return wanted
    step, low = Quantity.parse(valid_range.step), Quantity.parse(valid_range.min or "0")
    if _in_thousandths(valid_range, fractions):
        asked = _thousandths(wanted)
        if asked is None:
            raise CapacityError(f"{_NO_NUMBER}: request {wanted} is not a representable milli value")
        total = _round_to_step(asked, low.milli_value(), step.milli_value())
        if total > _MAX_INT64:
            text = f"rounding request {wanted} up to the next step passes the milli-value range"
            raise CapacityError(f"{_NO_NUMBER}: {text}")
        whole = total % 1000 == 0
        return Quantity(total // 1000, 0, step.format) if whole else Quantity(total, -3, step.format)
    if wanted > Quantity(_MAX_INT64):
        raise CapacityError(f"{_NO_NUMBER}: request {wanted} exceeds MaxInt64")
    if step.value() == 0:
        return wanted
    total = _round_to_step(wanted.value(), low.value(), step.value())
    if low.value() >= 0 and total > _MAX_INT64:
        text = f"rounding request {wanted} up to the next step passes MaxInt64"
        raise CapacityError(f"{_NO_NUMBER}: {text}")
    return Quantity(total, 0, step.format)


def violates_step(amount: Quantity, valid_range: CapacityRequestPolicyRange, *, fractions: bool) -> bool:
    """True if the amount is not a whole number of steps above the minimum."""
    if valid_range.step is None:
        return False
    step, low = Quantity.parse(valid_range.step), Quantity.parse(valid_range.min or "0")
    if not _in_thousandths(valid_range, fractions):
        return step.value() != 0 and (amount.value() - low.value()) % step.value() != 0
    asked = _thousandths(amount)
    return asked is None or (asked - low.milli_value()) % step.milli_value() != 0


def _round_to_step(wanted: int, low: int, step: int) -> int:
    return low + -(-(wanted - low) // step) * step


def _in_thousandths(valid_range: CapacityRequestPolicyRange, fractions: bool) -> bool:
    """True if all bounds are whole thousandths, and the step is at least one thousandth."""
    if not fractions:
        return False
    bounds = (valid_range.min, valid_range.max, valid_range.step)
    numbers = [None if text is None else _thousandths(Quantity.parse(text)) for text in bounds]
    if any(number is None and text is not None for number, text in zip(numbers, bounds, strict=True)):
        return False
    step = numbers[2]
    return step is None or step >= 1


def _thousandths(quantity: Quantity) -> int | None:
    number = quantity.milli_value()
    return number if quantity.compare(Quantity(number, -3, quantity.format)) == 0 else None
