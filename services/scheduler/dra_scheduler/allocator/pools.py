"""Resource pools from the point of view of one node.

Mirrors upstream's pools_incubating.go: out-dated slices are ignored, incomplete and invalid pools are marked,
and pools are sorted in the order in which devices are tried: by driver and name, with those that have binding
conditions last.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from dra_shared.api.resource import Device, DeviceAttribute, ResourceSlice

from dra_scheduler.allocator.amounts import amount
from dra_scheduler.allocator.capacity import qualify
from dra_scheduler.allocator.features import Features
from dra_scheduler.allocator.nodes import selector_problem
from dra_scheduler.allocator.state import DeviceID, PoolID

# A counter within a pool: (counter set, counter).
CounterKey = tuple[str, str]


class PoolDevice:
    """A device of a slice, with the fields that the search reads often in a fast form.

    Compared by identity: a changed slice gets new devices. ``verdicts`` and ``well_formed`` are caches of
    the selectors.
    """

    __slots__ = (
        "allow_multiple",
        "capacity",
        "counters",
        "derived",
        "domain",
        "id",
        "siblings",
        "slice",
        "spec",
        "verdicts",
        "well_formed",
    )

    def __init__(
        self, slice_: ResourceSlice, spec: Device, *, own_counters: bool = False, qualified: bool = False
    ) -> None:
        self.slice = slice_
        self.spec = spec
        self.id = DeviceID(slice_.spec.driver, slice_.spec.pool.name, spec.name)
        self.allow_multiple = bool(spec.allow_multiple_allocations)
        # The domain that is added to capacity names without one. Empty if names are compared literally.
        self.domain = slice_.spec.driver if qualified else ""
        self.capacity = qualify(spec.capacity, self.domain)
        totals: dict[CounterKey, int] = {}
        for consumption in spec.consumes_counters:
            for name, counter in consumption.counters.items():
                key = counter_key(slice_, consumption.counter_set, name, own_counters)
                totals[key] = totals.get(key, 0) + amount(counter.value)
        self.counters = tuple(totals.items())
        # All devices of the slice, in its order.
        self.siblings: tuple[PoolDevice, ...] = ()
        self.verdicts: dict[object, bool | str] = {}
        self.well_formed: bool | None = None
        # Cache of derived attributes: the value of each expression, or its error.
        self.derived: dict[str, DeviceAttribute | tuple[bool, str]] = {}

    def published_name(self, name: str) -> str:
        """Return the name under which the driver published the capacity, which may or may not have a domain."""
        return name if name in self.spec.capacity else name.removeprefix(f"{self.domain}/")

    def __repr__(self) -> str:
        return f"PoolDevice({self.id})"


def counter_key(slice_: ResourceSlice, counter_set: str, name: str, own: bool) -> CounterKey:
    """Return the key of a counter within its pool. If ``own`` is set, the key includes the slice's name."""
    return (f"{slice_.metadata.name}/{counter_set}" if own else counter_set, name)


class SliceEntry:
    """A slice and its devices."""

    __slots__ = ("arrival", "consuming", "counting", "devices", "has_binding_conditions", "slice")

    def __init__(self, slice_: ResourceSlice, arrival: int, features: Features) -> None:
        self.slice = slice_
        # Increases with each slice that is added.
        self.arrival = arrival
        self.has_binding_conditions = any(device.binding_conditions for device in slice_.spec.devices)
        own, qualified = features.counters_are_the_slices, features.capacity_names_have_domains
        self.devices = tuple(
            PoolDevice(slice_, device, own_counters=own, qualified=qualified)
            for device in slice_.spec.devices
        )
        for device in self.devices:
            device.siblings = self.devices
        self.consuming = any(device.consumes_counters for device in slice_.spec.devices)
        # True if the pool's counters are unknown without this slice.
        self.counting = self.consuming or (
            features.counter_sets_have_nodes and bool(slice_.spec.shared_counters)
        )

    @property
    def generation(self) -> int:
        return self.slice.spec.pool.generation


