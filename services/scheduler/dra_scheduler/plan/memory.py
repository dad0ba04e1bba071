"""A replacement for the API server: typed objects in memory. Informers report their changes at once.

It has the features that the scheduler relies on (optimistic locking, uids, status subresources, finalizers,
the binding subresource). It validates nothing else, because the scheduler decides on everything that is
written. tests/tools/test_fakeapi.py compares its answers with those of a real API server.
"""

import asyncio
import functools
import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import httpx
import msgspec
from dra_shared.api.codec import ObjectList, convert, to_builtins
from dra_shared.api.meta import ListMeta, Object, Status
from dra_shared.api.pod import Binding, Pod
from dra_shared.api.resource import ResourceClaim
from dra_shared.api.resources import PODS, RESOURCE_CLAIMS, Resource
from dra_shared.claims import RESERVED_FOR_MAX
from dra_shared.client.errors import from_status
from dra_shared.client.informer import Informer, InformerFactory
from dra_shared.client.rest import Client, PatchType, WatchEvent
from dra_shared.clock import Clock, rfc3339

T = TypeVar("T", bound=Object)

_replace = msgspec.structs.replace
_MERGE_KEYS = {"conditions": "type", "reservedFor": "uid", "resourceClaimStatuses": "name"}


class MemoryInformer(Informer[T]):
    """Objects, and the handlers that are called when one changes."""

    def __init__(self, client: Client, resource: Resource[T]) -> None:
        super().__init__(client, resource)
        self._synced.set()

    async def run(self) -> None:
        """Wait forever: there is nothing to fetch."""
        await asyncio.Event().wait()

    def put(self, obj: T) -> None:
        """Add or update the object."""
        self._apply(obj)

    def drop(self, key: str) -> None:
        """Remove the object."""
        self._remove(key, None)


