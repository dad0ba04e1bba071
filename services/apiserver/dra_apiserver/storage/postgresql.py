"""The engine for PostgreSQL, which several API servers may share.

All writes form one log, numbered without holes in the order in which they become durable: a transaction that
writes holds a lock until it has committed, so a reader always sees the log's beginning. LISTEN and NOTIFY
only say that there is something new.
"""

from __future__ import annotations

import functools
import os
import socket
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar, cast
from uuid import uuid4

import psycopg
from sqlalchemy import Connection, create_engine, event
from sqlalchemy.exc import DBAPIError, DisconnectionError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry

from dra_apiserver.storage import postgresqlsession as session
from dra_apiserver.storage import postgresqlstatements as sql
from dra_apiserver.storage import rows
from dra_apiserver.storage.engine import (
    Changes,
    Commit,
    DatabaseUnusable,
    FarBehind,
    History,
    Revisions,
    reason,
)
from dra_apiserver.storage.numbering import give_revisions
from dra_apiserver.storage.records import Change, Event, Record, Resource
from dra_apiserver.storage.rows import Row
from dra_apiserver.storage.sqlsessions import SqlReading, SqlWriting
from dra_apiserver.storage.succession import Execute, Succession
from dra_apiserver.storage.upgrade import make_tables, migrate, version

_NEWEST, _COMPACTED = "newest", "compacted"
_CHANNEL = "dralab"
# The numbers of advisory locks. They must not be used by other programs in the same database.
_WRITING, _COMPACTING, _MIGRATING = 0x6472616C6162, 0x6472616C6163, 0x6472616C6164
_READERS = 4
# SQL_ASCII stores all bytes unchanged.
_ENCODINGS = ("UTF8", "SQL_ASCII")
# A store that lags further behind follows the log first, so that other servers do not wait for it in their
# writes.
_MOST_BEHIND = 1000
_HISTORY_ROWS = 200
_POOLED = (
    "a pooler gives each transaction another session, and API servers need sessions of their own (PgBouncer's "
    "pool_mode = session)"
)

Read = TypeVar("Read", bound=Callable[..., Any])


def _again(read: Read) -> Read:
    """Repeat a read once if its connection was lost. The pool then opens new connections."""

    @functools.wraps(read)
    def read_again(*arguments: Any, **named: Any) -> Any:
        try:
            return read(*arguments, **named)
        except DBAPIError as error:
            if not error.connection_invalidated:
                raise
        return read(*arguments, **named)

    return cast(Read, read_again)


