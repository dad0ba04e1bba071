"""The SQLite engine's files and migrations."""

import sqlite3
from pathlib import Path

from dra_apiserver.migrations import upgrade
from dra_apiserver.storage import schema
from dra_apiserver.storage.records import ADDED, Change, Event, Record
from dra_apiserver.storage.sqlite import SqliteEngine
from sqlalchemy import create_engine, inspect


def shape(path: Path) -> dict[str, object]:
    engine = create_engine(f"sqlite:///{path}")
    try:
        found = inspect(engine)
        return {
            table: (
                [
                    (column["name"], str(column["type"]), column["nullable"])
                    for column in found.get_columns(table)
                ],
                found.get_pk_constraint(table)["constrained_columns"],
                [(index["name"], index["column_names"]) for index in found.get_indexes(table)],
            )
            for table in found.get_table_names()
            if table != "alembic_version"
        }
    finally:
        engine.dispose()


def test_a_fresh_database_is_what_the_migrations_make(tmp_path: Path) -> None:
    engine = SqliteEngine(tmp_path / "fresh.sqlite3")
    engine.open()
    engine.close()
    migrated = create_engine(f"sqlite:///{tmp_path / 'migrated.sqlite3'}")
    with migrated.connect() as connection:
        upgrade(connection)
        version = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    migrated.dispose()
    assert version == schema.REVISION
    assert shape(tmp_path / "fresh.sqlite3") == shape(tmp_path / "migrated.sqlite3")


def test_the_log_is_moved_into_the_database_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite3"
    engine = SqliteEngine(path)
    engine.open()
    engine.write([Change(("", "pods"), Event(ADDED, Record("ns/a", 2, b"{}"), None))])
    engine.close()
    assert not path.with_name("a.sqlite3-wal").exists()
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT resource, key, revision FROM objects").fetchall() == [
        ("/pods", "ns/a", 2)
    ]
    connection.close()


def test_commits_wait_for_the_disk_unless_relaxed(tmp_path: Path) -> None:
    for relaxed, level in ((False, 2), (True, 1)):
        engine = SqliteEngine(tmp_path / f"{relaxed}.sqlite3", relaxed)
        engine.open()
        assert engine._writer is not None
        assert engine._writer.exec_driver_sql("PRAGMA synchronous").scalar() == level
        assert engine._writer.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        engine.close()


def test_the_check_finds_tables_that_disagree(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite3"
    engine = SqliteEngine(path)
    engine.open()
    engine.write([Change(("", "pods"), Event(ADDED, Record("ns/a", 2, b"{}"), None))])
    assert engine.check() == []
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM objects")
    connection.close()
    assert engine.check() == ["/pods ns/a: object is missing"]
    engine.close()
