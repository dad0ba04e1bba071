"""The past as people ask for it: moments, who changed what, and the objects as they were.

Upstream has no such thing: etcd keeps revisions for some minutes, without their times and authors.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple, TypeVar

from sqlalchemy import Connection, select
from sqlalchemy.sql import ColumnElement

from dra_apiserver.errors import expired
from dra_apiserver.storage import rows
from dra_apiserver.storage.records import Event, Record, Resource
from dra_apiserver.storage.schema import history
from dra_apiserver.storage.store import Store

T = TypeVar("T")

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


class Timeline:
    """What the store's database still has of the past."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def oldest(self) -> int:
        """The oldest revision that can be looked at."""
        return max(self._store.compacted, 1)

    async def moment(self, wanted: int | datetime) -> Moment:
        """The moment that a revision or a time names: of a time the last revision until then.

        Raises:
            StatusError: 410, it is before the history that is kept; 504, the revision is yet to come.
        """
        if isinstance(wanted, datetime):
            until = int(wanted.timestamp() * 1000)
            found = await self._read(lambda connection: self._until(connection, until))
            if found is None:
                raise expired(f"the history that is kept begins after {_shown(until)}")
            return found
        self._store.check_revision(wanted)
        return await self._read(lambda connection: _moment_of(connection, wanted))

    async def entries(self, wanted: Range) -> list[Entry]:
        """Changes, oldest first. `Event.previous` is None also where the version before is not kept."""
        return await self._read(lambda connection: _entries(connection, wanted))

    async def at(self, resource: Resource, revision: int, key: str) -> Record | None:
        """An object as it was.

        Raises:
            StatusError: 410, the revision is compacted.
        """
        snapshot = await self._store.snapshot(resource, revision)
        async for records in snapshot.records([key] if key in snapshot.keys else []):
            for record in records:
                return record
        return None

    async def _read(self, work: Callable[[Connection], T]) -> T:
        def read() -> T:
            with self._store.engine.reading() as connection:
                return work(connection)

        return await asyncio.to_thread(read)

    def _until(self, connection: Connection, time: int) -> Moment | None:
        """The last moment that is not after `time`, found by halves: revisions are written in the order of time."""
        low, high = self.oldest, self._store.revision
        first = _next(connection, low)
        if first is not None and first.time > time:
            known = self._store.compacted and first.revision > low
            return Moment(low, first.time) if known else None
        found = first or Moment(high, time)
        while low < high:
            middle = (low + high + 1) // 2
            here = _moment_of(connection, middle)
            if here.time <= time:
                low, found = middle, here
            else:
                high = middle - 1
        return Moment(low, found.time)


def _shown(time: int) -> str:
    return datetime.fromtimestamp(time / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _moment_of(connection: Connection, revision: int) -> Moment:
    """A revision with its time, which is that of the event before it where it is not an event's own."""
    wanted = (
        select(history.c.time)
        .where(history.c.revision <= revision, history.c.time > 0)
        .order_by(history.c.revision.desc())
        .limit(1)
    )
    return Moment(revision, connection.scalar(wanted) or 0)


def _next(connection: Connection, revision: int) -> Moment | None:
    """The first event from a revision on."""
    wanted = (
        select(history.c.revision, history.c.time)
        .where(history.c.revision >= revision, history.c.time > 0)
        .order_by(history.c.revision)
        .limit(1)
    )
    row = connection.execute(wanted).first()
    return None if row is None else Moment(*row)


def _entries(connection: Connection, wanted: Range) -> list[Entry]:
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
    order = columns.revision.desc() if wanted.newest else columns.revision
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
        .order_by(order)
        .limit(wanted.limit)
    )
    found = []
    for code, key, revision, data, earlier, before, time, author in connection.execute(query):
        previous = None if earlier is None else Record(key, earlier, before)
        found.append(Entry(Event(rows.TYPES[code], Record(key, revision, data), previous), time, author))
    return found[::-1] if wanted.newest else found
