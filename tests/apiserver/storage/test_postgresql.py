"""Test PostgreSQL's tables, and databases that cannot be used."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from dra_apiserver.storage import Put, schema
from dra_apiserver.storage.catalog import Database, engine
from dra_apiserver.storage.engine import DatabaseUnusable
from dra_apiserver.storage.migrations import upgrade
from dra_apiserver.storage.postgresql import PostgresqlEngine
from dra_apiserver.storage.postgresqlsession import without_password
from dra_apiserver.storage.shared import store_for
from dra_apiserver.storage.upgrade import VERSION_TABLE
from dra_lab.ports import Port
from dra_shared.clock import FakeClock
from sqlalchemy import Connection, create_engine, inspect, make_url, text
from sqlalchemy.pool import NullPool

from tests.support import postgres as servers

_END_ALL = (
    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
    "WHERE application_name = 'dralab' AND pid <> pg_backend_pid()"
)


def _connect(url: str) -> Connection:
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"), poolclass=NullPool)
    return engine.connect()


def test_migrations_make_the_tables_of_a_new_database(postgres: Callable[[], str]) -> None:
    with _connect(postgres()) as connection:
        upgrade(connection)
        assert connection.scalar(text(f"SELECT version_num FROM {VERSION_TABLE}")) == schema.REVISION
        assert compare_metadata(MigrationContext.configure(connection), schema.metadata) == []
        names = {index["name"] for index in inspect(connection).get_indexes("history")}
        assert names == {"history_by_resource", "history_by_previous"}


def test_a_database_of_an_older_version_is_migrated_at_the_start(postgres: Callable[[], str]) -> None:
    url = postgres()
    with _connect(url) as connection:
        # This is the state in which Alembic leaves a database before the first migration.
        connection.execute(
            text(f"CREATE TABLE {VERSION_TABLE} (version_num VARCHAR(32) NOT NULL PRIMARY KEY)")
        )
        connection.commit()
    engine = PostgresqlEngine(url)
    engine.open()
    engine.close()
    with _connect(url) as connection:
        assert connection.scalar(text(f"SELECT version_num FROM {VERSION_TABLE}")) == schema.REVISION
        assert set(schema.metadata.tables) < set(inspect(connection).get_table_names())


@pytest.mark.parametrize(
    ("statements", "problem"),
    [
        (("CREATE TABLE guests (name text)",), "it has a table guests, so it is another program's"),
        (
            (
                f"CREATE TABLE {VERSION_TABLE} (version_num text)",
                f"INSERT INTO {VERSION_TABLE} VALUES ('9999')",
            ),
            "it has version 9999, which this API server does not know",
        ),
        (
            (
                *(
                    f"CREATE TABLE {name} (a int)"
                    for name in ("objects", "history", "counters", "of_the_future")
                ),
                "CREATE TABLE alembic_version (version_num text)",
                "INSERT INTO alembic_version VALUES ('9999')",
            ),
            "it has version 9999, which this API server does not know",
        ),
    ],
)
def test_an_unusable_database_is_named_with_the_reason(
    postgres: Callable[[], str], statements: tuple[str, ...], problem: str
) -> None:
    url = postgres()
    with _connect(url) as connection:
        for statement in statements:
            connection.execute(text(statement))
        connection.commit()
    engine = PostgresqlEngine(url)
    with pytest.raises(DatabaseUnusable, match=problem):
        engine.open()
    engine.close()


def _database(url: str, encoding: str) -> str:
    """Return the URL of a new database of the same server."""
    name = f"{url.rpartition('%3D')[2]}_{encoding.lower()}"
    with _connect(url) as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT").exec_driver_sql(
            f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0"
        )
    return url.partition("&options=")[0].replace("/postgres?", f"/{name}?")


async def test_a_database_without_an_encoding_is_accepted(postgres: Callable[[], str]) -> None:
    url = _database(postgres(), "SQL_ASCII")
    roles, key = ("rbac.authorization.k8s.io", "clusterroles"), "rôle"
    async with store_for(PostgresqlEngine(url, relaxed=True), FakeClock(), 300) as store:
        await store.write(roles, key, lambda current: Put({"metadata": {"name": key}}))
    async with store_for(PostgresqlEngine(url, relaxed=True), FakeClock(), 300) as store:
        found = store.get(roles, key)
        assert found is not None
        assert found.object()["metadata"]["name"] == key


def test_a_database_with_a_limited_encoding_is_rejected(postgres: Callable[[], str]) -> None:
    engine = PostgresqlEngine(_database(postgres(), "LATIN1"))
    with pytest.raises(DatabaseUnusable, match="its encoding is LATIN1, and names of objects need UTF8"):
        engine.open()
    engine.close()


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("postgres://me:a%40b:c@one/objects", "postgres://me:***@one/objects"),
        (
            "postgresql://one/objects?user=me&password=secret&x=1",
            "postgresql://one/objects?user=me&password=***&x=1",
        ),
        ("postgresql://me@one/objects", "postgresql://me@one/objects"),
        ("postgresql://one:5432/objects?user=me@home", "postgresql://one:5432/objects?user=me@home"),
    ],
)
def test_database_names_in_messages_have_no_password(url: str, name: str) -> None:
    assert without_password(url) == name


def test_any_url_of_libpq_is_accepted(postgres: Callable[[], str], tmp_path: Path) -> None:
    parsed = make_url(postgres())
    folder, options = (quote(str(parsed.query[name]), safe="") for name in ("host", "options"))
    # The URL has two hosts, of which only one accepts writes, as after a failover.
    url = (
        f"postgres://dralab@%2Fnowhere:5432,{folder}:5432/postgres"
        f"?target_session_attrs=read-write&options={options}"
    )
    opened = engine(Database(url, tmp_path))
    assert opened.open().compacted == 0
    opened.close()


def test_isolation_level_and_timeouts_of_a_database_role_do_not_affect_writes(
    postgres: Callable[[], str],
) -> None:
    url = postgres()
    schema_name = str(make_url(url).query["options"]).partition("=")[2]
    role = f"{schema_name}_role"
    with _connect(url) as connection:
        for statement in (
            f"CREATE ROLE {role} LOGIN",
            f"ALTER ROLE {role} SET default_transaction_isolation = 'serializable'",
            f"ALTER ROLE {role} SET statement_timeout = '1min'",
            f"ALTER ROLE {role} SET lock_timeout = '1min'",
            f"ALTER SCHEMA {schema_name} OWNER TO {role}",
        ):
            connection.execute(text(statement))
        connection.commit()
    opened = PostgresqlEngine(url.replace("dralab@", f"{role}@"))
    opened.open()
    names = ("transaction_isolation", "statement_timeout", "lock_timeout")
    with opened.begin_reading() as session:
        found = [session.connection.scalar(text(f"SHOW {name}")) for name in names]
    assert found == ["read committed", "0", "0"]
    opened.close()


class Pooled(PostgresqlEngine):
    """Check that the store works behind a pooler that gives each transaction any free session."""

    _session: Connection | None = None

    @contextmanager
    def _read(self) -> Iterator[Connection]:
        if self._session is None:
            self._session = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        yield self._session

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
        super().close()


def test_a_database_behind_a_transaction_pooler_is_rejected(postgres: Callable[[], str]) -> None:
    engine = Pooled(postgres())
    with pytest.raises(DatabaseUnusable, match="a pooler gives each transaction another session"):
        engine.open()
    engine.close()


def test_the_database_ends_sessions_of_a_server_that_is_cut_off() -> None:
    with Port() as port, servers.run_postgres(f"-c listen_addresses=127.0.0.1 -c port={port.number}"):
        engine = PostgresqlEngine(
            f"postgresql://dralab@127.0.0.1:{port.number}/postgres?options=-clock_timeout%3D7"
        )
        names = ("tcp_keepalives_idle", "tcp_keepalives_count", "tcp_user_timeout", "lock_timeout")
        with engine.begin_reading() as session:
            found = [session.connection.scalar(text(f"SHOW {name}")) for name in names]
        assert found == ["10", "3", "20000", "7ms"]
        engine.close()


async def test_a_write_is_executed_after_the_connection_was_lost(postgres: Callable[[], str]) -> None:
    url = postgres()
    store = store_for(PostgresqlEngine(url, relaxed=True), FakeClock(), 300)
    async with store:
        await store.write(("", "pods"), "ns/a", lambda _: Put({"metadata": {"name": "a"}}))
        with _connect(url) as connection:
            # A restart of the database, or a firewall that drops connections, has the same effect.
            connection.execute(text(_END_ALL))
        written = await store.write(("", "pods"), "ns/b", lambda _: Put({"metadata": {"name": "b"}}))
        assert written is not None
        assert store.failure is None


def test_an_unreachable_server_is_named_without_the_password() -> None:
    engine = PostgresqlEngine("postgresql://me:secret@/objects?host=/nowhere")
    assert engine.name == "postgresql://me:***@/objects?host=/nowhere"
    with pytest.raises(
        DatabaseUnusable, match=r"^cannot use the database postgresql://me:\*\*\*@.*/nowhere"
    ) as caught:
        engine.open()
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)
    engine.close()
