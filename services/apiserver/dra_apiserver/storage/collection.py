"""The objects of one resource in memory, and the ring of their latest events."""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Hashable, Iterable

from dra_apiserver.storage.fieldindex import FieldIndex, ValueOf
from dra_apiserver.storage.records import DELETED, Change, Event, Record

RING_EVENTS = 8192
RING_BYTES = 64 << 20
KEPT_BYTES = 4 << 20


class Pending:
    """A change on its way to the database.

    `done` is the future of the result: True if the change is durable, False if another server's write was
    first. `stored` is the same result without the future, which may be cancelled with its request. `basis` is
    the pending change from whose result this one was computed. `miscounted` is True if objects that the change
    counted have changed since.
    """

    __slots__ = ("_others", "basis", "change", "collection", "done", "miscounted", "stored")

    def __init__(
        self, collection: Collection, change: Change, done: asyncio.Future[bool], basis: Pending | None
    ) -> None:
        self.collection = collection
        self.change = change
        self.done = done
        self.basis = basis
        self.stored: bool | None = None
        self.miscounted = False
        self._others: list[asyncio.Future[bool]] = []

    async def wait_settled(self) -> bool:
        """Wait for the result of `done`, for requests other than the writing one. They may be cancelled.

        The writing request awaits `done` itself: a shield would delay its answer by a turn of the loop, after
        the watchers.
        """
        waiter: asyncio.Future[bool] = self.done.get_loop().create_future()
        self._others.append(waiter)
        return await waiter

    def settle(self, stored: bool) -> None:
        """Set the result, and wake all tasks that wait for it."""
        for future in (self.done, *self._others):
            if not future.done():
                future.set_result(stored)

    def fail(self, error: Exception) -> None:
        """Raise the error in all tasks that wait for the result."""
        for future in (self.done, *self._others):
            if not future.done():
                future.set_exception(error)
                future.exception()