class Siblings(Protocol):
    """All slices of a pool, on any node."""

    @property
    def generations(self) -> Mapping[int, int]:
        """Return the number of slices for each generation."""

    def slices_for_counters(self) -> Iterable[SliceEntry]:
        """Return the slices that define or consume the pool's counters."""


@dataclass(slots=True, eq=False)
class Pool:
    """A pool from the point of view of one node. It only contains devices that may be allocated.

    Read-only except for the caches at its end.
    """

    id: PoolID
    generation: int = 0
    # The order of arrival of the first slice that the node can reach.
    arrival: tuple[bool, int] = (False, 0)
    incomplete: bool = False
    # True if the pool's devices may be allocated although slices are missing.
    partial: bool = False
    # A placeholder device for an invalid pool. A search that reaches it ends with an error.
    barrier: PoolDevice | None = None
    invalid_reason: str | None = None
    # The number of slices of the generation that exist, and the number that the slices announce.
    slices_known: int = 0
    slices_wanted: int = 0
    # The devices that the node can reach, ordered by slice name, and devices of other nodes that may consume
    # the counters.
    devices: tuple[PoolDevice, ...] = ()
    other_devices: tuple[PoolDevice, ...] = ()
    counters: dict[CounterKey, int] | None = None
    # True if each device of the slices selects its nodes itself.
    per_device: bool = False
    # True if the node selector of a device cannot be evaluated. A search that reaches this device ends with
    # an error.
    unparsable: bool = False
    # Cache of the selectors: the devices that they accept.
    selections: dict[object, tuple[Any, ...]] = field(default_factory=dict, repr=False)

    # Cache used by ``views``: the candidates that are worth trying while nothing is allocated.
    suitable: dict[object, tuple[Any, ...]] = field(default_factory=dict, repr=False)

    # Cache used by ``views``: the candidates that are worth trying, with the allocated state and its version.
    plausible: dict[object, tuple[object, int, bool, tuple[Any, ...]]] = field(
        default_factory=dict, repr=False
    )
    # Cache used by ``counters``: the amounts left, with the allocated state and its version.
    available: tuple[object, int, dict[CounterKey, int]] | None = field(default=None, repr=False)

    @property
    def usable(self) -> bool:
        return not self.incomplete and self.invalid_reason is None

    @property
    def open(self) -> bool:
        """True if single devices may be allocated."""
        return self.invalid_reason is None and (not self.incomplete or self.partial)

    def __str__(self) -> str:
        return "/".join(self.id)


def view_pool(
    pool_id: PoolID, relevant: Sequence[SliceEntry], siblings: Siblings, features: Features
) -> Pool | None:
    """Return the pool for a node that can reach the ``relevant`` slices.

    None if those slices are outdated, and the newest generation has no slice for this node.
    """
    arrival = _place(features)
    generation = max(entry.generation for entry in relevant)
    current = [entry for entry in relevant if entry.generation == generation]
    wanted = current[0].slice.spec.pool.resource_slice_count
    beyond: list[SliceEntry] = []
    if features.pools_are_the_nodes:
        return _view_own(pool_id, relevant, current, features)
    if len(current) != wanted:
        if max(siblings.generations) > generation:
            return None
        known = siblings.generations[generation]
        if known != wanted:
            return Pool(pool_id, generation, incomplete=True, slices_known=known, slices_wanted=wanted)
        names = {entry.slice.metadata.name for entry in current}
        beyond = [
            entry
            for entry in siblings.slices_for_counters()
            if entry.generation == generation and entry.slice.metadata.name not in names
        ]
    if features.pools_are_sorted:
        current.sort(key=lambda entry: entry.slice.metadata.name)
    else:
        current.sort(key=arrival)
    pool = _build(pool_id, generation, current, beyond, features)
    pool.arrival = min(map(arrival, relevant))
    return pool


