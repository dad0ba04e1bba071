"""All slices, indexed so that the pools of a node are found without reading all slices of the cluster.

Upstream gathers the pools of a node from all slices (``GatherPools``); this module only computes the pools that
changed.
"""

from collections.abc import Iterable, Iterator, Sequence
from weakref import WeakValueDictionary

from dra_shared.api.node import Node
from dra_shared.api.resource import ResourceSlice

from dra_scheduler.allocator.compatibility import uses_groups
from dra_scheduler.allocator.errors import AllocationError
from dra_scheduler.allocator.features import Features
from dra_scheduler.allocator.nodes import node_matches
from dra_scheduler.allocator.pools import Pool, PoolDevice, SliceEntry, in_allocation_order, view_pool
from dra_scheduler.allocator.state import PoolID
from dra_scheduler.allocator.views import View


class _PoolSlices:
    """The slices of one pool, indexed by the nodes that can reach them."""

    def __init__(self) -> None:
        self.version = 0
        self.entries: dict[object, SliceEntry] = {}
        self.generations: dict[int, int] = {}
        # Slices that name one node, slices with counters, which upstream considers on every node, and slices
        # whose node selector has to be evaluated. ``common`` has the last two kinds, in order of arrival.
        self.by_node: dict[str, dict[SliceEntry, None]] = {}
        self.for_all: dict[SliceEntry, None] = {}
        self.selective: set[SliceEntry] = set()
        self.common: dict[SliceEntry, None] = {}
        self._counting: dict[SliceEntry, None] = {}
        self._views: dict[tuple[SliceEntry, ...], Pool | None] = {}

    def add(self, key: object, entry: SliceEntry, features: Features) -> None:
        """Add a slice."""
        self._views.clear()
        self.entries[key] = entry
        self.generations[entry.generation] = self.generations.get(entry.generation, 0) + 1
        if entry.counting:
            self._counting[entry] = None
        spec = entry.slice.spec
        own = features.counters_are_the_slices
        if not features.partitionable_devices and (
            spec.per_device_node_selection is not None or (spec.shared_counters and not own)
        ):
            return
        if spec.shared_counters and not own and not features.counter_sets_have_nodes:
            self.for_all[entry] = self.common[entry] = None
        elif spec.node_name:
            self.by_node.setdefault(spec.node_name, {})[entry] = None
        elif spec.all_nodes or spec.node_selector is not None or spec.per_device_node_selection:
            self.selective.add(entry)
            self.common[entry] = None

    def remove(self, key: object) -> None:
        """Remove a slice."""
        self._views.clear()
        entry = self.entries.pop(key)
        self.generations[entry.generation] -= 1
        if not self.generations[entry.generation]:
            del self.generations[entry.generation]
        for table in (self._counting, self.for_all, self.common):
            table.pop(entry, None)
        self.selective.discard(entry)
        name = entry.slice.spec.node_name
        if name and entry in self.by_node.get(name, ()):
            del self.by_node[name][entry]
            if not self.by_node[name]:
                del self.by_node[name]

    def slices_for_counters(self) -> Iterable[SliceEntry]:
        """Return the slices that define or consume the pool's counters."""
        return self._counting

    def view(self, pool_id: PoolID, relevant: Sequence[SliceEntry], features: Features) -> Pool | None:
        """Return the pool for nodes that can reach exactly these slices. Those nodes share the object."""
        key = tuple(relevant)
        if key not in self._views:
            self._views[key] = view_pool(pool_id, relevant, self, features)
        return self._views[key]


class _NodeView:
    """The cached pools of one node, valid while both versions are unchanged."""

    __slots__ = ("local_version", "node", "shared_version", "view")

    def __init__(self, node: Node, local_version: int, shared_version: int, view: View) -> None:
        self.node = node
        self.local_version = local_version
        self.shared_version = shared_version
        self.view = view


