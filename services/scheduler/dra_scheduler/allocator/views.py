"""Views: the pools of one node and the devices worth trying, cached until something changes."""

from collections.abc import Mapping, Sequence

from dra_shared.api.resource import DeviceToleration
from dra_shared.taints import find_untolerated

from dra_scheduler.allocator.capacity import NOTHING, shortage
from dra_scheduler.allocator.capacityrange import CapacityError
from dra_scheduler.allocator.counters import available_counters
from dra_scheduler.allocator.features import Features
from dra_scheduler.allocator.pools import Pool, PoolDevice
from dra_scheduler.allocator.selectors import Candidate, Selection
from dra_scheduler.allocator.state import AllocatedState

# The maximum number of different needs that a pool, view or allocator caches.
_MAX_NEEDS = 64


class Need:
    """The conditions of a request without admin access for a single device. Equal requests share the object."""

    __slots__ = ("_capacity", "_features", "_tolerations", "selection")

    def __init__(
        self,
        features: Features,
        selection: Selection,
        capacity: Mapping[str, str],
        tolerations: tuple[DeviceToleration, ...],
    ) -> None:
        self._features = features
        self.selection = selection
        self._capacity = capacity
        self._tolerations = tolerations

    def plausible(self, pool: Pool, state: AllocatedState, count_counters: bool) -> tuple[Candidate, ...]:
        """Return the devices that the selectors accept, except those that existing allocations rule out.

        Only candidates that the search would skip without a side effect are left out. Two kinds are not left
        out: a candidate whose selector fails, because it ends the search, and one whose counters upstream
        reserves before it finds the taint.
        """
        version = state.pool_version(pool.id)
        known = pool.plausible.get(self)
        if known is not None and known[0] is state and known[1] == version and known[2] == count_counters:
            return known[3]
        left = None
        if count_counters and pool.counters:
            left = available_counters(pool, state, self._features)
        consumed = state.consumed
        # Other allocations change the answer only for devices that are shared or consume counters.
        found = tuple(
            [
                candidate
                for candidate in self._suitable(pool)
                if (device := candidate[0]).id not in state.dedicated
                and (
                    candidate[2] is not None
                    or not (device.counters or device.id in consumed)
                    or self._fits(device, consumed.get(device.id, NOTHING), left)
                )
            ]
        )
        if len(pool.plausible) >= _MAX_NEEDS:
            pool.plausible.clear()
        pool.plausible[self] = (state, version, count_counters, found)
        return found

    def _suitable(self, pool: Pool) -> tuple[Candidate, ...]:
        """Return the devices that the selectors accept and that are worth trying while nothing is allocated."""
        known = pool.suitable.get(self)
        if known is None:
            known = tuple(
                [
                    candidate
                    for candidate in self.selection.candidates(pool)
                    if candidate[2] is not None or self._fits(candidate[0], NOTHING, None)
                ]
            )
            if len(pool.suitable) >= _MAX_NEEDS:
                pool.suitable.clear()
            pool.suitable[self] = known
        return known

    def _fits(
        self, device: PoolDevice, used: Mapping[str, int], left: Mapping[tuple[str, str], int] | None
    ) -> bool:
        features, spec = self._features, device.spec
        if features.consumable_capacity and (device.capacity or self._capacity):
            try:
                if shortage(
                    device.capacity, self._capacity, used, NOTHING, features.arithmetic, device.domain
                ):
                    return False
            except CapacityError:
                return True
        if not spec.consumes_counters:
            return not (
                features.device_taints
                and spec.taints
                and find_untolerated(spec.taints, self._tolerations, any_effect=features.any_taint_prevents)
                is not None
            )
        if left is None or (device.allow_multiple and features.consumable_capacity):
            return True
        return all(left.get(key, value) >= value for key, value in device.counters)


class Needs:
    """Creates needs, and returns the same object for equal requests."""

    def __init__(self, features: Features) -> None:
        self._features = features
        self._known: dict[object, Need] = {}

    def need(
        self, selection: Selection, capacity: Mapping[str, str], tolerations: tuple[DeviceToleration, ...]
    ) -> Need:
        """Return the need of a request."""
        key = (selection, tuple(sorted(capacity.items())), tolerations)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _MAX_NEEDS:
                self._known.clear()
            known = self._known[key] = Need(self._features, selection, capacity, tolerations)
        return known


class View:
    """The pools that a node can see, in allocation order. Nodes that see the same pools share a view."""

    __slots__ = (
        "__weakref__",
        "_candidates",
        "_shared_names",
        "any_invalid",
        "any_per_device",
        "any_unparsable",
        "needs_care",
        "pools",
    )

    def __init__(self, pools: tuple[Pool, ...], features: Features) -> None:
        self.pools = pools
        self.any_invalid = any(pool.invalid_reason is not None for pool in pools)
        self.any_per_device = any(pool.per_device for pool in pools)
        self.any_unparsable = any(pool.unparsable for pool in pools)
        # True if reaching some device may end the search with an error.
        self.needs_care = self.any_unparsable or any(pool.barrier is not None for pool in pools)
        # Until 1.36 upstream adds up the counters of pools with the same name, even if they are of different
        # drivers.
        names = [pool.id[1] for pool in pools if pool.counters]
        self._shared_names = len(set(names)) < len(names) and not features.counters_have_drivers
        self._candidates: dict[Need, tuple[AllocatedState, int, Sequence[Candidate]]] = {}

    def candidates(self, need: Need, state: AllocatedState) -> Sequence[Candidate]:
        """Return the devices that are worth trying for the request, in order."""
        known = self._candidates.get(need)
        if known is not None and known[0] is state and known[1] == state.version:
            return known[2]
        parts = [
            found
            for pool in self.pools
            if pool.devices and (found := need.plausible(pool, state, not self._shared_names))
        ]
        result = parts[0] if len(parts) == 1 else tuple([candidate for part in parts for candidate in part])
        if len(self._candidates) >= _MAX_NEEDS:
            self._candidates.clear()
        self._candidates[need] = (state, state.version, result)
        return result
