"""Feasibility: decide whether a long search can succeed.

The search keeps upstream's order, and for some claims without a solution it would run for hours. This module
checks necessary conditions for each device and each constraint separately. If one does not hold, there is no
solution and the search ends.
"""

from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Sequence

from dra_shared.taints import find_untolerated

from dra_scheduler.allocator.capacity import NOTHING, shortage
from dra_scheduler.allocator.capacityrange import CapacityError
from dra_scheduler.allocator.constraints import Constraint, MatchAttribute, lookup_attribute, new_constraint
from dra_scheduler.allocator.counters import available_counters
from dra_scheduler.allocator.features import Features
from dra_scheduler.allocator.pools import CounterKey, Pool, PoolDevice
from dra_scheduler.allocator.requests import Attempt, Entry, Request
from dra_scheduler.allocator.selectors import Candidate
from dra_scheduler.allocator.state import AllocatedState

AllDevices = dict[int, list[tuple[PoolDevice, Pool]]]


class _Demand:
    """The minimum that a request needs: ``count`` of these devices."""

    __slots__ = ("count", "devices", "entry", "exclusive", "most")

    def __init__(
        self, entry: Entry, least: int, most: int, devices: dict[PoolDevice, Pool], exclusive: bool
    ) -> None:
        self.entry = entry
        self.count = least
        self.most = most
        self.devices = devices
        self.exclusive = exclusive


def infeasible(
    attempt: Attempt,
    features: Features,
    state: AllocatedState,
    candidates: Callable[[Request], Sequence[Candidate]],
    all_devices: AllDevices,
) -> bool:
    """True if there is no solution, and the search would end without an error. False if this is not known."""
    for request in attempt.requests:
        if request.derived:
            # With derived attributes, the values that constraints compare may differ between requests.
            return False
        if request.all_devices and request.claim.spec.devices.constraints:
            return False
        if any(failing is not None for _, _, failing in candidates(request)):
            return False
    look = _Look(features, state, candidates, all_devices)
    demands = [look.demand(entry) for entry in attempt.entries]
    if not _enough(features, demands) or not _counters_suffice(features, state, demands):
        return True
    for index, claim in enumerate(attempt.claims):
        for spec in claim.spec.devices.constraints:
            constraint = new_constraint(spec, features)
            if constraint is None:
                continue
            concerned = [
                demand
                for demand in demands
                if demand.entry.claim_index == index
                and all(constraint.applies(*request.names) for request in demand.entry.alternatives)
            ]
            if isinstance(constraint, MatchAttribute):
                if not _can_match(features, constraint, demands, concerned):
                    return True
            elif not features.distinct_are_devices and not _can_differ(constraint, concerned):
                return True
    return False


class _Look:
    """Finds the devices that each entry could get if there were no other entries."""

    def __init__(
        self,
        features: Features,
        state: AllocatedState,
        candidates: Callable[[Request], Sequence[Candidate]],
        all_devices: AllDevices,
    ) -> None:
        self._features = features
        self._state = state
        self._candidates = candidates
        self._all_devices = all_devices

    def demand(self, entry: Entry) -> _Demand:
        counts, devices = [], dict[PoolDevice, Pool]()
        for request in entry.alternatives:
            options: Iterable[tuple[PoolDevice, Pool]] = (
                (d, pool) for d, pool, _ in self._candidates(request)
            )
            counts.append(request.count)
            if request.all_devices:
                options = self._all_devices[request.number]
                # At least 1: a request for all devices fails if there are none.
                counts[-1] = max(1, len(self._all_devices[request.number]))
            devices.update(
                (device, pool) for device, pool in options if self._possible(request, device, pool)
            )
        exclusive = not any(request.admin_access for request in entry.alternatives)
        return _Demand(entry, min(counts), max(counts), devices, exclusive)

    def _possible(self, request: Request, device: PoolDevice, pool: Pool) -> bool:
        features, spec = self._features, device.spec
        if not request.admin_access and device.id in self._state.dedicated:
            return False
        if (
            features.device_taints
            and find_untolerated(spec.taints, request.tolerations, any_effect=features.any_taint_prevents)
            is not None
        ):
            return False
        if features.consumable_capacity:
            used = self._state.consumed.get(device.id, NOTHING)
            try:
                if shortage(
                    device.capacity, request.capacity, used, NOTHING, features.arithmetic, device.domain
                ):
                    return False
            except CapacityError:
                return True
        if spec.consumes_counters:
            if not features.partitionable_devices:
                return False
            if not device.allow_multiple:
                left = available_counters(pool, self._state, features)
                return all(left.get(key, value) >= value for key, value in device.counters)
        return True


