"""Moves revisions into the archive, and forgets what is older or more than is to be kept."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from dra_shared.retention import Retention
from sqlalchemy import Connection, delete, func, insert, select

from dra_apiserver.storage import rows
from dra_apiserver.storage.archive import reading
from dra_apiserver.storage.archive.reading import FLOOR, FLOOR_TIME, Moment
from dra_apiserver.storage.archive.segment import Item, Packed, pack, read_heads
from dra_apiserver.storage.engine import Engine
from dra_apiserver.storage.schema import counters, history, keyframes, objects, segment_keys, segments

T = TypeVar("T")
Run = Callable[[Callable[[], T]], Awaitable[T]]

_AGE, _SIZE = "history_age", "history_size"
_LEAST, _MOST = 1024, 2048
_RAW = 8 << 20
# A keyframe costs as much as its objects; a moment is read from it and from this many times as much at most.
_FRAME_AFTER = 3
_FORGET_STEP = 2048


class Segment(NamedTuple):
    """A resource's revisions after `first` up to `last`."""

    name: str
    first: int
    last: int
    since: int
    until: int
    events: int
    keys: Sequence[str]
    packed: Packed


class Frame(NamedTuple):
    """All objects of a resource at a moment."""

    name: str
    moment: Moment
    packed: Packed


