"""One watch: what is there, what was missed, and then what happens, until the client or the time ends it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Hashable, Sequence

from dra_shared.clock import Clock

from dra_apiserver.errors import StatusError
from dra_apiserver.response import Presenter
from dra_apiserver.storage import DELETED, Event, Record, Resource, Store
from dra_apiserver.storage.records import with_revision
from dra_apiserver.watch.selection import Selection

Sender = Callable[[bytes], Awaitable[None]]
Tally = Callable[[int], None]
Writer = Callable[[bytes], bool]
"""Sends a part of the stream at once; False where the client's buffer is full, and nothing was sent."""

_BOOKMARK_EVERY = 60.0
_CHUNK_BYTES = 256 << 10
_STEP = 1000
_FORGOTTEN = -1

Keep = Callable[[Event, Hashable, bytes], None]


_Part = tuple[bytes, int, int, int]
"""A piece of the stream, how many lines it has, of how many events it is made, and the last one's revision."""


class WatchStream:
    """Sends a selection's events in revision order, each once.

    All watchers of a resource read one ring of events; what is written for an event is made once for all that show it
    the same way. A client that doesn't keep up holds back only its own stream, which reads from the database what the
    ring has forgotten meanwhile; it ends when that has forgotten it too.
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
        self._start = 0
        self._after = 0
        """Everything up to this revision is sent, or is being sent."""
        self._position = _FORGOTTEN
        self._stopped = False
        self._held = False
        self._waiter: asyncio.Future[None] | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0

    def stop(self) -> None:
        """End the stream before its time."""
        self._stopped = True
        self._wake()

    def hold(self, held: bool) -> None:
        """Send nothing any more, or all that has happened meanwhile."""
        self._held = held
        if not held:
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def run_from_now(self, records: Sequence[Record], initial_end: bool) -> None:
        """Send the objects as ADDED, then what follows. `records` must be the selection's state of this moment."""
        revision = self._start = self._after = self._store.revision
        self._position = self._collection.end
        event = self._presenter.event
        lines: list[bytes] = []
        size = 0
        self._tally(len(records))
        for record in records:
            lines.append(event("ADDED", record.data))
            size += len(lines[-1])
            if size > _CHUNK_BYTES:
                chunk = b"".join(lines)
                lines, size = [], 0
                await self._send(chunk)
        if initial_end:
            lines.append(self._presenter.bookmark(revision, initial_end=True))
        if lines:
            await self._send(b"".join(lines))
        await self._follow()

    async def run_after(self, revision: int) -> None:
        """Send what happened after `revision`."""
        self._start = self._after = revision
        self._seek()
        await self._follow()

    async def _error(self, error: StatusError) -> None:
        await self._send(self._presenter.error(error.status))

    async def _follow(self) -> None:
        try:
            await self._send_events()
        finally:
            self._disarm()

    async def _send_events(self) -> None:
        clock = self._clock
        next_bookmark = clock.monotonic() + _BOOKMARK_EVERY * random.uniform(0.9, 1.0)
        while not self._stopped:
            now = clock.monotonic()
            if self._held and now < self._deadline:
                await self._wait(self._deadline, now)
                continue
            if await self._send_next() and now < self._deadline:
                continue
            if now >= self._deadline:
                break
            if self._bookmarks and now >= next_bookmark:
                await self._bookmark()
                next_bookmark = clock.monotonic() + _BOOKMARK_EVERY
                continue
            until = min(self._deadline, next_bookmark) if self._bookmarks else self._deadline
            await self._wait(until, now)
        if self._bookmarks and not self._stopped and self._collection.end == self._position:
            await self._bookmark()

    async def _send_next(self) -> bool:
        """Send a chunk of what has happened; whether there was anything, so that there may be more."""
        events = self._collection.events(self._position, _STEP)
        if events is None:
            part = await self._part_of_history()
        elif events:
            part = self._part(events, self._collection.keep)
            self._position += part[2]
            self._after = max(self._after, part[3])
        else:
            return False
        # A client that doesn't read holds on to one chunk, and to no event.
        del events
        if part is not None:
            chunk, lines = part[:2]
            if lines:
                self._tally(lines)
                await self._send(chunk)
        return True

    async def _part_of_history(self) -> _Part | None:
        """The next part from the database; None, and the stream ends, where that has forgotten it."""
        try:
            history = await self._store.history(self._resource, self._after)
        except StatusError as error:
            await self._error(error)
            self._stopped = True
            return None
        if not history.events:
            self._after = history.until
            self._seek()
            return None
        part = self._part(history.events, _keep_nothing)
        taken, revision = part[2:]
        self._after = history.until if taken == len(history.events) else revision
        self._seek()
        return part

    def _seek(self) -> None:
        position = self._collection.position_after(self._after)
        self._position = _FORGOTTEN if position is None else position

    async def _bookmark(self) -> None:
        # Nothing is undelivered here: the ring was read to its end without a pause since.
        if self._store.revision > self._start:
            await self._send(self._presenter.bookmark(self._store.revision))

    async def _wait(self, until: float, now: float) -> None:
        # One alarm serves all the waits that end at the same moment.
        if self._alarm is None or self._alarm_at != until:
            self._disarm()
            self._alarm = asyncio.get_running_loop().call_later(until - now, self._ring)
            self._alarm_at = until
        self._waiter = asyncio.get_running_loop().create_future()
        self._collection.listen(self._on_events)
        try:
            await self._waiter
        finally:
            self._collection.ignore(self._on_events)
            self._waiter = None

    def _on_events(self) -> None:
        # A turn of the event loop for each of many watchers would cost more than all else that is done for it.
        if self._held:
            return
        if self._waiter is not None and not self._waiter.done() and not self._pass_on():
            self._waiter.set_result(None)

    def _pass_on(self) -> bool:
        """Send the new events without waiting; False leaves them, or the rest, to the stream's own task."""
        events = self._collection.events(self._position, _STEP)
        if not events:
            return events is not None
        try:
            chunk, lines, taken, revision = self._part(events, self._collection.keep)
        except Exception:
            return False  # The task comes across it too, and its request fails of it.
        if lines:
            if not self._write(chunk):
                return False
            self._tally(lines)
        self._position += taken
        self._after = revision if revision > self._after else self._after
        return taken == len(events) < _STEP

    def _disarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _ring(self) -> None:
        self._alarm = None
        self._wake()

    def _part(self, events: Sequence[Event], keep: Keep) -> _Part:
        """What a chunk holds of these events, at least the first one."""
        lines: list[bytes] = []
        size = taken = 0
        judge = self._selection.judge
        key = self._presenter.key
        after = self._after
        for event in events:
            taken += 1
            if event.revision <= after:
                continue
            meaning = judge(event)
            if meaning is None:
                continue
            line: bytes | None = event.cache.get((key, meaning))
            if line is None:
                line = self._line(event, meaning)
                keep(event, (key, meaning), line)
            lines.append(line)
            size += len(line)
            if size > _CHUNK_BYTES:
                break
        chunk = lines[0] if len(lines) == 1 else b"".join(lines)
        return chunk, len(lines), taken, events[taken - 1].revision

    def _line(self, event: Event, meaning: str) -> bytes:
        if meaning == DELETED and event.type != DELETED and event.previous is not None:
            # It left the selection: the client gets what it knew, at the revision that took it away.
            return self._presenter.event(meaning, with_revision(event.previous.data, event.revision))
        return self._presenter.event(meaning, event.record.data)


def _keep_nothing(event: Event, place: Hashable, made: bytes) -> None:
    """Events from the database serve one stream."""
