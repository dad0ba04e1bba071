"""Consumable capacity: what a request consumes of a device, and whether that is left.

Mirrors upstream's ``structured/internal/incubating/consumable_capacity.go``.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from dra_shared.api.resource import CapacityRequestPolicy, CapacityRequestPolicyRange, DeviceCapacity
from dra_shared.quantity import Format, Quantity

from dra_scheduler.allocator.amounts import amount, in_billionths

NOTHING: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why a device's capacity does not do. Amounts in billionths.

    ``problem``: ``undefined`` (the device has no such capacity), ``policy`` (the amount is not one that the request
    policy allows) or ``capacity`` (``needed`` is more than is ``left``).
    """

    problem: str
    name: str
    needed: int = 0
    left: int = 0


@functools.lru_cache(maxsize=16384)
def consumed_amount(capacity: DeviceCapacity, requested: str | None) -> tuple[int, str, bool]:
    """What a request for ``requested`` (None: not mentioned) consumes.

    In billionths, as canonical text, and whether the request policy allows to consume just that much.
    """
    quantity = _consumed(capacity, requested)
    return in_billionths(quantity), str(quantity), _allowed(capacity.request_policy, quantity)


def _consumed(capacity: DeviceCapacity, requested: str | None) -> Quantity:
    policy = capacity.request_policy
    if requested is None:
        default = policy.default if policy is not None else None
        return Quantity.parse(capacity.value if default is None else default)
    wanted = Quantity.parse(requested)
    if policy is None:
        return wanted
    valid_range = policy.valid_range
    if valid_range is not None and valid_range.min is not None:
        least = Quantity.parse(valid_range.min)
        if wanted < least:
            return least
        step = _step(valid_range)
        if not step:
            return wanted
        # In whole units, rounded up. What exceeds 64 bits has none and comes before the minimum, where Go's division
        # rounds up once more.
        low = least.value()
        above = wanted.value() - low
        steps = abs(above) // step * (1 if above > 0 else -1) + (above % step != 0)
        return Quantity(_int64(low + steps * step), 0, Format.BINARY_SI)
    for text in policy.valid_values:
        valid = Quantity.parse(text)
        if wanted <= valid:
            return valid
    return wanted


def _step(valid_range: CapacityRequestPolicyRange) -> int:
    return 0 if valid_range.step is None else Quantity.parse(valid_range.step).value()


def _int64(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


def _allowed(policy: CapacityRequestPolicy | None, consumed: Quantity) -> bool:
    if policy is None:
        return True
    # Upstream compares the structs: a default that was written differently is none.
    if policy.default is not None and consumed.same_form(Quantity.parse(policy.default)):
        return True
    valid_range = policy.valid_range
    if valid_range is not None:
        if valid_range.max is not None and consumed > Quantity.parse(valid_range.max):
            return False
        step = _step(valid_range)
        low = Quantity.parse(valid_range.min or "0").value()
        return not step or _int64(consumed.value() - low) % step == 0
    if policy.valid_values:
        return any(consumed == Quantity.parse(valid) for valid in policy.valid_values)
    return True


def shortage(
    capacities: Mapping[str, DeviceCapacity],
    requests: Mapping[str, str],
    used: Mapping[str, int],
    allocating: Mapping[str, int],
) -> Shortage | None:
    """The first reason why the requests don't fit; None when they do.

    ``used`` is what allocated claims consume, ``allocating`` what this attempt has taken already.
    """
    for name in requests:
        if name not in capacities:
            return Shortage("undefined", name)
    for name, capacity in capacities.items():
        needed, _, allowed = consumed_amount(capacity, requests.get(name))
        if not allowed:
            return Shortage("policy", name, needed)
        left = amount(capacity.value) - used.get(name, 0) - allocating.get(name, 0)
        if needed > left:
            return Shortage("capacity", name, needed, left)
    return None


def consumption(
    capacities: Mapping[str, DeviceCapacity], requests: Mapping[str, str]
) -> tuple[dict[str, int], dict[str, str]]:
    """What a request takes of every capacity of the device: in billionths, and as quantities."""
    taken = {name: consumed_amount(capacity, requests.get(name)) for name, capacity in capacities.items()}
    return {name: value for name, (value, _, _) in taken.items()}, {
        name: text for name, (_, text, _) in taken.items()
    }