class Keeper:
    """Keeps an archive as far as `retention` says. What reads runs in any thread, what writes in the writer's."""

    def __init__(self, engine: Engine, retention: Retention) -> None:
        self._engine = engine
        self.retention = retention

    @classmethod
    def begin(cls, engine: Engine, retention: Retention | None, newest: int, now: int) -> Keeper | None:
        """Open the archive, or begin it with the objects as they are; None where none is kept.

        Without a `retention` it is what it was last.
        """
        with engine.writing() as connection:
            if retention is None:
                retention = _remembered(connection)
                if retention is None:
                    return None
            else:
                _remember(connection, retention)
            if not retention.is_lasting:
                _drop(connection)
                return None
            if reading.floor(connection) is None:
                # Other servers may have written meanwhile.
                stored = connection.scalar(select(func.max(objects.c.revision))) or 0
                moment = Moment(max(newest, stored), now)
                _set(connection, FLOOR, moment.revision)
                _set(connection, FLOOR_TIME, now)
                for name in connection.scalars(select(objects.c.resource).distinct()).all():
                    _insert_frame(connection, _first_frame(connection, name, moment))
        return cls(engine, retention)

    async def step(self, compacted: int, now: int, off: Run[Any], write: Run[Any]) -> bool:
        """Seal what there is enough of, and forget what is too old; whether there may be more to do."""
        segment = await off(lambda: self._next(compacted))
        if segment is not None:
            if await write(lambda: self._store(segment)):
                rows, newest = await off(lambda: self._sealed(segment.name, segment.last, compacted))
                for first in range(0, len(rows), _FORGET_STEP):
                    await write(partial(self._forget, rows[first : first + _FORGET_STEP], newest))
            frame = await off(lambda: self._due(segment.name, _FRAME_AFTER))
            if frame is not None:
                await write(lambda: self._add(frame))
            return True
        await self._trim(now, off, write)
        return False

    def _next(self, compacted: int) -> Segment | None:
        """The next segment of a resource that has enough for one."""
        with self._engine.reading() as connection:
            counted = select(history.c.resource, func.count()).where(history.c.revision <= compacted)
            for name, count in connection.execute(counted.group_by(history.c.resource)).all():
                if count < _LEAST:
                    continue
                done = reading.sealed(connection, name)
                items = _unsealed(connection, name, done, compacted)
                if len(items) >= _LEAST or sum(len(item.data) for item in items) >= _RAW:
                    return _segment(name, done, items)
        return None

    def _store(self, segment: Segment) -> bool:
        """Add a segment; False where another server of the database was first."""
        with self._engine.writing() as connection:
            if reading.sealed(connection, segment.name) != segment.first:
                return False
            packed = segment.packed
            values = {
                "resource": segment.name,
                "first": segment.first,
                "last": segment.last,
                "since": segment.since,
                "until": segment.until,
                "count": segment.events,
                "raw": packed.raw,
                "size": packed.size,
                "heads": packed.heads,
                "bodies": packed.bodies,
            }
            made = connection.execute(insert(segments).values(values)).inserted_primary_key
            assert made is not None
            connection.execute(
                insert(segment_keys),
                [{"resource": segment.name, "key": key, "segment": made[0]} for key in segment.keys],
            )
        return True

    def _sealed(self, name: str, last: int, compacted: int) -> tuple[list[int], int]:
        """The rows that are sealed now, but not what is before an event that watchers may read; and the newest event.

        To look through those events takes longer than to delete the rows, so it is no work for the writer.
        """
        with self._engine.reading() as connection:
            newest = connection.scalar(select(func.max(history.c.revision))) or 0
            needed = select(history.c.previous).where(history.c.revision > compacted)
            rows = select(history.c.revision).where(
                history.c.resource == name, history.c.revision <= last, history.c.revision.not_in(needed)
            )
            return [*connection.scalars(rows)], newest

    def _forget(self, rows: Sequence[int], newest: int) -> None:
        """Delete rows, but not what is before an event that came after the `newest` of then."""
        needed = select(history.c.previous).where(history.c.revision > newest)
        with self._engine.writing() as connection:
            connection.execute(
                delete(history).where(history.c.revision.in_(rows), history.c.revision.not_in(needed))
            )

    def _due(self, name: str, after: int) -> Frame | None:
        """The resource's next keyframe, where `after` times its objects' size has been sealed since the last one."""
        with self._engine.reading() as connection:
            last = select(keyframes.c.revision, keyframes.c.raw).where(keyframes.c.resource == name)
            frame = connection.execute(last.order_by(keyframes.c.revision.desc()).limit(1)).first()
            since = select(
                func.sum(segments.c.raw), func.max(segments.c.last), func.max(segments.c.until)
            ).where(segments.c.resource == name, segments.c.last > (frame.revision if frame else 0))
            raw, revision, time = connection.execute(since).one()
            if raw is None or raw < (max(_RAW, after * (frame.raw if frame else 0)) if after else 0):
                return None
            found = reading.objects(connection, rows.resource_of(name), revision)
            items = [Item(one.revision, key, 0, time, "", one.data) for key, one in found.items()]
            return Frame(name, Moment(revision, time), pack(items))

    def _add(self, frame: Frame) -> None:
        with self._engine.writing() as connection:
            known = select(keyframes.c.revision).where(
                keyframes.c.resource == frame.name, keyframes.c.revision == frame.moment.revision
            )
            if connection.scalar(known) is None:
                _insert_frame(connection, frame)

    async def _trim(self, now: int, off: Run[Any], write: Run[Any]) -> None:
        """Move the floor up as far as age and size demand."""
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
        with self._engine.reading() as connection:
            floor = reading.floor(connection)
            found = reading.last_until(connection, time=time)
            return found if floor and found and found.revision > floor.revision else None

    def _smaller_floor(self, size: int) -> Moment | Frame | None:
        """Where history must begin to be small enough; or a keyframe that is missing for that."""
        with self._engine.reading() as connection:
            used = reading.usage(connection)
            if sum(used.values()) <= size:
                return None
            second = []
            for name in used:
                frames = select(keyframes.c.revision, keyframes.c.time).where(keyframes.c.resource == name)
                found = connection.execute(frames.order_by(keyframes.c.revision)).all()
                first = select(func.min(segments.c.first)).where(segments.c.resource == name)
                begin = connection.scalar(first)
                # What is before a keyframe can go.
                second += [Moment(*row) for row in found if begin is not None and row.revision > begin][:1]
            if second:
                return min(second)
            largest = max(used, key=lambda name: used[name])
        return self._due(largest, 0)

    def _cut(self, floor: Moment) -> None:
        """Have history begin at a moment; each resource keeps the keyframe before it, and what follows that."""
        with self._engine.writing() as connection:
            _set(connection, FLOOR, floor.revision)
            _set(connection, FLOOR_TIME, floor.time)
            kept = (
                select(keyframes.c.resource, func.max(keyframes.c.revision))
                .where(keyframes.c.revision <= floor.revision)
                .group_by(keyframes.c.resource)
            )
            for name, revision in connection.execute(kept).all():
                old = select(segments.c.id, segments.c.heads).where(
                    segments.c.resource == name, segments.c.last <= revision
                )
                for number, heads in connection.execute(old).all():
                    keys = {head.key for head in read_heads(heads)}
                    connection.execute(
                        delete(segment_keys).where(
                            segment_keys.c.resource == name,
                            segment_keys.c.key.in_(keys),
                            segment_keys.c.segment == number,
                        )
                    )
                    connection.execute(delete(segments).where(segments.c.id == number))
                older = (keyframes.c.resource == name, keyframes.c.revision < revision)
                connection.execute(delete(keyframes).where(*older))


