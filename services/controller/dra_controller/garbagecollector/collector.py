"""Examines objects that may have lost their owners, and deletes, releases or orphans them.

Mirrors pkg/controller/garbagecollector/garbagecollector.go.
"""

import asyncio
import contextlib
from typing import Any

import httpx
from dra_shared.api.meta import Object, ObjectMeta, OwnerReference
from dra_shared.api.pod import ObjectReference
from dra_shared.client.errors import ApiError, Conflict, NotFound
from dra_shared.client.informer import Informer
from dra_shared.client.rest import PatchType
from dra_shared.client.workqueue import Retry, WorkQueue, run_workers
from dra_shared.log import logger
from prometheus_client import Counter

from dra_controller.discovery import AnyObject, Kind, Served, discover
from dra_controller.framework import Context, Controller
from dra_controller.garbagecollector.graph import FOREGROUND, ORPHAN, Graph, Identity, Node
from dra_controller.queuemetrics import measure_queue
from dra_controller.uids import RecentUids

_RESYNC_SECONDS = 30.0
_WORKERS = 20
# pkg/controller/garbagecollector: events are ignored, because they are numerous and short-lived and own
# nothing.
_IGNORED = {("", "events"), ("events.k8s.io", "events")}
_NEEDED_VERBS = frozenset(("list", "watch", "delete"))

_log = logger(__name__)


class _Unresolvable(Exception):
    """An object without a namespace has an owner with one. Upstream never collects such an object."""


