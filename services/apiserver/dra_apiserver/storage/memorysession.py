"""Objects and their history in memory, and a session that reads and writes them."""

from __future__ import annotations

import threading
from bisect import bisect_right, insort
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from dra_apiserver.storage import rows
from dra_apiserver.storage.records import DELETED, Change, Record, Resource
from dra_apiserver.storage.sessions import Frame, Item, Moment, Range, Segment


class Version(NamedTuple):
    """One version of an object. Its time is 0 if it is kept only as the version before another one."""

    resource: Resource
    key: str
    type: int
    previous: int
    data: bytes
    time: int
    author: str


class Past:
    """Objects, versions by revision, and the archive."""

    def __init__(self) -> None:
        self.objects: dict[Resource, dict[str, Record]] = {}
        self.versions: dict[int, Version] = {}
        self.revisions: list[int] = []
        self.by_resource: dict[Resource, list[int]] = {}
        self.counters: dict[str, int] = {}
        self.segments: dict[int, Segment] = {}
        self.frames: dict[Resource, dict[int, Frame]] = {}
        self.segment_number = 0

    def copy(self) -> Past:
        """Return a copy that shares the versions, segments and keyframes, which never change."""
        made = Past()
        # A session changes no objects.
        made.objects = self.objects
        made.versions = dict(self.versions)
        made.revisions = list(self.revisions)
        made.by_resource = {resource: list(found) for resource, found in self.by_resource.items()}
        made.counters = dict(self.counters)
        made.segments = dict(self.segments)
        made.frames = {resource: dict(found) for resource, found in self.frames.items()}
        made.segment_number = self.segment_number
        return made

    @property
    def newest(self) -> int:
        """Return the newest revision of an event or an object; 0 if there is none."""
        return max(self.revisions[-1] if self.revisions else 0, self.newest_object)

    @property
    def newest_object(self) -> int:
        """Return the newest revision of an object; 0 if there is none."""
        found = (record.revision for records in self.objects.values() for record in records.values())
        return max(found, default=0)

    def write(self, changes: Sequence[Change], compacted: int) -> None:
        """Store changes. Also store the versions before them again, if compaction has dropped these."""
        for change in changes:
            event, before = change.event, change.event.previous
            previous = 0 if before is None else before.revision
            if before is not None and previous <= compacted and previous not in self.versions:
                modified = rows.CODES["MODIFIED"]
                self._add(previous, Version(change.resource, event.key, modified, 0, before.data, 0, ""))
            code, data = rows.CODES[event.type], event.record.data
            version = Version(change.resource, event.key, code, previous, data, change.time, change.author)
            self._add(event.revision, version)
            objects = self.objects.setdefault(change.resource, {})
            if event.type == DELETED:
                objects.pop(event.key, None)
            else:
                objects[event.key] = event.record

    def _add(self, revision: int, version: Version) -> None:
        self.versions[revision] = version
        insort(self.revisions, revision)
        insort(self.by_resource.setdefault(version.resource, []), revision)

    def remove(self, revisions: Iterable[int]) -> None:
        """Delete versions."""
        gone = {revision for revision in revisions if revision in self.versions}
        if not gone:
            return
        for resource in {self.versions.pop(revision).resource for revision in gone}:
            self.by_resource[resource] = [one for one in self.by_resource[resource] if one not in gone]
        self.revisions = [one for one in self.revisions if one not in gone]

    def unneeded_revisions(self, revisions: Sequence[int], after: int) -> list[int]:
        """Return the revisions that can be deleted: no event newer than `after` has one as its previous version."""
        later = self.revisions[bisect_right(self.revisions, after) :]
        needed = {self.versions[revision].previous for revision in later}
        return [revision for revision in revisions if revision not in needed]

    def between(self, resource: Resource, after: int, until: int) -> Iterator[tuple[int, Version]]:
        """Yield a resource's versions with `after` < revision <= `until`, oldest first."""
        found = self.by_resource.get(resource, [])
        for revision in found[bisect_right(found, after) : bisect_right(found, until)]:
            yield revision, self.versions[revision]

    def before(self, version: Version) -> Record | None:
        """Return the version before another one, if it is kept."""
        found = self.versions.get(version.previous)
        return None if found is None else Record(found.key, version.previous, found.data)

    def rows(self, resource: Resource, after: int, until: int) -> Iterator[tuple[object, ...]]:
        """Yield the rows that `rows.events` converts to events."""
        for revision, one in self.between(resource, after, until):
            before = self.before(one)
            earlier = (None, None) if before is None else (before.revision, before.data)
            yield one.type, one.key, revision, one.data, *earlier

    def check(self) -> list[str]:
        """Return the differences between the objects and their newest versions."""
        newest: dict[tuple[Resource, str], int] = {}
        for revision in self.revisions:
            version = self.versions[revision]
            newest[version.resource, version.key] = revision
        problems = []
        for (resource, key), revision in newest.items():
            version, stored = self.versions[revision], self.objects.get(resource, {}).get(key)
            name = rows.resource_text(resource)
            if (rows.TYPES[version.type] == DELETED) != (stored is None):
                problems.append(
                    f"{name} {key}: object is missing" if stored is None else f"{name} {key}: it is gone"
                )
            elif stored is not None and (stored.revision, stored.data) != (revision, version.data):
                problems.append(f"{name} {key}: history differs")
        return problems


