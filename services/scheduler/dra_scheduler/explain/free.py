"""Free devices: those that the allocator could still allocate, by class and model, in the cluster and on each node."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dra_shared.api.meta import Struct
from dra_shared.api.node import Node
from dra_shared.api.poolstatus import PartitionTypeStatus, ShareableSummaryStatus
from dra_shared.api.resource import ResourceSlice
from dra_shared.plurals import count
from dra_shared.poolviews import PoolUse, ViewError, partition_summary, shareable_summary
from dra_shared.quantity import Quantity
from msgspec import field

from dra_scheduler.allocator import AllocationError, DeviceID
from dra_scheduler.allocator.amounts import amount, display
from dra_scheduler.allocator.capacity import consumption
from dra_scheduler.allocator.offers import Instead, Offer
from dra_scheduler.allocator.pools import PoolDevice
from dra_scheduler.allocator.reasons import (
    BindingUnsupported,
    CapacityShort,
    CounterShort,
    CountersUnsupported,
    GroupsClash,
    OperationsNotSkipped,
    OtherNode,
    Tainted,
)
from dra_scheduler.dra.manager import DRAManager
from dra_scheduler.explain.pools import find_double_publication, find_unpublished
from dra_scheduler.explain.report import HeldReport

# Attributes in which drivers publish the model of a device, the most specific first.
_SHAPE_ATTRIBUTES = ("profile", "productName", "model", "product", "type")


class Usage(Struct):
    """Devices of one class and shape: ``devices`` = ``free`` + ``used`` + ``blocked``.

    ``free``: no claim holds the device, and so many claims for one device each would all succeed. ``used``: a
    claim holds the device or a share of it. ``blocked``: the device is not used, but cannot be allocated;
    ``why`` counts blocked devices by reason. ``shares`` is the number of shares that claims hold,
    ``more_shares`` the number of further claims without amounts that could get one (None: no limit). Both are
    None if the devices are not shared.
    """

    device_class: str = field(name="class")
    shape: str
    devices: int = 0
    free: int = 0
    used: int = 0
    blocked: int = 0
    shares: int | None = None
    more_shares: int | str | None = None
    why: dict[str, int] = field(default_factory=dict)


class NodeUsage(Struct):
    """The devices that a node can reach.

    ``problem`` is the reason why the allocator allocates no devices on this node.
    """

    node: str
    usage: tuple[Usage, ...] = ()
    problem: str = ""


class Level(Struct):
    """The total and free amount of a pool's counter, or of the capacity of a shared device."""

    total: str = "0"
    free: str = "0"


class PoolUsage(Struct):
    """A pool. ``counters`` are keyed by ``set/counter``, ``capacity`` of shared devices by ``device/capacity``.

    ``partitions`` and ``shareable`` are the same as in the status of a ResourcePoolStatusRequest. ``in_use_by``
    and ``admin_access`` are claims by device. A device with admin access can still be allocated.
    """

    driver: str
    pool: str
    node: str = ""
    devices: int = 0
    used: int = 0
    problem: str = ""
    counters: dict[str, Level] = field(default_factory=dict)
    capacity: dict[str, Level] = field(default_factory=dict)
    partitions: tuple[PartitionTypeStatus, ...] = ()
    shareable: ShareableSummaryStatus | None = None
    in_use_by: dict[str, tuple[str, ...]] = field(default_factory=dict)
    admin_access: dict[str, tuple[str, ...]] = field(default_factory=dict)


class Free(Struct):
    """The free devices of the cluster. ``unpublished`` are devices that claims hold but no ResourceSlice publishes."""

    classes: tuple[Usage, ...] = ()
    nodes: tuple[NodeUsage, ...] = ()
    pools: tuple[PoolUsage, ...] = ()
    unpublished: tuple[HeldReport, ...] = ()


@dataclass(slots=True)
class _Found:
    """A device of a class from the point of view of a node.

    ``room`` is the number of shares that are left, None for no limit.
    """

    used: bool
    refusal: str
    shares: int = 0
    room: int | None = 0
    shared: bool = False

    @property
    def free(self) -> bool:
        return not self.used and not self.refusal


# By class and shape, then by device.
_Table = dict[tuple[str, str], dict[DeviceID, _Found]]