class MemoryInformers(InformerFactory):
    """One informer for each resource."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._source = client
        self._of: dict[tuple[str, str], MemoryInformer[Any]] = {}

    def informer(self, resource: Resource[T]) -> MemoryInformer[T]:
        key = resource.group, resource.plural
        found = self._of.get(key)
        if found is None:
            found = self._of[key] = MemoryInformer(self._source, resource)
        return found

    async def wait_for_sync(self) -> None:
        """Return at once: the informers are always in sync."""

    async def run(self) -> None:
        """Wait forever: there is nothing to fetch."""
        await asyncio.Event().wait()


class _NoServer(httpx.AsyncBaseTransport):
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError(f"a world in memory does not answer {request.method} {request.url.path}")


class MemoryClient(Client):
    """Reads and writes the objects of :attr:`informers`."""

    def __init__(self, clock: Clock) -> None:
        super().__init__("http://memory.invalid", transport=_NoServer())
        self.informers = MemoryInformers(self)
        self._clock = clock
        self.revision = 0
        self._names = itertools.count(1)
        # The objects that changed since the checkpoint, in their earlier state (None: they did not exist). The
        # whole value is None if there is no checkpoint.
        self._before: dict[tuple[Resource[Any], str], Object | None] | None = None
        # Called with a deleted pod, after its informer's handlers.
        self.on_pod_gone: Callable[[Pod], None] = lambda pod: None
        # Returns why a new claim is refused, or an empty string.
        self.refusal_of_claim: Callable[[ResourceClaim], str] = lambda claim: ""
        # Called with a pod that was bound.
        self.on_bound: Callable[[Pod], None] = lambda pod: None

    # Changes by the world itself: immediate and unchecked

    def put(self, resource: Resource[T], obj: T) -> T:
        """Store the object with a new resource version."""
        self.revision += 1
        stored = _replace(obj, metadata=_replace(obj.metadata, resource_version=str(self.revision)))
        informer = self.informers.informer(resource)
        if self._before is not None:
            self._before.setdefault((resource, stored.key), informer.store.get(stored.key))
        informer.put(stored)
        return stored

    def drop(self, resource: Resource[T], key: str) -> None:
        """Remove the object if it exists."""
        informer = self.informers.informer(resource)
        gone = informer.store.get(key)
        if gone is None:
            return
        if self._before is not None:
            self._before.setdefault((resource, key), gone)
        self.revision += 1
        informer.drop(key)
        if isinstance(gone, Pod):
            self.on_pod_gone(gone)

    def checkpoint(self) -> None:
        """Start to remember the state before each change."""
        self._before = {}

    def rollback(self) -> None:
        """Restore the state of the checkpoint."""
        before, self._before = self._before or {}, None
        new = [place for place, old in before.items() if old is None]
        changed = [(place[0], old) for place, old in before.items() if old is not None]
        # Delete pods first and restore them last, because their claims are evaluated while the pods exist.
        for resource, key in sorted(new, key=lambda place: place[0].kind != PODS.kind):
            self.drop(resource, key)
        for resource, old in sorted(changed, key=lambda place: place[0].kind == PODS.kind):
            if resource.kind == PODS.kind:
                # Pods leave their nodes only in this way.
                self.informers.informer(resource).drop(old.key)
            self.put(resource, old)

    def objects(self, resource: Resource[T]) -> list[T]:
        """Return all objects of the resource."""
        return list(self.informers.informer(resource).store.list())

    def find(self, resource: Resource[T], key: str) -> T | None:
        """Return the object with that key, or None."""
        return self.informers.informer(resource).store.get(key)

    def new_uid(self) -> str:
        """Return a new unique uid."""
        return f"00000000-0000-4000-8000-{next(self._names):012x}"

    def new_name(self, prefix: str) -> str:
        """Return a new name for ``generateName``."""
        return f"{prefix}{_letters(next(self._names))}"

    # The client methods that the scheduler uses

    async def get(self, resource: Resource[T], name: str, namespace: str | None = None) -> T:
        return self._get_stored(resource, _key(namespace, name))

    async def list(
        self,
        resource: Resource[T],
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        resource_version: str | None = None,
        limit: int | None = None,
        continue_: str | None = None,
    ) -> ObjectList[T]:
        found = (obj for obj in self.objects(resource) if namespace in (None, obj.metadata.namespace))
        return ObjectList(items=tuple(found), metadata=ListMeta(resource_version=str(self.revision)))

    async def create(
        self,
        resource: Resource[T],
        obj: T,
        namespace: str | None = None,
        *,
        field_manager: str | None = None,
    ) -> T:
        meta = obj.metadata
        name = meta.name or self.new_name(meta.generate_name)
        created = meta.creation_timestamp or rfc3339(self._clock.now())
        meta = _replace(
            meta,
            name=name,
            namespace=namespace or meta.namespace,
            uid=meta.uid or self.new_uid(),
            creation_timestamp=created,
        )
        made = _replace(obj, metadata=meta)
        if self.find(resource, made.key) is not None:
            raise _refusal(409, "AlreadyExists", f'{resource.group_resource} "{name}" already exists')
        if isinstance(made, ResourceClaim) and (refusal := self.refusal_of_claim(made)):
            raise _refusal(403, "Forbidden", refusal)
        return self.put(resource, made)

    async def update(
        self,
        resource: Resource[T],
        obj: T,
        *,
        subresource: str | None = None,
        field_manager: str | None = None,
    ) -> T:
        stored: Any = self._get_stored(resource, obj.key)
        uid, held = obj.metadata.uid, stored.metadata.uid
        if uid and uid != held:
            raise _conflict(
                resource.group_resource,
                obj,
                "StorageError: invalid object, Code: 4, "
                f"Key: /registry/{resource.plural}/{obj.key}, ResourceVersion: 0, AdditionalErrorMsg: "
                f"Precondition failed: UID in precondition: {uid}, UID in object meta: {held}",
            )
        _check_version(resource, stored, obj.metadata.resource_version)
        return self._write(resource, stored, obj, subresource)

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        body: Any,
        namespace: str | None = None,
        *,
        patch_type: PatchType = PatchType.MERGE,
        subresource: str | None = None,
        field_manager: str | None = None,
        force: bool | None = None,
    ) -> T:
        stored: Any = self._get_stored(resource, _key(namespace, name))
        patch = to_builtins(body)
        meta = patch.get("metadata", {})
        if meta.get("uid", stored.metadata.uid) != stored.metadata.uid:
            problem = f'metadata.uid: Invalid value: "{meta["uid"]}": field is immutable'
            raise _refusal(422, "Invalid", f'{_group_kind(resource)} "{name}" is invalid: {problem}')
        _check_version(resource, stored, meta.get("resourceVersion"))
        status = patch.get("status")
        if subresource == "status" and status is not None and status.keys() == {"nominatedNodeName"}:
            # This is written for every bound pod, so it has a fast path.
            nominated = status["nominatedNodeName"] or ""
            nominee: T = _replace(stored, status=_replace(stored.status, nominated_node_name=nominated))
            return self.put(resource, nominee)
        value = to_builtins(stored)
        merge_lists = patch_type is not PatchType.MERGE
        _merge(value, {k: v for k, v in patch.items() if k not in ("apiVersion", "kind")}, merge_lists)
        typed: Any = self.informers.informer(resource).resource
        return self._write(resource, stored, convert(typed, value), subresource)

    async def patch_status(self, resource: Resource[T], obj: Object, status: Any) -> T:
        meta = obj.metadata
        body = {"metadata": {"uid": meta.uid}, "status": status}
        return await self.patch(
            resource, meta.name, body, meta.namespace, patch_type=PatchType.STRATEGIC, subresource="status"
        )

    async def delete(
        self,
        resource: Resource[T],
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_period: int | None = None,
        propagation: str | None = None,
    ) -> None:
        stored: Any = self._get_stored(resource, _key(namespace, name))
        held = stored.metadata
        if uid not in (None, held.uid):
            raise _conflict(
                _group_kind(resource),
                stored,
                f"the UID in the precondition ({uid}) does not match the UID in record ({held.uid}). "
                "The object might have been deleted and then recreated",
            )
        if resource_version not in (None, held.resource_version):
            raise _conflict(
                _group_kind(resource),
                stored,
                f"the ResourceVersion in the precondition ({resource_version}) does not match the "
                f"ResourceVersion in record ({held.resource_version}). The object might have been modified",
            )
        if not self._awaits_finalizers(stored):
            # Pods have no grace period here, because no containers run.
            self.drop(resource, stored.key)
        elif stored.metadata.deletion_timestamp is None:
            going = _replace(
                stored.metadata,
                deletion_timestamp=rfc3339(self._clock.now()),
                deletion_grace_period_seconds=0,
            )
            self.put(resource, _replace(stored, metadata=going))

    async def create_subresource(
        self, resource: Resource[T], name: str, subresource: str, body: Any, namespace: str | None = None
    ) -> bytes:
        if subresource != "binding" or not isinstance(body, Binding):
            raise _refusal(404, "NotFound", f"the server could not find {resource.plural}/{subresource}")
        pod = self._get_stored(PODS, _key(namespace, name))
        if pod.spec.node_name:
            raise _refusal(
                409,
                "Conflict",
                f'Operation cannot be fulfilled on pods/binding "{name}": pod {name} is already assigned to node '
                f'"{pod.spec.node_name}"',
            )
        spec = _replace(pod.spec, node_name=body.target.name)
        status = pod.status
        if status.nominated_node_name:
            status = _replace(status, nominated_node_name="")
        self.on_bound(self.put(PODS, _replace(pod, spec=spec, status=status)))
        return b"{}"

    async def watch(
        self,
        resource: Resource[T],
        namespace: str | None = None,
        *,
        resource_version: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        bookmarks: bool = True,
        timeout_seconds: int | None = None,
        send_initial_events: bool = False,
    ) -> AsyncIterator[WatchEvent[T]]:
        nothing: tuple[WatchEvent[T], ...] = ()
        for event in nothing:
            yield event

    def _awaits_finalizers(self, obj: Object) -> bool:
        """True if a deleted object stays until its finalizers are removed.

        Pods don't: the controllers that would remove a pod's finalizers do not run here.
        """
        return bool(obj.metadata.finalizers) and not isinstance(obj, Pod)

    def _write(self, resource: Resource[T], stored: Any, new: Any, subresource: str | None) -> T:
        """Store the new state of an object, or remove it with its last finalizer."""
        if subresource == "status":
            new = _replace(stored, status=new.status)
            if isinstance(new, ResourceClaim):
                _check_reservations(new)
        elif hasattr(stored, "status"):
            new = _replace(new, status=stored.status)
        meta, old = new.metadata, stored.metadata
        # A write can neither begin nor revoke a deletion, nor change an object's identity.
        new = _replace(
            new,
            api_version=stored.api_version,
            kind=stored.kind,
            metadata=_replace(
                meta,
                uid=old.uid,
                resource_version=old.resource_version,
                creation_timestamp=old.creation_timestamp,
                deletion_timestamp=old.deletion_timestamp,
                deletion_grace_period_seconds=old.deletion_grace_period_seconds,
            ),
        )
        if new == stored:
            # A write that changes nothing makes no revision.
            return new  # type: ignore[no-any-return]  # The type of object is known at run time only.
        # A real kubelet would remove the pod itself once its grace period is over.
        if (
            old.deletion_timestamp is not None
            and not old.deletion_grace_period_seconds
            and not meta.finalizers
        ):
            self.drop(resource, new.key)
            meta = _replace(new.metadata, resource_version=str(self.revision))
            removed: T = _replace(new, metadata=meta)
            return removed
        changed: T = self.put(resource, new)
        return changed

    def _get_stored(self, resource: Resource[T], key: str) -> T:
        stored = self.informers.informer(resource).store.get(key)
        if stored is None:
            name = key.rpartition("/")[2]
            raise _refusal(404, "NotFound", f'{resource.group_resource} "{name}" not found')
        return stored


def _check_version(resource: Resource[Any], stored: Object, resource_version: str | None) -> None:
    """Refuse a write that is based on an older state of the object; without a version it is based on none."""
    if resource_version and resource_version != stored.metadata.resource_version:
        raise _conflict(
            resource.group_resource,
            stored,
            "the object has been modified; please apply your changes to the latest version and try again",
        )


def _check_reservations(claim: ResourceClaim) -> None:
    """Check the only rule of the API server that a scheduler's decision can violate."""
    if len(claim.status.reserved_for) > RESERVED_FOR_MAX:
        raise _refusal(
            422,
            "Invalid",
            f'ResourceClaim.{RESOURCE_CLAIMS.group} "{claim.metadata.name}" is invalid: status.reservedFor: '
            f"Too many: {len(claim.status.reserved_for)}: must have at most {RESERVED_FOR_MAX} items",
        )


