"""A local copy of one resource that list and watch keep current.

The loop: list all objects, notify the handlers of the changes since the last list, watch from the list's
resource version, and notify the handlers of each change in order. A broken watch resumes from the last
version seen. If that version is too old, the loop lists again. So handlers see every object's newest state,
but perhaps not every state.

Late or repeated events are recognized by their resource version and dropped. Lost events are only noticed by
listing again, which ``relist_seconds`` requests.
"""

import asyncio
import random
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import httpx
import msgspec

from dra_shared.api.meta import Object
from dra_shared.api.resources import Resource
from dra_shared.client.errors import ApiError, Expired, NotFound
from dra_shared.client.rest import Client, EventType
from dra_shared.client.sharing import create_sharing
from dra_shared.client.store import Store
from dra_shared.clock import Clock, SystemClock
from dra_shared.log import logger

T = TypeVar("T", bound=Object)

_FIRST_DELAY = 0.05
_LONGEST_DELAY = 10.0
# Retry soon: a server that is down costs nothing to connect to, and is most likely restarting.
_LONGEST_CONNECT_DELAY = 1.0
# client-go chooses 5 to 10 minutes at random, so that watches do not all end together.
_WATCH_SECONDS = (300, 600)
# The number of deletions that are remembered to distinguish a late event from a new object.
_TOMBSTONES = 1000

_log = logger(__name__)


