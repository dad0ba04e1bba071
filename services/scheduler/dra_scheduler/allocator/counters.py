"""Shared counters: what is left of them in a pool, and what the current attempt consumes.

Mirrors upstream's ``checkAvailableCounters`` in ``structured/internal/incubating/allocator_incubating.go``.
"""

from collections.abc import Hashable

from dra_scheduler.allocator.features import Features
from dra_scheduler.allocator.pools import CounterKey, Pool, PoolDevice
from dra_scheduler.allocator.reasons import CounterShort
from dra_scheduler.allocator.state import AllocatedState


def available_counters(pool: Pool, state: AllocatedState, features: Features) -> dict[CounterKey, int]:
    """What allocated devices leave of the pool's counters, in billionths; may be negative."""
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
    """What one attempt consumes, on top of what is allocated.

    Until 1.36 upstream keeps both by the bare name of the pool: of several drivers' pools with one name, the counters
    of the first one asked for stand for all.
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
        """What allocated claims leave of the counters that the device may consume."""
        name = self._scope(pool, device)
        left = self._available.get(name)
        if left is None:
            left = self._available[name] = self._of_scope(pool, name)
            self._broken[name] = any(value < 0 for value in left.values())
            self.consumed[name] = {}
        return left

    def take(self, pool: Pool, device: PoolDevice) -> bool:
        """Consumes what the device needs; False, and nothing taken, if there isn't enough."""
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
        """What is consumed, in comparable form."""
        return frozenset(
            (name, key, value)
            for name, table in self.consumed.items()
            for key, value in table.items()
            if value
        )

    def shortage(self, pool: Pool, device: PoolDevice) -> CounterShort:
        """Why :meth:`take` just failed: the first counter of which the device needs more than is left.

        A counter that others have overdrawn keeps every device of the pool from being taken, also one that needs
        nothing of it.
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
        """Takes back a :meth:`take` that succeeded."""
        consumed = self.consumed[self._scope(pool, device)]
        for key, value in device.counters:
            consumed[key] -= value