def _merge(target: dict[str, Any], patch: dict[str, Any], merge_lists: bool) -> None:
    """Apply a merge patch. If merge_lists is set, lists with known keys are merged as in a strategic merge patch."""
    for name, value in patch.items():
        if name.startswith("$setElementOrder/"):
            continue
        if value is None:
            target.pop(name, None)
        elif merge_lists and name in _MERGE_KEYS and isinstance(value, (list, tuple)):
            target[name] = _merge_list(
                target.get(name, ()), value, _MERGE_KEYS[name], patch.get(f"$setElementOrder/{name}", value)
            )
        elif isinstance(value, dict):
            _merge(target.setdefault(name, {}), value, merge_lists)
        else:
            target[name] = value


def _merge_list(old: Any, changes: Any, by: str, order: Any) -> list[Any]:
    """Merge two lists by a key, in the order of strategic merge patches.

    Entries named in ``order`` get that order. Any other entry stays before the entry that it preceded.
    """
    merged = {entry[by]: entry for entry in old}
    place = {key: index for index, key in enumerate(merged)}
    for entry in map(to_builtins, changes):
        if entry.get("$patch") == "delete":
            merged.pop(entry[by], None)
        else:
            merged[entry[by]] = {**merged.get(entry[by], {}), **entry}
    named = [entry[by] for entry in map(to_builtins, order) if entry[by] in merged]
    others = [key for key in merged if key not in named]
    keys = []
    for key in named:
        while others and key in place and place[others[0]] < place[key]:
            keys.append(others.pop(0))
        keys.append(key)
    return [merged[key] for key in (*keys, *others)]


@functools.cache
def _alphabet() -> str:
    # The alphabet of Kubernetes' generated names: no vowels, and no digits that look like letters.
    return "bcdfghjklmnpqrstvwxz2456789"


def _letters(number: int) -> str:
    letters = _alphabet()
    text = ""
    for _ in range(5):
        number, digit = divmod(number, len(letters))
        text = letters[digit] + text
    return text


def _key(namespace: str | None, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def _group_kind(resource: Resource[Any]) -> str:
    return f"{resource.kind}.{resource.group}" if resource.group else resource.kind


def _conflict(kind: str, obj: Object, problem: str) -> Exception:
    message = f'Operation cannot be fulfilled on {kind} "{obj.metadata.name}": {problem}'
    return _refusal(409, "Conflict", message)


def _refusal(code: int, reason: str, message: str) -> Exception:
    return from_status(Status(status="Failure", code=code, reason=reason, message=message))
