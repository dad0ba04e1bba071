"""What is read from the archive and from the history that is not in it yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, func, select
from sqlalchemy.sql import ColumnElement

from dra_apiserver.storage import rows
from dra_apiserver.storage.archive.segment import Head, read_bodies, read_heads
from dra_apiserver.storage.records import DELETED, MODIFIED, Event, Record, Resource
from dra_apiserver.storage.schema import counters, history, keyframes, segment_keys, segments

FLOOR, FLOOR_TIME = "archive_floor", "archive_floor_time"
_DELETED, _MODIFIED = rows.TYPES.index(DELETED), rows.TYPES.index(MODIFIED)
_PREVIOUS = history.alias("previous")


class Moment(NamedTuple):
    """A revision, and when it was written, in milliseconds since 1970; 0 where that is not known."""

    revision: int
    time: int


class Entry(NamedTuple):
    """An event, when it happened, and its author as `storage/authors.py` has it."""

    event: Event
    time: int
    author: str


class Range(NamedTuple):
    """The changes with `after` < revision <= `until` of what has a key that starts with `prefix`, or of one object.

    Of more than `limit` it is the oldest, or the `newest`.
    """

    resource: Resource
    prefix: str = ""
    key: str | None = None
    after: int = 0
    until: int = 0
    limit: int = 500
    newest: bool = True


def floor(connection: Connection) -> Moment | None:
    """The oldest moment that the archive has; None where there is no archive."""
    query = select(counters.c.name, counters.c.value).where(counters.c.name.in_((FLOOR, FLOOR_TIME)))
    found: dict[str, int] = {row.name: row.value for row in connection.execute(query)}
    return Moment(found[FLOOR], found.get(FLOOR_TIME, 0)) if FLOOR in found else None


def sealed(connection: Connection, name: str) -> int:
    """The revision up to which a resource's history is in the archive."""
    last = connection.scalar(select(func.max(segments.c.last)).where(segments.c.resource == name)) or 0
    base = connection.scalar(select(func.max(keyframes.c.revision)).where(keyframes.c.resource == name)) or 0
    return max(last, base)


def objects(connection: Connection, resource: Resource, revision: int, prefix: str = "") -> dict[str, Record]:
    """The objects of a resource as they were at a revision that is not before the floor."""
    name = rows.resource_text(resource)
    found: dict[str, tuple[int, memoryview]] = {}
    frame = _keyframe(connection, name, revision)
    after = 0
    if frame is not None:
        after = frame.revision
        _fold(found, frame.heads, frame.bodies, revision, prefix)
    query = (
        select(segments.c.last, segments.c.heads, segments.c.bodies)
        .where(segments.c.resource == name, segments.c.last > after, segments.c.first < revision)
        .order_by(segments.c.last)
    )
    for last, heads, bodies in connection.execute(query):
        _fold(found, heads, bodies, revision, prefix)
        after = last
    if after < revision:
        for row in connection.execute(_pending(name, after, revision)):
            if row.type == _DELETED:
                found.pop(row.key, None)
            elif row.key.startswith(prefix):
                found[row.key] = (row.revision, memoryview(row.data))
    return {key: Record(key, at, bytes(data)) for key, (at, data) in sorted(found.items())}


def _keyframe(connection: Connection, name: str, revision: int) -> Any:
    query = (
        select(keyframes)
        .where(keyframes.c.resource == name, keyframes.c.revision <= revision)
        .order_by(keyframes.c.revision.desc())
        .limit(1)
    )
    return connection.execute(query).first()


def _pending(name: str, after: int, until: int) -> Select[Any]:
    """The events that are in no segment yet."""
    columns = history.c
    return (
        select(columns.revision, columns.key, columns.type, columns.time, columns.author, columns.data)
        .where(
            columns.resource == name, columns.revision > after, columns.revision <= until, columns.time > 0
        )
        .order_by(columns.revision)
    )


def _fold(
    found: dict[str, tuple[int, memoryview]], heads: bytes, bodies: bytes, revision: int, prefix: str
) -> None:
    """Bring objects up to a revision with what a segment has until then."""
    data = read_bodies(bodies)
    for head in read_heads(heads):
        if head.revision > revision or not head.key.startswith(prefix):
            continue
        if head.type == _DELETED:
            found.pop(head.key, None)
        else:
            found[head.key] = (head.revision, data[head.start : head.end])


