"""PostgreSQL's tables, and databases that are of no use."""

from collections.abc import Callable

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from dra_apiserver.storage import schema
from dra_apiserver.storage.engine import DatabaseUnusable
from dra_apiserver.storage.migrations import upgrade
from dra_apiserver.storage.postgresql import PostgresqlEngine
from dra_apiserver.storage.upgrade import VERSION_TABLE
from sqlalchemy import Connection, create_engine, inspect, make_url, text
from sqlalchemy.pool import NullPool


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
        # As Alembic leaves a database that has run none of the migrations.
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
    ],
)
def test_a_database_that_is_of_no_use_is_named_with_the_reason(
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


def test_a_server_that_is_not_there_is_named_without_the_password() -> None:
    engine = PostgresqlEngine("postgresql://me:secret@/objects?host=/nowhere")
    assert engine.name == "postgresql://me:***@/objects?host=%2Fnowhere"
    with pytest.raises(
        DatabaseUnusable, match=r"^cannot use the database postgresql://me:\*\*\*@.*/nowhere"
    ) as caught:
        engine.open()
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)
    engine.close()