class Informer(Generic[T]):
    """Lists and watches ``resource``; see the module's docstring.

    Handlers are plain functions, called in the order of the events. They must not block. If a handler raises,
    the error is logged and the other handlers are still called.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        relist_seconds: float | None = None,
        trim: Callable[[T], None] | None = None,
    ) -> None:
        self.resource = resource
        self.store: Store[T] = Store()
        self._client = client
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._clock = clock or SystemClock()
        self._rng = rng or random.Random()
        self._handlers: list[_Handler[T]] = []
        self._synced = asyncio.Event()
        self._version: str | None = None
        self._relist_seconds = relist_seconds
        self._removed: OrderedDict[str, str] = OrderedDict()
        self._share = trim or create_sharing(resource.type)

    @property
    def resource_version(self) -> str | None:
        """The newest revision that the store reflects."""
        return self._version

    @property
    def has_synced(self) -> bool:
        """True if the first list is in the store and the handlers have been notified of it."""
        return self._synced.is_set()

    async def wait_for_sync(self) -> None:
        """Wait until the first list is in the store."""
        await self._synced.wait()

    def add_handler(
        self,
        on_add: Callable[[T], Any] | None = None,
        on_update: Callable[[T, T], Any] | None = None,
        on_delete: Callable[[T], Any] | None = None,
    ) -> None:
        """Register handlers for all changes from now on.

        ``on_add`` is called at once for objects already in the store.
        """
        handler = _Handler(on_add, on_update, on_delete)
        self._handlers.append(handler)
        for obj in self.store.list():
            handler.notify_added(obj)

    async def run(self) -> None:
        """List and watch until cancelled."""
        delay = _FIRST_DELAY
        while True:
            try:
                if self._version is None:
                    await self._list()
                    delay = _FIRST_DELAY
                await self._watch()
                delay = _FIRST_DELAY
                if self._relist_seconds is not None:
                    self._version = None
                continue
            except Expired:
                _log.info("history too short to resume, listing again", resource=self.resource.group_resource)
                self._version = None
                continue
            except NotFound:
                # The kind is not served yet, or runtime-config disables its version.
                if delay < _LONGEST_DELAY:
                    _log.info(
                        "waiting for a kind that the API server does not serve",
                        resource=self.resource.group_resource,
                        version=self.resource.version,
                    )
                self._version = None
                delay = _LONGEST_DELAY
            except (ApiError, httpx.HTTPError, msgspec.DecodeError, OSError, TimeoutError) as error:
                _log.debug(
                    "list or watch failed, trying again",
                    resource=self.resource.group_resource,
                    error=str(error),
                )
                if isinstance(error, ApiError):
                    self._version = None
                elif isinstance(error, httpx.ConnectError):
                    delay = min(delay, _LONGEST_CONNECT_DELAY)
            await self._clock.sleep(delay * (1 + self._rng.random() / 2))
            delay = min(delay * 2, _LONGEST_DELAY)

    async def _list(self) -> None:
        # The first list may come from a cache. A later one must not return older objects than the store has.
        listed = await self._client.list(
            self.resource,
            self._namespace,
            resource_version=None if self.has_synced else "0",
            label_selector=self._label_selector,
            field_selector=self._field_selector,
        )
        gone = set(self.store.keys())
        self._removed.clear()
        for obj in listed.items:
            gone.discard(obj.key)
            self._apply(obj)
        for key in gone:
            self._remove(key, None)
        self._version = listed.resource_version
        self._synced.set()

    async def _watch(self) -> None:
        seconds: float = self._rng.randint(*_WATCH_SECONDS)
        if self._relist_seconds is not None:
            seconds = self._relist_seconds * (1 + self._rng.random() / 5)
        events = self._client.watch(
            self.resource,
            self._namespace,
            resource_version=self._version,
            timeout_seconds=max(1, round(seconds)),
            label_selector=self._label_selector,
            field_selector=self._field_selector,
        )
        async for event in events:
            obj = event.object
            key = obj.key
            if event.type is EventType.BOOKMARK:
                self._version = obj.metadata.resource_version
            elif not self._is_late(key, obj):
                if event.type is EventType.DELETED:
                    self._note_removal(key, obj)
                    self._remove(key, obj)
                else:
                    self._apply(obj)
                self._version = obj.metadata.resource_version

    def _is_late(self, key: str, obj: T) -> bool:
        """True if the store has a newer state of the object, or has seen its deletion."""
        known = self.store.get(key)
        if known is not None:
            return is_older(obj, known)
        removed, version = self._removed.get(key), obj.metadata.resource_version
        return removed is not None and (version == removed or _is_older(version, removed))

    def _note_removal(self, key: str, obj: T) -> None:
        if obj.metadata.resource_version.isdigit():
            self._removed[key] = obj.metadata.resource_version
            if len(self._removed) > _TOMBSTONES:
                self._removed.popitem(last=False)

    def _apply(self, obj: T) -> None:
        if self._share is not None:
            self._share(obj)
        key = obj.key
        old = self.store.get(key)
        if old is None:
            self.store.put(obj)
            for handler in self._handlers:
                handler.notify_added(obj)
        elif old.metadata.uid != obj.metadata.uid:
            # Deleted and created again while no watch was open: two objects, so both changes are reported.
            self._remove(key, None)
            self._apply(obj)
        elif old.metadata.resource_version != obj.metadata.resource_version:
            self.store.put(obj)
            for handler in self._handlers:
                handler.notify_updated(old, obj)

    def _remove(self, key: str, final: T | None) -> None:
        known = self.store.pop(key)
        if known is None:
            return
        # Created again and deleted unobserved: handlers only know the first object.
        last = final if final is not None and final.metadata.uid == known.metadata.uid else known
        for handler in self._handlers:
            handler.notify_deleted(last)


def is_older(obj: Object, other: Object) -> bool:
    """True if ``obj`` is an earlier revision than ``other``, and both revisions are numbers."""
    return _is_older(obj.metadata.resource_version, other.metadata.resource_version)


def _is_older(version: str, other: str) -> bool:
    """True if a resource version precedes another, and both are numbers."""
    return (len(version), version) < (len(other), other) and version.isdigit() and other.isdigit()


class _Handler(Generic[T]):
    def __init__(
        self,
        on_add: Callable[[T], Any] | None,
        on_update: Callable[[T, T], Any] | None,
        on_delete: Callable[[T], Any] | None,
    ) -> None:
        self._on_add, self._on_update, self._on_delete = on_add, on_update, on_delete

    def notify_added(self, obj: T) -> None:
        if self._on_add is not None:
            _call_guarded(self._on_add, obj)

    def notify_updated(self, old: T, new: T) -> None:
        if self._on_update is not None:
            _call_guarded(self._on_update, old, new)

    def notify_deleted(self, obj: T) -> None:
        if self._on_delete is not None:
            _call_guarded(self._on_delete, obj)


def _call_guarded(function: Callable[..., Any], *objects: Object) -> None:
    try:
        function(*objects)
    except Exception:
        _log.exception("event handler failed", object=objects[-1].key)


class InformerFactory:
    """Informers of all resources that a process needs, one for each, all run together."""

    def __init__(
        self,
        client: Client,
        clock: Clock | None = None,
        *,
        relist_seconds: float | None = None,
        trims: Mapping[str, Callable[[Any], None]] | None = None,
    ) -> None:
        """Create a factory. ``trims`` remove unread fields from decoded objects, by kind."""
        self._client = client
        self._clock = clock
        self._relist_seconds = relist_seconds
        self._trims = trims or {}
        self._informers: dict[tuple[str, str, str], Informer[Any]] = {}

    def informer(self, resource: Resource[T]) -> Informer[T]:
        """Return the informer of ``resource``, in all namespaces."""
        key = (resource.group, resource.version, resource.plural)
        if key not in self._informers:
            self._informers[key] = Informer(
                self._client,
                resource,
                clock=self._clock,
                relist_seconds=self._relist_seconds,
                trim=self._trims.get(resource.kind),
            )
        return self._informers[key]

    def find(self, resource: Resource[Any]) -> Informer[Any] | None:
        """Return the informer of the same objects, with any type, or None if none was requested."""
        return self._informers.get((resource.group, resource.version, resource.plural))

    def informers(self) -> Sequence[Informer[Any]]:
        """Return the informers requested so far."""
        return list(self._informers.values())

    async def run(self) -> None:
        """Run every informer requested so far, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers.values():
                tasks.create_task(informer.run())

    async def wait_for_sync(self) -> None:
        """Wait until every informer requested so far has its first list."""
        for informer in self._informers.values():
            await informer.wait_for_sync()