def _view_own(
    pool_id: PoolID, relevant: Sequence[SliceEntry], current: list[SliceEntry], features: Features
) -> Pool:
    """Return the pool made up of only those slices that the node can reach."""
    arrival = _place(features)
    current.sort(key=arrival)
    wanted = current[0].slice.spec.pool.resource_slice_count
    pool = _build(pool_id, current[0].generation, current, [], features)
    pool.arrival = min(map(arrival, relevant))
    pool.incomplete = pool.partial = len(current) != wanted
    pool.slices_known, pool.slices_wanted = len(current), wanted
    if pool.invalid_reason is not None:
        pool.barrier = PoolDevice(current[0].slice, Device(name=""))
    return pool


def _place(features: Features) -> Callable[[SliceEntry], tuple[bool, int]]:
    """Return the sort key for slices in order of arrival.

    If the features include binding conditions, slices with them come last.
    """
    late = features.knows_shares
    return lambda entry: (late and entry.has_binding_conditions, entry.arrival)


def _build(
    pool_id: PoolID, generation: int, current: list[SliceEntry], beyond: list[SliceEntry], features: Features
) -> Pool:
    counting = features.partitionable_devices and not features.counters_are_the_slices
    with_devices = [entry for entry in current if not (counting and entry.slice.spec.shared_counters)]
    devices = tuple(device for entry in with_devices for device in entry.devices)
    per_device = any(entry.slice.spec.per_device_node_selection for entry in with_devices)
    unparsable = per_device and any(
        selector_problem(device.spec.node_selector) is not None
        for device in devices
        if device.spec.node_selector is not None
    )

    def invalid(reason: str) -> Pool:
        return Pool(pool_id, generation, invalid_reason=reason)

    seen: set[str] = set()
    for device in devices:
        if device.spec.name in seen:
            return invalid(f"duplicate device name {device.spec.name}")
        seen.add(device.spec.name)
    if not counting:
        return Pool(
            pool_id,
            generation,
            devices=devices,
            counters=_own_counters(current) if features.partitionable_devices else None,
            per_device=per_device,
            unparsable=unparsable,
        )

    sets: dict[str, set[str]] = {}
    counters: dict[CounterKey, int] = {}
    for entry in (*current, *beyond) if features.counter_sets_have_nodes else current:
        for counter_set in entry.slice.spec.shared_counters:
            if counter_set.name in sets:
                return invalid(f"duplicate counter set name {counter_set.name}")
            sets[counter_set.name] = set(counter_set.counters)
            for name, counter in counter_set.counters.items():
                counters[counter_set.name, name] = amount(counter.value)
    for group in (with_devices, beyond) if features.counter_sets_have_nodes else (current, beyond):
        reason = _consumption_problem(sets, group)
        if reason is not None:
            return invalid(reason)
    others = tuple(
        device for entry in beyond if not entry.slice.spec.shared_counters for device in entry.devices
    )
    return Pool(
        pool_id,
        generation,
        devices=devices,
        other_devices=others,
        counters=counters,
        per_device=per_device,
        unparsable=unparsable,
    )


def _own_counters(entries: Iterable[SliceEntry]) -> dict[CounterKey, int]:
    return {
        counter_key(entry.slice, counter_set.name, name, True): amount(counter.value)
        for entry in entries
        for counter_set in entry.slice.spec.shared_counters
        for name, counter in counter_set.counters.items()
    }


def _consumption_problem(sets: dict[str, set[str]], entries: Iterable[SliceEntry]) -> str | None:
    for entry in entries:
        for device in entry.devices:
            for consumption in device.spec.consumes_counters:
                known = sets.get(consumption.counter_set)
                if known is None:
                    return f"counter set {consumption.counter_set} not found"
                for name in consumption.counters:
                    if name not in known:
                        return f"counter {name} not found in counter set {consumption.counter_set}"
    return None


def in_allocation_order(pools: Iterable[Pool], features: Features) -> tuple[Pool, ...]:
    """Sort pools by driver and name, or by arrival.

    If the features include binding conditions, pools with them are last.
    """

    def place(pool: Pool) -> tuple[bool, tuple[object, ...]]:
        return features.knows_shares and _has_binding_conditions(
            pool
        ), pool.id if features.pools_are_sorted else pool.arrival

    return tuple(sorted(pools, key=place))


def _has_binding_conditions(pool: Pool) -> bool:
    return any(device.spec.binding_conditions for device in pool.devices)
