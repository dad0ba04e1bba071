"""Sessions on the tables in ``schema.py``, for every SQL engine."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Select, delete, func, insert, select
from sqlalchemy.sql import ColumnElement

from dra_apiserver.storage import rows
from dra_apiserver.storage.archive.segment import read_heads
from dra_apiserver.storage.records import Record, Resource
from dra_apiserver.storage.rows import resource_of, resource_text
from dra_apiserver.storage.schema import counters, history, keyframes, objects, segment_keys, segments
from dra_apiserver.storage.sessions import Frame, Item, Moment, Packed, Range, Segment

_PREVIOUS = history.alias("previous")


def _events(resource: Resource, after: int, until: int) -> Select[Any]:
    """Select the columns of an `Item`."""
    columns = history.c
    return select(
        columns.revision, columns.key, columns.type, columns.time, columns.author, columns.data
    ).where(
        columns.resource == resource_text(resource),
        columns.revision > after,
        columns.revision <= until,
        columns.time > 0,
    )


class SqlReading:
    """Reads in any thread."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def counters(self, names: Collection[str]) -> dict[str, int]:
        """Return the named numbers that were ever set."""
        query = select(counters.c.name, counters.c.value).where(counters.c.name.in_(names))
        return {row.name: row.value for row in self.connection.execute(query)}

    def bounds(self) -> tuple[int, int] | None:
        """Return the oldest and the newest revision of the history."""
        query = select(func.min(history.c.revision), func.max(history.c.revision))
        low, high = self.connection.execute(query).one()
        return None if low is None else (low, high)

    def nearest(self, revision: int) -> Moment | None:
        """Return the newest event that is not after a revision."""
        query = (
            select(history.c.revision, history.c.time)
            .where(history.c.revision <= revision, history.c.time > 0)
            .order_by(history.c.revision.desc())
            .limit(1)
        )
        row = self.connection.execute(query).first()
        return None if row is None else Moment(*row)

    def events(self, resource: Resource, after: int, until: int, limit: int | None = None) -> Iterator[Item]:
        """Yield the events, oldest first."""
        query = _events(resource, after, until).order_by(history.c.revision).limit(limit)
        for row in self.connection.execute(query):
            yield Item(*row)

    def last_event(self, resource: Resource, key: str, after: int, until: int) -> Item | None:
        """Return the newest event of an object."""
        query = _events(resource, after, until).where(history.c.key == key)
        row = self.connection.execute(query.order_by(history.c.revision.desc()).limit(1)).first()
        return None if row is None else Item(*row)

    def changes_in(self, wanted: Range) -> list[tuple[Item, Record | None]]:
        """Return events with the version before each."""
        columns = history.c
        conditions: list[ColumnElement[bool]] = []
        if wanted.key is not None:
            conditions.append(columns.key == wanted.key)
        elif wanted.prefix:
            conditions.append(columns.key.startswith(wanted.prefix, autoescape=True))
        query = (
            _events(wanted.resource, wanted.after, wanted.until)
            .add_columns(_PREVIOUS.c.revision, _PREVIOUS.c.data)
            .outerjoin(_PREVIOUS, _PREVIOUS.c.revision == columns.previous)
            .where(*conditions)
            .order_by(columns.revision.desc() if wanted.newest else columns.revision)
            .limit(wanted.limit)
        )
        found = []
        for *item, revision, data in self.connection.execute(query).all():
            one = Item(*item)
            found.append((one, None if revision is None else Record(one.key, revision, data)))
        return found

    def counts(self, until: int) -> list[tuple[Resource, int]]:
        """Return how many rows each resource has."""
        query = select(history.c.resource, func.count()).where(history.c.revision <= until)
        found = self.connection.execute(query.group_by(history.c.resource)).all()
        return [(resource_of(name), count) for name, count in found]

    def unneeded_revisions(self, resource: Resource, last: int, compacted: int) -> list[int]:
        """Return the revisions of rows that can be deleted."""
        needed = select(history.c.previous).where(history.c.revision > compacted)
        query = select(history.c.revision).where(
            history.c.resource == resource_text(resource),
            history.c.revision <= last,
            history.c.revision.not_in(needed),
        )
        return [*self.connection.scalars(query)]

    def sealed_revision(self, resource: Resource) -> int:
        """Return the end of the last segment or keyframe."""
        name = resource_text(resource)
        last = select(func.max(segments.c.last)).where(segments.c.resource == name)
        base = select(func.max(keyframes.c.revision)).where(keyframes.c.resource == name)
        return max(self.connection.scalar(last) or 0, self.connection.scalar(base) or 0)

    def frame(self, resource: Resource, revision: int | None = None) -> Frame | None:
        """Return the newest keyframe that is not after the revision."""
        query = select(keyframes).where(keyframes.c.resource == resource_text(resource))
        if revision is not None:
            query = query.where(keyframes.c.revision <= revision)
        row = self.connection.execute(query.order_by(keyframes.c.revision.desc()).limit(1)).first()
        if row is None:
            return None
        return Frame(resource, Moment(row.revision, row.time), Packed(row.heads, row.bodies, row.raw))

    def frames(self, resource: Resource) -> list[Moment]:
        """Return the moments of keyframes."""
        query = select(keyframes.c.revision, keyframes.c.time).where(
            keyframes.c.resource == resource_text(resource)
        )
        return [Moment(*row) for row in self.connection.execute(query.order_by(keyframes.c.revision))]

    def segments(self, resource: Resource, after: int, until: int) -> Iterator[tuple[int, bytes, bytes]]:
        """Yield last revision, heads and bodies."""
        query = (
            select(segments.c.last, segments.c.heads, segments.c.bodies)
            .where(
                segments.c.resource == resource_text(resource),
                segments.c.last > after,
                segments.c.first < until,
            )
            .order_by(segments.c.last)
        )
        yield from map(tuple, self.connection.execute(query))

    def segment_numbers(
        self, resource: Resource, key: str | None, after: int, until: int, newest: bool
    ) -> list[int]:
        """Return the primary keys of segments."""
        name = resource_text(resource)
        query = select(segments.c.id).where(
            segments.c.resource == name, segments.c.last > after, segments.c.first < until
        )
        if key is not None:
            of_key = select(segment_keys.c.segment).where(
                segment_keys.c.resource == name, segment_keys.c.key == key
            )
            query = query.where(segments.c.id.in_(of_key))
        order = segments.c.last.desc() if newest else segments.c.last
        return [*self.connection.scalars(query.order_by(order))]

    def segment(self, number: int) -> tuple[bytes, bytes]:
        """Return heads and bodies of a segment."""
        query = select(segments.c.heads, segments.c.bodies).where(segments.c.id == number)
        heads, bodies = self.connection.execute(query).one()
        return heads, bodies

    def first_sealed(self, resource: Resource) -> int | None:
        """Return the revision after which the first segment begins."""
        query = select(func.min(segments.c.first)).where(segments.c.resource == resource_text(resource))
        found: int | None = self.connection.scalar(query)
        return found

    def sealed_since(self, resource: Resource, revision: int) -> tuple[int, Moment] | None:
        """Return size and end of segments."""
        query = select(func.sum(segments.c.raw), func.max(segments.c.last), func.max(segments.c.until)).where(
            segments.c.resource == resource_text(resource), segments.c.last > revision
        )
        raw, last, time = self.connection.execute(query).one()
        return None if raw is None else (int(raw), Moment(last, time))

    def last_heads(self, revision: int | None, time: int) -> list[bytes]:
        """Return the heads of each resource's last segment until then."""
        begun = segments.c.since <= time if revision is None else segments.c.first < revision
        newest = (
            select(segments.c.resource, func.max(segments.c.last).label("last"))
            .where(begun)
            .group_by(segments.c.resource)
            .subquery()
        )
        query = select(segments.c.heads).join(
            newest, (segments.c.resource == newest.c.resource) & (segments.c.last == newest.c.last)
        )
        return [*self.connection.scalars(query)]

    def usage(self) -> Mapping[Resource, int]:
        """Return the size of each resource's blobs in bytes, without the overhead of the database."""
        found: dict[Resource, int] = {}
        for table in (segments, keyframes):
            query = select(table.c.resource, func.sum(table.c.size)).group_by(table.c.resource)
            for name, size in self.connection.execute(query):
                resource = resource_of(name)
                found[resource] = found.get(resource, 0) + int(size)
        return found


