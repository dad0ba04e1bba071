"""All that the plugin knows of claims, slices and classes, shared between scheduling attempts."""

import uuid
from collections.abc import Callable, Iterable

from dra_shared.api.resource import AllocationResult, DeviceClass, ResourceSlice

from dra_scheduler.allocator import Allocator, Features, Snapshot
from dra_scheduler.plugins.dynamicresources.claimtracker import ClaimTracker, Pool
from dra_scheduler.slicetracker import SliceTracker

IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"

# None: all nodes.
OnNodes = Callable[[str | None], None]


class ClassResolver:
    """Which device class an extended resource stands for (extendedresourcecache)."""

    def __init__(self) -> None:
        self._classes: dict[str, DeviceClass] = {}
        self._explicit: dict[str, DeviceClass] | None = None

    def set_class(self, device_class: DeviceClass) -> None:
        """A class came or changed."""
        self._classes[device_class.metadata.name] = device_class
        self._explicit = None

    def delete_class(self, name: str) -> None:
        """A class went."""
        self._classes.pop(name, None)
        self._explicit = None

    def get(self, name: str) -> DeviceClass | None:
        """The device class of that name."""
        return self._classes.get(name)

    def list(self) -> list[DeviceClass]:
        """All device classes."""
        return [*self._classes.values()]

    def for_resource(self, resource: str) -> DeviceClass | None:
        """The class behind the extended resource: the newest that claims the name, of equally old ones the first."""
        if resource.startswith(IMPLICIT_PREFIX):
            return self._classes.get(resource.removeprefix(IMPLICIT_PREFIX))
        if self._explicit is None:
            self._explicit = {}
            for device_class in sorted(self._classes.values(), key=lambda c: c.metadata.name, reverse=True):
                name = device_class.spec.extended_resource_name
                if name is not None:
                    rival = self._explicit.get(name)
                    if rival is None or _created(device_class) >= _created(rival):
                        self._explicit[name] = device_class
        return self._explicit.get(resource)


class DRAManager:
    """Claims, slices (with taint rules folded in) and classes, and the allocator over them.

    ``on_nodes`` is told which node's devices changed in any way that could change a verdict.
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
        self.slices = SliceTracker(rules_enabled=taint_rules)
        self.slices.add_listener(self._slice_changed)
        # Claims of equal spec stand in for each other, so share ids can't be derived from claims.
        self.allocator = Allocator(
            features,
            self.claims.state,
            self.classes.get,
            self.snapshot,
            share_ids=lambda _: new_uid(),
        )

    def detached(self, node_name: str) -> Allocator:
        """An allocator for that node alone, over copies: for another thread."""
        classes = {device_class.metadata.name: device_class for device_class in self.classes.list()}
        slices = list(self.snapshot.slices_for(node_name))
        share_ids = self.allocator.share_ids
        return Allocator(self.features, self.claims.state.copy(), classes, slices, share_ids=share_ids)

    def set_class(self, device_class: DeviceClass) -> None:
        """A class came or changed."""
        self.classes.set_class(device_class)
        self._on_nodes(None)

    def delete_class(self, name: str) -> None:
        """A class went."""
        self.classes.delete_class(name)
        self._on_nodes(None)

    def rival(self, key: str, allocation: AllocationResult, since: int, before: int) -> str | None:
        """The claim that another scheduler gave the same devices, or counters of the same pools, first.

        ``since`` is the tracker's mark when ``allocation`` was decided on, ``before`` the revision it was stored in.
        """
        strangers = self.claims.strangers_since(since)
        if not strangers:
            return None
        devices = _devices(allocation)
        counted = {device[:2] for device in devices if self._has_counters(device[:2])}
        for version, claim in strangers:
            if version >= before or claim.key == key or claim.status.allocation is None:
                continue
            others = _devices(claim.status.allocation)
            if others & devices or any(other[:2] in counted for other in others):
                return claim.key
        return None

    def _has_counters(self, pool: Pool) -> bool:
        slices = (self.slices.get(name) for name in self._pool_nodes.get(pool, ()))
        return any(piece is not None and piece.spec.shared_counters for piece in slices)

    def _slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        pools: set[Pool] = set()
        if old is not None:
            pool = _pool(old)
            pools.add(pool)
            if new is None or _pool(new) != pool:
                # Its nodes are told below, while it is still known where it was.
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
            # Nodes without a slice of the pool can tell, too: that shared counters are incomplete or invalid, say.
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


def _devices(allocation: AllocationResult) -> set[tuple[str, str, str]]:
    return {
        (result.driver, result.pool, result.device)
        for result in allocation.devices.results
        if not result.admin_access
    }


def _pool(piece: ResourceSlice) -> Pool:
    return piece.spec.driver, piece.spec.pool.name


def _created(device_class: DeviceClass) -> str:
    return device_class.metadata.creation_timestamp or ""
