"""The weight of allocated devices, in whole devices."""

from collections.abc import Iterable

from dra_shared.api.resource import Device, ResourceClaim, ResourceSlice

from dra_scheduler.allocator.amounts import amount

_Place = tuple[str, str, str]


class Weights:
    """The weights of devices: a partition counts as its part of a counter set, any other device as one."""

    def __init__(self, slices: Iterable[ResourceSlice]) -> None:
        pieces = list(slices)
        counters: dict[_Place, dict[str, int]] = {}
        for piece in pieces:
            for group in piece.spec.shared_counters:
                place = piece.spec.driver, piece.spec.pool.name, group.name
                counters[place] = {name: amount(each.value) for name, each in group.counters.items()}
        # The number of whole devices.
        self.total = float(len(counters))
        self._of: dict[_Place, tuple[float, Device]] = {}
        for piece in pieces:
            spec = piece.spec
            for device in spec.devices:
                weight = _part(spec.driver, spec.pool.name, device, counters)
                self.total += not device.consumes_counters
                self._of[spec.driver, spec.pool.name, device.name] = weight, device

    def of(self, claim: ResourceClaim) -> float:
        """Return the weight of the claim's devices."""
        allocation = claim.status.allocation
        if allocation is None:
            return 0.0
        total = 0.0
        for result in allocation.devices.results:
            found = self._of.get((result.driver, result.pool, result.device))
            if found is not None and not result.admin_access:
                weight, device = found
                total += weight * _share(device, result.consumed_capacity)
        return total


def _part(driver: str, pool: str, device: Device, counters: dict[_Place, dict[str, int]]) -> float:
    parts = [
        amount(each.value) / whole
        for taken in device.consumes_counters
        for name, each in taken.counters.items()
        if (whole := counters.get((driver, pool, taken.counter_set), {}).get(name))
    ]
    return max(parts, default=1.0)


def _share(device: Device, consumed: dict[str, str]) -> float:
    parts = [
        amount(value) / whole
        for name, value in consumed.items()
        if name in device.capacity and (whole := amount(device.capacity[name].value))
    ]
    return min(1.0, max(parts, default=1.0))
