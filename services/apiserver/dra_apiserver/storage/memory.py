"""An engine in memory, without SQL and without files. The database ends with its process."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dra_apiserver.storage import rows
from dra_apiserver.storage.engine import DatabaseUnusable, History, Revisions
from dra_apiserver.storage.memorysession import MemorySession, Past
from dra_apiserver.storage.records import Change, Record, Resource


class MemoryDatabase:
    """The objects and their history. They are kept when an engine is closed, so that another engine can open them."""

    def __init__(self, name: str = "memory:") -> None:
        self.name = name
        self.lock = threading.RLock()
        self.in_use = False
        self.compacted = 0
        self.past = Past()


class MemoryEngine:
    """An engine on a :class:`MemoryDatabase`."""

    def __init__(self, database: MemoryDatabase | None = None) -> None:
        self._database = database or MemoryDatabase()
        self._lock = self._database.lock
        self._open = False

    @property
    def name(self) -> str:
        """Return the URL."""
        return self._database.name

    def open(self) -> Revisions:
        """Reserve the database for this engine.

        Raises:
            DatabaseUnusable: another engine has it.
        """
        database = self._database
        with self._lock:
            if database.in_use:
                raise DatabaseUnusable(self.name, "another API server of this process has it")
            database.in_use = self._open = True
            newest = max(database.past.newest, database.compacted)
            return Revisions(newest, database.compacted)

    def objects(self) -> Iterator[tuple[Resource, Record]]:
        """Yield every stored object, by resource and key."""
        yield from MemorySession(self._database.past, self._lock).objects()

    def write(self, changes: Sequence[Change]) -> None:
        """Store changes."""
        with self._lock:
            self._database.past.write(changes, self._database.compacted)

    def history(self, resource: Resource, after: int, until: int, size: int) -> History:
        """Return events with the state before each."""
        with self._lock:
            events, whole = rows.events(self._database.past.rows(resource, after, until), size)
        return History(events, until if whole else events[-1].revision)

    def changed_keys(self, resource: Resource, after: int, until: int) -> dict[str, int]:
        """Return the keys that changed, each with its revision before."""
        found: dict[str, int] = {}
        with self._lock:
            for _, version in self._database.past.between(resource, after, until):
                found.setdefault(version.key, version.previous)
        return found

    def versions(self, revisions: Sequence[int], size: int) -> list[Record]:
        """Return the versions with these revisions."""
        past = self._database.past

        def read(revision: int) -> tuple[str, bytes] | None:
            found = past.versions.get(revision)
            return None if found is None else (found.key, found.data)

        with self._lock:
            return rows.versions(revisions, size, read)

    @contextmanager
    def begin_reading(self) -> Iterator[MemorySession]:
        """Begin a session that reads the past."""
        yield MemorySession(self._database.past, self._lock)

    @contextmanager
    def begin_writing(self) -> Iterator[MemorySession]:
        """Begin a session on a copy, which replaces the past if the session succeeds."""
        with self._lock:
            changed = self._database.past.copy()
            yield MemorySession(changed, self._lock)
            self._database.past = changed

    def compact(self, revision: int, limit: int) -> bool:
        """Forget events up to a revision, except the last version before an event that is kept."""
        with self._lock:
            self._database.compacted = max(self._database.compacted, revision)
            past = self._database.past
            old = past.unneeded_revisions(past.revisions[: bisect_right(past.revisions, revision)], revision)[
                :limit
            ]
            past.remove(old)
        return len(old) >= limit

    def check(self) -> list[str]:
        """Compare the objects with the newest events."""
        with self._lock:
            return self._database.past.check()

    def close(self) -> None:
        """Release the database, so that another engine can open it."""
        with self._lock:
            if self._open:
                self._open = self._database.in_use = False
