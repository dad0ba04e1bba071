"""Informers of claims, volumes, storage classes and CSI objects, started for the first pod with a volume claim.

Mirrors the assume caches of upstream's VolumeBinding.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Generic, TypeVar

from dra_shared.api.core import PersistentVolumeClaim
from dra_shared.api.meta import Object
from dra_shared.api.resources import (
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    Resource,
)
from dra_shared.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    StorageClass,
    VolumeAttachment,
)
from dra_shared.client.informer import InformerFactory
from dra_shared.client.store import Store

from dra_scheduler.framework.events import Action, Event, Kind
from dra_scheduler.plugins.volumes.podvolumes import class_of

T = TypeVar("T", bound=Object)

_BY_CLASS = "class"
_BY_NODE = "node"

_KINDS = (
    (PERSISTENT_VOLUME_CLAIMS, Kind.PERSISTENT_VOLUME_CLAIM),
    (PERSISTENT_VOLUMES, Kind.PERSISTENT_VOLUME),
    (STORAGE_CLASSES, Kind.STORAGE_CLASS),
    (CSI_NODES, Kind.CSI_NODE),
    (CSI_DRIVERS, Kind.CSI_DRIVER),
    (CSI_STORAGE_CAPACITIES, Kind.CSI_STORAGE_CAPACITY),
    (VOLUME_ATTACHMENTS, Kind.VOLUME_ATTACHMENT),
)


class OutOfSync(Exception):
    """The object to assume has changed in the meantime."""


class AssumedStore(Generic[T]):
    """Objects as observed by the informer, some with a newer assumed state. An observed change replaces it."""

    def __init__(self, observed: Store[T]) -> None:
        self.observed = observed
        self._assumed: dict[str, T] = {}

    def get(self, key: str) -> T | None:
        """Return the object in its assumed state, or as observed."""
        observed = self.observed.get(key)
        return None if observed is None else self._newest(observed)

    def by_index(self, name: str, value: str) -> Sequence[T]:
        """Return the objects of the informer's index in their assumed state, or as observed."""
        return [self._newest(observed) for observed in self.observed.by_index(name, value)]

    def assume(self, obj: T) -> None:
        """Assume a state of the object.

        Raises:
            OutOfSync: the object has changed since the revision on which this state is based.
        """
        observed = self.observed.get(obj.key)
        stored = observed.metadata.resource_version if observed is not None else ""
        if stored != obj.metadata.resource_version:
            raise OutOfSync(
                f'"{obj.key}" is out of sync (stored: {stored}, assume: {obj.metadata.resource_version})'
            )
        self._assumed[obj.key] = obj

    def restore(self, key: str) -> None:
        """Drop the assumed state of the object."""
        self._assumed.pop(key, None)

    def _newest(self, observed: T) -> T:
        assumed = self._assumed.get(observed.key)
        if assumed is None:
            return observed
        if assumed.metadata.resource_version != observed.metadata.resource_version:
            del self._assumed[observed.key]
            return observed
        return assumed


class VolumeObjects:
    """The objects that volume plugins need, such as claims, volumes and storage classes.

    ``on_event`` is called for each change once they are synced. Most clusters that run pods with devices have
    thousands of such objects that do not concern them. Nothing is listed until :meth:`sync` is awaited, which
    happens for the first pod with a claim.
    """

    def __init__(
        self, informers: InformerFactory, on_event: Callable[[Event], None] = lambda event: None
    ) -> None:
        self._informers = informers
        self._on_event = on_event
        self._started = self._synced = False
        self._changed = asyncio.Event()

        def store(resource: Resource[T]) -> Store[T]:
            return self._informers.informer(resource).store

        self.claims: AssumedStore[PersistentVolumeClaim] = AssumedStore(store(PERSISTENT_VOLUME_CLAIMS))
        self.volumes: AssumedStore[PersistentVolume] = AssumedStore(store(PERSISTENT_VOLUMES))
        self.volumes.observed.add_index(_BY_CLASS, lambda volume: (class_of(volume),))
        self.classes: Store[StorageClass] = store(STORAGE_CLASSES)
        self.csi_nodes: Store[CSINode] = store(CSI_NODES)
        self.drivers: Store[CSIDriver] = store(CSI_DRIVERS)
        self.capacities: Store[CSIStorageCapacity] = store(CSI_STORAGE_CAPACITIES)
        self._attachments: Store[VolumeAttachment] = store(VOLUME_ATTACHMENTS)
        self._attachments.add_index(_BY_NODE, lambda attachment: (attachment.spec.node_name,))
        for resource, kind in _KINDS:
            self._listen(resource, kind)

    @property
    def is_synced(self) -> bool:
        """True if all objects are known."""
        return self._synced

    async def sync(self, spawn: Callable[[Coroutine[Any, Any, None]], object]) -> None:
        """Return when all objects are known. ``spawn`` keeps the informers running."""
        if not self._started:
            self._started = True
            spawn(self._informers.run())
        await self._informers.wait_for_sync()
        self._synced = True

    def wait_for_change(self) -> Coroutine[Any, Any, object]:
        """Return an awaitable for the next change after this call, even if it is awaited later."""
        return self._changed.wait()

    def volumes_of_class(self, name: str) -> Sequence[PersistentVolume]:
        """Return the volumes of that storage class."""
        return self.volumes.by_index(_BY_CLASS, name)

    def attachments_on(self, node_name: str) -> Sequence[VolumeAttachment]:
        """Return the volume attachments of the node."""
        return self._attachments.by_index(_BY_NODE, node_name)

    def _listen(self, resource: Resource[Any], kind: Kind) -> None:
        self._informers.informer(resource).add_handler(
            lambda new: self._notify(Event(kind, Action.ADD, None, new)),
            lambda old, new: self._notify(Event(kind, Action.OTHER, old, new)),
            lambda old: self._notify(Event(kind, Action.DELETE, old, None)),
        )

    def _notify(self, event: Event) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
        self._on_event(event)
