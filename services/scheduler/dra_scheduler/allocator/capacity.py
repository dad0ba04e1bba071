"""Consumable capacity: the amount that a request consumes of a device, and whether the device has that amount left.

Mirrors upstream's ``structured/internal/*/consumable_capacity.go``.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from dra_shared.api.resource import CapacityRequestPolicy, CapacityRequestPolicyRange, DeviceCapacity
from dra_shared.quantity import Format, Quantity

from dra_scheduler.allocator.amounts import amount, in_billionths
from dra_scheduler.allocator.capacityrange import CapacityError, round_up, violates_step
from dra_scheduler.allocator.features import Arithmetic

NOTHING: Mapping[str, int] = {}
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Shortage:
    """A reason why a device's capacity does not satisfy a request. Amounts are in billionths.

    ``problem`` is one of: ``undefined`` (the device has no such capacity), ``policy`` (the request policy
    does not allow the amount), ``capacity`` (``needed`` is more than is ``left``).
    """

    problem: str
    name: str
    needed: int = 0
    left: int = 0


@functools.lru_cache(maxsize=16384)
def _consumed_amount(
    capacity: DeviceCapacity, requested: str | None, arithmetic: Arithmetic
) -> tuple[int, str, bool]:
    """Return the amount of a capacity that a request for ``requested`` consumes. None: the request does not mention it.

    The result is the amount in billionths, its canonical text, and True if the request policy allows exactly
    this amount.

    Raises:
        CapacityError: the amount cannot be computed.
    """
    quantity = _compute_consumption(capacity, requested, arithmetic)
    if arithmetic is not Arithmetic.WRAPPING and quantity.sign() < 0:
        raise CapacityError("capacity value is negative")
    return in_billionths(quantity), str(quantity), _is_allowed(capacity.request_policy, quantity, arithmetic)


def _compute_consumption(capacity: DeviceCapacity, requested: str | None, arithmetic: Arithmetic) -> Quantity:
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
        if arithmetic is not Arithmetic.WRAPPING:
            return round_up(wanted, valid_range, fractions=arithmetic is Arithmetic.FRACTIONS)
        return _round_up_wrapping(wanted, least, _step(valid_range))
    for text in policy.valid_values:
        valid = Quantity.parse(text)
        if wanted <= valid:
            return valid
    return wanted


def _round_up_wrapping(wanted: Quantity, least: Quantity, step: int) -> Quantity:
    """Round up to a whole number of steps, in 64-bit arithmetic.

    A value beyond 64 bits overflows and ends up below the minimum, because Go's division then rounds up once
    more.
    """
    if not step:
        return wanted
    low = least.value()
    above = wanted.value() - low
    steps = abs(above) // step * (1 if above > 0 else -1) + (above % step != 0)
    return Quantity(_int64(low + steps * step), 0, Format.BINARY_SI)


def _step(valid_range: CapacityRequestPolicyRange) -> int:
    return 0 if valid_range.step is None else Quantity.parse(valid_range.step).value()


def _int64(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


def _is_allowed(policy: CapacityRequestPolicy | None, consumed: Quantity, arithmetic: Arithmetic) -> bool:
    if policy is None:
        return True
    # Upstream compares structs, so a default in a different notation is not recognized as the default.
    if policy.default is not None and consumed.same_form(Quantity.parse(policy.default)):
        return True
    valid_range = policy.valid_range
    if valid_range is not None:
        if valid_range.max is not None and consumed > Quantity.parse(valid_range.max):
            return False
        if arithmetic is not Arithmetic.WRAPPING:
            return not violates_step(consumed, valid_range, fractions=arithmetic is Arithmetic.FRACTIONS)
        step = _step(valid_range)
        low = Quantity.parse(valid_range.min or "0").value()
        return not step or _int64(consumed.value() - low) % step == 0
    if policy.valid_values:
        return any(consumed == Quantity.parse(valid) for valid in policy.valid_values)
    return True


def qualify(named: Mapping[str, _T], domain: str) -> Mapping[str, _T]:
    """Return the mapping with ``domain`` added to names without a domain, or unchanged if ``domain`` is empty.

    If a name with and a name without the domain become equal, the value of the one with the domain is kept.
    """
    if not domain or all("/" in name for name in named):
        return named
    full = {name: name if "/" in name else f"{domain}/{name}" for name in named}
    return {full[name]: value for name, value in named.items() if "/" in name or full[name] not in named}


def add_up(used: Mapping[str, int], domain: str) -> Mapping[str, int]:
    """Add up consumed amounts by qualified name, because claims may name a capacity with or without its domain."""
    if not domain or not used:
        return used
    totals: dict[str, int] = {}
    for name, value in used.items():
        key = name if "/" in name else f"{domain}/{name}"
        totals[key] = totals.get(key, 0) + value
    return totals


def _resolve(
    capacities: Mapping[str, DeviceCapacity], requests: Mapping[str, str], domain: str
) -> Mapping[str, str] | Shortage:
    """Return the requested amounts by the device's capacity names, or the first requested name that the device lacks.

    Raises:
        CapacityError: a capacity is requested under two names, or with a negative amount.
    """
    resolved: dict[str, str] = {}
    for name, text in requests.items():
        key = name if "/" in name or not domain else f"{domain}/{name}"
        if key not in capacities:
            return Shortage("undefined", name)
        if key in resolved:
            identifier = key.partition("/")[2]
            other = identifier if name == key else key
            raise CapacityError(f'capacity "{identifier}" requested both as "{name}" and as "{other}"')
        resolved[key] = text
    if domain:
        for name, text in resolved.items():
            if (quantity := Quantity.parse(text)).sign() < 0:
                raise CapacityError(f'capacity "{name}": capacity value is negative: request {quantity}')
    return resolved


def shortage(
    capacities: Mapping[str, DeviceCapacity],
    requests: Mapping[str, str],
    used: Mapping[str, int],
    allocating: Mapping[str, int],
    arithmetic: Arithmetic,
    domain: str = "",
) -> Shortage | None:
    """Return the first reason why the requested capacities do not fit a device, or None if they fit.

    ``used`` is the consumption of allocated claims, ``allocating`` that of the current attempt. ``domain`` is
    added to names without a domain. If it is empty, names are compared literally: a request for ``driver/name``
    does not match a capacity that is published as ``name``.

    Raises:
        CapacityError: an amount cannot be computed.
    """
    resolved = _resolve(capacities, requests, domain)
    if isinstance(resolved, Shortage):
        return resolved
    requests, used = resolved, add_up(used, domain)
    if arithmetic is not Arithmetic.WRAPPING:
        # Compute all amounts first: an amount that cannot be computed takes precedence over one that does not
        # fit.
        consumption(capacities, requests, arithmetic)
    for name, capacity in capacities.items():
        needed, _, allowed = _amount(name, capacity, requests.get(name), arithmetic)
        if not allowed:
            return Shortage("policy", name, needed)
        left = amount(capacity.value) - used.get(name, 0) - allocating.get(name, 0)
        if needed > left:
            return Shortage("capacity", name, needed, left)
    return None


def consumption(
    capacities: Mapping[str, DeviceCapacity],
    requests: Mapping[str, str],
    arithmetic: Arithmetic,
    domain: str = "",
) -> tuple[dict[str, int], dict[str, str]]:
    """Return the consumption of every capacity of the device, in billionths and as quantities.

    ``domain`` is added to requested names without a domain.

    Raises:
        CapacityError: an amount cannot be computed.
    """
    requests = qualify(requests, domain)
    taken = {
        name: _amount(name, capacity, requests.get(name), arithmetic) for name, capacity in capacities.items()
    }
    return {name: value for name, (value, _, _) in taken.items()}, {
        name: text for name, (_, text, _) in taken.items()
    }


def _amount(
    name: str, capacity: DeviceCapacity, requested: str | None, arithmetic: Arithmetic
) -> tuple[int, str, bool]:
    try:
        return _consumed_amount(capacity, requested, arithmetic)
    except CapacityError as error:
        raise CapacityError(f'capacity "{name}": {error}') from None
