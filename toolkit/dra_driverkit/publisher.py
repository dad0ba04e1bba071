"""Keeps a driver's ResourceSlices in the API server in the state that the driver wants.

Follows resourceslicecontroller.go of k8s.io/dynamic-resource-allocation/resourceslice: slices of a pool are
numbered by the prefix of their name, and changing more than one of them raises the pool's generation. Slices
that someone else deletes or edits are restored, and slices that someone else adds are removed.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import httpx
import msgspec
from dra_shared.api.meta import ObjectMeta, OwnerReference
from dra_shared.api.resource import Device, DeviceTaint, ResourcePool, ResourceSlice, ResourceSliceSpec
from dra_shared.api.resources import NODES, RESOURCE_SLICES
from dra_shared.client.errors import ApiError, NotFound
from dra_shared.client.rest import Client
from dra_shared.clock import Clock

from dra_driverkit.flags import Flag
from dra_driverkit.likeness import same_content
from dra_driverkit.problems import DroppedFieldsError, HandleError, log_error
from dra_driverkit.resources import DriverResources, Pool, PoolError, PoolSlice, validate
from dra_driverkit.sliceheads import SliceHead, SliceHeads, SliceOwner

_INDEX_LENGTH = 5
_FIRST_RETRY, _LONGEST_RETRY = 0.2, 30.0
# The time to wait after someone else changed a slice, because they may make further changes.
_SETTLE_SECONDS = 0.5
_REMEMBERED = 64

MakeResources = Callable[[], DriverResources]


@dataclass(frozen=True)
class _Accepted:
    """The server's version of a slice that it did not store unchanged."""

    wanted: PoolSlice
    stored: PoolSlice


class _Wanted:
    """The resources to publish. They are kept until published, and recreated later if that is possible."""

    __slots__ = ("_again", "_resources")

    def __init__(self, resources: DriverResources, again: MakeResources | None) -> None:
        self._resources: DriverResources | None = resources
        self._again = again

    def get(self) -> DriverResources:
        if self._resources is not None:
            return self._resources
        assert self._again is not None
        return self._again()

    def release(self) -> None:
        if self._again is not None:
            self._resources = None


