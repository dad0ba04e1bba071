"""Shared counters: the amount left of each counter in a pool, and the consumption of the current attempt.

Mirrors upstream's ``checkAvailableCounters`` in ``structured/internal/incubating/allocator_incubating.go``.
"""

from collections.abc import Hashable

from dra_scheduler.allocator.features import Features
from dra_scheduler.allocator.pools import CounterKey, Pool, PoolDevice
from dra_scheduler.allocator.reasons import CounterShort
from dra_scheduler.allocator.state import AllocatedState


def available_counters(pool: Pool, state: AllocatedState, features: Features) -> dict[CounterKey, int]:
    """Return the amount of each counter of the pool that allocated devices leave, in billionths. May be negative."""
    version = state.pool_version(pool.id)
    cached = pool.available
    if cached is not None and cached[0] is state and cached[1] == version:
        return cached[2]
    left = dict(pool.counters or {})
    in_use = state.in_use if features.shares_use_counters else state.dedicated.__contains__
    for device in (*pool.devices, *pool.other_devices):
        if device.counters and in_use(device.id):
            for key, value in device.counters:
                if key in left:
                    left[key] -= value
    pool.available = (state, version, left)
    return left


class Counters:
    """The counters that one attempt consumes, in addition to those of allocated devices.

    Until 1.36 upstream identifies the pool of a counter by its name alone, without the driver. If pools of
    several drivers have the same name, the counters of the pool that was used first are used for all of them.
    """

    def __init__(self, state: AllocatedState, features: Features) -> None:
        self._state = state
        self._features = features
        self._available: dict[Hashable, dict[CounterKey, int]] = {}
        self._broken: dict[Hashable, bool] = {}
        self.consumed: dict[Hashable, dict[CounterKey, int]] = {}

    def _scope(self, pool: Pool, device: PoolDevice) -> Hashable:
        if self._features.counters_have_drivers:
            return pool.id
        return device.slice.metadata.name if self._features.counters_are_the_slices else pool.id[1]

    def _of_scope(self, pool: Pool, name: Hashable) -> dict[CounterKey, int]:
        left = available_counters(pool, self._state, self._features)
        if not self._features.counters_are_the_slices:
            return left
        return {key: value for key, value in left.items() if key[0].startswith(f"{name}/")}

    def available(self, pool: Pool, device: PoolDevice) -> dict[CounterKey, int]:
        """Return the counters available to the device after subtracting those of allocated claims."""
        name = self._scope(pool, device)
        left = self._available.get(name)
        if left is None:
            left = self._available[name] = self._of_scope(pool, name)
            self._broken[name] = any(value < 0 for value in left.values())
            self.consumed[name] = {}
        return left

    def take(self, pool: Pool, device: PoolDevice) -> bool:
        """Consume the counters that the device needs. If there are not enough, consume nothing and return False."""
        left = self.available(pool, device)
        name = self._scope(pool, device)
        if self._broken[name]:
            return False
        consumed = self.consumed[name]
        for key, value in device.counters:
            total = left.get(key)
            if total is not None and total < consumed.get(key, 0) + value:
                return False
        for key, value in device.counters:
            consumed[key] = consumed.get(key, 0) + value
        return True

    def state(self) -> Hashable:
        """Return the consumption as a hashable value."""
        return frozenset(
            (name, key, value)
            for name, table in self.consumed.items()
            for key, value in table.items()
            if value
        )

    def shortage(self, pool: Pool, device: PoolDevice) -> CounterShort:
        """Explain why :meth:`take` failed: return the first counter that has less left than the device needs.

        A counter that other devices already exceed blocks every device of the pool, even a device that does not
        consume it.
        """
        left = self.available(pool, device)
        consumed = self.consumed[self._scope(pool, device)]
        needs = dict(device.counters)
        for key, total in left.items():
            free = total - consumed.get(key, 0)
            if free < needs.get(key, 0):
                return CounterShort(key, needs.get(key, 0), free)
        raise LookupError(f"device {device.id} does not lack any counter")

    def give_back(self, pool: Pool, device: PoolDevice) -> None:
        """Undo a :meth:`take` that succeeded."""
        consumed = self.consumed[self._scope(pool, device)]
        for key, value in device.counters:
            consumed[key] -= value