class GarbageCollector(Controller):
    """The garbage-collector-controller of kube-controller-manager.

    It watches the metadata of every kind that can be listed, watched and deleted, and asks for the kinds
    again every 30 seconds.
    """

    name = "garbage-collector-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._recorder = context.recorder(self.name)
        self._delete_queue: WorkQueue[str] = WorkQueue(context.clock)
        self._orphan_queue: WorkQueue[str] = WorkQueue(context.clock)
        measure_queue(context.registry, "garbage_collector_attempt_to_delete", self._delete_queue)
        measure_queue(context.registry, "garbage_collector_attempt_to_orphan", self._orphan_queue)
        self._graph = Graph(self._delete_queue.add, self._orphan_queue.add, self._report_mismatch)
        self._absent = RecentUids()
        self._kinds: dict[tuple[str, str], Kind] = {}
        self._unserved: set[str] = set()
        self._monitors: dict[tuple[str, str], tuple[Informer[Any], asyncio.Task[None] | None]] = {}
        self._sync_errors = Counter(
            "garbagecollector_controller_resources_sync_error_total",
            "Failures to find out which kinds there are",
            registry=context.registry,
        )

    @property
    def idle(self) -> bool:
        """True if nothing waits to be examined."""
        return self._delete_queue.idle and self._orphan_queue.idle

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            while not await self._resync(tasks):
                await self._clock.sleep(1.0)
            for informer, _ in list(self._monitors.values()):
                await informer.wait_for_sync()
            tasks.create_task(
                run_workers(self._delete_queue, self._examine, workers=_WORKERS, name=f"{self.name}:delete")
            )
            tasks.create_task(
                run_workers(self._orphan_queue, self._orphan, workers=_WORKERS, name=f"{self.name}:orphan")
            )
            while True:
                await self._clock.sleep(_RESYNC_SECONDS)
                await self._resync(tasks)

    async def _resync(self, tasks: asyncio.TaskGroup) -> bool:
        try:
            served = await discover(self._client)
        except (ApiError, httpx.HTTPError, OSError, TimeoutError) as error:
            self._sync_errors.inc()
            _log.info("kinds not known, trying again", error=str(error))
            return False
        before = self._kinds.keys()
        self._kinds = {(entry.resource.api_version, entry.resource.kind): entry.resource for entry in served}
        if self._kinds.keys() - before:
            # Retry objects whose owner's kind was not served before now, instead of after their delay of up to
            # 15 minutes.
            for uid in self._unserved:
                self._delete_queue.add(uid)
            self._unserved.clear()
        wanted = {
            (entry.resource.group, entry.resource.plural): entry.resource
            for entry in served
            if _is_monitored(entry)
        }
        for key in self._monitors.keys() - wanted.keys():
            informer, task = self._monitors[key]
            if task is None:
                continue
            task.cancel()
            del self._monitors[key]
            for obj in informer.store.list():
                self._graph.remove(obj.metadata.uid)
        for key in wanted.keys() - self._monitors.keys():
            # Reuse the informers of other controllers for the kinds that these watch
            # (controller-manager/pkg/informerfactory).
            shared = self._context.informers.find(wanted[key])
            informer = shared or Informer(
                self._client, wanted[key], clock=self._clock, relist_seconds=self._context.relist_seconds
            )
            self._follow(wanted[key], informer)
            self._monitors[key] = informer, None if shared else tasks.create_task(_watch(informer))
        return True

    def _follow(self, kind: Kind, informer: Informer[Any]) -> None:
        def upsert(obj: Object) -> None:
            self._graph.upsert(_identity(kind, obj), obj.metadata)

        def update(old: Object, new: Object) -> None:
            if _matters(old.metadata, new.metadata):
                upsert(new)

        informer.add_handler(upsert, update, lambda obj: self._remove(obj.metadata.uid))

    def _remove(self, uid: str) -> None:
        self._unserved.discard(uid)
        node = self._graph.get(uid)
        if node is not None and node.dependents:
            self._absent.add(_memory(node.identity))
        self._graph.remove(uid)

    def _report_mismatch(self, identity: Identity, owner: OwnerReference) -> None:
        involved = ObjectReference(
            api_version=identity.api_version,
            kind=identity.kind,
            namespace=identity.namespace,
            name=identity.name,
            uid=identity.uid,
        )
        where = f"namespace: {identity.namespace}, name: {owner.name}, uid: {owner.uid}"
        what = f"[{owner.api_version}/{owner.kind}, {where}]"
        message = f'ownerRef {what} does not exist in namespace "{identity.namespace}"'
        self._recorder.event(involved, "Warning", "OwnerRefInvalidNamespace", message)

    async def _examine(self, uid: str) -> None:
        """Delete the object if it has owners and none of them exists; or continue its foreground deletion."""
        node = self._graph.get(uid)
        if node is None or (node.being_deleted and not node.deleting_dependents):
            return
        kind = self._kind_of(node.identity.api_version, node.identity.kind)
        if kind is None:
            self._unserved.add(uid)
            raise Retry(f"{node.identity} is of a kind that is not served")
        live = await self._live(kind, node.identity)
        if live is None:
            _log.debug("object is gone", object=str(node.identity))
            self._absent.add(_memory(node.identity))
            self._graph.remove(uid)
            if self._graph.get(uid) is not None:
                raise Retry(f"its other dependents name {node.identity}, which is looked up next")
            return
        if node.virtual:
            # Leave it to the informer to add the object to the graph. If the object was already deleted, no
            # event would remove it.
            raise Retry(f"{node.identity} has not been seen yet")
        if node.deleting_dependents:
            await self._finish_foreground(kind, node, live)
            return
        owners = live.metadata.owner_references
        if not owners:
            return
        try:
            solid, dangling, waiting = await self._classify(node.identity, owners)
        except _Unresolvable:
            return
        if solid:
            if dangling or waiting:
                await self._keep_owners(kind, live, solid)
            return
        await self._delete(kind, node, live, waiting)

    async def _delete(self, kind: Kind, node: Node, live: AnyObject, waiting: list[OwnerReference]) -> None:
        dependents = self._graph.dependents(node)
        finalizers = live.metadata.finalizers
        if waiting and dependents:
            if any(dependent.deleting_dependents for dependent in dependents):
                # In a circle of objects that wait for each other, this one must stop blocking its owners.
                await self._stop_blocking(kind, live)
            policy = "Foreground"
        elif ORPHAN in finalizers:
            policy = "Orphan"
        elif FOREGROUND in finalizers:
            policy = "Foreground"
        else:
            policy = "Background"
        # With the resource version the delete fails if the object got another owner meanwhile.
        version = None if waiting else live.metadata.resource_version
        try:
            await self._delete_version(kind, live, version, policy)
        except Conflict as error:
            now = await self._live(kind, node.identity)
            if now is None:
                return
            if version is None or now.metadata.owner_references != live.metadata.owner_references:
                raise Retry(f"{node.identity} changed: {error}") from error
            # The object changed in the meantime, for example because its controller cleans up at the same time.
            await self._delete_version(kind, live, None, policy)
        _log.info("deleted object without owners", object=str(node.identity), propagation=policy)

    async def _delete_version(self, kind: Kind, live: AnyObject, version: str | None, policy: str) -> None:
        meta = live.metadata
        with contextlib.suppress(NotFound):
            await self._client.delete(
                kind, meta.name, meta.namespace, uid=meta.uid, resource_version=version, propagation=policy
            )

    async def _classify(
        self, identity: Identity, owners: tuple[OwnerReference, ...]
    ) -> tuple[list[OwnerReference], list[OwnerReference], list[OwnerReference]]:
        """Return the owners that exist, those that are gone, and those that wait for their dependents to be deleted."""
        solid, dangling, waiting = [], [], []
        for owner in owners:
            live = await self._owner(identity, owner)
            if live is None:
                dangling.append(owner)
            elif live.metadata.deletion_timestamp is not None and FOREGROUND in live.metadata.finalizers:
                waiting.append(owner)
            else:
                solid.append(owner)
        return solid, dangling, waiting

    async def _owner(self, identity: Identity, owner: OwnerReference) -> AnyObject | None:
        """Return the owner; None if it does not exist.

        Raises: Retry: this cannot be determined now. _Unresolvable: this can never be determined.
        """
        kind = self._kind_of(owner.api_version, owner.kind)
        if kind is None:
            self._unserved.add(identity.uid)
            raise Retry(
                f"owner of {identity} is of a kind that is not served: {owner.api_version} {owner.kind}"
            )
        if kind.namespaced and not identity.namespace:
            raise _Unresolvable
        namespace = identity.namespace if kind.namespaced else ""
        wanted = Identity(owner.api_version, owner.kind, namespace, owner.name, owner.uid)
        if _memory(wanted) in self._absent:
            return None
        live = await self._live(kind, wanted)
        if live is None:
            self._absent.add(_memory(wanted))
        return live

    async def _live(self, kind: Kind, identity: Identity) -> AnyObject | None:
        try:
            live = await self._client.get(
                kind, identity.name, identity.namespace if kind.namespaced else None
            )
        except NotFound:
            return None
        return live if live.metadata.uid == identity.uid else None

    async def _finish_foreground(self, kind: Kind, node: Node, live: AnyObject) -> None:
        blocking = self._graph.blocking_dependents(node)
        if not blocking:
            await self._remove_finalizer(kind, live, FOREGROUND)
            return
        for dependent in blocking:
            if not dependent.deleting_dependents:
                self._delete_queue.add(dependent.identity.uid)

    async def _orphan(self, uid: str) -> None:
        """Remove the object from the owners of its dependents, then remove its finalizer."""
        node = self._graph.get(uid)
        if node is None:
            return
        kind = self._kind_of(node.identity.api_version, node.identity.kind)
        live = await self._live(kind, node.identity) if kind is not None else None
        if kind is None or live is None or ORPHAN not in live.metadata.finalizers:
            return
        for dependent in self._graph.dependents(node):
            await self._forget_owner(dependent.identity, uid)
        await self._remove_finalizer(kind, live, ORPHAN)
        _log.info("orphaned dependents", owner=str(node.identity))

    async def _forget_owner(self, identity: Identity, owner: str) -> None:
        kind = self._kind_of(identity.api_version, identity.kind)
        live = await self._live(kind, identity) if kind is not None else None
        if kind is None or live is None:
            return
        keep = [reference for reference in live.metadata.owner_references if reference.uid != owner]
        if len(keep) < len(live.metadata.owner_references):
            await self._keep_owners(kind, live, keep)

    async def _keep_owners(self, kind: Kind, live: AnyObject, owners: list[OwnerReference]) -> None:
        await self._patch(kind, live, {"ownerReferences": owners})

    async def _stop_blocking(self, kind: Kind, live: AnyObject) -> None:
        owners = [
            {
                "apiVersion": owner.api_version,
                "kind": owner.kind,
                "name": owner.name,
                "uid": owner.uid,
                "controller": owner.controller,
                "blockOwnerDeletion": False,
            }
            for owner in live.metadata.owner_references
        ]
        await self._patch(kind, live, {"ownerReferences": owners})

    async def _remove_finalizer(self, kind: Kind, live: AnyObject, finalizer: str) -> None:
        left = [name for name in live.metadata.finalizers if name != finalizer]
        if len(left) < len(live.metadata.finalizers):
            await self._patch(kind, live, {"finalizers": left})

    async def _patch(self, kind: Kind, live: AnyObject, changes: dict[str, Any]) -> None:
        meta = live.metadata
        body = {"metadata": {"resourceVersion": meta.resource_version, "uid": meta.uid, **changes}}
        try:
            await self._client.patch(kind, meta.name, body, meta.namespace, patch_type=PatchType.MERGE)
        except NotFound:
            return
        except Conflict as error:
            raise Retry(f"{kind.kind} {meta.namespace}/{meta.name} changed: {error}") from error

    def _kind_of(self, api_version: str, kind: str) -> Kind | None:
        return self._kinds.get((api_version, kind))


def _is_monitored(entry: Served) -> bool:
    resource = entry.resource
    return (
        entry.preferred and entry.verbs >= _NEEDED_VERBS and (resource.group, resource.plural) not in _IGNORED
    )


def _matters(old: ObjectMeta, new: ObjectMeta) -> bool:
    """Return True if the change affects the graph."""
    return (
        old.owner_references != new.owner_references
        or old.deletion_timestamp != new.deletion_timestamp
        or (new.deletion_timestamp is not None and old.finalizers != new.finalizers)
    )


def _identity(kind: Kind, obj: Object) -> Identity:
    meta = obj.metadata
    return Identity(kind.api_version, kind.kind, meta.namespace, meta.name, meta.uid)


def _memory(identity: Identity) -> str:
    return f"{identity} {identity.uid}"


async def _watch(informer: Informer[AnyObject]) -> None:
    """Run one monitor. If a resync ends the monitor, the collector continues."""
    await informer.run()