def _enough(
    features: Features,
    demands: Sequence[_Demand],
    limited: Sequence[_Demand] = (),
    limit: Container[PoolDevice] = (),
) -> bool:
    """True if every demand can get its devices. A device that cannot be shared is counted for one demand only.

    The ``limited`` demands only get devices in ``limit``.
    """
    options: list[list[Hashable]] = []
    for number, demand in enumerate(demands):
        devices = list(demand.devices)
        if demand in limited:
            devices = [device for device in devices if device in limit]
        shared = {device for device in devices if features.consumable_capacity and device.allow_multiple}
        # A request may get one shared device more than once.
        again = shared if features.starts_over else set[PoolDevice]()
        if len(devices) < demand.count and not again:
            return False
        if demand.exclusive:
            for unit in range(demand.count):
                mine: list[Hashable] = [
                    (number, unit if device in again else 0, device) if device in shared else device
                    for device in devices
                ]
                options.append(mine)
    return _has_matching(options)


def _counters_suffice(features: Features, state: AllocatedState, demands: Sequence[_Demand]) -> bool:
    """True if for each counter, the devices that consume the least of it fit into the amount that is left."""
    count = sum(demand.count for demand in demands if demand.exclusive)
    devices = {
        device: pool for demand in demands if demand.exclusive for device, pool in demand.devices.items()
    }
    pools = {pool.id: pool for pool in devices.values()}
    if len({name for _, name in pools}) < len(pools) and not features.counters_have_drivers:
        # Upstream does not separate the counters of pools that have the same name.
        return True
    # Check each counter alone, and the sum of counters with the same name, because partitions of several
    # devices often consume equal amounts.
    left: dict[Hashable, int] = {}
    for pool in pools.values():
        for key, value in available_counters(pool, state, features).items():
            for group in _groups(pool, key):
                left[group] = left.get(group, 0) + max(0, value)
    needs: dict[Hashable, list[int]] = {group: [] for group in left}
    for device, pool in devices.items():
        if features.consumable_capacity and device.allow_multiple:
            continue
        total: dict[Hashable, int] = {}
        for key, value in device.counters:
            for group in _groups(pool, key):
                total[group] = total.get(group, 0) + value
        for group, value in total.items():
            needs.setdefault(group, []).append(value)
    for group, values in needs.items():
        # At best, the allocation uses all devices that do not consume the counter. The rest must consume it.
        certain = count - (len(devices) - len(values))
        if certain > 0 and group in left and sum(sorted(values)[:certain]) > left[group]:
            return False
    return True


def _groups(pool: Pool, key: CounterKey) -> tuple[Hashable, Hashable]:
    return (pool.id, key), key[1]


def _can_match(
    features: Features, constraint: Constraint, demands: Sequence[_Demand], concerned: Sequence[_Demand]
) -> bool:
    """True if each of the demands under the constraint has a device with the same attribute value."""
    if sum(demand.count for demand in concerned) < 2:
        return True
    holders: dict[Hashable, set[PoolDevice]] = {}
    for demand in concerned:
        for device in demand.devices:
            for value in _values(constraint, device):
                holders.setdefault(value, set()).add(device)
    return any(_enough(features, demands, concerned, some) for some in holders.values())


def _can_differ(constraint: Constraint, concerned: Iterable[_Demand]) -> bool:
    """True if there are enough different attribute values. Only requests for one device are certainly compared."""
    options = [
        list({value: None for device in demand.devices for value in _values(constraint, device)})
        for demand in concerned
        if demand.most == 1
    ]
    return _has_matching(options)


def _values(constraint: Constraint, device: PoolDevice) -> Iterator[Hashable]:
    """Yield the device's values that the constraint compares."""
    attribute = lookup_attribute(device, constraint.attribute_name)
    if attribute is None:
        return
    value = constraint.value(attribute)
    if value is None:
        # The type is unknown, so the value is equal only to itself.
        yield device
    elif isinstance(value[1], frozenset):
        for item in value[1]:
            yield value[0], item
    else:
        yield value


def _has_matching(options: Sequence[Sequence[Hashable]]) -> bool:
    """True if each demand can get one of its options, and no option is used twice. Uses augmenting paths."""
    owners: dict[Hashable, int] = {}
    held: dict[int, Hashable] = {}
    for seeker in range(len(options)):
        # The demand that currently has each option. It may be moved to another option.
        wanted_by: dict[Hashable, int] = {}
        queue = [seeker]
        free: list[Hashable] = []
        for who in queue:
            for option in options[who]:
                if option in wanted_by:
                    continue
                wanted_by[option] = who
                if option not in owners:
                    free.append(option)
                    break
                queue.append(owners[option])
            if free:
                break
        if not free:
            return False
        option = free[0]
        while True:
            who = wanted_by[option]
            given_up = held.get(who)
            owners[option], held[who] = who, option
            if who == seeker:
                break
            option = given_up
    return True