def _unsealed(connection: Connection, name: str, after: int, until: int) -> list[Item]:
    columns = history.c
    query = (
        select(columns.revision, columns.key, columns.type, columns.time, columns.author, columns.data)
        .where(
            columns.resource == name, columns.revision > after, columns.revision <= until, columns.time > 0
        )
        .order_by(columns.revision)
        .limit(_MOST)
    )
    found: list[Item] = []
    size = 0
    for row in connection.execute(query):
        found.append(Item(*row))
        size += len(row.data)
        if size >= _RAW:
            break
    return found


def _segment(name: str, first: int, items: Sequence[Item]) -> Segment:
    last, until = items[-1].revision, max(item.time for item in items)
    keys = sorted({item.key for item in items})
    since = min(item.time for item in items)
    return Segment(name, first, last, since, until, len(items), keys, pack(items))


def _first_frame(connection: Connection, name: str, moment: Moment) -> Frame:
    query = select(objects.c.key, objects.c.revision, objects.c.data).where(objects.c.resource == name)
    items = [
        Item(revision, key, 0, moment.time, "", data) for key, revision, data in connection.execute(query)
    ]
    return Frame(name, moment, pack(items))


def _insert_frame(connection: Connection, frame: Frame) -> None:
    packed = frame.packed
    values = {
        "resource": frame.name,
        "revision": frame.moment.revision,
        "time": frame.moment.time,
        "raw": packed.raw,
        "size": packed.size,
        "heads": packed.heads,
        "bodies": packed.bodies,
    }
    connection.execute(insert(keyframes).values(values))


def _remembered(connection: Connection) -> Retention | None:
    query = select(counters.c.name, counters.c.value).where(counters.c.name.in_((_AGE, _SIZE)))
    found: dict[str, int] = {row.name: row.value for row in connection.execute(query)}
    if _AGE not in found:
        return None
    age, size = found[_AGE], found.get(_SIZE, 0)
    return Retention(age / 1000 if age else None, size or None)


def _remember(connection: Connection, retention: Retention) -> None:
    _set(connection, _AGE, int((retention.age or 0) * 1000))
    _set(connection, _SIZE, retention.size or 0)


def _drop(connection: Connection) -> None:
    for table in (segments, segment_keys, keyframes):
        connection.execute(delete(table))
    connection.execute(delete(counters).where(counters.c.name.in_((FLOOR, FLOOR_TIME))))


def _set(connection: Connection, name: str, value: int) -> None:
    connection.execute(delete(counters).where(counters.c.name == name))
    connection.execute(insert(counters).values(name=name, value=value))
