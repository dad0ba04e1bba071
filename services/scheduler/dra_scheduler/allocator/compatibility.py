"""Compatibility groups: whether devices may draw from the same counter set at the same time.

Mirrors upstream's ``structured/internal/experimental/compatibility_groups.go`` (1.37).
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import NamedTuple

from dra_shared.api.resource import ResourceSlice

from dra_scheduler.allocator.pools import Pool, PoolDevice
from dra_scheduler.allocator.state import AllocatedState, PoolID


class Common(NamedTuple):
    """The groups that all devices which consume a counter set have in common.

    ``none`` is set if the devices have no groups at all.
    """

    none: bool
    groups: frozenset[str] = frozenset()

    def admits(self, groups: frozenset[str]) -> bool:
        """True if a device with these groups is compatible with the counter set's other devices."""
        if not groups:
            return self.none
        return not self.none and not self.groups.isdisjoint(groups)


def join_groups(common: Common | None, groups: frozenset[str]) -> Common:
    """Return the common groups after one more device. ``common`` is None for the first device."""
    if common is None:
        return Common(not groups, groups)
    return common if common.none or not groups else Common(False, common.groups & groups)


# The common groups of each counter set. A counter set without devices admits every device.
_Sets = Mapping[str, Common]


def uses_groups(slice_: ResourceSlice) -> bool:
    """True if a device of the slice has groups. While the feature is off, no device of such a slice is allocated."""
    return any(
        consumption.compatibility_groups
        for device in slice_.spec.devices
        for consumption in device.consumes_counters
    )


def groups_of(device: PoolDevice) -> tuple[tuple[str, frozenset[str]], ...]:
    """Return the device's groups for each counter set."""
    return tuple(
        (consumption.counter_set, frozenset(consumption.compatibility_groups))
        for consumption in device.spec.consumes_counters
    )


class CompatibilityGroups:
    """The common groups of each pool's counter sets, for allocated devices and devices picked by the attempt."""

    def __init__(self, state: AllocatedState) -> None:
        self._state = state
        self._allocated: dict[PoolID, _Sets] = {}
        self._picked: dict[tuple[PoolID, str], Common] = {}

    def take(self, pool: Pool, device: PoolDevice) -> "Undo | None":
        """Add the device to its counter sets if it is compatible.

        Return the argument for :meth:`give_back`, or None if it is not.
        """
        before: Undo = []
        for name, groups in groups_of(device):
            key = (pool.id, name)
            known = self._picked.get(key)
            common = self._on(pool).get(name) if known is None else known
            if common is not None and not common.admits(groups):
                self.give_back(before)
                return None
            before.append((key, known))
            self._picked[key] = join_groups(common, groups)
        return before

    def give_back(self, before: "Undo") -> None:
        """Restore the state from before a :meth:`take`."""
        for key, known in reversed(before):
            if known is None:
                del self._picked[key]
            else:
                self._picked[key] = known

    def clash(self, pool: Pool, device: PoolDevice) -> tuple[str, frozenset[str], frozenset[str]]:
        """Explain why :meth:`take` failed: the counter set, the device's groups, and those of other devices."""
        for name, groups in groups_of(device):
            common = self._picked.get((pool.id, name), self._on(pool).get(name))
            if common is not None and not common.admits(groups):
                return name, groups, common.groups
        raise LookupError(f"device {device.id} is compatible")

    def state(self) -> Hashable:
        """Return the groups of picked devices as a hashable value."""
        return frozenset(self._picked.items())

    def _on(self, pool: Pool) -> _Sets:
        known = self._allocated.get(pool.id)
        if known is None:
            devices = (*pool.devices, *pool.other_devices)
            known = _together(device for device in devices if self._state.in_use(device.id))
            self._allocated[pool.id] = known
        return known


Undo = list[tuple[tuple[PoolID, str], Common | None]]


def _together(devices: Iterable[PoolDevice]) -> _Sets:
    found: dict[str, Common] = {}
    for device in devices:
        for name, groups in groups_of(device):
            found[name] = join_groups(found.get(name), groups)
    return found
