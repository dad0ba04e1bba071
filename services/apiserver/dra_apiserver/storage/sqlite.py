"""SQLite as the engine."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from dra_shared.log import logger
from sqlalchemy import (
    Connection,
    create_engine,
    event,
    func,
    inspect,
    select,
    text,
)
from sqlalchemy.dialects.sqlite import insert as upsert
from sqlalchemy.pool import NullPool

from dra_apiserver.storage import schema
from dra_apiserver.storage.engine import Revisions
from dra_apiserver.storage.records import ADDED, DELETED, MODIFIED, Change, Event, Record, Resource

_TYPES = (ADDED, MODIFIED, DELETED)
_CODES = {name: code for code, name in enumerate(_TYPES)}
_COMPACTED = "compacted"
_CHECKPOINT_BYTES = 16 << 20
_TRUNCATE_BYTES = 256 << 20

_log = logger(__name__)

Row = tuple[Any, ...]

# Statements with many rows each: one step of SQLite's for all of them, where executemany takes the interpreter's lock
# from the event loop for every row.
_MOST_ROWS = 50
_ADD_HISTORY = (
    "INSERT INTO history (revision, resource, key, type, previous, data) VALUES ",
    "(?,?,?,?,?,?)",
    "",
)
_PUT_OBJECTS = (
    "INSERT INTO objects (resource, key, revision, data) VALUES ",
    "(?,?,?,?)",
    " ON CONFLICT (resource, key) DO UPDATE SET revision = excluded.revision, data = excluded.data",
)
_REMOVE_OBJECTS = (
    "WITH gone (resource, key) AS (VALUES ",
    "(?,?)",
    ") DELETE FROM objects WHERE rowid IN (SELECT o.rowid FROM gone g CROSS JOIN objects o "
    "ON o.resource = g.resource AND o.key = g.key)",
)


def _execute(connection: Connection, statement: tuple[str, str, str], rows: Sequence[Row]) -> None:
    before, row, after = statement
    for start in range(0, len(rows), _MOST_ROWS):
        part = rows[start : start + _MOST_ROWS]
        text = before + ",".join([row] * len(part)) + after
        connection.exec_driver_sql(text, tuple(chain.from_iterable(part)))


def _text(resource: Resource) -> str:
    return f"{resource[0]}/{resource[1]}"


def _resource(text: str) -> Resource:
    group, _, plural = text.partition("/")
    return group, plural


class SqliteEngine:
    """One file in WAL mode.

    `relaxed` leaves out the wait for the disk at each commit: a crash of the machine, not of the process, may then
    lose the last writes. The log is moved into the database by a thread of its own, off the writer's path.
    """

    def __init__(self, path: Path, relaxed: bool = False) -> None:
        self._path = path
        self._relaxed = relaxed
        self._engine = create_engine(f"sqlite:///{path}", poolclass=NullPool)
        event.listen(self._engine, "connect", self._configure)
        self._writer: Connection | None = None
        self._reader: Connection | None = None
        self._reading = threading.Lock()
        self._unchecked = 0
        self._due = threading.Event()
        self._closing = False
        self._checkpointer: threading.Thread | None = None

    def _configure(self, connection: Any, _: Any) -> None:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f"PRAGMA synchronous={'NORMAL' if self._relaxed else 'FULL'}")
        connection.execute("PRAGMA wal_autocheckpoint=0")
        connection.execute("PRAGMA busy_timeout=10000")

    def open(self) -> Revisions:
        """Open or create the file; run migrations where it is older."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._writer = self._engine.connect()
        self._reader = self._engine.connect()
        self._migrate(self._writer)
        with self._writer.begin():
            newest = self._writer.scalar(select(func.max(schema.history.c.revision))) or 0
            stored = self._writer.scalar(select(func.max(schema.objects.c.revision))) or 0
            compacted = (
                self._writer.scalar(
                    select(schema.counters.c.value).where(schema.counters.c.name == _COMPACTED)
                )
                or 0
            )
        self._checkpointer = threading.Thread(target=self._checkpoints, name="checkpoint", daemon=True)
        self._checkpointer.start()
        return Revisions(max(newest, stored, compacted), compacted)

    def _migrate(self, connection: Connection) -> None:
        if not inspect(connection).has_table("alembic_version"):
            connection.rollback()
            with connection.begin():
                schema.metadata.create_all(connection)
                connection.execute(
                    text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)")
                )
                connection.execute(
                    text("INSERT INTO alembic_version VALUES (:head)"), {"head": schema.REVISION}
                )
            return
        found = connection.scalar(text("SELECT version_num FROM alembic_version"))
        connection.rollback()
        if found != schema.REVISION:
            from dra_apiserver.migrations import upgrade

            _log.info(
                "database is of an older version, it is being migrated", path=str(self._path), version=found
            )
            upgrade(connection)

    def objects(self) -> Iterator[tuple[Resource, Record]]:
        """Every stored object, by resource and key."""
        with self._reading:
            assert self._reader is not None
            resources: dict[str, Resource] = {}
            rows = self._reader.execution_options(stream_results=True).exec_driver_sql(
                "SELECT resource, key, revision, data FROM objects ORDER BY resource, key"
            )
            for name, key, revision, data in rows:
                resource = resources.get(name)
                if resource is None:
                    resource = resources[name] = _resource(name)
                yield resource, Record(key, revision, data)
            self._reader.rollback()

    def write(self, changes: Sequence[Change]) -> None:
        """One transaction; each statement brings many rows."""
        assert self._writer is not None
        rows: list[Row] = []
        final: dict[tuple[str, str], Event] = {}
        size = 0
        for change in changes:
            one = change.event
            record = one.record
            name = _text(change.resource)
            previous = one.previous.revision if one.previous is not None else 0
            rows.append((record.revision, name, one.key, _CODES[one.type], previous, record.data))
            size += len(record.data)
            final[name, one.key] = one
        kept: list[Row] = []
        gone: list[Row] = []
        for place, one in final.items():
            if one.type == DELETED:
                gone.append(place)
            else:
                kept.append((*place, one.revision, one.record.data))
        with self._writer.begin():
            _execute(self._writer, _ADD_HISTORY, rows)
            _execute(self._writer, _PUT_OBJECTS, kept)
            _execute(self._writer, _REMOVE_OBJECTS, gone)
        self._unchecked += 2 * size
        if self._unchecked > _CHECKPOINT_BYTES:
            self._unchecked = 0
            self._due.set()

    def history(self, resource: Resource, after: int, until: int, limit: int) -> list[Event]:
        """Read from a connection of its own; the state before each event comes with it."""
        query = (
            "SELECT h.type, h.key, h.revision, h.data, p.revision, p.data FROM history h "
            "LEFT JOIN history p ON p.revision = h.previous "
            "WHERE h.resource = ? AND h.revision > ? AND h.revision <= ? ORDER BY h.revision LIMIT ?"
        )
        with self._reading:
            assert self._reader is not None
            rows = self._reader.exec_driver_sql(query, (_text(resource), after, until, limit)).all()
            self._reader.rollback()
        return [
            Event(
                _TYPES[code],
                Record(key, revision, data),
                None if earlier is None else Record(key, earlier, before),
            )
            for code, key, revision, data, earlier, before in rows
        ]

    def compact(self, revision: int, limit: int) -> bool:
        """Forget in steps, so that writers wait for one step at most.

        The last version before the window stays as long as an event within the window follows it: a watcher needs
        to know what an object looked like before.
        """
        assert self._writer is not None
        with self._writer.begin():
            self._writer.execute(
                upsert(schema.counters)
                .values(name=_COMPACTED, value=revision)
                .on_conflict_do_update(index_elements=["name"], set_={"value": revision})
            )
            done = self._writer.exec_driver_sql(
                "DELETE FROM history WHERE revision IN (SELECT h.revision FROM history h WHERE h.revision <= ? "
                "AND h.revision NOT IN (SELECT previous FROM history WHERE revision > ?) LIMIT ?)",
                (revision, revision, limit),
            )
            return done.rowcount >= limit

    def check(self) -> list[str]:
        """SQLite's own check, and that both tables tell the same."""
        with self._reading:
            assert self._reader is not None
            found = [str(row[0]) for row in self._reader.exec_driver_sql("PRAGMA integrity_check")]
            found = [line for line in found if line != "ok"]
            newest = (
                "SELECT o.resource, o.key FROM objects o JOIN history h ON h.revision = o.revision "
                "WHERE h.data <> o.data OR h.key <> o.key OR h.type = 2"
            )
            found += [f"{row[0]} {row[1]}: history differs" for row in self._reader.exec_driver_sql(newest)]
            lost = (
                "SELECT h.resource, h.key FROM history h WHERE h.type <> 2 AND h.revision = (SELECT max(revision) "
                "FROM history WHERE resource = h.resource AND key = h.key) AND NOT EXISTS (SELECT 1 FROM objects o "
                "WHERE o.resource = h.resource AND o.key = h.key AND o.revision = h.revision)"
            )
            found += [f"{row[0]} {row[1]}: object is missing" for row in self._reader.exec_driver_sql(lost)]
            self._reader.rollback()
        return found

    def _checkpoints(self) -> None:
        with self._engine.connect() as connection:
            while True:
                self._due.wait()
                if self._closing:
                    return
                self._due.clear()
                log = self._path.with_name(self._path.name + "-wal")
                large = log.exists() and log.stat().st_size > _TRUNCATE_BYTES
                connection.exec_driver_sql(f"PRAGMA wal_checkpoint({'TRUNCATE' if large else 'PASSIVE'})")
                connection.rollback()

    def close(self) -> None:
        """Move the log into the database and close."""
        self._closing = True
        self._due.set()
        if self._checkpointer is not None:
            self._checkpointer.join()
        for connection in (self._reader, self._writer):
            if connection is not None:
                connection.close()
        self._engine.dispose()
