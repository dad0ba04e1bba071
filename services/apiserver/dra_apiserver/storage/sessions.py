"""Sessions: the interface through which the archive and the timeline read and write the history in an engine.

An engine keeps recent revisions as events, each by itself. The archive (`storage/archive`) packs older ones
into segments, and all objects of a resource at one revision into a keyframe. These methods use resources,
keys and revisions. Each engine decides how to store them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from dra_apiserver.storage.records import Record, Resource


class Moment(NamedTuple):
    """A revision, and when it was written, in milliseconds since 1970; 0 if that is not known."""

    revision: int
    time: int


class Item(NamedTuple):
    """One version: `type` is the index of the event's type in `rows.TYPES`, `time` is in milliseconds since 1970."""

    revision: int
    key: str
    type: int
    time: int
    author: str
    data: bytes


class Packed(NamedTuple):
    """Items as two blobs (`archive/segment.py`), and the size of the items' data before packing."""

    heads: bytes
    bodies: bytes
    raw: int

    @property
    def size(self) -> int:
        """Return the bytes on disk."""
        return len(self.heads) + len(self.bodies)


class Segment(NamedTuple):
    """The packed versions of a resource with `first` < revision <= `last`."""

    resource: Resource
    first: int
    last: int
    since: int
    until: int
    events: int
    keys: Sequence[str]
    packed: Packed


class Frame(NamedTuple):
    """A keyframe: all objects of a resource at a moment."""

    resource: Resource
    moment: Moment
    packed: Packed


class Range(NamedTuple):
    """The changes with `after` < revision <= `until` of one object, or of all keys that start with `prefix`.

    If there are more than `limit`, it is the oldest of them, or the `newest`.
    """

    resource: Resource
    prefix: str = ""
    key: str | None = None
    after: int = 0
    until: int = 0
    limit: int = 500
    newest: bool = True


class Reading(Protocol):
    """Reads events, segments and keyframes.

    Versions that are only kept because an event follows them do not count as events.
    """

    def counters(self, names: Collection[str]) -> dict[str, int]:
        """Return the named numbers that were ever set."""
        ...

    def bounds(self) -> tuple[int, int] | None:
        """Return the oldest and the newest revision that is kept as an event; None if there is none."""
        ...

    def nearest(self, revision: int) -> Moment | None:
        """Return the newest event that is not after a revision."""
        ...

    def events(self, resource: Resource, after: int, until: int, limit: int | None = None) -> Iterable[Item]:
        """Return the events with `after` < revision <= `until`, oldest first, at most `limit`."""
        ...

    def last_event(self, resource: Resource, key: str, after: int, until: int) -> Item | None:
        """Return the newest event of an object with `after` < revision <= `until`."""
        ...

    def changes_in(self, wanted: Range) -> list[tuple[Item, Record | None]]:
        """Return events of a range with the version before each, if that is kept: in the order of the range."""
        ...

    def counts(self, until: int) -> list[tuple[Resource, int]]:
        """Return the number of events of each resource up to a revision."""
        ...

    def unneeded_revisions(self, resource: Resource, last: int, compacted: int) -> list[int]:
        """Return a resource's revisions up to `last` that are not the version before an event after `compacted`."""
        ...

    def sealed_revision(self, resource: Resource) -> int:
        """Return the revision up to which a resource's history is in the archive."""
        ...

    def frame(self, resource: Resource, revision: int | None = None) -> Frame | None:
        """Return the newest keyframe that is not after the revision."""
        ...

    def frames(self, resource: Resource) -> list[Moment]:
        """Return the moments of a resource's keyframes, oldest first."""
        ...

    def segments(self, resource: Resource, after: int, until: int) -> Iterator[tuple[int, bytes, bytes]]:
        """Yield the segments with revisions after `after` and before `until`: last revision, heads and bodies of
        each.
        """
        ...

    def segment_numbers(
        self, resource: Resource, key: str | None, after: int, until: int, newest: bool
    ) -> list[int]:
        """Return the numbers of these segments in order. If a key is given, only of those that contain it."""
        ...

    def segment(self, number: int) -> tuple[bytes, bytes]:
        """Return heads and bodies of a segment."""
        ...

    def first_sealed(self, resource: Resource) -> int | None:
        """Return the revision after which a resource's first segment begins."""
        ...

    def sealed_since(self, resource: Resource, revision: int) -> tuple[int, Moment] | None:
        """Return size and end of the segments that were sealed after a revision; None if there are none."""
        ...

    def last_heads(self, revision: int | None, time: int) -> list[bytes]:
        """Return, for each resource, the heads of the last segment that does not begin after a revision or a time."""
        ...

    def usage(self) -> Mapping[Resource, int]:
        """Return the bytes that each resource has in the archive."""
        ...


class Writing(Reading, Protocol):
    """Also changes the archive: all of one session's changes are stored, or none."""

    def newest_object(self) -> int:
        """Return the newest revision of a stored object; 0 if there is none."""
        ...

    def objects(self) -> Iterable[tuple[Resource, Record]]:
        """Return all stored objects, by resource."""
        ...

    def set_counter(self, name: str, value: int) -> None:
        """Set a named number."""
        ...

    def add_segment(self, segment: Segment) -> None:
        """Add a segment."""
        ...

    def add_frame(self, frame: Frame) -> None:
        """Add a keyframe, unless there is one of that revision."""
        ...

    def forget(self, revisions: Sequence[int], newest: int) -> None:
        """Delete events, except those after `newest` and the version before each of them."""
        ...

    def cut(self, revision: int) -> None:
        """Delete everything before the last keyframe of each resource that is not after the revision."""
        ...

    def drop(self, names: Collection[str]) -> None:
        """Delete all segments and keyframes, and the named numbers."""
        ...