def version(connection: Connection, resource: Resource, key: str, revision: int) -> Record | None:
    """An object as it was at a revision that is not before the floor."""
    name = rows.resource_text(resource)
    if (done := sealed(connection, name)) < revision:
        query = _pending(name, done, revision).where(history.c.key == key).order_by(None)
        row = connection.execute(query.order_by(history.c.revision.desc()).limit(1)).first()
        if row is not None:
            return None if row.type == _DELETED else Record(key, row.revision, row.data)
    return _Archived(connection, name).version(key, revision)


class _Unpacked:
    """A segment or a keyframe: where each object's versions are, oldest first."""

    def __init__(self, heads: bytes, bodies: bytes) -> None:
        self.heads: dict[str, list[Head]] = {}
        for head in read_heads(heads):
            self.heads.setdefault(head.key, []).append(head)
        self._bodies = read_bodies(bodies)

    def record(self, head: Head) -> Record:
        return Record(head.key, head.revision, bytes(self._bodies[head.start : head.end]))


_Found = tuple[Head, _Unpacked]


class _Archived:
    """One resource's segments; each is unpacked once."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self._name = name
        self._unpacked: dict[int, _Unpacked] = {}

    def _segments(self, key: str | None, after: int, until: int, newest: bool) -> Iterator[_Unpacked]:
        """The segments that may have something between two revisions."""
        query = select(segments.c.id).where(
            segments.c.resource == self._name, segments.c.last > after, segments.c.first < until
        )
        if key is not None:
            of_key = select(segment_keys.c.segment).where(
                segment_keys.c.resource == self._name, segment_keys.c.key == key
            )
            query = query.where(segments.c.id.in_(of_key))
        order = segments.c.last.desc() if newest else segments.c.last
        for number in self._connection.scalars(query.order_by(order)).all():
            if number not in self._unpacked:
                packed = select(segments.c.heads, segments.c.bodies).where(segments.c.id == number)
                self._unpacked[number] = _Unpacked(*self._connection.execute(packed).one())
            yield self._unpacked[number]

    def version(self, key: str, revision: int) -> Record | None:
        """An object as it was."""
        for segment in self._segments(key, 0, revision, newest=True):
            own = [head for head in segment.heads.get(key, ()) if head.revision <= revision]
            if own:
                return None if own[-1].type == _DELETED else segment.record(own[-1])
        # It has not changed since the archive began.
        row = _keyframe(self._connection, self._name, revision)
        if row is None:
            return None
        frame = _Unpacked(row.heads, row.bodies)
        return frame.record(frame.heads[key][0]) if key in frame.heads else None

    def entries(self, wanted: Range) -> list[Entry]:
        """Changes, oldest first."""
        found: list[_Found] = []
        for segment in self._segments(wanted.key, wanted.after, wanted.until, wanted.newest):
            found += ((head, segment) for head in _selected(segment, wanted))
            if len(found) >= wanted.limit:
                break
        found.sort(key=lambda one: one[0].revision)
        found = found[-wanted.limit :] if wanted.newest else found[: wanted.limit]
        return [self._entry(*one) for one in found]

    def _entry(self, head: Head, segment: _Unpacked) -> Entry:
        previous = None
        if head.type == _MODIFIED:
            own = segment.heads[head.key]
            place = own.index(head)
            previous = segment.record(own[place - 1]) if place else self.version(head.key, head.revision - 1)
        event = Event(rows.TYPES[head.type], segment.record(head), previous)
        return Entry(event, head.time, head.author)


def _selected(segment: _Unpacked, wanted: Range) -> Iterator[Head]:
    keys = segment.heads if wanted.key is None else [wanted.key]
    for key in keys:
        if key.startswith(wanted.prefix):
            for head in segment.heads.get(key, ()):
                if wanted.after < head.revision <= wanted.until:
                    yield head


def entries(connection: Connection, wanted: Range) -> list[Entry]:
    """Changes, oldest first. `Event.previous` is None also where the version before is not kept."""
    name = rows.resource_text(wanted.resource)
    archived = _Archived(connection, name)
    done = sealed(connection, name)
    if (oldest := floor(connection)) is not None:
        wanted = wanted._replace(after=max(wanted.after, oldest.revision))
    recent = wanted._replace(after=max(wanted.after, done))
    if not wanted.newest:
        found = archived.entries(wanted) if wanted.after < done else []
        left = wanted.limit - len(found)
        return [*found, *_recent(connection, recent._replace(limit=left), archived)] if left else found
    found = _recent(connection, recent, archived)
    left = wanted.limit - len(found)
    if left and wanted.after < done:
        found = [*archived.entries(wanted._replace(limit=left)), *found]
    return found


def _recent(connection: Connection, wanted: Range, archived: _Archived) -> list[Entry]:
    """Of the changes that are in no segment yet."""
    columns = history.c
    conditions: list[ColumnElement[bool]] = [
        columns.resource == rows.resource_text(wanted.resource),
        columns.revision > wanted.after,
        columns.revision <= wanted.until,
        columns.time > 0,
    ]
    if wanted.key is not None:
        conditions.append(columns.key == wanted.key)
    elif wanted.prefix:
        conditions.append(columns.key.startswith(wanted.prefix, autoescape=True))
    query = (
        select(
            columns.type,
            columns.key,
            columns.revision,
            columns.data,
            _PREVIOUS.c.revision,
            _PREVIOUS.c.data,
            columns.time,
            columns.author,
        )
        .outerjoin(_PREVIOUS, _PREVIOUS.c.revision == columns.previous)
        .where(*conditions)
        .order_by(columns.revision.desc() if wanted.newest else columns.revision)
        .limit(wanted.limit)
    )
    found = []
    for code, key, revision, data, earlier, before, time, author in connection.execute(query).all():
        previous = None if earlier is None else Record(key, earlier, before)
        if previous is None and code == _MODIFIED:
            previous = archived.version(key, revision - 1)
        found.append(Entry(Event(rows.TYPES[code], Record(key, revision, data), previous), time, author))
    return found[::-1] if wanted.newest else found


def last_until(connection: Connection, *, revision: int | None = None, time: int = 0) -> Moment | None:
    """The newest event that is not after a revision or a time, of all resources."""
    if revision is not None:
        found = [_nearest(connection, revision)]
        begin, wanted = segments.c.first + 1, revision
    else:
        found = [_nearest_in_time(connection, time)]
        begin, wanted = segments.c.since, time
    newest = (
        select(segments.c.resource, func.max(segments.c.last).label("last"))
        .where(begin <= wanted)
        .group_by(segments.c.resource)
        .subquery()
    )
    query = select(segments.c.heads).join(
        newest, (segments.c.resource == newest.c.resource) & (segments.c.last == newest.c.last)
    )
    for heads in connection.scalars(query):
        moments = (Moment(head.revision, head.time) for head in read_heads(heads))
        place = 0 if revision is not None else 1
        found.append(max((moment for moment in moments if moment[place] <= wanted), default=None))
    return max((moment for moment in found if moment is not None), default=None)


def _nearest_in_time(connection: Connection, time: int) -> Moment | None:
    """The newest event of the history until a time, by halves: revisions are written in the order of time."""
    low, high = connection.execute(select(func.min(history.c.revision), func.max(history.c.revision))).one()
    found: Moment | None = None
    while low is not None and low <= high:
        middle = (low + high) // 2
        here = _nearest(connection, middle)
        if here is not None and here.time > time:
            high = middle - 1
        else:
            found, low = here or found, middle + 1
    return found


def _nearest(connection: Connection, revision: int) -> Moment | None:
    """The newest event of the history that is not after a revision."""
    query = (
        select(history.c.revision, history.c.time)
        .where(history.c.revision <= revision, history.c.time > 0)
        .order_by(history.c.revision.desc())
        .limit(1)
    )
    row = connection.execute(query).first()
    return None if row is None else Moment(*row)


def usage(connection: Connection) -> Mapping[str, int]:
    """Bytes on disk by resource, without SQL's own."""
    found: dict[str, int] = {}
    for table in (segments, keyframes):
        query = select(table.c.resource, func.sum(table.c.size)).group_by(table.c.resource)
        for name, size in connection.execute(query):
            found[name] = found.get(name, 0) + int(size)
    return found