class PostgresqlEngine:
    """A database with a URL. With `relaxed`, writes are answered before they are on disk: a crash may lose some.

    Raises:
        ValueError: the URL is not valid.
    """

    def __init__(self, url: str, relaxed: bool = False) -> None:
        self._name = session.without_password(url)
        parameters = session.parameters(url)
        self._engine = create_engine(
            "postgresql+psycopg://",
            pool_size=_READERS,
            max_overflow=_READERS,
            connect_args=parameters,
        )
        self._settings = session.settings(str(parameters.get("options", "")), relaxed)
        self._generation = 0
        # A lock, because threads may connect while another thread closes all connections.
        self._drivers = weakref.WeakSet[Any]()
        self._connected = threading.Lock()
        event.listen(self._engine, "do_connect", self._check_open)
        event.listen(self._engine, "connect", self._set_up_connection)
        event.listen(self._engine, "checkout", self._check_generation)
        self._writer: Connection | None = None
        self._loading: Connection | None = None
        self._listener: Connection | None = None
        self._closing = threading.Event()
        self._hung_up = False
        self._own = 0
        self._succession = Succession()
        self._sent = False
        self.compacted_revision = 0

    @property
    def name(self) -> str:
        """The URL without its password."""
        return self._name

    def open(self) -> Revisions:
        """Connect, create or migrate the tables, and start to read: `objects` returns the objects of this moment."""
        self._hung_up = False
        self._closing.clear()
        with self._usable():
            self._check_encoding()
            self._check_sessions()
            self._writer = self._engine.connect()
            with self._writer.begin():
                _lock(self._writer.exec_driver_sql, _MIGRATING)
                found = version(self._writer, self.name)
                if found is None:
                    make_tables(self._writer)
            if found is not None:
                self._migrate(found)
            self._begin()
        return self.reopen()

    def _check_encoding(self) -> None:
        with self._read() as connection:
            found = connection.exec_driver_sql("SHOW server_encoding").scalar()
        if found not in _ENCODINGS:
            raise DatabaseUnusable(self.name, f"its encoding is {found}, and names of objects need UTF8")

    def _check_sessions(self) -> None:
        """Check that each connection has its own session, so that its settings do not apply to other connections."""
        with self._read() as one, self._read() as other:
            pair = [(str(uuid4()), connection) for connection in (one, other)]
            for name, connection in pair:
                connection.exec_driver_sql("SELECT set_config('dralab.session', %s, false)", (name,))
            for name, connection in pair:
                found = connection.exec_driver_sql("SELECT current_setting('dralab.session', true)").scalar()
                if found != name:
                    raise DatabaseUnusable(self.name, _POOLED)

    def _begin(self) -> None:
        """Read the database's identity. Some databases that only speak PostgreSQL's protocol have no identity."""
        try:
            with self._read() as reader:
                self._succession.counters(reader.exec_driver_sql)
        except DBAPIError as error:
            if error.connection_invalidated:
                raise
            self._succession.know_nothing()
        self._leap(0)

    def _leap(self, revision: int) -> None:
        with self._engine.connect() as connection, connection.begin():
            _lock(connection.exec_driver_sql, _WRITING)
            self._succession.leap(connection.exec_driver_sql, revision)

    def _migrate(self, found: str) -> None:
        """Migrate the tables. The lock belongs to the session because Alembic has its own transactions."""
        assert self._writer is not None
        self._writer.exec_driver_sql("SELECT pg_advisory_lock(%s)", (_MIGRATING,))
        self._writer.commit()
        try:
            migrate(self._writer, self.name, version(self._writer, self.name) or found)
        finally:
            self._writer.rollback()
            self._writer.exec_driver_sql("SELECT pg_advisory_unlock(%s)", (_MIGRATING,))
            self._writer.commit()

    @contextmanager
    def _usable(self) -> Iterator[None]:
        try:
            yield
        except DatabaseUnusable:
            raise
        except (SQLAlchemyError, OSError) as error:
            raise DatabaseUnusable(self.name, reason(error)) from error

    def objects(self) -> Iterator[tuple[Resource, Record]]:
        """Yield every object as it was at `open`."""
        with self._usable():
            connection, self._loading = self._loading, None
            assert connection is not None
            with connection:
                yield from rows.objects(
                    connection.execution_options(stream_results=True).exec_driver_sql(
                        "SELECT resource, key, revision, data FROM objects"
                    )
                )

    def reopen(self) -> Revisions:
        """Start to read again: `objects` then returns the objects of this moment."""
        with self._usable():
            if self._loading is not None:
                self._loading.close()
            self._loading = self._engine.connect()
            self._loading.execution_options(isolation_level="REPEATABLE READ")
            counters = self._succession.counters(self._loading.exec_driver_sql)
        self.compacted_revision = max(self.compacted_revision, counters.compacted)
        return Revisions(counters.newest, counters.compacted)

    def write(self, changes: Sequence[Change]) -> None:
        """Store changes with the revisions that they have. No other server uses the database."""
        with self._transaction() as execute:
            _lock(execute, _WRITING)
            self._store(execute, changes, self._succession.counters(execute).compacted)

    def commit(self, changes: Sequence[Change], applied: int) -> Commit:
        """Read the other servers' changes and store ours after them, in one transaction with the log's lock.

        If the connection was lost before any change was sent, as after a restart, it is tried once more.
        """
        self._sent = False
        try:
            return self._commit(changes, applied)
        except psycopg.OperationalError:
            assert self._writer is not None
            if self._sent or not self._writer.invalidated:
                raise
        return self._commit(changes, applied)

    def _commit(self, changes: Sequence[Change], applied: int) -> Commit:
        with self._transaction() as execute:
            _lock(execute, _WRITING)
            # From here to the commit no other server adds to the log, so the newest revision that is read now is
            # the one before ours, and readers never see ours without those before.
            counters = self._succession.counters(execute)
            # The first revision is 2, because an empty store is at 1: clients use 0 for any revision.
            newest, compacted = max(counters.newest, 1), counters.compacted
            if counters.lacks(applied):
                raise FarBehind
            before: list[Change] = []
            if newest > applied:
                # What happened since `applied` must be complete to decide which of our changes are too late. If it is
                # long, or partly compacted, the store follows the log first, without holding the lock.
                if newest - applied > _MOST_BEHIND or compacted > applied:
                    raise FarBehind
                before = _read_log(execute, applied, _MOST_BEHIND)
            written = give_revisions(changes, newest, before)
            if any(written):
                self._store(execute, [change for change in written if change is not None], compacted)
        self.compacted_revision = max(self.compacted_revision, compacted)
        return Commit(before, written)

    @contextmanager
    def _transaction(self) -> Iterator[Execute]:
        """Begin a transaction of the writer, in psycopg's pipeline: a statement waits only for answers that are read.

        The beginning, the lock and the first read take one round trip to the database, and the writes and the
        commit another one. Other servers wait for the lock in between.
        """
        assert self._writer is not None
        driver = _driver(self._writer)
        self._own = self._writer.info["pid"]

        def execute(query: str, values: Row) -> Iterable[Any]:
            return driver.execute(query.encode(), values)

        try:
            with driver.pipeline(), driver.transaction():
                yield execute
        except psycopg.Error as error:
            # If the URL names several hosts, another one may accept writes by now.
            if driver.closed or isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
                self._renew()
            raise

    def _check_open(self, *_: Any) -> None:
        if self._hung_up:
            raise psycopg.OperationalError("the server is stopping")

    def _set_up_connection(self, driver: Any, record: ConnectionPoolEntry) -> None:
        record.info["generation"] = self._generation
        with self._connected:
            self._drivers.add(driver)
        # This is a statement because poolers accept no options of new connections, and have their own process
        # ids.
        driver.autocommit = True
        record.info["pid"] = driver.execute(*self._settings).fetchone()[0]
        driver.autocommit = False

    def _check_generation(self, _: Any, record: ConnectionPoolEntry, __: Any) -> None:
        if record.info["generation"] != self._generation:
            # The pool then opens a new connection.
            raise DisconnectionError

    def _renew(self) -> None:
        """Replace all connections: the idle ones are probably as unusable as the writer's."""
        assert self._writer is not None
        self._writer.invalidate()
        self._generation += 1

    @contextmanager
    def _begin_transaction(self) -> Iterator[Connection]:
        """Begin a transaction of the writer through SQLAlchemy."""
        assert self._writer is not None
        try:
            with self._writer.begin():
                yield self._writer
        except DBAPIError as error:
            if isinstance(error.orig, psycopg.errors.ReadOnlySqlTransaction):
                self._renew()
            raise

    def _store(self, execute: Execute, changes: Sequence[Change], compacted: int) -> None:
        made = rows.rows_of(changes, compacted)
        self._sent = True
        if made.before:
            execute(sql.KEEP_HISTORY, _columns(made.before, 8))
        newest = (_NEWEST, changes[-1].event.revision)
        values = (
            *_columns(made.history, 8),
            *_columns(made.kept, 4),
            *_columns(made.gone, 2),
            *newest,
            _CHANNEL,
        )
        execute(sql.STORE, values)

    @_again
    def changes(self, after: int, limit: int) -> Changes:
        """Return the next changes of all resources after a revision, and how far the log was compacted then."""
        # Each statement may see a later state than the one before. So the counters are read again after the log:
        # the compacted revision then covers all that the read may have missed, and a newest revision beyond the
        # changes that were read only makes the caller read again.
        with self._read() as reader:
            found: list[Change] = []
            execute = reader.exec_driver_sql
            counters = self._succession.counters(execute)
            if counters.lacks(after):
                self._leap(after)
                counters = self._succession.counters(execute)
            if counters.newest > after:
                found = _read_log(execute, after, limit)
                counters = self._succession.counters(execute)
        self.compacted_revision = max(self.compacted_revision, counters.compacted)
        return Changes(found, counters.newest, counters.compacted)

    def listen(self, seconds: float) -> None:
        """Wait until another server may have written, or the time has passed."""
        try:
            # The first call only subscribes. It returns at once because something may have been written before the
            # subscription, so the caller reads the log after every return, and no notification can be missed.
            if self._listener is None:
                self._listener = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
                self._listener.exec_driver_sql(f"LISTEN {_CHANNEL}")
                return
            for note in _driver(self._listener).notifies(timeout=seconds):
                if note.pid != self._own or self._closing.is_set():
                    return
        except (SQLAlchemyError, psycopg.Error):
            listener, self._listener = self._listener, None
            if listener is not None:
                with suppress(Exception):
                    listener.invalidate()
                    listener.close()
            self._closing.wait(seconds)

    def wake(self) -> None:
        """End the wait of `listen`, in this server and all others."""
        self._closing.set()
        with suppress(SQLAlchemyError), self._read() as reader:
            reader.exec_driver_sql("SELECT pg_notify(%s, '')", (_CHANNEL,))

    def hang_up(self) -> None:
        """Shut down the connections' sockets, which ends every wait for an answer."""
        self._hung_up = True
        self._closing.set()
        for driver in self._all_drivers():
            # A closed connection has no socket.
            with suppress(psycopg.Error, OSError), socket.socket(fileno=os.dup(driver.fileno())) as end:
                end.shutdown(socket.SHUT_RDWR)

    @_again
    def history(self, resource: Resource, after: int, until: int, size: int) -> History:
        """Return events with the version before each."""
        with self._read() as reader:
            query = (rows.resource_text(resource), after, until, _HISTORY_ROWS)
            found = reader.exec_driver_sql(sql.READ_HISTORY, query).all()
            self._note_compacted(reader)
        events, whole = rows.events(found, size)
        return History(events, until if whole and len(found) < _HISTORY_ROWS else events[-1].revision)

    @_again
    def changed_keys(self, resource: Resource, after: int, until: int) -> dict[str, int]:
        """Return the keys that changed with their revisions before.

        This is one pass over the index and reads no object.
        """
        query = (
            "SELECT DISTINCT ON (key) key, previous FROM history "
            "WHERE resource = %s AND revision > %s AND revision <= %s ORDER BY key, revision"
        )
        with self._read() as reader:
            changed = reader.exec_driver_sql(query, (rows.resource_text(resource), after, until))
            found: dict[str, int] = {row[0]: row[1] for row in changed}
            self._note_compacted(reader)
        return found

    @_again
    def versions(self, revisions: Sequence[int], size: int) -> list[Record]:
        """Return versions, with one look-up for each."""
        query = "SELECT key, data FROM history WHERE revision = %s"
        with self._read() as reader:
            found = rows.versions(
                revisions, size, lambda revision: reader.exec_driver_sql(query, (revision,)).first()
            )
            self._note_compacted(reader)
        return found

    def _note_compacted(self, reader: Connection) -> None:
        """Store the revision up to which the log is compacted.

        The store checks it afterwards, because the events that were read may be incomplete.
        """
        self.compacted_revision = max(
            self.compacted_revision, self._succession.counters(reader.exec_driver_sql).compacted
        )

    @contextmanager
    def _read(self) -> Iterator[Connection]:
        with self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as reader:
            yield reader

    @contextmanager
    def begin_reading(self) -> Iterator[SqlReading]:
        """Read on a connection of the pool."""
        with self._read() as reader:
            yield SqlReading(reader)

    @contextmanager
    def begin_writing(self) -> Iterator[SqlWriting]:
        """Begin a transaction during which no server writes or compacts."""
        with self._usable(), self._begin_transaction() as writer:
            _lock(writer.exec_driver_sql, _COMPACTING)
            _lock(writer.exec_driver_sql, _WRITING)
            yield SqlWriting(writer)

    def compact(self, revision: int, limit: int) -> bool:
        """Delete events like SQLite's engine. If another server is compacting, leave the work to it.

        The lock is needed because a writer that adds a change must find the version before, which is being
        deleted.
        """
        with self._begin_transaction() as writer:
            mine = writer.exec_driver_sql("SELECT pg_try_advisory_xact_lock(%s)", (_COMPACTING,)).scalar()
            if not mine:
                return False
            _lock(writer.exec_driver_sql, _WRITING)
            self._succession.leap(writer.exec_driver_sql, revision)
            writer.exec_driver_sql(sql.COUNT, (_COMPACTED, revision))
            done = writer.exec_driver_sql(sql.FORGET, (revision, revision, limit))
            more = done.rowcount >= limit
        self.compacted_revision = max(self.compacted_revision, revision)
        return more

    @_again
    def check(self) -> list[str]:
        """Check that both tables agree, and that the log has no holes."""
        with self._read() as reader:
            newest = (
                "SELECT o.resource, o.key FROM objects o JOIN history h ON h.revision = o.revision "
                "WHERE h.data <> o.data OR h.key <> o.key OR h.type = 2"
            )
            found = [f"{row[0]} {row[1]}: history differs" for row in reader.exec_driver_sql(newest)]
            lost = (
                "SELECT h.resource, h.key FROM (SELECT DISTINCT ON (resource, key) * FROM history "
                "ORDER BY resource, key, revision DESC) h WHERE h.type <> 2 AND NOT EXISTS (SELECT 1 FROM objects o "
                "WHERE o.resource = h.resource AND o.key = h.key AND o.revision = h.revision)"
            )
            found += [f"{row[0]} {row[1]}: object is missing" for row in reader.exec_driver_sql(lost)]
            count, first, last = reader.exec_driver_sql(
                "SELECT count(*), min(revision), max(revision) FROM history WHERE revision > "
                "coalesce((SELECT value FROM counters WHERE name = %s), 0)",
                (_COMPACTED,),
            ).one()
            if count and count != last - first + 1:
                found.append(f"of the revisions {first} to {last} {last - first + 1 - count} are missing")
        return found

    def close(self) -> None:
        """Close all connections, also those that still read for a request that has ended."""
        self._closing.set()
        for connection in (self._loading, self._listener, self._writer):
            if connection is not None:
                with suppress(SQLAlchemyError):
                    connection.close()
        self._engine.dispose()
        self.hang_up()
        for driver in self._all_drivers():
            driver.close()

    def _all_drivers(self) -> list[Any]:
        with self._connected:
            return list(self._drivers)


def _columns(rows: Sequence[Row], width: int) -> Row:
    """Return the rows as one array for each of their columns."""
    return tuple(list(column) for column in zip(*rows, strict=True)) if rows else ([],) * width


def _lock(execute: Execute, number: int) -> None:
    """Wait for a lock that the end of the transaction releases."""
    execute("SELECT pg_advisory_xact_lock(%s)", (number,))


def _driver(connection: Connection) -> psycopg.Connection[Any]:
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    return driver


def _read_log(execute: Execute, after: int, limit: int) -> list[Change]:
    """Return changes from the log. The store knows the versions before them."""
    return [
        Change(rows.resource_of(resource), Event(rows.TYPES[code], Record(key, revision, data), None))
        for revision, resource, key, code, data in execute(sql.READ_LOG, (after, limit))
    ]
