"""Events: messages to users about an object.

A repeated event (same object, reason and message) increments the count of its Event. Similar events are
combined and limited by client-go's correlator. As in client-go's tools/record/event.go, an event is dropped if
the API server refuses it, and written again for two minutes if the server cannot be reached. Nothing waits for
an event.
"""

import asyncio
import functools
import random
from collections import OrderedDict, deque
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import httpx

from dra_shared.api.core import Event, EventSource
from dra_shared.api.events import Event as SeriesEvent
from dra_shared.api.meta import Object, ObjectMeta
from dra_shared.api.pod import ObjectReference
from dra_shared.api.resources import EVENTS, SERIES_EVENTS, Resource
from dra_shared.client.correlator import COMBINED, Correlator
from dra_shared.client.errors import ApiError, NotFound
from dra_shared.client.rest import Client
from dra_shared.clock import Clock, SystemClock, rfc3339, rfc3339_micro
from dra_shared.log import logger

_CACHE_SIZE = 4096
# As maxTriesPerEvent and defaultSleepDuration in client-go, and maxQueuedEvents, beyond which events are dropped.
_MAX_TRIES = 12
_RETRY_SECONDS = 10.0
_MAX_PENDING = 1000
_MESSAGE_LIMIT = 1024

_log = logger(__name__)

T = TypeVar("T", bound=Object)

_Key = tuple[str, ...]
# If the clock is at most this many nanoseconds behind the last event's name, the two events are of the same
# microsecond. If it is further behind, the clock was set back.
_SAME_NANO = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class _Record:
    key: _Key
    involved: ObjectReference
    type: str
    reason: str
    message: str
    action: str
    when: datetime
    combined: bool = False


def reference(resource: Resource[T], obj: T) -> ObjectReference:
    """Return a reference to ``obj`` by kind, name and uid."""
    meta = obj.metadata
    return ObjectReference(
        api_version=resource.api_version,
        kind=resource.kind,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )


@functools.cache
def _shared_rng() -> random.Random:
    """Return the random generator of the process.

    Each takes 2.5 KiB, and the recorders of thousands of kubelets share this one.
    """
    return random.Random()


