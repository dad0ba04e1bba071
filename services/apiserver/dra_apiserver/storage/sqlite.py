"""The engine for SQLite."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from dra_shared.files import private_file, private_folder
from dra_shared.lockfile import DirectoryLock
from dra_shared.log import logger
from sqlalchemy import Connection, create_engine, event, func, select
from sqlalchemy.dialects.sqlite import insert as upsert
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from dra_apiserver.storage import rows, schema
from dra_apiserver.storage.engine import DatabaseUnusable, History, Revisions, reason
from dra_apiserver.storage.records import Change, Record, Resource
from dra_apiserver.storage.rows import Row
from dra_apiserver.storage.sqlsessions import SqlReading, SqlWriting
from dra_apiserver.storage.upgrade import make_tables, migrate, version
from dra_apiserver.storage.wal import DamagedLog, commits

_COMPACTED = "compacted"
_CHECKPOINT_BYTES = 16 << 20
_TRUNCATE_BYTES = 256 << 20

_log = logger(__name__)

# Each statement has many rows: SQLite inserts them in one step, while executemany takes the interpreter's
# lock from the event loop for every row.
_MOST_ROWS = 50
_ADD_HISTORY = (
    "INSERT INTO history (revision, resource, key, type, previous, data, time, author) VALUES ",
    "(?,?,?,?,?,?,?,?)",
    "",
)
_KEEP_HISTORY = (
    "INSERT INTO history (revision, resource, key, type, previous, data, time, author) VALUES ",
    "(?,?,?,?,?,?,?,?)",
    " ON CONFLICT (revision) DO NOTHING",
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


class SqliteEngine:
    """A database in one file, in WAL mode.

    With `relaxed`, a commit does not wait for the disk: a crash of the machine, not of the process, may then
    lose the last writes. A separate thread moves the log into the database, so that the writer does not wait.
    If that fails, it is tried again after `retry_after` seconds.
    """

    def __init__(self, path: Path, relaxed: bool = False, retry_after: float = 5.0) -> None:
        self._path = path
        self._log_path = path.with_name(path.name + "-wal")
        self._relaxed = relaxed
        self._retry_after = retry_after
        self._engine = create_engine(f"sqlite:///{path}", poolclass=NullPool)
        event.listen(self._engine, "connect", self._configure)
        self._lock: DirectoryLock | None = None
        self._writer: Connection | None = None
        self._reader: Connection | None = None
        self._reading = threading.Lock()
        self._compacted = 0
        self._unchecked = 0
        self._due = threading.Event()
        self._closing = False
        self._checkpointer: threading.Thread | None = None

    def _configure(self, connection: Any, _: Any) -> None:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f"PRAGMA synchronous={'NORMAL' if self._relaxed else 'FULL'}")
        connection.execute("PRAGMA wal_autocheckpoint=0")
        connection.execute("PRAGMA busy_timeout=10000")

    @property
    def name(self) -> str:
        """The file's path."""
        return str(self._path)

    def open(self) -> Revisions:
        """Open or create the file, and run migrations if it is older."""
        private_folder(self._path.parent)
        self._lock = DirectoryLock(self._path.parent, "API server")
        with self._usable():
            # SQLite gives its other files the permissions of this one.
            private_file(self._path)
            logged = self._read_logged()
            self._writer = self._engine.connect()
            self._reader = self._engine.connect()
            self._report_lost(self._reader, logged)
            self._migrate(self._writer)
            self._check_pages(self._reader)
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
        self._compacted = compacted
        return Revisions(max(newest, stored, compacted), compacted)

    @contextmanager
    def _usable(self) -> Iterator[None]:
        try:
            yield
        except DatabaseUnusable:
            raise
        except (SQLAlchemyError, OSError) as error:
            raise DatabaseUnusable(self.name, reason(error)) from error

    def _read_logged(self) -> list[int]:
        try:
            return commits(self._log_path)
        except DamagedLog:
            raise DatabaseUnusable(
                self.name,
                f"the header of its log {self._log_path} is damaged, and the log has the last writes",
            ) from None

    def _report_lost(self, connection: Connection, logged: Sequence[int]) -> None:
        """Log how many transactions SQLite has left out of a damaged log."""
        _, taken, _ = connection.exec_driver_sql("PRAGMA wal_checkpoint(PASSIVE)").one()
        connection.rollback()
        lost = sum(number > taken for number in logged)
        # Do not count the last transaction: a power cut may truncate it, but then it was not confirmed to a
        # client.
        if lost > 1:
            _log.error("the database's log is damaged: writes are lost", path=str(self._path), commits=lost)

    def _check_pages(self, connection: Connection) -> None:
        """Read every page, because SQLite finds damage only in pages that it happens to read."""
        found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
        connection.rollback()
        if found != "ok":
            raise DatabaseUnusable(self.name, f"it is damaged: {found}")

    def _migrate(self, connection: Connection) -> None:
        found = version(connection, self.name)
        connection.rollback()
        if found is None:
            with connection.begin():
                make_tables(connection)
        else:
            migrate(connection, self.name, found)

    def objects(self) -> Iterator[tuple[Resource, Record]]:
        """Yield every stored object, by resource and key."""
        with self._usable(), self._read() as reader:
            yield from rows.objects(
                reader.execution_options(stream_results=True).exec_driver_sql(
                    "SELECT resource, key, revision, data FROM objects ORDER BY resource, key"
                )
            )

    def write(self, changes: Sequence[Change]) -> None:
        """Store changes in one transaction. Each statement has many rows."""
        assert self._writer is not None
        made = rows.rows_of(changes, self._compacted)
        with self._writer.begin():
            _execute(self._writer, _ADD_HISTORY, made.history)
            _execute(self._writer, _KEEP_HISTORY, made.before)
            _execute(self._writer, _PUT_OBJECTS, made.kept)
            _execute(self._writer, _REMOVE_OBJECTS, made.gone)
        self._unchecked += 2 * sum(len(change.event.record.data) for change in changes)
        if self._unchecked > _CHECKPOINT_BYTES:
            self._unchecked = 0
            self._due.set()

    def history(self, resource: Resource, after: int, until: int, size: int) -> History:
        """Return events with the version before each, on a separate connection."""
        query = (
            "SELECT h.type, h.key, h.revision, h.data, p.revision, p.data FROM history h "
            "LEFT JOIN history p ON p.revision = h.previous "
            "WHERE h.resource = ? AND h.revision > ? AND h.revision <= ? ORDER BY h.revision"
        )
        wanted = (rows.resource_text(resource), after, until)
        with self._read() as reader, reader.exec_driver_sql(query, wanted) as found:
            events, whole = rows.events(found, size)
        return History(events, until if whole else events[-1].revision)

    def changed_keys(self, resource: Resource, after: int, until: int) -> dict[str, int]:
        """Return the keys that changed with their revisions before.

        This is one pass over the index and reads no object.
        """
        # SQLite takes the other columns from the row that has the minimum.
        query = (
            "SELECT key, previous, min(revision) FROM history "
            "WHERE resource = ? AND revision > ? AND revision <= ? GROUP BY key"
        )
        with self._read() as reader:
            found = reader.exec_driver_sql(query, (rows.resource_text(resource), after, until))
            return {key: previous for key, previous, _ in found}

    def versions(self, revisions: Sequence[int], size: int) -> list[Record]:
        """Return versions, with one look-up for each."""
        query = "SELECT key, data FROM history WHERE revision = ?"
        with self._read() as reader:
            return rows.versions(
                revisions, size, lambda revision: reader.exec_driver_sql(query, (revision,)).first()
            )

    @contextmanager
    def _read(self) -> Iterator[Connection]:
        with self._reading:
            assert self._reader is not None
            try:
                yield self._reader
            finally:
                self._reader.rollback()

    @contextmanager
    def begin_reading(self) -> Iterator[SqlReading]:
        """Read on a separate connection, so that other reads do not wait for a long one."""
        with self._engine.connect() as connection:
            yield SqlReading(connection)

    @contextmanager
    def begin_writing(self) -> Iterator[SqlWriting]:
        """Begin a transaction of the writer."""
        assert self._writer is not None
        with self._writer.begin():
            yield SqlWriting(self._writer)

    def compact(self, revision: int, limit: int) -> bool:
        """Delete events in steps, so that writers wait for at most one step.

        The last version before the window stays as long as an event within the window follows it: a watcher
        needs the object's previous state.
        """
        assert self._writer is not None
        self._compacted = max(self._compacted, revision)
        with self._writer.begin():
            self._writer.execute(
                upsert(schema.counters)
                .values(name=_COMPACTED, value=revision)
                .on_conflict_do_update(
                    index_elements=["name"], set_={"value": func.max(schema.counters.c.value, revision)}
                )
            )
            done = self._writer.exec_driver_sql(
                "DELETE FROM history WHERE revision IN (SELECT h.revision FROM history h WHERE h.revision <= ? "
                "AND h.revision NOT IN (SELECT previous FROM history WHERE revision > ?) LIMIT ?)",
                (revision, revision, limit),
            )
            return done.rowcount >= limit

    def check(self) -> list[str]:
        """Run SQLite's own check, and check that both tables agree."""
        with self._read() as reader:
            found = [str(row[0]) for row in reader.exec_driver_sql("PRAGMA integrity_check")]
            found = [line for line in found if line != "ok"]
            newest = (
                "SELECT o.resource, o.key FROM objects o JOIN history h ON h.revision = o.revision "
                "WHERE h.data <> o.data OR h.key <> o.key OR h.type = 2"
            )
            found += [f"{row[0]} {row[1]}: history differs" for row in reader.exec_driver_sql(newest)]
            lost = (
                "SELECT h.resource, h.key FROM history h WHERE h.type <> 2 AND h.revision = (SELECT max(revision) "
                "FROM history WHERE resource = h.resource AND key = h.key) AND NOT EXISTS (SELECT 1 FROM objects o "
                "WHERE o.resource = h.resource AND o.key = h.key AND o.revision = h.revision)"
            )
            found += [f"{row[0]} {row[1]}: object is missing" for row in reader.exec_driver_sql(lost)]
        return found

    def _checkpoints(self) -> None:
        failed = False
        while True:
            self._due.wait(self._retry_after if failed else None)
            if self._closing:
                return
            self._due.clear()
            try:
                self._checkpoint()
                failed = False
            except Exception as error:
                # Keep the log, because it has writes that are not in the database file.
                if not failed:
                    _log.warning("checkpoint failed, it is tried again", error=reason(error))
                failed = True

    def _checkpoint(self) -> None:
        log = self._log_path
        large = log.exists() and log.stat().st_size > _TRUNCATE_BYTES
        with self._engine.connect() as connection:
            connection.exec_driver_sql(f"PRAGMA wal_checkpoint({'TRUNCATE' if large else 'PASSIVE'})")
            connection.rollback()

    def close(self) -> None:
        """Move the log into the database and close both."""
        self._closing = True
        self._due.set()
        if self._checkpointer is not None:
            self._checkpointer.join()
        for connection in (self._reader, self._writer):
            if connection is not None:
                connection.close()
        self._engine.dispose()
        if self._lock is not None:
            self._lock.release()