class MemorySession:
    """Reads and writes the past. Each method holds the lock, so that none sees half of a write."""

    def __init__(self, past: Past, lock: threading.RLock) -> None:
        self._past = past
        self._lock = lock

    def counters(self, names: Collection[str]) -> dict[str, int]:
        """Return the named numbers that were ever set."""
        return {name: self._past.counters[name] for name in names if name in self._past.counters}

    def bounds(self) -> tuple[int, int] | None:
        """Return the oldest and the newest revision."""
        with self._lock:
            revisions = self._past.revisions
            return (revisions[0], revisions[-1]) if revisions else None

    def nearest(self, revision: int) -> Moment | None:
        """Return the newest event that is not after a revision."""
        with self._lock:
            revisions = self._past.revisions
            for place in range(bisect_right(revisions, revision) - 1, -1, -1):
                if time := self._past.versions[revisions[place]].time:
                    return Moment(revisions[place], time)
        return None

    def _items(self, resource: Resource, after: int, until: int) -> list[tuple[Item, Version]]:
        with self._lock:
            return [
                (Item(revision, one.key, one.type, one.time, one.author, one.data), one)
                for revision, one in self._past.between(resource, after, until)
                if one.time > 0
            ]

    def events(self, resource: Resource, after: int, until: int, limit: int | None = None) -> list[Item]:
        """Return the events, oldest first."""
        return [item for item, _ in self._items(resource, after, until)][:limit]

    def last_event(self, resource: Resource, key: str, after: int, until: int) -> Item | None:
        """Return the newest event of an object."""
        found = [item for item, _ in self._items(resource, after, until) if item.key == key]
        return found[-1] if found else None

    def changes_in(self, wanted: Range) -> list[tuple[Item, Record | None]]:
        """Return events with the version before each."""
        with self._lock:
            found = [
                (item, self._past.before(version))
                for item, version in self._items(wanted.resource, wanted.after, wanted.until)
                if (item.key == wanted.key if wanted.key is not None else item.key.startswith(wanted.prefix))
            ]
        return (found[::-1] if wanted.newest else found)[: wanted.limit]

    def counts(self, until: int) -> list[tuple[Resource, int]]:
        """Return the number of versions of each resource."""
        with self._lock:
            found = [(resource, bisect_right(one, until)) for resource, one in self._past.by_resource.items()]
        return [(resource, count) for resource, count in found if count]

    def unneeded_revisions(self, resource: Resource, last: int, compacted: int) -> list[int]:
        """Return the revisions that can be deleted."""
        with self._lock:
            own = self._past.by_resource.get(resource, [])
            return self._past.unneeded_revisions(own[: bisect_right(own, last)], compacted)

    def sealed_revision(self, resource: Resource) -> int:
        """Return the end of the last segment or keyframe."""
        with self._lock:
            ends = [one.last for one in self._past.segments.values() if one.resource == resource]
            return max([*ends, *self._past.frames.get(resource, ())], default=0)

    def frame(self, resource: Resource, revision: int | None = None) -> Frame | None:
        """Return the newest keyframe that is not after the revision."""
        with self._lock:
            frames = self._past.frames.get(resource, {})
            found = max((one for one in frames if revision is None or one <= revision), default=None)
            return None if found is None else frames[found]

    def frames(self, resource: Resource) -> list[Moment]:
        """Return the moments of keyframes."""
        with self._lock:
            return sorted(frame.moment for frame in self._past.frames.get(resource, {}).values())

    def _segments(self, resource: Resource, after: int, until: int) -> list[tuple[int, Segment]]:
        with self._lock:
            found = [
                (number, one)
                for number, one in self._past.segments.items()
                if one.resource == resource and one.last > after and one.first < until
            ]
        return sorted(found, key=lambda pair: pair[1].last)

    def segments(self, resource: Resource, after: int, until: int) -> Iterator[tuple[int, bytes, bytes]]:
        """Yield last revision, heads and bodies."""
        for _, one in self._segments(resource, after, until):
            yield one.last, one.packed.heads, one.packed.bodies

    def segment_numbers(
        self, resource: Resource, key: str | None, after: int, until: int, newest: bool
    ) -> list[int]:
        """Return the numbers of segments."""
        found = [
            number for number, one in self._segments(resource, after, until) if key is None or key in one.keys
        ]
        return found[::-1] if newest else found

    def segment(self, number: int) -> tuple[bytes, bytes]:
        """Return heads and bodies of a segment."""
        found = self._past.segments[number].packed
        return found.heads, found.bodies

    def first_sealed(self, resource: Resource) -> int | None:
        """Return the revision after which the first segment begins."""
        with self._lock:
            begins = [one.first for one in self._past.segments.values() if one.resource == resource]
        return min(begins, default=None)

    def sealed_since(self, resource: Resource, revision: int) -> tuple[int, Moment] | None:
        """Return size and end of segments."""
        with self._lock:
            found = [
                one
                for one in self._past.segments.values()
                if one.resource == resource and one.last > revision
            ]
        if not found:
            return None
        end = Moment(max(one.last for one in found), max(one.until for one in found))
        return sum(one.packed.raw for one in found), end

    def last_heads(self, revision: int | None, time: int) -> list[bytes]:
        """Return the heads of each resource's last segment until then."""
        last: dict[Resource, Segment] = {}
        with self._lock:
            for one in self._past.segments.values():
                begun = one.since <= time if revision is None else one.first < revision
                if begun and (one.resource not in last or one.last > last[one.resource].last):
                    last[one.resource] = one
        return [one.packed.heads for one in last.values()]

    def usage(self) -> Mapping[Resource, int]:
        """Return the size of each resource's blobs in bytes."""
        found: dict[Resource, int] = {}
        with self._lock:
            sizes = [(one.resource, one.packed.size) for one in self._past.segments.values()]
            sizes += [
                (one.resource, one.packed.size)
                for frames in self._past.frames.values()
                for one in frames.values()
            ]
        for resource, size in sizes:
            found[resource] = found.get(resource, 0) + size
        return found

    def newest_object(self) -> int:
        """Return the newest revision of a stored object."""
        with self._lock:
            return self._past.newest_object

    def objects(self) -> list[tuple[Resource, Record]]:
        """Return all stored objects, by resource and key."""
        with self._lock:
            return [
                (resource, records[key])
                for resource, records in sorted(self._past.objects.items())
                for key in sorted(records)
            ]

    def set_counter(self, name: str, value: int) -> None:
        """Set a named number."""
        self._past.counters[name] = value

    def add_segment(self, segment: Segment) -> None:
        """Add a segment."""
        self._past.segment_number += 1
        self._past.segments[self._past.segment_number] = segment

    def add_frame(self, frame: Frame) -> None:
        """Add a keyframe, unless there is one of that revision."""
        self._past.frames.setdefault(frame.resource, {}).setdefault(frame.moment.revision, frame)

    def forget(self, revisions: Sequence[int], newest: int) -> None:
        """Delete events."""
        self._past.remove(self._past.unneeded_revisions(revisions, newest))

    def cut(self, revision: int) -> None:
        """Delete segments and keyframes before each resource's last keyframe that is not after the revision."""
        past = self._past
        for resource, frames in past.frames.items():
            kept = max((one for one in frames if one <= revision), default=None)
            if kept is None:
                continue
            past.frames[resource] = {one: frame for one, frame in frames.items() if one >= kept}
            past.segments = {
                number: one
                for number, one in past.segments.items()
                if one.resource != resource or one.last > kept
            }

    def drop(self, names: Collection[str]) -> None:
        """Delete the archive, and the named numbers."""
        self._past.segments, self._past.frames = {}, {}
        for name in names:
            self._past.counters.pop(name, None)