class Collection:
    """The durable objects by key, in order, and the events that watchers follow.

    `floor` is the revision after which all events are in the ring. Positions in the ring are absolute: the
    first event since the start is number 0, whatever was dropped since.
    """

    def __init__(self, floor: int) -> None:
        self.records: dict[str, Record] = {}
        self.inflight: dict[str, Pending] = {}
        """The newest change of each object that is changing."""
        self.floor = floor
        self.revision = floor
        self._keys: list[str] = []
        self._events: list[Event] = []
        self._base = 0
        self._bytes = 0
        self._kept = 0
        self.encoded: dict[tuple[str, str, int], bytes] = {}
        """Encoded pages of the objects as they are now; kept here by the handler that makes them."""
        self._indexes: dict[str, FieldIndex] = {}
        self._waiters: set[asyncio.Future[None]] = set()
        self._listeners: set[Callable[[], None]] = set()

    def load(self, records: Iterable[Record]) -> None:
        """Fill an empty collection."""
        self.records = {record.key: record for record in records}
        self._keys = sorted(self.records)
        self._indexes = {}

    def reset(self, records: Iterable[Record], revision: int) -> None:
        """Replace all objects by these, which are the state at `revision`, and drop all events."""
        self.load(records)
        # The events in between are unknown, so a watcher that had read to the end of the ring has missed them.
        self._base += len(self._events) + 1
        self._events = []
        self._bytes = self._kept = 0
        self.encoded = {}
        self.floor = self.revision = revision

    def newest(self, key: str) -> Record | None:
        """Return the newest version of an object, even if it is not written to the database yet."""
        pending = self.inflight.get(key)
        return self.records.get(key) if pending is None else pending.change.event.state

    def apply(self, event: Event) -> None:
        """Make a durable event visible. `wake` notifies those who wait."""
        key = event.key
        if self.encoded:
            self.encoded = {}
        if event.type == DELETED:
            if self.records.pop(key, None) is not None:
                del self._keys[bisect_left(self._keys, key)]
        else:
            if key not in self.records:
                insort(self._keys, key)
            self.records[key] = event.record
        for index in self._indexes.values():
            index.note_change(key)
        self._events.append(event)
        self._bytes += len(event.record.data)
        self.revision = event.revision
        if len(self._events) > RING_EVENTS or self._bytes > RING_BYTES:
            self._trim()

    def _trim(self) -> None:
        # The oldest quarter goes at once, so that trimming, which is expensive, is rare. `_base` increases by
        # the number of dropped events, so positions of watchers stay valid. `floor` becomes the revision of the
        # last dropped event, because all later events are still in the ring. Large events may need more rounds.
        drop = len(self._events) // 4
        while True:
            self._bytes -= sum(len(event.record.data) for event in self._events[:drop])
            self._kept -= sum(event.kept for event in self._events[:drop])
            self.floor = self._events[drop - 1].revision if drop else self.floor
            del self._events[:drop]
            self._base += drop
            drop = len(self._events) // 4
            if self._bytes <= RING_BYTES or not drop:
                return

    def wake(self) -> None:
        """Call the listeners, and wake those who wait for events."""
        for listener in tuple(self._listeners):
            listener()
        waiters, self._waiters = self._waiters, set()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def waiter(self) -> asyncio.Future[None]:
        """Return a future that is done at the next event. Call `discard` when it is no longer needed."""
        made = asyncio.get_running_loop().create_future()
        self._waiters.add(made)
        return made

    def discard(self, waiter: asyncio.Future[None]) -> None:
        """Remove a waiter."""
        self._waiters.discard(waiter)

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` when there are events, until `ignore`. It must not raise."""
        self._listeners.add(listener)

    def ignore(self, listener: Callable[[], None]) -> None:
        """Stop calling `listener`."""
        self._listeners.discard(listener)

    def range(self, prefix: str = "", after: str = "") -> list[str]:
        """Return the keys that start with `prefix` (which ends in "/" or is empty) and follow `after`, in order."""
        if not prefix:
            low, high = 0, len(self._keys)
        else:
            low, high = bisect_left(self._keys, prefix), bisect_left(self._keys, prefix[:-1] + "0")
        if after:
            low = max(low, bisect_right(self._keys, after))
        return self._keys[low:high] if (low, high) != (0, len(self._keys)) else self._keys

    def find_having(self, field: str, value: str, value_of: ValueOf) -> list[str]:
        """Return the keys of the objects with the value in the field, in order. `value_of` reads the field."""
        index = self._indexes.get(field)
        if index is None:
            index = self._indexes[field] = FieldIndex(value_of, self._keys)
        return index.find(value, self.records)

    @property
    def end(self) -> int:
        """The position after the newest event."""
        return self._base + len(self._events)

    def position_after(self, revision: int) -> int | None:
        """Return the position of the first event after `revision`; None if the ring no longer has it."""
        if revision < self.floor:
            return None
        if revision >= self.revision:
            return self.end
        return self._base + bisect_right(self._events, revision, key=_revision)

    def events(self, position: int, most: int) -> list[Event] | None:
        """Return up to `most` events from `position` on; None if the ring no longer has them."""
        start = position - self._base
        return None if start < 0 else self._events[start : start + most]

    def keep(self, event: Event, place: Hashable, made: bytes) -> None:
        """Keep data derived from an event in its cache. If the caches are too large, clear those of other events."""
        event.remember(place, made)
        event.kept += len(made)
        self._kept += len(made)
        if self._kept > KEPT_BYTES:
            for other in self._events:
                if other is not event:
                    self._kept -= other.kept
                    other.forget()

    def undo(self, revision: int) -> dict[str, Record | None] | None:
        """Return each key that changed after `revision` with its object at that time; None if the ring is too
        short.
        """
        position = self.position_after(revision)
        if position is None:
            return None
        before: dict[str, Record | None] = {}
        for event in self._events[position - self._base :]:
            before.setdefault(event.key, event.previous)
        return before


def _revision(event: Event) -> int:
    return event.revision
