"""A replacement for the API server: typed objects in memory. Informers report their changes at once.

It has the features that the scheduler relies on (optimistic locking, uids, status subresources, finalizers,
the binding subresource). It validates nothing else, because the scheduler decides on everything that is
written.
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
        self._revisions = itertools.count(1)
        self._names = itertools.count(1)
        # The objects since the checkpoint before their first change (None: did not exist). None: no
        # checkpoint.
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
        stored = _replace(obj, metadata=_replace(obj.metadata, resource_version=str(next(self._revisions))))
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
        return ObjectList(items=tuple(found), metadata=ListMeta())

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
        version = obj.metadata.resource_version
        if version and version != stored.metadata.resource_version:
            raise _refusal(
                409,
                "Conflict",
                f"Operation cannot be fulfilled on {resource.group_resource} "
                f'"{obj.metadata.name}": the object has been modified; please apply your changes to the latest '
                "version and try again",
            )
        new: Any = obj
        if subresource == "status":
            new = _replace(stored, status=new.status)
            if isinstance(new, ResourceClaim):
                _check_reservations(new)
        elif hasattr(stored, "status"):
            new = _replace(new, status=stored.status)
        if new.metadata.deletion_timestamp is not None and not new.metadata.finalizers:
            self.drop(resource, new.key)
            kept: T = new
            return kept
        changed: T = self.put(resource, new)
        return changed

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
        uid = patch.get("metadata", {}).get("uid")
        if uid not in (None, stored.metadata.uid):
            raise _refusal(409, "Conflict", f"the UID in the precondition ({uid}) is another")
        status = patch.get("status")
        if subresource == "status" and status is not None and status.keys() == {"nominatedNodeName"}:
            # This is written for every bound pod, so it has a fast path.
            nominated = status["nominatedNodeName"] or ""
            nominee: T = _replace(stored, status=_replace(stored.status, nominated_node_name=nominated))
            return self.put(resource, nominee)
        value = to_builtins(stored)
        _merge(
            value, {key: part for key, part in patch.items() if key not in ("metadata", "apiVersion", "kind")}
        )
        _merge(
            value["metadata"], {k: v for k, v in patch.get("metadata", {}).items() if k != "resourceVersion"}
        )
        typed: Any = self.informers.informer(resource).resource
        patched: T = convert(typed, value)
        return self.put(resource, patched)

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
        if uid not in (None, stored.metadata.uid):
            raise _refusal(409, "Conflict", f"the UID in the precondition ({uid}) is another")
        if stored.metadata.finalizers and not isinstance(stored, Pod):
            going = _replace(stored.metadata, deletion_timestamp=rfc3339(self._clock.now()))
            self.put(resource, _replace(stored, metadata=going))
        else:
            # Pods have no grace period here, because no containers run.
            self.drop(resource, stored.key)

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

    def _get_stored(self, resource: Resource[T], key: str) -> T:
        stored = self.informers.informer(resource).store.get(key)
        if stored is None:
            name = key.rpartition("/")[2]
            raise _refusal(404, "NotFound", f'{resource.group_resource} "{name}" not found')
        return stored


def _check_reservations(claim: ResourceClaim) -> None:
    """Check the only rule of the API server that a scheduler's decision can violate."""
    if len(claim.status.reserved_for) > RESERVED_FOR_MAX:
        raise _refusal(
            422,
            "Invalid",
            f'ResourceClaim.{RESOURCE_CLAIMS.group} "{claim.metadata.name}" is invalid: status.reservedFor: '
            f"Too many: {len(claim.status.reserved_for)}: must have at most {RESERVED_FOR_MAX} items",
        )


def _merge(target: dict[str, Any], patch: dict[str, Any]) -> None:
    """Apply a strategic merge patch, as far as the scheduler's patches need it."""
    for name, value in patch.items():
        if name.startswith("$setElementOrder/"):
            continue
        if value is None:
            target.pop(name, None)
        elif name in _MERGE_KEYS and isinstance(value, (list, tuple)):
            by = _MERGE_KEYS[name]
            kept = {entry[by]: entry for entry in target.get(name, ())}
            for entry in map(to_builtins, value):
                if entry.get("$patch") == "delete":
                    kept.pop(entry[by], None)
                else:
                    kept[entry[by]] = entry
            target[name] = list(kept.values())
        elif isinstance(value, dict):
            _merge(target.setdefault(name, {}), value)
        else:
            target[name] = value


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


def _refusal(code: int, reason: str, message: str) -> Exception:
    return from_status(Status(status="Failure", code=code, reason=reason, message=message))
