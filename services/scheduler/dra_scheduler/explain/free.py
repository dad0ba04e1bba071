"""What is free and what is used: devices, shares and counters, per pool, class and node."""

from collections.abc import Callable, Iterable

from dra_shared.api.meta import Struct
from dra_shared.api.resource import Device, DeviceClass, ResourceSlice
from msgspec import field

from dra_scheduler.allocator import DeviceID
from dra_scheduler.allocator.amounts import amount, display
from dra_scheduler.plugins.dynamicresources.manager import DRAManager


class Usage(Struct):
    """Devices of something: all, those that no claim holds, those held whole, and shares of those held in part."""

    devices: int = 0
    free: int = 0
    used: int = 0
    shares: int = 0


class CounterUsage(Struct):
    """A shared counter of a pool."""

    total: str = "0"
    free: str = "0"


class CapacityUsage(Struct):
    """A capacity of devices that are shared."""

    total: str = "0"
    free: str = "0"


class PoolUsage(Struct):
    """One pool; ``counters`` by ``set/counter``, ``capacity`` by ``device/capacity`` for devices in shared use."""

    driver: str
    pool: str
    node: str = ""
    usage: Usage = field(default_factory=Usage)
    counters: dict[str, CounterUsage] = field(default_factory=dict)
    capacity: dict[str, CapacityUsage] = field(default_factory=dict)
    in_use_by: dict[str, tuple[str, ...]] = field(default_factory=dict)


class Free(Struct):
    """The cluster."""

    pools: tuple[PoolUsage, ...] = ()
    classes: dict[str, Usage] = field(default_factory=dict)
    nodes: dict[str, Usage] = field(default_factory=dict)


def free(manager: DRAManager, classes: Iterable[DeviceClass]) -> Free:
    """What is free now; only slices of each pool's newest generation count."""
    slices = _newest(manager.slices.list())
    pools: dict[tuple[str, str], list[ResourceSlice]] = {}
    for piece in slices:
        pools.setdefault((piece.spec.driver, piece.spec.pool.name), []).append(piece)
    reports = tuple(_pool(manager, pieces) for _, pieces in sorted(pools.items()))
    nodes: dict[str, Usage] = {}
    for report in reports:
        name = report.node or "(network)"
        nodes[name] = _sum(nodes.get(name, Usage()), report.usage)
    by_class: dict[str, Usage] = {}
    for device_class in sorted(classes, key=lambda c: c.metadata.name):
        accepts = _accepts(manager, device_class)
        accepted = [pair for pair in _devices(slices) if accepts(*pair)]
        by_class[device_class.metadata.name] = _usage(manager, accepted)
    return Free(pools=reports, classes=by_class, nodes=nodes)


def _newest(slices: list[ResourceSlice]) -> list[ResourceSlice]:
    newest: dict[tuple[str, str], int] = {}
    for piece in slices:
        key = piece.spec.driver, piece.spec.pool.name
        newest[key] = max(newest.get(key, 0), piece.spec.pool.generation)
    current = (
        piece
        for piece in slices
        if piece.spec.pool.generation == newest[piece.spec.driver, piece.spec.pool.name]
    )
    return sorted(current, key=lambda piece: piece.metadata.name)


def _devices(slices: Iterable[ResourceSlice]) -> Iterable[tuple[ResourceSlice, Device]]:
    return ((piece, device) for piece in slices for device in piece.spec.devices)


def _id(piece: ResourceSlice, device: Device) -> DeviceID:
    return DeviceID(piece.spec.driver, piece.spec.pool.name, device.name)


def _usage(manager: DRAManager, devices: Iterable[tuple[ResourceSlice, Device]]) -> Usage:
    state = manager.claims.state
    total = unused = used = shares = 0
    for piece, device in devices:
        known = _id(piece, device)
        total += 1
        used += known in state.dedicated
        shares += len(state.shared.get(known, ()))
        unused += not state.in_use(known)
    return Usage(devices=total, free=unused, used=used, shares=shares)


def _sum(one: Usage, other: Usage) -> Usage:
    return Usage(
        devices=one.devices + other.devices,
        free=one.free + other.free,
        used=one.used + other.used,
        shares=one.shares + other.shares,
    )


def _pool(manager: DRAManager, pieces: list[ResourceSlice]) -> PoolUsage:
    state, spec = manager.claims.state, pieces[0].spec
    devices = list(_devices(pieces))
    left = {
        (group.name, name): amount(counter.value)
        for piece in pieces
        for group in piece.spec.shared_counters
        for name, counter in group.counters.items()
    }
    totals = dict(left)
    capacity: dict[str, CapacityUsage] = {}
    holders: dict[str, tuple[str, ...]] = {}
    for piece, device in devices:
        known = _id(piece, device)
        if not state.in_use(known):
            continue
        holders[device.name] = tuple(key.partition(" ")[0] for key in state.owner(known))
        for consumption in device.consumes_counters:
            for name, counter in consumption.counters.items():
                if (consumption.counter_set, name) in left:
                    left[consumption.counter_set, name] -= amount(counter.value)
        for name, consumed in state.consumed.get(known, {}).items():
            total = amount(device.capacity[name].value) if name in device.capacity else consumed
            capacity[f"{device.name}/{name}"] = CapacityUsage(
                total=display(total), free=display(total - consumed)
            )
    return PoolUsage(
        driver=spec.driver,
        pool=spec.pool.name,
        node=next((piece.spec.node_name for piece in pieces if piece.spec.node_name), "") or "",
        usage=_usage(manager, devices),
        counters={
            f"{group}/{name}": CounterUsage(total=display(total), free=display(left[group, name]))
            for (group, name), total in totals.items()
        },
        capacity=capacity,
        in_use_by=holders,
    )


def _accepts(manager: DRAManager, device_class: DeviceClass) -> Callable[[ResourceSlice, Device], bool]:
    """Whether the class's selectors accept a device; one that can't be evaluated does not."""
    from dra_shared.cel import CelDevice, CompileError, EvaluationError, compile_expression

    gates = {
        "DRAConsumableCapacity": manager.features.consumable_capacity,
        "DRAListTypeAttributes": manager.features.list_type_attributes,
    }
    features = frozenset(name for name, on in gates.items() if on)
    texts = [selector.cel.expression for selector in device_class.spec.selectors if selector.cel is not None]
    try:
        programs = [compile_expression(text, features=features) for text in texts]
    except CompileError:
        return lambda piece, device: False

    def accepts(piece: ResourceSlice, device: Device) -> bool:
        seen = CelDevice(
            piece.spec.driver, device.attributes, device.capacity, bool(device.allow_multiple_allocations)
        )
        try:
            return all(program.matches(seen) for program in programs)
        except EvaluationError:
            return False

    return accepts
