"""The manager of DRA objects: the scheduler's claims, slices and classes, and the allocator over them.

Mirrors upstream's ``plugins/dynamicresources/dra_manager.go``. It lives as long as the scheduler, and all
scheduling attempts share it.
"""

import functools
import uuid
from collections.abc import Callable, Iterable

from dra_shared.api.resource import DeviceClass, ResourceSlice
from dra_shared.slicetracker import SliceTracker
from dra_shared.taintcriteria import TaintCriteria
from dra_shared.taintrules import can_select_by_class
from dra_shared.version import V1_37

from dra_scheduler.allocator import Allocator, Features, Snapshot
from dra_scheduler.allocator.contention import contender
from dra_scheduler.allocator.programs import compile_selector
from dra_scheduler.dra.claimtracker import ClaimTracker, Pool
from dra_scheduler.dra.classes import ClassResolver

# A callback for changed nodes. Its argument is a node's name, or None for all nodes.
OnNodes = Callable[[str | None], None]


class DRAManager:
    """Claims, slices (with device taint rules applied) and classes, and the allocator over them.

    ``on_nodes`` is called with the name of a node whenever its devices changed in a way that could change a
    verdict.
    """

    def __init__(
        self,
        features: Features,
        *,
        taint_rules: bool = False,
        on_nodes: OnNodes = lambda _: None,
        new_uid: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self.features = features
        self._on_nodes = on_nodes
        self._pool_nodes: dict[Pool, dict[str, str | None]] = {}
        self._shared_version = 0
        self.claims = ClaimTracker(
            consumable_capacity=features.consumable_capacity, on_use=self._pools_changed
        )
        self.classes = ClassResolver()
        self.snapshot = Snapshot(features)
        by_class = can_select_by_class(features.kubernetes)
        compile_ = functools.partial(compile_selector, features=features)
        criteria = TaintCriteria(self.classes.get, compile_) if by_class else None
        self.slices = SliceTracker(
            rules_enabled=taint_rules,
            criteria=criteria,
            ignore_unselective=features.kubernetes >= V1_37,
        )
        self.slices.add_listener(self._slice_changed)
        # Share ids are random here: claims with equal specs share one cached result, so ids derived from a
        # claim would repeat.
        self.allocator = Allocator(
            features,
            self.claims.state,
            self.classes.get,
            self.snapshot,
            share_ids=lambda _: new_uid(),
        )

    def copy_for_node(self, node_name: str) -> Allocator:
        """Return an allocator for that node over copies, which another thread may use."""
        classes = {device_class.metadata.name: device_class for device_class in self.classes.list()}
        slices = list(self.snapshot.slices_for(node_name))
        share_ids = self.allocator.share_ids
        return Allocator(self.features, self.claims.state.copy(), classes, slices, share_ids=share_ids)

    def set_class(self, device_class: DeviceClass) -> None:
        """Add or update a class."""
        self.classes.set_class(device_class)
        self.slices.update_class()
        self._on_nodes(None)

    def delete_class(self, name: str) -> None:
        """Remove a class."""
        self.classes.delete_class(name)
        self._on_nodes(None)

    def rival(self, key: str) -> str | None:
        """Return an older claim that uses too much of a device or counter of the claim ``key``, or None."""
        stored_at = self.claims.stored_at
        mine = stored_at(key)
        return contender(
            self.snapshot, self.claims.state, key, counts=lambda other: 0 < stored_at(other) < mine
        )

    def _slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        pools: set[Pool] = set()
        if old is not None:
            pool = _pool(old)
            pools.add(pool)
            if new is None or _pool(new) != pool:
                # Report the nodes of the old slice before it is removed.
                self._pools_changed((pool,))
                slices = self._pool_nodes[pool]
                slices.pop(old.metadata.name, None)
                if not slices:
                    del self._pool_nodes[pool]
        if new is None:
            assert old is not None
            self.snapshot.delete_slice(old.metadata.name)
        else:
            pools.add(_pool(new))
            self.snapshot.set_slice(new)
            self._pool_nodes.setdefault(_pool(new), {})[new.metadata.name] = new.spec.node_name or None
        shared, self._shared_version = self._shared_version, self.snapshot.shared_version
        if shared != self._shared_version:
            # Nodes without a slice of the pool may depend on it: its shared counters can become incomplete or
            # invalid.
            self._on_nodes(None)
        else:
            self._pools_changed(pools)

    def _pools_changed(self, pools: Iterable[Pool]) -> None:
        nodes = {node for pool in pools for node in self._pool_nodes.get(pool, {}).values()}
        if None in nodes:
            self._on_nodes(None)
            return
        for node in nodes:
            self._on_nodes(node)


def _pool(piece: ResourceSlice) -> Pool:
    return piece.spec.driver, piece.spec.pool.name
