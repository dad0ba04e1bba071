"""The databases that the store can use: one entry each, by the scheme of the URL in ``--database``.

Upstream has one, etcd (`apiserver/pkg/storage/storagebackend`). To add one, write a module with an `Engine`,
and add an entry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakValueDictionary

from dra_apiserver.storage.engine import Engine
from dra_apiserver.storage.memory import MemoryDatabase, MemoryEngine

IN_DIRECTORY = "sqlite:"
"""The database that a server has by default: a file in its own directory."""

IN_MEMORY = "memory:"
"""A database that ends with the server's process."""

SQLITE = "dralab.sqlite3"
"""The name of that file."""


@dataclass(frozen=True, slots=True)
class Database:
    """The properties of a database that its engine needs.

    ``directory`` has the server's own files. With ``relaxed``, writes are answered before they are on disk.
    """

    url: str
    directory: Path
    relaxed: bool = False


def _sqlite(database: Database) -> Engine:
    # The library takes a while to import, and other engines do without it.
    from dra_apiserver.storage.sqlite import SqliteEngine

    rest = database.url.removeprefix(IN_DIRECTORY)
    if not rest:
        return SqliteEngine(database.directory / SQLITE, database.relaxed)
    path = rest.removeprefix("///")
    if path == rest or not path:
        raise ValueError(f"not a file's URL, such as sqlite:///objects.sqlite3: {database.url}")
    return SqliteEngine(Path(path), database.relaxed)


def _postgresql(database: Database) -> Engine:
    try:
        from dra_apiserver.storage.postgresql import PostgresqlEngine
    except ModuleNotFoundError as error:
        raise ValueError(f"PostgreSQL needs {error.name}: pip install 'dralab[postgresql]'") from None
    return PostgresqlEngine(database.url, database.relaxed)


_MEMORY: WeakValueDictionary[Path, MemoryDatabase] = WeakValueDictionary()
"""The databases in memory that an engine of this process has, by the server's directory."""


def _memory(database: Database) -> Engine:
    if database.url != IN_MEMORY:
        raise ValueError(f"not the URL of a database in memory, which is {IN_MEMORY!r}: {database.url}")
    made = _MEMORY.setdefault(database.directory, MemoryDatabase())
    return MemoryEngine(made)


ENGINES: Mapping[str, Callable[[Database], Engine]] = {
    "sqlite": _sqlite,
    "postgresql": _postgresql,
    "memory": _memory,
}
_SAME = {"postgres": "postgresql"}
"""Other names of schemes, which libpq and administrators use."""


def engine(database: Database) -> Engine:
    """Return the engine of a database, not yet open.

    Raises:
        ValueError: no engine has this scheme, or the URL is not valid for its engine.
    """
    scheme, colon, _ = database.url.partition(":")
    make = ENGINES.get(_SAME.get(scheme, scheme)) if colon else None
    if make is None:
        raise ValueError(
            f"unknown database {database.url!r}, known: {', '.join(f'{name}:' for name in ENGINES)}"
        )
    return make(database)
