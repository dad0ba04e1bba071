"""One watch: what is there, what was missed, and then what happens, until the client or the time ends it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence

import orjson
from dra_shared.clock import Clock

from dra_apiserver.errors import StatusError, expired
from dra_apiserver.present import Presenter
from dra_apiserver.storage import DELETED, Event, Record, Resource, Store
from dra_apiserver.storage.records import with_revision
from dra_apiserver.watch.selection import Selection

Sender = Callable[[bytes], Awaitable[None]]
Tally = Callable[[int], None]
Writer = Callable[[bytes], bool]
"""Sends a part of the stream at once; False where the client's buffer is full, and nothing was sent."""

_BOOKMARK_EVERY = 60.0
_CHUNK_BYTES = 1 << 20
_HISTORY_STEP = 2000


class WatchStream:
    """Sends a selection's events in revision order, each once.

    All watchers of a resource read one ring of events; what is written for an event is made once for all that show it
    alike. A client that doesn't keep up holds back only its own stream, and is cut off when the ring has moved on; it
    resumes from its last revision.
    """

    def __init__(
        self,
        store: Store,
        resource: Resource,
        selection: Selection,
        presenter: Presenter,
        send: Sender,
        clock: Clock,
        *,
        bookmarks: bool,
        timeout: float,
        tally: Tally = lambda events: None,
        write: Writer = lambda chunk: False,
    ) -> None:
        self._store = store
        self._resource = resource
        self._collection = store.collection(resource)
        self._selection = selection
        self._presenter = presenter
        self._send = send
        self._clock = clock
        self._bookmarks = bookmarks
        self._tally = tally
        self._write = write
        self._deadline = clock.monotonic() + timeout
        self._after = 0
        self._position = 0
        self._stopped = False
        self._waiter: asyncio.Future[None] | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0

    def stop(self) -> None:
        """End the stream before its time."""
        self._stopped = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def run_from_now(self, records: Sequence[Record], initial_end: bool) -> None:
        """Send the objects as ADDED, then what follows. `records` must be the selection's state of this moment."""
        collection = self._collection
        self._position = collection.end
        revision = self._store.revision
        self._after = revision
        event = self._presenter.event
        lines: list[bytes] = []
        size = 0
        self._tally(len(records))
        for record in records:
            lines.append(event("ADDED", record.data))
            size += len(lines[-1])
            if size > _CHUNK_BYTES:
                await self._send(b"".join(lines))
                lines, size = [], 0
        if initial_end:
            lines.append(self._presenter.bookmark(revision, initial_end=True))
        if lines:
            await self._send(b"".join(lines))
        await self._follow()

    async def run_after(self, revision: int) -> None:
        """Send what happened after `revision`, from the database where memory doesn't reach back, then go on."""
        self._after = revision
        position = self._collection.position_after(revision)
        while position is None and not self._stopped:
            try:
                events = await self._store.history(self._resource, revision)
            except StatusError as error:
                await self._error(error)
                return
            if lines := self._lines(events):
                self._tally(len(lines))
                await self._send(b"".join(lines))
            if events:
                revision = events[-1].revision
            # Fewer than a step: this was all that happened up to some revision that memory surely covers.
            if len(events) < _HISTORY_STEP:
                revision = max(revision, self._collection.floor)
            position = self._collection.position_after(revision)
        self._position = position or 0
        await self._follow()

    async def _error(self, error: StatusError) -> None:
        await self._send(orjson.dumps({"type": "ERROR", "object": error.status}) + b"\n")

    async def _follow(self) -> None:
        try:
            await self._send_events()
        finally:
            self._disarm()

    async def _send_events(self) -> None:
        collection = self._collection
        clock = self._clock
        next_bookmark = clock.monotonic() + _BOOKMARK_EVERY * random.uniform(0.9, 1.0)
        while not self._stopped:
            events = collection.events(self._position)
            if events is None:
                await self._error(expired("too old resource version: the watcher fell behind"))
                return
            now = clock.monotonic()
            if events:
                self._position = collection.end
                if lines := self._lines(events):
                    self._tally(len(lines))
                    await self._send(b"".join(lines) if len(lines) > 1 else lines[0])
                if now < self._deadline:
                    continue
            if now >= self._deadline:
                break
            if self._bookmarks and now >= next_bookmark:
                await self._bookmark()
                next_bookmark = clock.monotonic() + _BOOKMARK_EVERY
                continue
            until = min(self._deadline, next_bookmark) if self._bookmarks else self._deadline
            await self._wait(until, now)
        if self._bookmarks and not self._stopped and collection.end == self._position:
            await self._bookmark()

    async def _bookmark(self) -> None:
        # Nothing is undelivered here: the ring was read to its end without a pause since.
        if self._store.revision > self._after:
            await self._send(self._presenter.bookmark(self._store.revision))

    async def _wait(self, until: float, now: float) -> None:
        # One alarm serves all the waits that end at the same moment.
        if self._alarm is None or self._alarm_at != until:
            self._disarm()
            self._alarm = asyncio.get_running_loop().call_later(until - now, self._ring)
            self._alarm_at = until
        self._waiter = asyncio.get_running_loop().create_future()
        self._collection.listen(self._heard)
        try:
            await self._waiter
        finally:
            self._collection.ignore(self._heard)
            self._waiter = None

    def _heard(self) -> None:
        # A turn of the event loop for each of many watchers would cost more than all else that is done for it.
        if self._waiter is not None and not self._waiter.done() and not self._pass_on():
            self._waiter.set_result(None)

    def _pass_on(self) -> bool:
        """Send the new events without waiting; False leaves them to the stream's own task."""
        events = self._collection.events(self._position)
        if events is None:
            return False
        try:
            lines = self._lines(events)
        except Exception:
            return False  # The task comes across it too, and its request fails of it.
        if lines:
            if not self._write(b"".join(lines) if len(lines) > 1 else lines[0]):
                return False
            self._tally(len(lines))
        self._position = self._collection.end
        return True

    def _disarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _ring(self) -> None:
        self._alarm = None
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _lines(self, events: Sequence[Event]) -> list[bytes]:
        lines = []
        judge = self._selection.judge
        key = self._presenter.key
        after = self._after
        for event in events:
            if event.revision <= after:
                continue
            meaning = judge(event)
            if meaning is None:
                continue
            line: bytes | None = event.cache.get((key, meaning))
            if line is None:
                line = event.cache[key, meaning] = self._line(event, meaning)
            lines.append(line)
        return lines

    def _line(self, event: Event, meaning: str) -> bytes:
        if meaning == DELETED and event.type != DELETED and event.previous is not None:
            # It left the selection: the client gets what it knew, at the revision that took it away.
            return self._presenter.event(meaning, with_revision(event.previous.data, event.revision))
        return self._presenter.event(meaning, event.record.data)
