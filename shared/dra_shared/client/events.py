"""Events: what a component tells users about an object.

An event that repeats (same object, reason and message) is counted on the Event that is already there, as client-go's
correlator does; what cannot be written is logged and dropped, because nothing may wait for an event.
"""

import asyncio
import random
from collections import OrderedDict
from typing import TypeVar

import httpx

from dra_shared.api.core import Event, EventSource
from dra_shared.api.meta import Object, ObjectMeta
from dra_shared.api.pod import ObjectReference
from dra_shared.api.resources import EVENTS, Resource
from dra_shared.client.errors import ApiError, NotFound
from dra_shared.client.rest import Client
from dra_shared.clock import Clock, SystemClock, rfc3339
from dra_shared.log import logger

_CACHE_SIZE = 4096
_MESSAGE_LIMIT = 1024

_log = logger(__name__)

T = TypeVar("T", bound=Object)

_Key = tuple[str, ...]


def reference(resource: Resource[T], obj: T) -> ObjectReference:
    """A reference to ``obj`` by kind, name and uid."""
    meta = obj.metadata
    return ObjectReference(
        api_version=resource.api_version,
        kind=resource.kind,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )


class Recorder:
    """Writes events as ``component``, from the node ``host`` where it belongs to one."""

    def __init__(
        self,
        client: Client,
        component: str,
        *,
        host: str = "",
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._client = client
        self._component = component
        self._host = host
        self._clock = clock or SystemClock()
        self._rng = rng or random.Random()
        self._seen: OrderedDict[_Key, tuple[str, int, str]] = OrderedDict()
        self._pending: asyncio.Queue[tuple[_Key, ObjectReference, str, str, str, str]] = asyncio.Queue()
        self._writer: asyncio.Task[None] | None = None

    def event(
        self, involved: ObjectReference, type_: str, reason: str, message: str, action: str = ""
    ) -> None:
        """Tell users about ``involved``; ``type_`` is Normal or Warning. Returns at once."""
        message = message[:_MESSAGE_LIMIT]
        key = (
            involved.kind,
            involved.namespace,
            involved.name,
            involved.uid,
            involved.field_path,
            type_,
            reason,
            message,
        )
        self._pending.put_nowait((key, involved, type_, reason, message, action))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.get_running_loop().create_task(self._write_pending())

    async def flush(self) -> None:
        """Wait until every event so far is written or dropped."""
        while self._writer is not None and not self._writer.done():
            await asyncio.wait((self._writer,))

    async def _write_pending(self) -> None:
        while not self._pending.empty():
            key, involved, type_, reason, message, action = self._pending.get_nowait()
            try:
                await self._write(key, involved, type_, reason, message, action)
            except (ApiError, httpx.HTTPError, OSError, TimeoutError) as error:
                _log.info("event dropped", object=involved.name, reason=reason, error=str(error))

    async def _write(
        self, key: _Key, involved: ObjectReference, type_: str, reason: str, message: str, action: str
    ) -> None:
        now = rfc3339(self._clock.now())
        namespace = involved.namespace or "default"
        seen = self._seen.get(key)
        if seen is not None:
            name, count, first = seen
            try:
                body = {"count": count + 1, "lastTimestamp": now}
                await self._client.patch(EVENTS, name, body, namespace)
            except NotFound:
                del self._seen[key]
            else:
                self._remember(key, name, count + 1, first)
                return
        event = Event(
            metadata=ObjectMeta(
                name=f"{involved.name}.{self._rng.getrandbits(60):016x}", namespace=namespace
            ),
            involved_object=involved,
            type=type_,
            reason=reason,
            message=message,
            action=action,
            source=EventSource(component=self._component, host=self._host),
            reporting_component=self._component,
            reporting_instance=self._host,
            first_timestamp=now,
            last_timestamp=now,
            count=1,
        )
        await self._client.create(EVENTS, event)
        self._remember(key, event.metadata.name, 1, now)

    def _remember(self, key: _Key, name: str, count: int, first: str) -> None:
        self._seen[key] = (name, count, first)
        self._seen.move_to_end(key)
        if len(self._seen) > _CACHE_SIZE:
            self._seen.popitem(last=False)
