"""The past as people ask for it: moments, who changed what, and the objects as they were.

Upstream has no such thing: etcd keeps revisions for some minutes, without their times and authors.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

from sqlalchemy import Connection

from dra_apiserver.errors import expired, too_large_resource_version
from dra_apiserver.storage.archive import reading
from dra_apiserver.storage.archive.reading import Entry, Moment, Range
from dra_apiserver.storage.records import Record, Resource
from dra_apiserver.storage.store import Store

T = TypeVar("T")

__all__ = ["Entry", "Moment", "Range", "Timeline"]


class Timeline:
    """What the store's database still has of the past."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def oldest(self) -> Moment:
        """The oldest moment that can be looked at."""
        return await self._read(self._oldest)

    def _oldest(self, connection: Connection) -> Moment:
        """Where the archive begins before what Kubernetes' clients can read, it is that."""
        store = self._store
        window = Moment(max(store.compacted, 1), store.compacted_time)
        floor = reading.floor(connection)
        return min(floor, window) if floor is not None else window

    async def moment(self, wanted: int | datetime) -> Moment:
        """The moment that a revision or a time names: of a time the last revision until then.

        Raises:
            StatusError: 410, it is before the history that is kept; 504, the revision is yet to come.
        """
        if isinstance(wanted, datetime):
            time = int(wanted.timestamp() * 1000)
            return await self._read(lambda connection: self._until(connection, time))
        return await self._read(lambda connection: self._at(connection, wanted))

    def _at(self, connection: Connection, revision: int) -> Moment:
        oldest, newest = self._oldest(connection), self._store.revision
        if revision < oldest.revision:
            raise expired(f"too old resource version: {revision} ({oldest.revision})")
        if revision > newest:
            raise too_large_resource_version(revision, newest)
        found = reading.last_until(connection, revision=revision)
        return Moment(revision, found.time if found is not None else oldest.time)

    def _until(self, connection: Connection, time: int) -> Moment:
        oldest = self._oldest(connection)
        found = reading.last_until(connection, time=time)
        if found is not None and found.revision >= oldest.revision:
            return Moment(min(found.revision, self._store.revision), found.time)
        if oldest.time and time >= oldest.time:
            return oldest
        raise expired(f"the history that is kept begins after {_shown(time)}")

    async def entries(self, wanted: Range) -> list[Entry]:
        """Changes, oldest first. `Event.previous` is None also where the version before is not kept."""
        return await self._read(lambda connection: reading.entries(connection, wanted))

    async def at(self, resource: Resource, revision: int, key: str) -> Record | None:
        """An object as it was.

        Raises:
            StatusError: 410, the revision is not kept.
        """
        if revision < self._store.compacted:
            return await self._archived(
                revision, lambda connection: reading.version(connection, resource, key, revision)
            )
        snapshot = await self._store.snapshot(resource, revision)
        async for records in snapshot.records([key] if key in snapshot.keys else []):
            for record in records:
                return record
        return None

    async def objects(self, resource: Resource, revision: int, prefix: str) -> dict[str, Record]:
        """The objects with keys that start with `prefix`, by key, as they were.

        Raises:
            StatusError: 410, the revision is not kept.
        """
        if revision >= self._store.compacted:
            snapshot = await self._store.snapshot(resource, revision, prefix)
            return {one.key: one async for records in snapshot.records(snapshot.keys) for one in records}
        return await self._archived(
            revision, lambda connection: reading.objects(connection, resource, revision, prefix)
        )

    async def _archived(self, revision: int, read: Callable[[Connection], T]) -> T:
        def checked(connection: Connection) -> T:
            found = read(connection)
            # Asked afterwards: what was read may have been incomplete by then.
            if (oldest := self._oldest(connection).revision) > revision:
                raise expired(f"too old resource version: {revision} ({oldest})")
            return found

        return await self._read(checked)

    async def _read(self, work: Callable[[Connection], T]) -> T:
        def read() -> T:
            with self._store.engine.reading() as connection:
                return work(connection)

        return await asyncio.to_thread(read)


def _shown(time: int) -> str:
    return datetime.fromtimestamp(time / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
