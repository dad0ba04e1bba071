"""Compute the free part of a pool: by type of partition, and the capacity of devices that are shared.

Pure: the input is slices and allocated devices. Mirrors
``pkg/controller/resourcepoolstatusrequest/views.go``.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dra_shared.api.poolstatus import PartitionTypeStatus, ShareableCapacityStatus, ShareableSummaryStatus
from dra_shared.api.resource import Device, DeviceCounterConsumption, ResourceSlice
from dra_shared.quantity import Quantity

_MAX_ENTRIES = 32

_Counters = dict[tuple[str, str], Quantity]
"""Amounts by counter set and counter."""


class ViewError(Exception):
    """A view can't be computed. The message is upstream's."""


@dataclass(frozen=True)
class PoolUse:
    """A complete pool: its slices of one generation, and the devices of claims without admin access.

    ``consumed`` is the consumed capacity by name, over all devices.
    """

    driver: str
    pool: str
    slices: Sequence[ResourceSlice]
    in_use: Collection[str] = ()
    consumed: Mapping[str, Quantity] = field(default_factory=dict)

    @property
    def devices(self) -> Iterable[Device]:
        """Return the devices of all slices."""
        return (device for piece in self.slices for device in piece.spec.devices)

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}"


def partition_summary(use: PoolUse, default: str | None = None) -> tuple[PartitionTypeStatus, ...]:
    """Return the partitions by type. Empty if neither a slice nor ``default`` names the attribute for the type.

    Each type is counted as if the whole remainder were used for it.

    Raises:
        ViewError: devices lack the attribute, or those of one type consume different counters.
    """
    named = list(_devices_with_attribute(use, default))
    if not named:
        return ()
    if not any(piece.spec.shared_counters for piece in use.slices):
        text = "declares partitionTypeAttribute but publishes no sharedCounters"
        raise ViewError(f"PartitionTypeMissing: pool {use} {text}")
    groups: dict[tuple[str, str], list[Device]] = {}
    for attribute, device in named:
        if device.consumes_counters:
            group = groups.setdefault((attribute, _type_of(device, attribute, use)), [])
            if group and _cost(group[0]) != _cost(device):
                partition = _type_of(device, attribute, use)
                text = f'devices of partition type "{partition}" in pool {use} consume different counters'
                raise ViewError(f"PartitionCostMismatch: {text}")
            group.append(device)
    if len(groups) > _MAX_ENTRIES:
        text = f"pool {use} has {len(groups)} partition types, exceeding the maximum of {_MAX_ENTRIES}"
        raise ViewError(f"PartitionSummaryOverCap: {text}")
    left = _remaining_counters(use)
    return tuple(
        PartitionTypeStatus(
            attribute=attribute,
            type=partition,
            total=len(group),
            allocatable=_count_fitting(group, use, left),
        )
        for (attribute, partition), group in sorted(groups.items())
    )


def shareable_summary(use: PoolUse) -> ShareableSummaryStatus | None:
    """Return the capacity of devices that allow multiple allocations; None if there are none.

    Raises:
        ViewError: there are too many capacities.
    """
    shared = [device for device in use.devices if device.allow_multiple_allocations]
    if not shared:
        return None
    totals: dict[str, Quantity] = {}
    for device in shared:
        for name, capacity in device.capacity.items():
            totals[name] = totals.get(name, Quantity(0)).add(Quantity.parse(capacity.value))
    if len(totals) > _MAX_ENTRIES:
        text = (
            f"pool {use} has {len(totals)} shareable capacity keys, exceeding the maximum of {_MAX_ENTRIES}"
        )
        raise ViewError(f"ShareableSummaryOverCap: {text}")
    partly = sum(device.name in use.in_use for device in shared)
    return ShareableSummaryStatus(
        fully_available_devices=len(shared) - partly,
        partially_available_devices=partly,
        capacity=tuple(
            _capacity(name, total, use.consumed.get(name, Quantity(0)))
            for name, total in sorted(totals.items())
        ),
    )


def _capacity(name: str, total: Quantity, consumed: Quantity) -> ShareableCapacityStatus:
    available = total.sub(consumed)
    if available.sign() < 0:
        available = Quantity(0, format=total.format)
    return ShareableCapacityStatus(
        name=name, total=str(total), consumed=str(consumed), available=str(available)
    )


def _devices_with_attribute(use: PoolUse, default: str | None) -> Iterable[tuple[str, Device]]:
    """Yield the devices with the attribute for their type. The default applies to slices that name none."""
    for piece in use.slices:
        attribute = piece.spec.partition_type_attribute or default
        if attribute:
            yield from ((attribute, device) for device in piece.spec.devices)


def _type_of(device: Device, attribute: str, use: PoolUse) -> str:
    bare = attribute.removeprefix(f"{use.driver}/")
    found = device.attributes.get(attribute, device.attributes.get(bare))
    if found is None or found.string is None:
        text = f'device "{device.name}" in pool {use} does not carry partition type attribute "{attribute}"'
        raise ViewError(f"PartitionTypeMissing: {text}")
    return found.string


def _cost(device: Device) -> list[tuple[str, str, str]]:
    return sorted(
        (part.counter_set, name, str(Quantity.parse(counter.value)))
        for part in device.consumes_counters
        for name, counter in part.counters.items()
    )


def _remaining_counters(use: PoolUse) -> _Counters:
    """Return the counters that the devices in use leave. A device counts once, even if several claims have it."""
    counters = {
        (group.name, name): Quantity.parse(counter.value)
        for piece in use.slices
        for group in piece.spec.shared_counters
        for name, counter in group.counters.items()
    }
    for device in use.devices:
        if device.name in use.in_use:
            _take(device.consumes_counters, counters)
    return counters


def _count_fitting(devices: Iterable[Device], use: PoolUse, left: Mapping[tuple[str, str], Quantity]) -> int:
    """Return how many of the devices can be allocated together, in addition to those in use."""
    remaining, count = dict(left), 0
    for device in devices:
        if device.name not in use.in_use and _fits(device.consumes_counters, remaining):
            _take(device.consumes_counters, remaining)
            count += 1
    return count


def _fits(cost: Iterable[DeviceCounterConsumption], left: Mapping[tuple[str, str], Quantity]) -> bool:
    return all(
        (have := left.get((part.counter_set, name))) is not None
        and have.compare(Quantity.parse(counter.value)) >= 0
        for part in cost
        for name, counter in part.counters.items()
    )


def _take(cost: Iterable[DeviceCounterConsumption], left: _Counters) -> None:
    for part in cost:
        for name, counter in part.counters.items():
            key = (part.counter_set, name)
            if key in left:
                left[key] = left[key].sub(Quantity.parse(counter.value))
