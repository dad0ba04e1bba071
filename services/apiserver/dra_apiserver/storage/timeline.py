"""The history for users: moments, changes with their authors, and objects as they were.

Upstream has no such thing: etcd keeps revisions for some minutes, without their times and authors.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

from dra_apiserver.errors import expired_error, too_large_resource_version
from dra_apiserver.storage.archive import reading
from dra_apiserver.storage.archive.reading import Entry
from dra_apiserver.storage.records import Record, Resource
from dra_apiserver.storage.sessions import Moment, Range, Reading
from dra_apiserver.storage.store import Store

T = TypeVar("T")


class Timeline:
    """The history that the store's database still has."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def oldest(self) -> Moment:
        """Return the oldest moment that can be read."""
        return await self._read(self._oldest)

    def _oldest(self, session: Reading) -> Moment:
        """Return the oldest moment of the archive, or of the revisions that clients can read if that is older.

        Before its first compaction, a server does not know when the history begins. In that case the time of
        the first event is used.
        """
        store = self._store
        window = Moment(max(store.compacted_revision, 1), store.compacted_time)
        floor = reading.floor(session)
        oldest = min(floor, window) if floor is not None else window
        return oldest if oldest.time else Moment(oldest.revision, reading.first_time(session))

    async def moment(self, wanted: int | datetime) -> Moment:
        """Return the moment of a revision, or the last one until a time.

        Raises:
            StatusError: 410, it is before the history that is kept; 504, the revision is yet to come.
        """
        if isinstance(wanted, datetime):
            time = int(wanted.timestamp() * 1000)
            return await self._read(lambda session: self._until(session, time))
        return await self._read(lambda session: self._at(session, wanted))

    def _at(self, session: Reading, revision: int) -> Moment:
        oldest, newest = self._oldest(session), self._store.revision
        if revision < oldest.revision:
            raise expired_error(f"too old resource version: {revision} ({oldest.revision})")
        if revision > newest:
            raise too_large_resource_version(revision, newest)
        found = reading.last_until(session, revision=revision)
        return Moment(revision, found.time if found is not None else oldest.time)

    def _until(self, session: Reading, time: int) -> Moment:
        oldest = self._oldest(session)
        found = reading.last_until(session, time=time)
        if found is not None and found.revision >= oldest.revision:
            return Moment(min(found.revision, self._store.revision), found.time)
        if oldest.time and time >= oldest.time:
            return oldest
        raise expired_error(f"the history that is kept begins after {_format_time(time)}")

    async def entries(self, wanted: Range) -> list[Entry]:
        """Return changes, oldest first. `Event.previous` is None also if the version before is not kept."""
        return await self._read(lambda session: reading.entries(session, wanted))

    async def at(self, resource: Resource, revision: int, key: str) -> Record | None:
        """Return an object as it was.

        Raises:
            StatusError: 410, the revision is not kept.
        """
        if revision < self._store.compacted_revision:
            return await self._read_archived(
                revision, lambda session: reading.version(session, resource, key, revision)
            )
        snapshot = await self._store.snapshot(resource, revision)
        async for records in snapshot.records([key] if key in snapshot.keys else []):
            for record in records:
                return record
        return None

    async def objects(self, resource: Resource, revision: int, prefix: str) -> dict[str, Record]:
        """Return the objects with keys that start with `prefix`, by key, as they were.

        Raises:
            StatusError: 410, the revision is not kept.
        """
        if revision >= self._store.compacted_revision:
            snapshot = await self._store.snapshot(resource, revision, prefix)
            return {one.key: one async for records in snapshot.records(snapshot.keys) for one in records}
        return await self._read_archived(
            revision, lambda session: reading.objects(session, resource, revision, prefix)
        )

    async def _read_archived(self, revision: int, read: Callable[[Reading], T]) -> T:
        def read_checked(session: Reading) -> T:
            found = read(session)
            # This is checked afterwards, because objects may have been deleted during the read.
            if (oldest := self._oldest(session).revision) > revision:
                raise expired_error(f"too old resource version: {revision} ({oldest})")
            return found

        return await self._read(read_checked)

    async def _read(self, work: Callable[[Reading], T]) -> T:
        def read() -> T:
            with self._store.engine.begin_reading() as session:
                return work(session)

        return await asyncio.to_thread(read)


def _format_time(time: int) -> str:
    return datetime.fromtimestamp(time / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