class SqlWriting(SqlReading):
    """A transaction, in the thread that writes."""

    def newest_object(self) -> int:
        """Return the newest revision of a stored object."""
        return self.connection.scalar(select(func.max(objects.c.revision))) or 0

    def objects(self) -> Iterable[tuple[Resource, Record]]:
        """Return all stored objects, by resource."""
        columns = objects.c
        query = select(columns.resource, columns.key, columns.revision, columns.data)
        return rows.objects(self.connection.execute(query.order_by(columns.resource)))

    def set_counter(self, name: str, value: int) -> None:
        """Set a named number."""
        self.connection.execute(delete(counters).where(counters.c.name == name))
        self.connection.execute(insert(counters).values(name=name, value=value))

    def add_segment(self, segment: Segment) -> None:
        """Add a segment and the index of its keys."""
        name, packed = resource_text(segment.resource), segment.packed
        values = {
            "resource": name,
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
        made = self.connection.execute(insert(segments).values(values)).inserted_primary_key
        assert made is not None
        self.connection.execute(
            insert(segment_keys),
            [{"resource": name, "key": key, "segment": made[0]} for key in segment.keys],
        )

    def add_frame(self, frame: Frame) -> None:
        """Add a keyframe, unless there is one of that revision."""
        name, packed = resource_text(frame.resource), frame.packed
        known = select(keyframes.c.revision).where(
            keyframes.c.resource == name, keyframes.c.revision == frame.moment.revision
        )
        if self.connection.scalar(known) is not None:
            return
        values = {
            "resource": name,
            "revision": frame.moment.revision,
            "time": frame.moment.time,
            "raw": packed.raw,
            "size": packed.size,
            "heads": packed.heads,
            "bodies": packed.bodies,
        }
        self.connection.execute(insert(keyframes).values(values))

    def forget(self, revisions: Sequence[int], newest: int) -> None:
        """Delete rows of the history."""
        needed = select(history.c.previous).where(history.c.revision > newest)
        self.connection.execute(
            delete(history).where(history.c.revision.in_(revisions), history.c.revision.not_in(needed))
        )

    def cut(self, revision: int) -> None:
        """Delete segments and keyframes before each resource's last keyframe that is not after the revision."""
        kept = (
            select(keyframes.c.resource, func.max(keyframes.c.revision))
            .where(keyframes.c.revision <= revision)
            .group_by(keyframes.c.resource)
        )
        for name, frame in self.connection.execute(kept).all():
            self._cut(name, frame)

    def _cut(self, name: str, frame: int) -> None:
        old = select(segments.c.id, segments.c.heads).where(
            segments.c.resource == name, segments.c.last <= frame
        )
        for number, heads in self.connection.execute(old).all():
            # The index begins with the key: without one, each delete would read all of it.
            self.connection.execute(
                delete(segment_keys).where(
                    segment_keys.c.resource == name,
                    segment_keys.c.key.in_({head.key for head in read_heads(heads)}),
                    segment_keys.c.segment == number,
                )
            )
            self.connection.execute(delete(segments).where(segments.c.id == number))
        older = (keyframes.c.resource == name, keyframes.c.revision < frame)
        self.connection.execute(delete(keyframes).where(*older))

    def drop(self, names: Collection[str]) -> None:
        """Delete the archive, and the named numbers."""
        for table in (segments, segment_keys, keyframes):
            self.connection.execute(delete(table))
        self.connection.execute(delete(counters).where(counters.c.name.in_(names)))
