"""The databases for tests of the store, by name; and two servers of one database."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from dra_apiserver.storage import Record, Resource, Store
from dra_apiserver.storage.catalog import IN_DIRECTORY, IN_MEMORY, Database, engine
from dra_apiserver.storage.engine import Engine
from dra_apiserver.storage.shared import store_for
from dra_apiserver.storage.store import ChangeFunction
from dra_shared.clock import Clock

MEMORY, SQLITE, POSTGRESQL, TWO_SERVERS = "memory", "sqlite", "postgresql", "postgresql, two servers"
ALL = (MEMORY, SQLITE, POSTGRESQL, TWO_SERVERS)

Opener = Callable[[Clock, float], Any]


class _Pair:
    """Two stores: one writes, the other one reads, and waits for acknowledged writes before each read."""

    _writer: Store
    _reader: Store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    async def write(
        self, resource: Resource, key: str, change: ChangeFunction, dry_run: bool = False
    ) -> Record | None:
        """Write with the writer. The reader has observed the write afterwards."""
        stored = await self._writer.write(resource, key, change, dry_run)
        await self._reader.fresh()
        return stored


class TwoServers(_Pair):
    """Two servers of one database."""

    def __init__(self, make: Callable[[], Engine], clock: Clock, window: float) -> None:
        self._writer = store_for(make(), clock, window)
        self._reader = store_for(make(), clock, window)

    async def __aenter__(self) -> Self:
        await self._writer.__aenter__()
        await self._reader.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._reader.__aexit__(*error)
        await self._writer.__aexit__(*error)


def url(kind: str, postgres: Callable[[], str]) -> str:
    """Return the URL of a database of the kind; ``postgres`` makes a database of PostgreSQL."""
    own = {MEMORY: IN_MEMORY, SQLITE: IN_DIRECTORY}
    return own[kind] if kind in own else postgres()


def opener(kind: str, folder: Path, postgres: Callable[[], str]) -> Opener:
    """Open stores on one database of the kind; ``postgres`` makes a database of PostgreSQL."""
    database = Database(url(kind, postgres), folder, relaxed=True)
    # An in-memory database is deleted with its last engine, so keep one open.
    kept = engine(database)

    def make() -> Engine:
        return engine(database)

    def start(clock: Clock, window: float) -> Store | TwoServers:
        if kind == TWO_SERVERS:
            return TwoServers(make, clock, window)
        return store_for(kept if kind == MEMORY else make(), clock, window)

    return start