async def free(manager: DRAManager, nodes: Iterable[Node]) -> Free:
    """Return the devices that are free now. Other tasks can run after each node."""
    names = sorted(device_class.metadata.name for device_class in manager.classes.list())
    everywhere: _Table = {}
    reports = []
    known = sorted(nodes, key=lambda node: node.metadata.name)
    for node in known:
        table, problem = _node(manager, node, names)
        reports.append(NodeUsage(node=node.metadata.name, usage=_usages(table), problem=problem))
        for key, devices in table.items():
            mine = everywhere.setdefault(key, {})
            for device, found in devices.items():
                if device not in mine or found.free:
                    mine[device] = found
        await asyncio.sleep(0)
    pools = _pools(manager, {node.metadata.name for node in known})
    gone = find_unpublished(manager, manager.claims, others=False)
    return Free(classes=_usages(everywhere), nodes=tuple(reports), pools=pools, unpublished=gone)


def _node(manager: DRAManager, node: Node, classes: Iterable[str]) -> tuple[_Table, str]:
    table: _Table = {}
    problem = ""
    for name in classes:
        try:
            offers = manager.allocator.offers(node, name, shape_of)
        except AllocationError as error:
            problem = problem or str(error)
            continue
        for offer in offers:
            found = table.setdefault((name, shape_of(offer.device)), {})
            found[offer.device.id] = _find(manager, offer)
    return table, problem


def _find(manager: DRAManager, offer: Offer) -> _Found:
    state, device = manager.claims.state, offer.device
    used = state.in_use(device.id)
    refusal = "" if offer.refusal is None else _why(offer)
    if not (device.allow_multiple and manager.features.consumable_capacity):
        return _Found(used, refusal)
    room = 0 if refusal else _room(manager, device)
    return _Found(used, refusal, len(state.shared.get(device.id, ())), room, shared=True)


def _room(manager: DRAManager, device: PoolDevice) -> int | None:
    used = manager.claims.state.consumed.get(device.id, {})
    needs, _ = consumption(device.spec.capacity, {}, manager.features.arithmetic)
    left = [
        (amount(device.spec.capacity[name].value) - used.get(name, 0)) // need
        for name, need in needs.items()
        if need > 0
    ]
    return min(left) if left else None


def _why(offer: Offer) -> str:
    match offer.refusal:
        case Tainted(taint):
            return f"taint {taint.key}:{taint.effect}"
        case CounterShort():
            return "counters used up"
        case GroupsClash():
            return "not compatible with devices in use"
        case OperationsNotSkipped():
            return "node cannot skip operations"
        case Instead():
            return "only instead of a free one"
        case CapacityShort():
            return "capacity used up"
        case CountersUnsupported() | BindingUnsupported():
            return "feature off"
        case OtherNode():
            return "other nodes'"
        case _:
            return "selector fails"


def shape_of(device: PoolDevice) -> str:
    """Return the model of a device: an attribute of its driver, or its name without the number."""
    for name in _SHAPE_ATTRIBUTES:
        attribute = device.spec.attributes.get(name) or device.spec.attributes.get(
            f"{device.id.driver}/{name}"
        )
        if attribute is not None and attribute.string is not None:
            return attribute.string
    return device.id.device.rstrip("0123456789").rstrip("-") or device.id.device


def _usages(table: _Table) -> tuple[Usage, ...]:
    return tuple(_usage(key, list(found.values())) for key, found in sorted(table.items()))


def _usage(key: tuple[str, str], devices: Sequence[_Found]) -> Usage:
    why = Counter(found.refusal for found in devices if found.refusal and not found.used)
    shared = [found for found in devices if found.shared]
    rooms = [found.room for found in shared]
    room = "unlimited" if None in rooms else sum(filter(None, rooms))
    return Usage(
        device_class=key[0],
        shape=key[1],
        devices=len(devices),
        free=sum(found.free for found in devices),
        used=sum(found.used for found in devices),
        blocked=sum(why.values()),
        shares=sum(found.shares for found in shared) if shared else None,
        more_shares=room if shared else None,
        why=dict(why.most_common()),
    )


# Pools


def _pools(manager: DRAManager, nodes: set[str]) -> tuple[PoolUsage, ...]:
    pools: dict[tuple[str, str], list[ResourceSlice]] = {}
    for piece in sorted(manager.slices.list(), key=lambda piece: piece.metadata.name):
        pools.setdefault((piece.spec.driver, piece.spec.pool.name), []).append(piece)
    admins = _admins(manager)
    return tuple(_pool(manager, pieces, nodes, admins) for _, pieces in sorted(pools.items()))