class SlicePublisher:
    """Publishes slices of one driver: those of one node's pools, or those of one pool that other nodes can also use.

    Args:
        node_name: the node that owns the slices; empty if they belong to the cluster.
        informer: a shared informer of all slices; without one the publisher watches its own slices.
        pool: publish only this pool, which does not belong to the node (ReconcilePoolWithName).
        handle_error: called with each error; the publisher retries.
        own_domain: accept names of attributes and capacities that have the driver's domain, as Kubernetes 1.37 does.
    """

    def __init__(
        self,
        client: Client,
        driver: str,
        node_name: str,
        clock: Clock,
        informer: SliceHeads | None = None,
        *,
        pool: str = "",
        handle_error: HandleError = log_error,
        own_domain: bool = False,
    ) -> None:
        self._refused_domain = "" if own_domain else driver
        self._client = client
        self._driver = driver
        self._owner = node_name
        self._node = "" if pool else node_name
        self._pool = pool
        self._clock = clock
        self._handle_error = handle_error
        self._selector = f"spec.driver={driver},spec.nodeName={self._node}"
        self._own = informer is None
        self._informer = informer or SliceHeads(client, field_selector=self._selector, clock=clock)
        self._wanted: _Wanted | None = None
        self._dirty = Flag()
        self._due = False
        self._touched: dict[str, str] = {}
        self._synced = Flag()
        self._node_uid = ""
        self._written: dict[str, str] = {}
        self._removed: list[str] = []
        self._accepted: dict[tuple[str, int], _Accepted] = {}

    def publish(self, resources: DriverResources, again: MakeResources | None = None) -> None:
        """Publish exactly these slices from now on.

        Args:
            again: returns the same resources once more, so that they need not be kept in memory for the case that
                someone else changes a slice.
        """
        self._wanted = _Wanted(resources, again)
        self._synced.clear()
        self._due = True
        self._dirty.set()

    async def wait_until_published(self) -> None:
        """Wait until the resources of the last call are in the API server."""
        await self._synced.wait()

    async def run(self) -> None:
        """Maintain the slices until cancelled."""
        with self._informer.follow(self._driver, self._node, self._handle_change, self._handle_deletion):
            if not self._own:
                await self._keep()
                return
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._informer.run())
                tasks.create_task(self._keep())

    def _handle_change(self, slice_: SliceHead) -> None:
        meta = slice_.metadata
        if self._written.get(meta.name) != meta.resource_version:
            self._record_disturbance(slice_, meta.resource_version)

    def _handle_deletion(self, slice_: SliceHead) -> None:
        if slice_.metadata.uid not in self._removed:
            self._record_disturbance(slice_, "")

    def _record_disturbance(self, slice_: SliceHead, version: str) -> None:
        """Record that someone else changed a slice. It is restored once they have stopped."""
        if self._is_own(slice_.spec) and self._wanted is not None:
            self._touched[slice_.metadata.name] = version
            self._dirty.set()

    def _is_own(self, spec: SliceOwner | ResourceSliceSpec) -> bool:
        mine = spec.driver == self._driver and (spec.node_name or "") == self._node
        return mine and self._pool in ("", spec.pool.name)

    async def _wait_for_others(self) -> bool:
        """Wait until others have stopped changing slices. Return True if any change was not made by this publisher.

        The event of an own write can arrive before the response to the write.
        """
        await self._clock.sleep(_SETTLE_SECONDS)
        touched, self._touched = self._touched, {}
        return any(not version or self._written.get(name) != version for name, version in touched.items())

    async def _keep(self) -> None:
        # ``_due``: a sync has to happen. It is set by publish(), by a failed sync, and after a foreign change.
        # ``_touched``: slices with events that may be foreign changes. The two wake the loop through ``_dirty``.
        # An event alone does not cause a sync: it is usually the echo of an own write, which only the resource
        # version in the response can show. So the loop first waits for others to be done, and for own responses.
        delay = _FIRST_RETRY
        while True:
            await self._dirty.wait()
            while not self._due and self._touched:
                # A publish call during the wait has to be handled in any case.
                if await self._wait_for_others():
                    self._due = True
            # Clear both flags before the sync, and keep the resources in a local variable. A publish call during the
            # sync sets the flags again, and then only the next sync counts as published.
            self._dirty.clear()
            wanted = self._wanted
            if wanted is None or not self._due:
                continue
            self._due = False
            try:
                validate(wanted.get(), self._refused_domain)
            except PoolError as error:
                self._handle_error(error, "pool validation failed")
                continue
            try:
                await self._sync(wanted.get())
            except (ApiError, httpx.HTTPError, OSError, TimeoutError, msgspec.DecodeError) as error:
                self._handle_error(error, "processing ResourceSlice objects")
                self._due = True
                self._dirty.set()
                await self._clock.sleep(delay)
                delay = min(delay * 2, _LONGEST_RETRY)
                continue
            delay = _FIRST_RETRY
            wanted.release()
            if wanted is self._wanted:
                self._synced.set()

    async def _list(self) -> list[ResourceSlice]:
        if not self._written and self._informer.has_none(self._driver, self._node):
            return []
        listed = await self._client.list(RESOURCE_SLICES, field_selector=self._selector)
        return [slice_ for slice_ in listed.items if self._is_own(slice_.spec)]

    async def _sync(self, resources: DriverResources) -> None:
        # A node that was deleted and created again has another UID. The garbage collector removes the old
        # slices.
        self._node_uid = ""
        by_pool: dict[str, list[ResourceSlice]] = {}
        for slice_ in await self._list():
            by_pool.setdefault(slice_.spec.pool.name, []).append(slice_)
        for pool in by_pool.keys() - resources.pools.keys():
            for slice_ in by_pool[pool]:
                await self._delete(slice_)
        for pool, wanted in resources.pools.items():
            await self._sync_pool(pool, wanted, by_pool.get(pool, []))

    async def _sync_pool(self, name: str, pool: Pool, existing: list[ResourceSlice]) -> None:
        # Match the existing slices to the wanted ones by the number in their names. Devices stay in their slices this
        # way, and an unchanged slice is not written. Slices of an older generation are obsolete, and
        # so are those without a number, with one that is too high, or with one that is used already.
        wanted = pool.slices
        generation = max((s.spec.pool.generation for s in existing), default=0)
        length = max(_INDEX_LENGTH, len(f"{max(len(wanted) - 1, 0):x}"))
        matched: dict[int, ResourceSlice] = {}
        obsolete = []
        for slice_ in existing:
            index = _index(slice_.metadata.name, length)
            if (
                slice_.spec.pool.generation == generation
                and 0 <= index < len(wanted)
                and index not in matched
            ):
                matched[index] = slice_
            else:
                obsolete.append(slice_)
        want_pool = ResourcePool(name=name, generation=generation, resource_slice_count=len(wanted))
        changed = {
            index
            for index, current in matched.items()
            if current.spec.pool != want_pool
            or not _same_nodes(pool, current.spec)
            or not self._same(name, index, wanted[index], current)
        }
        # A change of one slice is atomic and needs no new generation. Any other change takes several writes, and
        # a new generation keeps readers from mixing slices of before and after: they ignore the pool until all
        # slices of the newest generation exist.
        bumped = pool.generation > generation or len(matched) < len(wanted) or len(changed) > 1
        if bumped:
            want_pool = msgspec.structs.replace(want_pool, generation=max(generation + 1, pool.generation))
        spec = ResourceSliceSpec(
            driver=self._driver,
            node_name=self._node or None,
            node_selector=pool.node_selector,
            all_nodes=pool.all_nodes or None,
            pool=want_pool,
        )
        # Delete first, as upstream does: obsolete devices are removed even if a wanted slice is rejected below.
        for slice_ in obsolete:
            await self._delete(slice_)
        for index, current in sorted(matched.items()):
            if index in changed or bumped:
                await self._update(current, spec, index, wanted[index])
        for index, content in enumerate(wanted):
            if index not in matched:
                await self._create(f"{index:0{length}x}", spec, index, content)

    async def _create(self, prefix: str, spec: ResourceSliceSpec, index: int, content: PoolSlice) -> None:
        owners = await self._owners()
        name = "-".join([prefix, self._driver, *(owner.name for owner in owners), ""])
        slice_ = ResourceSlice(
            metadata=ObjectMeta(generate_name=name, owner_references=owners),
            spec=msgspec.structs.replace(
                spec,
                devices=content.devices,
                shared_counters=content.shared_counters,
                partition_type_attribute=content.partition_type_attribute,
                skip_node_operations=content.skip_node_operations,
            ),
        )
        self._compare_stored(await self._client.create(RESOURCE_SLICES, slice_), index, content)

    async def _owners(self) -> tuple[OwnerReference, ...]:
        if not self._owner:
            return ()
        if not self._node_uid:
            self._node_uid = (await self._client.get(NODES, self._owner)).metadata.uid
        return (
            OwnerReference(
                api_version="v1", kind="Node", name=self._owner, uid=self._node_uid, controller=True
            ),
        )

    async def _update(
        self, current: ResourceSlice, spec: ResourceSliceSpec, index: int, content: PoolSlice
    ) -> None:
        spec = msgspec.structs.replace(
            spec,
            devices=_keep_taint_times(current.spec.devices, content.devices),
            shared_counters=content.shared_counters,
            partition_type_attribute=content.partition_type_attribute,
            skip_node_operations=content.skip_node_operations,
        )
        changed = msgspec.structs.replace(current, spec=spec)
        self._compare_stored(await self._client.update(RESOURCE_SLICES, changed), index, content)

    def _compare_stored(self, slice_: ResourceSlice, index: int, content: PoolSlice) -> None:
        self._written[slice_.metadata.name] = slice_.metadata.resource_version
        stored = PoolSlice.of(slice_.spec)
        key = (slice_.spec.pool.name, index)
        if same_content(content, stored):
            self._accepted.pop(key, None)
            return
        self._accepted[key] = _Accepted(content, stored)
        self._handle_error(
            DroppedFieldsError(slice_.spec.pool.name, index, content, stored), "publishing a ResourceSlice"
        )

    def _same(self, pool: str, index: int, wanted: PoolSlice, current: ResourceSlice) -> bool:
        stored = PoolSlice.of(current.spec)
        if same_content(wanted, stored):
            return True
        accepted = self._accepted.get((pool, index))
        return accepted is not None and accepted.wanted == wanted and same_content(accepted.stored, stored)

    async def _delete(self, slice_: ResourceSlice) -> None:
        meta = slice_.metadata
        self._removed = [*self._removed, meta.uid][-_REMEMBERED:]
        with contextlib.suppress(NotFound):
            await self._client.delete(
                RESOURCE_SLICES, meta.name, uid=meta.uid, resource_version=meta.resource_version
            )
        self._written.pop(meta.name, None)


def _same_nodes(pool: Pool, spec: ResourceSliceSpec) -> bool:
    return (pool.node_selector, pool.all_nodes) == (spec.node_selector, bool(spec.all_nodes))


def _index(name: str, length: int) -> int:
    prefix, separator, _ = name.partition("-")
    try:
        return int(prefix, 16) if separator and len(prefix) == length else -1
    except ValueError:
        return -1


def _keep_taint_times(before: Sequence[Device], after: Sequence[Device]) -> tuple[Device, ...]:
    known = {device.name: device.taints for device in before}

    def keep(taint: DeviceTaint, old: Sequence[DeviceTaint]) -> DeviceTaint:
        for candidate in old:
            if (candidate.key, candidate.value, candidate.effect) == (taint.key, taint.value, taint.effect):
                return msgspec.structs.replace(taint, time_added=taint.time_added or candidate.time_added)
        return taint

    return tuple(
        msgspec.structs.replace(
            device, taints=tuple(keep(taint, known.get(device.name, ())) for taint in device.taints)
        )
        if device.taints
        else device
        for device in after
    )
