"""Move revisions into the archive, and delete those that are too old or too many to keep."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeVar

from dra_shared.retention import Retention

from dra_apiserver.storage.archive import reading
from dra_apiserver.storage.archive.reading import FLOOR, FLOOR_TIME
from dra_apiserver.storage.archive.segment import pack
from dra_apiserver.storage.engine import Engine
from dra_apiserver.storage.records import Record, Resource
from dra_apiserver.storage.sessions import Frame, Item, Moment, Reading, Segment, Writing

T = TypeVar("T")
Run = Callable[[Callable[[], T]], Awaitable[T]]

_AGE, _SIZE = "history_age", "history_size"
_LEAST, _MOST = 1024, 2048
_RAW = 8 << 20
# A new keyframe is written when the segments since the last one are this many times as large. This limits what
# has to be read for a past moment.
_FRAME_AFTER = 3
_FORGET_STEP = 2048


class Keeper:
    """Maintains the archive within the limits of `retention`.

    Methods that only read may run in any thread, the others only in the writer's thread.
    """

    def __init__(self, engine: Engine, retention: Retention) -> None:
        self._engine = engine
        self.retention = retention

    @classmethod
    def begin(cls, engine: Engine, retention: Retention | None, newest: int, now: int) -> Keeper | None:
        """Open the archive, or start it with the objects as they are. Return None if no archive is kept.

        Without a `retention`, the one stored in the database applies.
        """
        with engine.begin_writing() as session:
            if retention is None:
                retention = _read_retention(session)
                if retention is None:
                    return None
            else:
                _remember(session, retention)
            if not retention.is_lasting:
                session.drop((FLOOR, FLOOR_TIME))
                return None
            if reading.floor(session) is None:
                # Other servers may have written meanwhile.
                moment = Moment(max(newest, session.newest_object()), now)
                session.set_counter(FLOOR, moment.revision)
                session.set_counter(FLOOR_TIME, now)
                for resource, objects in groupby(session.objects(), key=itemgetter(0)):
                    session.add_frame(_frame(resource, moment, (record for _, record in objects)))
        return cls(engine, retention)

    async def step(self, compacted: int, now: int, off: Run[Any], write: Run[Any]) -> bool:
        """Seal events if there are enough, and delete what is too old. Return True if there may be more to do."""
        segment = await off(lambda: self._next(compacted))
        if segment is not None:
            resource = segment.resource
            if await write(lambda: self._store(segment)):
                revisions, newest = await off(lambda: self._find_sealed(resource, segment.last, compacted))
                for first in range(0, len(revisions), _FORGET_STEP):
                    await write(partial(self._forget, revisions[first : first + _FORGET_STEP], newest))
            frame = await off(lambda: self._due(resource, _FRAME_AFTER))
            if frame is not None:
                await write(lambda: self._add(frame))
            return True
        await self._trim(now, off, write)
        return False

    def _next(self, compacted: int) -> Segment | None:
        """Return the next segment of a resource that has enough events for one."""
        with self._engine.begin_reading() as session:
            for resource, count in session.counts(compacted):
                if count < _LEAST:
                    continue
                done = session.sealed_revision(resource)
                items = _read_unsealed(session, resource, done, compacted)
                if len(items) >= _LEAST or sum(len(item.data) for item in items) >= _RAW:
                    return _segment(resource, done, items)
        return None

    def _store(self, segment: Segment) -> bool:
        """Add a segment; False if another server of the database was first."""
        with self._engine.begin_writing() as session:
            if session.sealed_revision(segment.resource) != segment.first:
                return False
            session.add_segment(segment)
        return True

    def _find_sealed(self, resource: Resource, last: int, compacted: int) -> tuple[list[int], int]:
        """Return the events that are sealed now and can be deleted, and the newest revision.

        A version is kept if it precedes an event that watchers may still read. Finding such versions takes
        longer than deleting the others, so this does not run in the writer's thread.
        """
        with self._engine.begin_reading() as session:
            bounds = session.bounds()
            return session.unneeded_revisions(resource, last, compacted), bounds[
                1
            ] if bounds is not None else 0

    def _forget(self, revisions: Sequence[int], newest: int) -> None:
        """Delete events, except those newer than `newest` and the version before each of them."""
        with self._engine.begin_writing() as session:
            session.forget(revisions, newest)

    def _due(self, resource: Resource, after: int) -> Frame | None:
        """Return the next keyframe, if the segments since the last one are `after` times as large as the objects."""
        with self._engine.begin_reading() as session:
            last = session.frame(resource)
            sealed = session.sealed_since(resource, last.moment.revision if last is not None else 0)
            if sealed is None:
                return None
            raw, moment = sealed
            if after and raw < max(_RAW, after * (last.packed.raw if last is not None else 0)):
                return None
            found = reading.objects(session, resource, moment.revision)
            return _frame(resource, moment, found.values())

    def _add(self, frame: Frame) -> None:
        with self._engine.begin_writing() as session:
            session.add_frame(frame)

    async def _trim(self, now: int, off: Run[Any], write: Run[Any]) -> None:
        """Delete the oldest history, as far as the limits of age and size require."""
        if self.retention.age is not None:
            oldest = now - int(self.retention.age * 1000)
            found = await off(lambda: self._newer_floor(oldest))
            if found is not None:
                await write(lambda: self._cut(Moment(found.revision, oldest)))
        while self.retention.size is not None:
            found = await off(lambda: self._smaller_floor(self.retention.size or 0))
            if isinstance(found, Frame):
                await write(partial(self._add, found))
            elif found is not None:
                await write(partial(self._cut, found))
            else:
                return

    def _newer_floor(self, time: int) -> Moment | None:
        with self._engine.begin_reading() as session:
            floor = reading.floor(session)
            found = reading.last_until(session, time=time)
            return found if floor and found and found.revision > floor.revision else None

    def _smaller_floor(self, size: int) -> Moment | Frame | None:
        """Return the moment at which history has to begin to satisfy the size limit, or a keyframe to write first."""
        with self._engine.begin_reading() as session:
            used = session.usage()
            if sum(used.values()) <= size:
                return None
            second = []
            for resource in used:
                begin = session.first_sealed(resource)
                # The segments before a keyframe can be deleted.
                second += [
                    moment
                    for moment in session.frames(resource)
                    if begin is not None and moment.revision > begin
                ][:1]
            if second:
                return min(second)
            largest = max(used, key=lambda resource: used[resource])
        return self._due(largest, 0)

    def _cut(self, floor: Moment) -> None:
        """Delete the history before a moment.

        Each resource keeps its last keyframe before the moment, and everything later.
        """
        with self._engine.begin_writing() as session:
            # Never move the beginning back: another server, or the other limit, may already have deleted more.
            known = reading.floor(session)
            if known is None or known.revision < floor.revision:
                session.set_counter(FLOOR, floor.revision)
                session.set_counter(FLOOR_TIME, floor.time)
            session.cut(floor.revision)


def _read_unsealed(session: Reading, resource: Resource, after: int, until: int) -> list[Item]:
    found: list[Item] = []
    size = 0
    for item in session.events(resource, after, until, _MOST):
        found.append(item)
        size += len(item.data)
        if size >= _RAW:
            break
    return found


def _segment(resource: Resource, first: int, items: Sequence[Item]) -> Segment:
    last, until = items[-1].revision, max(item.time for item in items)
    keys = sorted({item.key for item in items})
    since = min(item.time for item in items)
    return Segment(resource, first, last, since, until, len(items), keys, pack(items))


def _frame(resource: Resource, moment: Moment, records: Iterable[Record]) -> Frame:
    items = [Item(one.revision, one.key, 0, moment.time, "", one.data) for one in records]
    return Frame(resource, moment, pack(items))


def _read_retention(session: Reading) -> Retention | None:
    found = session.counters((_AGE, _SIZE))
    if _AGE not in found:
        return None
    age, size = found[_AGE], found.get(_SIZE, 0)
    return Retention(age / 1000 if age else None, size or None)


def _remember(session: Writing, retention: Retention) -> None:
    session.set_counter(_AGE, int((retention.age or 0) * 1000))
    session.set_counter(_SIZE, retention.size or 0)