class Snapshot:
    """The resource slices of a cluster, updated one at a time.

    Only the views that depend on a changed slice are computed again. A change to a pool of one node does not
    affect the views of other nodes.
    """

    def __init__(self, features: Features, slices: Iterable[ResourceSlice] = ()) -> None:
        self.features = features
        self._pools: dict[PoolID, _PoolSlices] = {}
        self._where: dict[object, PoolID] = {}
        self._local: dict[str, dict[PoolID, None]] = {}
        # Pools that more than one node can reach, and pools that are incomplete or invalid on nodes that only
        # reach their counters.
        self._shared: dict[PoolID, None] = {}
        self._troubled: dict[PoolID, Pool] = {}
        self._node_versions: dict[str, int] = {}
        self._shared_version = 0
        self._clock = 0
        self._node_views: dict[str, _NodeView] = {}
        # Nodes with the same pools share one view.
        self._shared_views: WeakValueDictionary[tuple[Pool, ...], View] = WeakValueDictionary()
        for number, slice_ in enumerate(slices):
            # Do not key by name alone: a list may contain duplicates, which must make their pool invalid.
            self._put((slice_.metadata.name, number), slice_)

    def set_slice(self, slice_: ResourceSlice) -> None:
        """Add or replace a slice."""
        self._put(slice_.metadata.name, slice_)

    def delete_slice(self, name: str) -> None:
        """Remove a slice. Ignored if it does not exist."""
        self._remove(name)

    def slices(self) -> Iterator[ResourceSlice]:
        """Return all slices."""
        return (entry.slice for pool in self._pools.values() for entry in pool.entries.values())

    def devices(self) -> Iterator[PoolDevice]:
        """Yield the devices of all slices of all generations."""
        for pool in self._pools.values():
            for entry in pool.entries.values():
                yield from entry.devices

    def slices_of(self, pool_id: PoolID) -> Iterator[ResourceSlice]:
        """Yield the slices of one pool, of all generations and nodes."""
        pool = self._pools.get(pool_id)
        return (entry.slice for entry in pool.entries.values()) if pool is not None else iter(())

    def slices_for(self, node_name: str) -> Iterator[ResourceSlice]:
        """Return the slices of all pools of which the node may see any part."""
        for pool_id in {**self._local.get(node_name, {}), **self._shared, **dict.fromkeys(self._troubled)}:
            yield from (entry.slice for entry in self._pools[pool_id].entries.values())

    def newest(self, pool_id: PoolID) -> list[SliceEntry]:
        """Return all slices of the pool's newest generation. Empty if the pool does not exist."""
        pool = self._pools.get(pool_id)
        if pool is None:
            return []
        generation = max(pool.generations)
        return [entry for entry in pool.entries.values() if entry.generation == generation]

    def invalid_reason(self, pool_id: PoolID) -> str | None:
        """Return the reason why the whole pool is inconsistent, or None."""
        pool = self._pools.get(pool_id)
        entries = self.newest(pool_id)
        if pool is None or len(entries) != entries[0].slice.spec.pool.resource_slice_count:
            return None
        view = pool.view(pool_id, tuple(entries), self.features)
        return view.invalid_reason if view is not None else None

    def pools(self, node: Node) -> tuple[Pool, ...]:
        """Return the pools of the node, in allocation order. Raises like :meth:`view`."""
        return self.view(node).pools

    def view(self, node: Node) -> View:
        """Return the view of the node. The same object is returned while its contents are unchanged.

        Raises:
            AllocationError: a slice's node selector cannot be evaluated.
        """
        name = node.metadata.name
        local, shared = self._local_version(name), self._shared_version
        view = self._node_views.get(name)
        if (
            view is not None
            and view.local_version == local
            and view.shared_version == shared
            and (view.node is node or view.node.metadata.labels == node.metadata.labels)
        ):
            return view.view
        pools = self._gather(node)
        found = self._shared_views.get(pools)
        if found is None:
            found = self._shared_views[pools] = View(pools, self.features)
        self._node_views[name] = _NodeView(node, local, shared, found)
        return found

    @property
    def shared_version(self) -> int:
        """A version that grows with each change that any node may see, except for slices that name a node."""
        return self._shared_version

    def stamp(self, node_name: str) -> tuple[int, int]:
        """Return a value that changes whenever the node's view may have changed."""
        return self._local_version(node_name), self._shared_version

    def known_pools(self, node_name: str) -> tuple[Pool, ...] | None:
        """Return the last result of :meth:`pools` for the node if it is still valid, or None."""
        view = self._node_views.get(node_name)
        if view is None or (view.local_version, view.shared_version) != self.stamp(node_name):
            return None
        return view.view.pools

    def forget_node(self, node_name: str) -> None:
        """Drop the cached view of a node that was deleted."""
        self._node_views.pop(node_name, None)

    def _put(self, key: object, slice_: ResourceSlice) -> None:
        if (self.features.groups_are_known and not self.features.compatibility_groups) and uses_groups(
            slice_
        ):
            self._remove(key)
            return
        pool_id = (slice_.spec.driver, slice_.spec.pool.name)
        old_id = self._where.get(key)
        names = {slice_.spec.node_name}
        if old_id is not None:
            old = self._pools[old_id].entries[key].slice.spec
            if old == slice_.spec:
                return
            if old_id != pool_id:
                self._remove(key)
                old_id = None
            names.add(old.node_name)
        pool = self._pools.setdefault(pool_id, _PoolSlices())
        was_selective = bool(pool.selective)
        if old_id is not None:
            pool.remove(key)
        self._where[key] = pool_id
        pool.add(key, SliceEntry(slice_, self._clock, self.features), self.features)
        self._refresh(pool_id, names, was_selective)

    def _remove(self, key: object) -> None:
        pool_id = self._where.pop(key, None)
        if pool_id is not None:
            pool = self._pools[pool_id]
            was_selective = bool(pool.selective)
            name = pool.entries[key].slice.spec.node_name
            pool.remove(key)
            self._refresh(pool_id, {name}, was_selective)

    def _refresh(self, pool_id: PoolID, node_names: set[str | None], was_selective: bool) -> None:
        """Update the indexes after a slice of the pool was added or removed. ``node_names`` are the slice's nodes."""
        self._clock += 1
        pool = self._pools[pool_id]
        pool.version = self._clock
        for node_name in filter(None, node_names):
            mine = self._local.setdefault(node_name, {})
            if node_name in pool.by_node:
                mine[pool_id] = None
            else:
                mine.pop(pool_id, None)
            self._node_versions[node_name] = self._clock
        if was_selective or pool.selective:
            self._shared_version = self._clock
        self._shared.pop(pool_id, None)
        if pool.selective:
            self._shared[pool_id] = None
        troubled = self._troubled.pop(pool_id, None)
        if pool.for_all and not pool.selective:
            elsewhere = pool.view(pool_id, tuple(pool.for_all), self.features)
            if elsewhere is not None and not elsewhere.usable:
                self._troubled[pool_id] = elsewhere
        if _trouble(troubled) != _trouble(self._troubled.get(pool_id)):
            self._shared_version = self._clock
        if not pool.entries:
            del self._pools[pool_id]

    def _local_version(self, node_name: str) -> int:
        """Return a version that grows with each change to a pool that has slices of that node."""
        newest = self._node_versions.get(node_name, 0)
        for pool_id in self._local.get(node_name, ()):
            newest = max(newest, self._pools[pool_id].version)
        return newest

    def _gather(self, node: Node) -> tuple[Pool, ...]:
        name = node.metadata.name
        local = self._local.get(name, {})
        found: list[Pool] = [pool for pool_id, pool in self._troubled.items() if pool_id not in local]
        for pool_id in (*local, *(other for other in self._shared if other not in local)):
            pool = self._pools[pool_id]
            relevant = list(pool.by_node.get(name, ()))
            relevant.extend(
                entry for entry in pool.common if entry not in pool.selective or _reaches(entry, node)
            )
            if relevant:
                view = pool.view(pool_id, relevant, self.features)
                if view is not None:
                    found.append(view)
        return in_allocation_order(found, self.features)


def _trouble(pool: Pool | None) -> tuple[object, ...] | None:
    """Return the properties of a pool that matter to a node which cannot use its devices."""
    if pool is None:
        return None
    return pool.generation, pool.incomplete, pool.slices_known, pool.slices_wanted, pool.invalid_reason


def _reaches(entry: SliceEntry, node: Node) -> bool:
    spec = entry.slice.spec
    try:
        if spec.all_nodes or spec.node_selector is not None:
            return node_matches(node, None, spec.all_nodes, spec.node_selector)
    except AllocationError as error:
        where = f"failed to perform node selection for slice {entry.slice.metadata.name}"
        raise AllocationError(f"gather pool information: {where}: {error}") from error
    for device in spec.devices:
        try:
            if node_matches(node, device.node_name, device.all_nodes, device.node_selector):
                return True
        except AllocationError as error:
            where = f"device {device.name} in slice {entry.slice.metadata.name}"
            raise AllocationError(
                f"gather pool information: failed to perform node selection for {where}: {error}"
            ) from error
    return False