class Recorder:
    """Writes events as ``component``, from the node ``host`` if it runs on one.

    With ``series``, events are written through events.k8s.io, with one time and a series of repetitions. The
    scheduler does so, and sets ``host`` to its machine.
    """

    def __init__(
        self,
        client: Client,
        component: str,
        *,
        host: str = "",
        clock: Clock | None = None,
        rng: random.Random | None = None,
        series: bool = False,
    ) -> None:
        self._client = client
        self._series = series
        self._component = component
        self._host = host
        self._clock = clock or SystemClock()
        self._rng = rng or _shared_rng()
        # The newer API only counts series.
        self._correlator = None if series else Correlator(self._clock)
        self._seen: OrderedDict[_Key, tuple[str, int]] = OrderedDict()
        self._pending: dict[_Key, deque[_Record]] = {}
        self._writers: set[asyncio.Task[None]] = set()
        self._last_nano = 0

    def event(
        self,
        involved: ObjectReference,
        type_: str,
        reason: str,
        message: str,
        action: str = "",
    ) -> None:
        """Record an event about ``involved``. ``type_`` is Normal or Warning. Returns at once."""
        message = message[:_MESSAGE_LIMIT]
        where = (involved.kind, involved.namespace, involved.name, involved.uid, involved.field_path, type_)
        group = (*where, reason)
        combined = self._correlator is not None and self._correlator.combines(group, message)
        if combined:
            message = (COMBINED + message)[:_MESSAGE_LIMIT]
        if self._series:
            # As in client-go, a new revision of the object starts a new event; a new message does not.
            key: _Key = (*group, involved.resource_version, action)
        else:
            key = group if combined else (*group, message)
        record = _Record(key, involved, type_, reason, message, action, self._clock.now(), combined)
        # As in client-go, events of the older API are written one after the other, those of the newer API in
        # parallel.
        lane = key if self._series else ()
        pending = self._pending.get(lane)
        if pending is not None:
            if len(pending) < _MAX_PENDING:
                pending.append(record)
            return
        pending = self._pending[lane] = deque((record,))
        writer = asyncio.get_running_loop().create_task(self._write_pending(lane, pending))
        self._writers.add(writer)
        writer.add_done_callback(self._writers.discard)

    async def flush(self) -> None:
        """Wait until every event so far is written or dropped."""
        while self._writers:
            await asyncio.wait(self._writers)

    async def _write_pending(self, lane: _Key, pending: deque[_Record]) -> None:
        try:
            while pending:
                await self._write_or_drop(pending.popleft())
        finally:
            del self._pending[lane]

    async def _write_or_drop(self, record: _Record) -> None:
        # The key without the reason, the message and the details of the object.
        if self._correlator is not None and not self._correlator.allows((*record.key[:4], record.type)):
            if (seen := self._seen.get(record.key)) is not None:
                self._remember(record.key, seen[0], seen[1] + 1)
            return
        # The name stays the same, so that an event whose answer was lost is not created twice.
        name = self._name(record)
        for attempt in range(1, _MAX_TRIES + 1):
            try:
                await self._write(record, name)
                return
            except ApiError as error:
                # A namespace that is deleted with its last pods cannot store their events. This is expected.
                tell = _log.debug if _is_of_a_going_namespace(error) else _log.info
                tell("event dropped", object=record.involved.name, reason=record.reason, error=str(error))
                return
            except (httpx.HTTPError, OSError, TimeoutError) as error:
                problem = str(error)
            if attempt < _MAX_TRIES:
                # The first delay is random, so that not all clients retry at the same moment.
                share = self._rng.random() if attempt == 1 else 1.0
                await self._clock.sleep(_RETRY_SECONDS * share)
        _log.info("event dropped", object=record.involved.name, reason=record.reason, error=problem)

    async def _write(self, record: _Record, new_name: str) -> None:
        namespace = record.involved.namespace or "default"
        seen = self._seen.get(record.key)
        if seen is not None:
            name, count = seen
            try:
                if self._series:
                    series = {"count": count + 1, "lastObservedTime": rfc3339_micro(record.when)}
                    await self._client.patch(SERIES_EVENTS.skip_decoding, name, {"series": series}, namespace)
                else:
                    body: dict[str, Any] = {"count": count + 1, "lastTimestamp": rfc3339(record.when)}
                    if record.combined:
                        body["message"] = record.message
                    await self._client.patch(EVENTS.skip_decoding, name, body, namespace)
            except NotFound:
                del self._seen[record.key]
            else:
                self._remember(record.key, name, count + 1)
                return
        meta = ObjectMeta(name=new_name, namespace=namespace)
        if self._series:
            await self._client.create(SERIES_EVENTS, self._one_of_a_series(meta, record))
        else:
            await self._client.create(EVENTS, self._counted_event(meta, record))
        self._remember(record.key, meta.name, 1)

    def _name(self, record: _Record) -> str:
        # The name has the time in nanoseconds, so that a list by name is in the order of time. The clock has only
        # microseconds. The last three digits are random, because other components report at the same moment, and
        # increase within this one: an event whose name exists would be dropped.
        since = record.when - _EPOCH
        micro = (since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds
        nano = micro * 1000 + self._rng.randrange(1000)
        if 0 <= self._last_nano - nano < _SAME_NANO:
            nano = self._last_nano + 1
        self._last_nano = nano
        return f"{record.involved.name}.{nano:x}"

    def _counted_event(self, meta: ObjectMeta, record: _Record) -> Event:
        now = rfc3339(record.when)
        return Event(
            metadata=meta,
            involved_object=record.involved,
            type=record.type,
            reason=record.reason,
            message=record.message,
            action=record.action,
            source=EventSource(component=self._component, host=self._host),
            reporting_component="" if record.combined else self._component,
            reporting_instance="" if record.combined else self._host,
            first_timestamp=now,
            last_timestamp=now,
            count=1,
        )

    def _one_of_a_series(self, meta: ObjectMeta, record: _Record) -> SeriesEvent:
        return SeriesEvent(
            metadata=meta,
            regarding=record.involved,
            type=record.type,
            reason=record.reason,
            note=record.message,
            action=record.action,
            event_time=rfc3339_micro(record.when),
            reporting_controller=self._component,
            reporting_instance=f"{self._component}-{self._host}",
        )

    def _remember(self, key: _Key, name: str, count: int) -> None:
        self._seen[key] = (name, count)
        self._seen.move_to_end(key)
        if len(self._seen) > _CACHE_SIZE:
            self._seen.popitem(last=False)


def _is_of_a_going_namespace(error: Exception) -> bool:
    going = isinstance(error, ApiError) and error.has_cause("NamespaceTerminating")
    return going or isinstance(error, NotFound)
