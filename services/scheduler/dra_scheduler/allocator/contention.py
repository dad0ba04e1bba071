"""Contention: whether a claim can keep its devices when several schedulers allocated them at the same moment.

Upstream has no such check; ``plugins/dynamicresources/rivals.py`` says why there is one here.
"""

from collections.abc import Callable, Iterable, Sequence

from dra_scheduler.allocator.amounts import amount
from dra_scheduler.allocator.capacity import add_up
from dra_scheduler.allocator.compatibility import Common, groups_of, join_groups
from dra_scheduler.allocator.pools import CounterKey, PoolDevice, SliceEntry
from dra_scheduler.allocator.snapshot import Snapshot
from dra_scheduler.allocator.state import AllocatedState, DeviceID

_Counts = Callable[[str], bool]


def contender(snapshot: Snapshot, state: AllocatedState, key: str, *, counts: _Counts) -> str | None:
    """Return the key of a claim that uses too much of a device or counter for the claim ``key`` to fit, or None.

    Only claims that ``counts`` accepts are considered. Shares of a device are compatible while its capacity
    lasts, and devices of a pool while its counters last. With compatibility groups on, the devices on a
    counter set must also have a group in common.
    """
    devices = list(dict.fromkeys(holding.device for holding in state.holdings(key)))
    pools = {device[:2]: snapshot.newest(device[:2]) for device in devices}
    for device in devices:
        others = [other for other in dict.fromkeys(state.owner(device)) if other != key and counts(other)]
        if others and not _shareable(pools[device[:2]], state, device, (key, *others)):
            return others[-1]
    for pool_id, entries in pools.items():
        mine = [device for device in devices if device[:2] == pool_id]
        rival = _over_counters(entries, state, mine, key, counts)
        if rival is None and snapshot.features.compatibility_groups:
            rival = _incompatible(entries, state, mine, key, counts)
        if rival is not None:
            return rival
    return None


def _shareable(
    entries: Iterable[SliceEntry], state: AllocatedState, device: DeviceID, keys: Sequence[str]
) -> bool:
    """True if all of the claims can hold their shares of the device at the same time."""
    held = [holding for key in keys for holding in state.holdings(key) if holding.device == device]
    if any(holding.share is None for holding in held):
        return False
    known = next((found for found in _devices(entries) if found.id == device), None)
    if known is None:
        return True
    left = {name: amount(capacity.value) for name, capacity in known.capacity.items()}
    for holding in held:
        for name, consumed in add_up(dict(holding.consumed), known.domain).items():
            if name in left:
                left[name] -= consumed
    return all(value >= 0 for value in left.values())


def _over_counters(
    entries: Sequence[SliceEntry], state: AllocatedState, mine: Sequence[DeviceID], key: str, counts: _Counts
) -> str | None:
    """Return a claim that consumes a counter which is exceeded because of ``mine``, devices of one pool."""
    left: dict[CounterKey, int] = {
        (group.name, name): amount(counter.value)
        for entry in entries
        for group in entry.slice.spec.shared_counters
        for name, counter in group.counters.items()
    }
    if not left:
        return None
    wanted: set[CounterKey] = set()
    takers: dict[CounterKey, str] = {}
    for device in _devices(entries):
        if not device.counters:
            continue
        others = [other for other in state.owner(device.id) if other != key and counts(other)]
        if not others and device.id not in mine:
            continue
        for name, value in device.counters:
            if name in left:
                left[name] -= value
            if others:
                takers[name] = others[-1]
            else:
                wanted.add(name)
    return next((takers[name] for name in wanted if left.get(name, 0) < 0 and name in takers), None)


def _incompatible(
    entries: Iterable[SliceEntry], state: AllocatedState, mine: Sequence[DeviceID], key: str, counts: _Counts
) -> str | None:
    """Return a claim that has a device which is incompatible with one of ``mine``, devices of one pool."""
    common: dict[str, Common] = {}
    takers: dict[str, str] = {}
    joining: list[PoolDevice] = []
    for device in _devices(entries):
        others = [other for other in state.owner(device.id) if other != key and counts(other)]
        if others:
            for name, groups in groups_of(device):
                common[name] = join_groups(common.get(name), groups)
                takers[name] = others[-1]
        elif device.id in mine:
            joining.append(device)
    for device in joining:
        for name, groups in groups_of(device):
            if name in takers and not common[name].admits(groups):
                return takers[name]
            common[name] = join_groups(common.get(name), groups)
    return None


def _devices(entries: Iterable[SliceEntry]) -> Iterable[PoolDevice]:
    return (device for entry in entries for device in entry.devices)
