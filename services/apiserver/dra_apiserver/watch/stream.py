"""One watch: send the current objects, missed events, and new events, until the client disconnects or the time
is over.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Sequence

from dra_shared.clock import Clock

from dra_apiserver.errors import StatusError
from dra_apiserver.response import Presenter
from dra_apiserver.storage import DELETED, Event, Record, Resource, Store
from dra_apiserver.storage.records import with_revision
from dra_apiserver.watch.selection import Selection

Sender = Callable[[bytes], Awaitable[None]]
Tally = Callable[[int], None]
Writer = Callable[[bytes], bool]
"""Sends a part of the stream at once. Returns False, with nothing sent, if the client's buffer is full."""

_BOOKMARK_EVERY = 60.0
_CHUNK_BYTES = 256 << 10
_STEP = 1000
_FORGOTTEN = -1

Keep = Callable[[Event, Hashable, bytes], None]


_Part = tuple[bytes, int, int, int]
"""A part of the stream, its number of lines, the number of events that it covers, and the revision of the
last one.
"""


class WatchStream:
    """Sends a selection's events in revision order, each once.

    All watchers of a resource read one ring of events. The encoding of an event is shared by all watchers
    with the same presentation. A slow client only delays its own stream. If the ring no longer has the next
    events, the stream reads them from the database. The stream ends if the database has compacted them too.
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
        """End the stream before its timeout."""
        self._stopped = True
        self._wake()

    def hold(self, held: bool) -> None:
        """Hold events back, or send those that were held back."""
        self._held = held
        if not held:
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def run_from_now(self, records: Sequence[Record], initial_end: bool) -> None:
        """Send the objects as ADDED, then all later events. `records` must be the selection's current state."""
        # Take the revision and the position before the first await. Events that are stored while the objects
        # are sent come after this position, so the ring delivers each of them once and none is lost.
        revision = self._start = self._after = self._store.revision
        self._position = self._collection.end
        event = self._presenter.event
        lines: list[bytes] = []
        size = 0
        self._tally(len(records))
        for index, record in enumerate(records):
            begins = index % _STEP == 0 and self._presenter.waits
            if begins and not await self._prepare(records[index : index + _STEP]):
                return
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
        """Send the events after `revision`."""
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
        # Invariant: all events up to self._after are sent, or are part of the chunk that is being sent. Each
        # turn does one thing, in this order: send pending events, check the deadline, send a bookmark, wait. A
        # bookmark means that all events up to its revision were sent, so it must not precede pending events.
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
        """Send a chunk of pending events. Return whether there were any, because there may be more."""
        # The ring only keeps recent events. None means that it no longer has the position of this stream,
        # whose client is slow. The database then has the missing events. Positions advance before the await
        # of the send below: events that are stored during that await must not move the start of the next
        # chunk.
        events = self._collection.events(self._position, _STEP)
        if events is None:
            part = await self._part_of_history()
        elif events:
            if self._presenter.waits and not await self._prepare(_records(events)):
                return False
            part = self._part(events, self._collection.keep)
            self._position += part[2]
            self._after = max(self._after, part[3])
        else:
            return False
        # A client that doesn't read must only hold one chunk in memory, and no events.
        del events
        if part is not None:
            chunk, lines = part[:2]
            if lines:
                self._tally(lines)
                await self._send(chunk)
        return True

    async def _part_of_history(self) -> _Part | None:
        """Return the next part from the database. If it was compacted, end the stream and return None."""
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
        # The part may end before the last event, because a chunk is limited. Continue after its last event
        # then. Otherwise continue after the end of the history, which may be later than its last event: the
        # other revisions in between belong to other resources.
        if self._presenter.waits and not await self._prepare(_records(history.events)):
            return None
        part = self._part(history.events, _keep_nothing)
        taken, revision = part[2:]
        self._after = history.until if taken == len(history.events) else revision
        self._seek()
        return part

    async def _prepare(self, records: Iterable[Record]) -> bool:
        """Convert stored objects to the presenter's version. If that fails, end the stream and return False."""
        try:
            await self._presenter.prepare(record.data for record in records)
        except StatusError as error:
            await self._error(error)
            self._stopped = True
            return False
        return True

    def _seek(self) -> None:
        position = self._collection.position_after(self._after)
        self._position = _FORGOTTEN if position is None else position

    async def _bookmark(self) -> None:
        # Nothing is undelivered here: the ring was read to its end, without an await since.
        if self._store.revision > self._start:
            await self._send(self._presenter.bookmark(self._store.revision))

    async def _wait(self, until: float, now: float) -> None:
        # One timer serves all waits with the same end.
        if self._alarm is None or self._alarm_at != until:
            self._disarm()
            self._alarm = asyncio.get_running_loop().call_later(until - now, self._ring)
            self._alarm_at = until
        # Create the future before listening. There is no await between the last look at the ring and this
        # line, so an event cannot be missed in between.
        self._waiter = asyncio.get_running_loop().create_future()
        self._collection.listen(self._on_events)
        try:
            await self._waiter
        finally:
            self._collection.ignore(self._on_events)
            self._waiter = None

    def _on_events(self) -> None:
        # With many watchers, a turn of the event loop for each would cost more than everything else.
        if self._held:
            return
        if self._waiter is not None and not self._waiter.done() and not self._pass_on():
            self._waiter.set_result(None)

    def _pass_on(self) -> bool:
        """Send new events without waiting.

        Return False if the stream's own task has to send them, or the rest of them.
        """
        # This runs in the task that publishes the events, once for each watcher that waits. It must not await,
        # and must not raise, because an error here would reach other watchers and the write itself. Everything
        # beyond one chunk that fits in the client's buffer is left to the stream's own task, which False wakes.
        events = self._collection.events(self._position, _STEP)
        if not events:
            return events is not None
        try:
            chunk, lines, taken, revision = self._part(events, self._collection.keep)
        except Exception:
            return False  # The stream's task finds the error too, and its request fails with it.
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
        """Return a chunk of these events, with at least the first one."""
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
            # Watchers with the same presentation share the encoded line. Encoding is most of the cost of an
            # event, so it is done once and not for each watcher.
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
        return self._presenter.event(meaning, _visible_object(event, meaning))


def _visible_object(event: Event, meaning: str) -> bytes:
    """Return the stored object to send to a client for an event."""
    if meaning == DELETED and event.type != DELETED and event.previous is not None:
        # The object left the selection: the client gets its previous state, at the revision of the change.
        return with_revision(event.previous.data, event.revision)
    return event.record.data


def _records(events: Sequence[Event]) -> Iterator[Record]:
    """Yield the objects that a client may get for these events."""
    for event in events:
        yield event.record
        if event.previous is not None and event.type != DELETED:
            yield Record(event.key, event.revision, _visible_object(event, DELETED))


def _keep_nothing(event: Event, place: Hashable, made: bytes) -> None:
    """Keep nothing, because events from the database serve one stream only."""