def _admins(manager: DRAManager) -> dict[DeviceID, tuple[str, ...]]:
    found: dict[DeviceID, tuple[str, ...]] = {}
    for claim in manager.claims:
        if claim.status.allocation is not None:
            for result in claim.status.allocation.devices.results:
                if result.admin_access:
                    device = DeviceID(result.driver, result.pool, result.device)
                    found[device] = (*found.get(device, ()), claim.key)
    return found


def _pool(
    manager: DRAManager,
    pieces: list[ResourceSlice],
    nodes: set[str],
    admins: dict[DeviceID, tuple[str, ...]],
) -> PoolUsage:
    """Report one pool. Slices of older generations are ignored."""
    state = manager.claims.state
    generation = max(piece.spec.pool.generation for piece in pieces)
    pieces = [piece for piece in pieces if piece.spec.pool.generation == generation]
    spec = pieces[0].spec
    # Nodes may publish devices with the same names. To the allocator, they are the same device.
    known = {device.id: device for device in (PoolDevice(p, d) for p in pieces for d in p.spec.devices)}
    devices = list(known.values())
    used = [device for device in devices if state.in_use(device.id)]
    totals = {
        (group.name, name): amount(counter.value)
        for piece in pieces
        for group in piece.spec.shared_counters
        for name, counter in group.counters.items()
    }
    left = dict(totals)
    capacity: dict[str, Level] = {}
    for device in used:
        for counter_key, value in device.counters:
            if counter_key in left:
                left[counter_key] -= value
        for name, consumed in state.consumed.get(device.id, {}).items():
            if name in device.spec.capacity:
                total = amount(device.spec.capacity[name].value)
                capacity[f"{device.id.device}/{name}"] = _level(total, total - consumed)
    node = next((piece.spec.node_name for piece in pieces if piece.spec.node_name), "") or ""
    problem = _problem(manager, pieces, node, nodes)
    partitions, shareable = ((), None) if problem else _summaries(manager, pieces, used)
    return PoolUsage(
        driver=spec.driver,
        pool=spec.pool.name,
        node=node,
        devices=len(devices),
        used=len(used),
        problem=problem,
        counters={
            f"{group}/{name}": _level(total, left[group, name]) for (group, name), total in totals.items()
        },
        capacity=capacity,
        partitions=partitions,
        shareable=shareable,
        in_use_by={
            device.id.device: tuple(key.partition(" ")[0] for key in state.owner(device.id))
            for device in used
        },
        admin_access={device.id.device: admins[device.id] for device in devices if device.id in admins},
    )


def _summaries(
    manager: DRAManager, pieces: Sequence[ResourceSlice], used: Iterable[PoolDevice]
) -> tuple[tuple[PartitionTypeStatus, ...], ShareableSummaryStatus | None]:
    """Return the pool's partitions and shared devices. Empty if a pool status request would report an error."""
    spec, consumed = pieces[0].spec, dict[str, Quantity]()
    for device in used:
        for name, value in manager.claims.state.consumed.get(device.id, {}).items():
            consumed[name] = consumed.get(name, Quantity(0)).add(Quantity.parse(display(value)))
    use = PoolUse(spec.driver, spec.pool.name, pieces, {device.id.device for device in used}, consumed)
    partitions: tuple[PartitionTypeStatus, ...] = ()
    shareable = None
    with contextlib.suppress(ViewError):
        partitions = partition_summary(use)
    with contextlib.suppress(ViewError):
        shareable = shareable_summary(use)
    return partitions, shareable


def _problem(manager: DRAManager, pieces: list[ResourceSlice], node: str, nodes: set[str]) -> str:
    """Return why the pool's devices cannot be allocated or why the numbers are misleading, or an empty string."""
    spec = pieces[0].spec
    wanted = spec.pool.resource_slice_count
    twice = find_double_publication(manager, (spec.driver, spec.pool.name))
    if twice:
        return twice
    if len(pieces) != wanted and not _is_per_node(pieces, wanted):
        return f"incomplete: {len(pieces)} of {count(wanted, 'slice')} of generation {spec.pool.generation}"
    if node and node not in nodes:
        return f"node {node} does not exist"
    return manager.snapshot.invalid_reason((spec.driver, spec.pool.name)) or ""


def _is_per_node(pieces: Sequence[ResourceSlice], wanted: int) -> bool:
    """True if the pool's slices for each single node are complete, so that each node can use the pool."""
    counts = Counter(piece.spec.node_name for piece in pieces)
    return all(name and count == wanted for name, count in counts.items())


def _level(total: int, left: int) -> Level:
    return Level(total=display(total), free=display(left))
