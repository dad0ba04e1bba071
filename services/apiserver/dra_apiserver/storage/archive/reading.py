"""Read earlier states from the archive, and from events that are not archived yet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dra_apiserver.storage import rows
from dra_apiserver.storage.archive.segment import Head, read_bodies, read_heads
from dra_apiserver.storage.records import DELETED, MODIFIED, Event, Record, Resource
from dra_apiserver.storage.sessions import Moment, Range, Reading

FLOOR, FLOOR_TIME = "archive_floor", "archive_floor_time"
_DELETED, _MODIFIED = rows.TYPES.index(DELETED), rows.TYPES.index(MODIFIED)


class Entry(NamedTuple):
    """An event with its time, and its author in the form of `storage/authors.py`."""

    event: Event
    time: int
    author: str


def floor(session: Reading) -> Moment | None:
    """Return the oldest moment of the archive, its floor; None if there is no archive."""
    found = session.counters((FLOOR, FLOOR_TIME))
    return Moment(found[FLOOR], found.get(FLOOR_TIME, 0)) if FLOOR in found else None


def objects(session: Reading, resource: Resource, revision: int, prefix: str = "") -> dict[str, Record]:
    """Return the objects of a resource at a revision that is not before the archive's oldest moment."""
    found: dict[str, tuple[int, memoryview]] = {}
    frame = session.frame(resource, revision)
    after = 0
    if frame is not None:
        after = frame.moment.revision
        _fold(found, frame.packed.heads, frame.packed.bodies, revision, prefix)
    for last, heads, bodies in session.segments(resource, after, revision):
        _fold(found, heads, bodies, revision, prefix)
        after = last
    if after < revision:
        for item in session.events(resource, after, revision):
            if item.type == _DELETED:
                found.pop(item.key, None)
            elif item.key.startswith(prefix):
                found[item.key] = (item.revision, memoryview(item.data))
    return {key: Record(key, at, bytes(data)) for key, (at, data) in sorted(found.items())}


def _fold(
    found: dict[str, tuple[int, memoryview]], heads: bytes, bodies: bytes, revision: int, prefix: str
) -> None:
    """Apply a segment's events up to a revision to the objects."""
    data = read_bodies(bodies)
    for head in read_heads(heads):
        if head.revision > revision or not head.key.startswith(prefix):
            continue
        if head.type == _DELETED:
            found.pop(head.key, None)
        else:
            found[head.key] = (head.revision, data[head.start : head.end])


def version(session: Reading, resource: Resource, key: str, revision: int) -> Record | None:
    """Return an object as it was at a revision that is not before the archive's oldest moment."""
    if (done := session.sealed_revision(resource)) < revision:
        item = session.last_event(resource, key, done, revision)
        if item is not None:
            return None if item.type == _DELETED else Record(key, item.revision, item.data)
    return _Archived(session, resource).version(key, revision)


class _Unpacked:
    """An unpacked segment or keyframe: the positions of each object's versions, oldest first."""

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

    def __init__(self, session: Reading, resource: Resource) -> None:
        self._session = session
        self._resource = resource
        self._unpacked: dict[int, _Unpacked] = {}

    def _segments(self, key: str | None, after: int, until: int, newest: bool) -> Iterator[_Unpacked]:
        """Yield the segments that may have versions between two revisions, the newest first if `newest`."""
        for number in self._session.segment_numbers(self._resource, key, after, until, newest):
            if number not in self._unpacked:
                self._unpacked[number] = _Unpacked(*self._session.segment(number))
            yield self._unpacked[number]

    def version(self, key: str, revision: int) -> Record | None:
        """Return an object as it was."""
        for segment in self._segments(key, 0, revision, newest=True):
            own = [head for head in segment.heads.get(key, ()) if head.revision <= revision]
            if own:
                return None if own[-1].type == _DELETED else segment.record(own[-1])
        # The object has not changed since the archive began.
        found = self._session.frame(self._resource, revision)
        if found is None:
            return None
        frame = _Unpacked(found.packed.heads, found.packed.bodies)
        return frame.record(frame.heads[key][0]) if key in frame.heads else None

    def entries(self, wanted: Range) -> list[Entry]:
        """Return changes, oldest first."""
        found: list[_Found] = []
        for segment in self._segments(wanted.key, wanted.after, wanted.until, wanted.newest):
            found += ((head, segment) for head in _select_heads(segment, wanted))
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


def _select_heads(segment: _Unpacked, wanted: Range) -> Iterator[Head]:
    keys = segment.heads if wanted.key is None else [wanted.key]
    for key in keys:
        if key.startswith(wanted.prefix):
            for head in segment.heads.get(key, ()):
                if wanted.after < head.revision <= wanted.until:
                    yield head


def entries(session: Reading, wanted: Range) -> list[Entry]:
    """Return changes, oldest first. `Event.previous` is None also if the version before is not kept."""
    archived = _Archived(session, wanted.resource)
    done = session.sealed_revision(wanted.resource)
    if (oldest := floor(session)) is not None:
        wanted = wanted._replace(after=max(wanted.after, oldest.revision))
    recent = wanted._replace(after=max(wanted.after, done))
    if not wanted.newest:
        found = archived.entries(wanted) if wanted.after < done else []
        left = wanted.limit - len(found)
        return [*found, *_recent(session, recent._replace(limit=left), archived)] if left else found
    found = _recent(session, recent, archived)
    left = wanted.limit - len(found)
    if left and wanted.after < done:
        found = [*archived.entries(wanted._replace(limit=left)), *found]
    return found


def _recent(session: Reading, wanted: Range, archived: _Archived) -> list[Entry]:
    """Return the changes that are in no segment yet."""
    found = []
    for item, before in session.changes_in(wanted):
        previous = before
        if previous is None and item.type == _MODIFIED:
            previous = archived.version(item.key, item.revision - 1)
        event = Event(rows.TYPES[item.type], Record(item.key, item.revision, item.data), previous)
        found.append(Entry(event, item.time, item.author))
    return found[::-1] if wanted.newest else found


def last_until(session: Reading, *, revision: int | None = None, time: int = 0) -> Moment | None:
    """Return the newest event, of all resources, that is not after a revision or a time."""
    found = [_nearest_in_time(session, time) if revision is None else session.nearest(revision)]
    place, wanted = (1, time) if revision is None else (0, revision)
    for heads in session.last_heads(revision, time):
        moments = (Moment(head.revision, head.time) for head in read_heads(heads))
        found.append(max((moment for moment in moments if moment[place] <= wanted), default=None))
    return max((moment for moment in found if moment is not None), default=None)


def first_time(session: Reading) -> int:
    """Return the time of the oldest event that has one, in milliseconds; 0 if there is none."""
    bounds = session.bounds()
    if bounds is None:
        return 0
    low, high = bounds
    time = 0
    while low <= high:
        middle = (low + high) // 2
        here = session.nearest(middle)
        if here is None:
            low = middle + 1
        else:
            high, time = here.revision - 1, here.time
    return time


def _nearest_in_time(session: Reading, time: int) -> Moment | None:
    """Return the newest event until a time by binary search, because revisions are in the order of time."""
    bounds = session.bounds()
    if bounds is None:
        return None
    low, high = bounds
    found: Moment | None = None
    while low <= high:
        middle = (low + high) // 2
        here = session.nearest(middle)
        if here is not None and here.time > time:
            high = middle - 1
        else:
            found, low = here or found, middle + 1
    return found
