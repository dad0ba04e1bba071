"""Consumable capacity: what a request takes of a device, and whether that is left (consumable_capacity.go)."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from dra_shared.api.resource import CapacityRequestPolicy, DeviceCapacity
from dra_shared.quantity import Format, Quantity

from dra_scheduler.allocator.amounts import amount

NOTHING: Mapping[str, int] = {}
_UNIT = 10**9


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
def consumed_amount(capacity: DeviceCapacity, requested: str | None) -> tuple[int, str]:
    """What a request for ``requested`` (None: not mentioned) consumes: billionths, and its canonical text."""
    text = _consumed_text(capacity, requested)
    return amount(text), text


def _consumed_text(capacity: DeviceCapacity, requested: str | None) -> str:
    policy = capacity.request_policy
    if requested is None:
        default = policy.default if policy is not None else None
        return str(Quantity.parse(capacity.value if default is None else default))
    if policy is not None:
        valid_range = policy.valid_range
        if valid_range is not None:
            if amount(requested) < amount(valid_range.min or "0"):
                return str(Quantity.parse(valid_range.min or "0"))
            if valid_range.step is not None:
                low, step = _whole(valid_range.min or "0"), _whole(valid_range.step)
                steps = -((low - _whole(requested)) // step)
                return str(Quantity(low + step * steps, 0, Format.BINARY_SI))
        else:
            for valid in policy.valid_values:
                if amount(requested) <= amount(valid):
                    return str(Quantity.parse(valid))
    return str(Quantity.parse(requested))


def _whole(text: str) -> int:
    """In whole units, rounded up, as upstream steps through a range."""
    return Quantity.parse(text).value()


@functools.lru_cache(maxsize=16384)
def _allowed(policy: CapacityRequestPolicy | None, text: str) -> bool:
    """Whether the policy allows to consume just that much."""
    if policy is None:
        return True
    value = amount(text)
    if policy.default is not None and value == amount(policy.default):
        return True
    valid_range = policy.valid_range
    if valid_range is not None:
        if valid_range.max is not None and value > amount(valid_range.max):
            return False
        if valid_range.step is not None:
            return (_whole(text) - _whole(valid_range.min or "0")) % _whole(valid_range.step) == 0
        return True
    if policy.valid_values:
        return any(value == amount(valid) for valid in policy.valid_values)
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
        needed, text = consumed_amount(capacity, requests.get(name))
        if not _allowed(capacity.request_policy, text):
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
    return {name: value for name, (value, _) in taken.items()}, {
        name: text for name, (_, text) in taken.items()
    }
