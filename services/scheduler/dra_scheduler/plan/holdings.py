"""Devices, counters and capacities of which a world's claims hold more than exists."""

from collections.abc import Iterator

from dra_shared.api.resource import DeviceRequestAllocationResult, ResourceClaim
from dra_shared.api.resources import RESOURCE_CLAIMS, RESOURCE_SLICES
from dra_shared.quantity import Quantity

from dra_scheduler.plan.objects import Objects

_Place = tuple[str, str, str]
_Amounts = dict[tuple[str, ...], Quantity]
_ZERO = Quantity.parse("0")


def held_twice(objects: Objects) -> list[str]:
    """Return the devices, with their claims, that several claims hold although only one may."""
    holders: dict[_Place, list[tuple[str, bool]]] = {}
    for claim, result in _results(objects):
        place = result.driver, result.pool, result.device
        holders.setdefault(place, []).append((claim.key, result.share_id is not None))
    return [
        f"{'/'.join(place)} ({', '.join(dict.fromkeys(key for key, _ in found))})"
        for place, found in holders.items()
        if len(found) > 1 and not all(shared for _, shared in found)
    ]


def find_overdrawn(objects: Objects) -> list[str]:
    """Return the counters and capacities of which claims hold more than exists."""
    held = [result for _, result in _results(objects)]
    limits, uses = _published_amounts(objects, {(result.driver, result.pool) for result in held})
    used: _Amounts = {}
    seen: set[_Place] = set()
    for result in held:
        place = result.driver, result.pool, result.device
        for name, amount in result.consumed_capacity.items():
            _add(used, (*place, name), amount)
        if place not in seen:
            # A shared device consumes its counters only once.
            seen.add(place)
            for key, amount in uses.get(place, ()):
                _add(used, key, amount)
    return [
        f"{'/'.join(key)} ({amount} of {limits[key]})"
        for key, amount in used.items()
        if key in limits and amount.compare(limits[key]) > 0
    ]


def _published_amounts(
    objects: Objects, pools: set[tuple[str, str]]
) -> tuple[_Amounts, dict[_Place, list[tuple[tuple[str, ...], str]]]]:
    """Return the pools' counters and capacities, and the counters that each device consumes."""
    slices = [
        piece
        for piece in (objects.of(RESOURCE_SLICES).values() if pools else ())
        if (piece.spec.driver, piece.spec.pool.name) in pools
    ]
    newest: dict[tuple[str, str], int] = {}
    for piece in slices:
        pool = piece.spec.driver, piece.spec.pool.name
        newest[pool] = max(newest.get(pool, 0), piece.spec.pool.generation)
    limits: _Amounts = {}
    uses: dict[_Place, list[tuple[tuple[str, ...], str]]] = {}
    for piece in slices:
        pool = piece.spec.driver, piece.spec.pool.name
        if piece.spec.pool.generation != newest[pool]:
            continue
        for group in piece.spec.shared_counters:
            for name, counter in group.counters.items():
                _add(limits, (*pool, group.name, name), counter.value)
        for device in piece.spec.devices:
            for capacity, found in device.capacity.items():
                if device.allow_multiple_allocations:
                    limits[*pool, device.name, capacity] = Quantity.parse(found.value)
            uses[*pool, device.name] = [
                ((*pool, use.counter_set, name), counter.value)
                for use in device.consumes_counters
                for name, counter in use.counters.items()
            ]
    return limits, uses


def _add(amounts: _Amounts, key: tuple[str, ...], amount: str) -> None:
    amounts[key] = amounts.get(key, _ZERO).add(Quantity.parse(amount))


def _results(objects: Objects) -> Iterator[tuple[ResourceClaim, DeviceRequestAllocationResult]]:
    """Yield each device that a claim holds. Admin access does not hold a device."""
    for claim in objects.of(RESOURCE_CLAIMS).values():
        if claim.status.allocation is not None:
            for result in claim.status.allocation.devices.results:
                if not result.admin_access:
                    yield claim, result
