"""Test the SQLite engine's files and migrations."""

import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from dra_apiserver.storage import schema
from dra_apiserver.storage import sqlite as sqlite_module
from dra_apiserver.storage.engine import DatabaseUnusable
from dra_apiserver.storage.migrations import upgrade
from dra_apiserver.storage.records import ADDED, Change, Event, Record
from dra_apiserver.storage.sqlite import SqliteEngine
from dra_shared.lockfile import DirectoryInUse
from sqlalchemy import create_engine, inspect
from structlog.testing import capture_logs


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


def test_a_new_database_has_the_same_tables_as_a_migrated_one(tmp_path: Path) -> None:
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


def test_the_write_ahead_log_is_merged_into_the_database_at_shutdown(tmp_path: Path) -> None:
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


def test_commits_are_synced_to_disk_unless_the_relaxed_option_is_set(tmp_path: Path) -> None:
    for relaxed, level in ((False, 2), (True, 1)):
        engine = SqliteEngine(tmp_path / f"{relaxed}.sqlite3", relaxed)
        engine.open()
        assert engine._writer is not None
        assert engine._writer.exec_driver_sql("PRAGMA synchronous").scalar() == level
        assert engine._writer.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        engine.close()


def test_the_consistency_check_finds_tables_that_contradict_each_other(tmp_path: Path) -> None:
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


class Stuck(SqliteEngine):
    """An engine whose first checkpoints fail."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, relaxed=True, retry_after=0.001)
        self.tried = 0
        self.done = threading.Event()

    def _checkpoint(self) -> None:
        self.tried += 1
        if self.tried < 4:
            raise sqlite3.OperationalError("database or disk is full")
        super()._checkpoint()
        self.done.set()


def test_checkpoints_continue_after_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_module, "_CHECKPOINT_BYTES", 100)
    engine = Stuck(tmp_path / "a.sqlite3")
    engine.open()
    empty = (tmp_path / "a.sqlite3").stat().st_size
    data = b'{"x":"' + b"x" * 100_000 + b'"}'
    engine.write([Change(("", "pods"), Event(ADDED, Record("ns/a", 2, data), None))])
    assert engine.done.wait(60)
    assert (tmp_path / "a.sqlite3").stat().st_size > empty + 100_000
    engine.close()


def test_a_second_engine_does_not_open_the_directory(tmp_path: Path) -> None:
    engine = SqliteEngine(tmp_path / "a.sqlite3")
    engine.open()
    second = SqliteEngine(tmp_path / "a.sqlite3")
    with pytest.raises(DirectoryInUse, match=f"{tmp_path} is in use by another API server"):
        second.open()
    second.close()
    engine.close()
    again = SqliteEngine(tmp_path / "a.sqlite3")
    again.open()
    again.close()


def create_filled(path: Path) -> None:
    engine = SqliteEngine(path)
    engine.open()
    for revision in range(2, 200):
        record = Record(f"ns/{revision}", revision, b"{}" * 500)
        engine.write([Change(("", "pods"), Event(ADDED, record, None))])
    engine.close()


def text_file(path: Path) -> None:
    path.write_text("This is no database. " * 1000)


def cut_short(path: Path) -> None:
    create_filled(path)
    os.truncate(path, path.stat().st_size // 2)


def create_corrupted(path: Path) -> None:
    create_filled(path)
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(b"\xff" * 8192)


def of_the_future(path: Path) -> None:
    create_filled(path)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")


def without_a_table(path: Path) -> None:
    create_filled(path)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TABLE history")


def of_another_program(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE songs (title TEXT)")


def directory(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (text_file, "file is not a database"),
        (cut_short, "database disk image is malformed"),
        (create_corrupted, "malformed|it is damaged: .*"),
        (of_the_future, "it has version 9999, which this API server does not know"),
        (without_a_table, "no such table: history"),
        (of_another_program, "it has a table songs, so it is another program's"),
        (directory, "Is a directory"),
    ],
)
def test_an_unusable_database_is_named_with_the_reason(
    tmp_path: Path, damage: Callable[[Path], None], problem: str
) -> None:
    path = tmp_path / "a.sqlite3"
    damage(path)
    engine = SqliteEngine(path)
    with pytest.raises(DatabaseUnusable, match=f"cannot use the database {path}: .*{problem}"):
        engine.open()
    engine.close()


def with_a_log(tmp_path: Path) -> Path:
    """Return the database of a killed server, whose ten writes are all in the write-ahead log."""
    engine = SqliteEngine(tmp_path / "written" / "a.sqlite3")
    engine.open()
    for revision in range(2, 12):
        engine.write([Change(("", "pods"), Event(ADDED, Record(f"ns/{revision}", revision, b"{}"), None))])
    left = tmp_path / "left"
    left.mkdir()
    for name in ("a.sqlite3", "a.sqlite3-wal"):
        (left / name).write_bytes((tmp_path / "written" / name).read_bytes())
    engine.close()
    return left / "a.sqlite3"


def spoil(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0xFF
    path.write_bytes(data)


def objects_after_opening(path: Path) -> int:
    engine = SqliteEngine(path)
    engine.open()
    try:
        return len(list(engine.objects()))
    finally:
        engine.close()


def test_a_complete_write_ahead_log_is_replayed_without_a_warning(tmp_path: Path) -> None:
    with capture_logs() as logs:
        assert objects_after_opening(with_a_log(tmp_path)) == 10
    assert logs == []


def test_writes_lost_by_a_damaged_write_ahead_log_are_reported(tmp_path: Path) -> None:
    path = with_a_log(tmp_path)
    log = path.with_name("a.sqlite3-wal")
    spoil(log, log.stat().st_size - 5 * 4 * 4120)
    with capture_logs() as logs:
        assert objects_after_opening(path) < 10
    assert [entry["event"] for entry in logs] == ["the database's log is damaged: writes are lost"]


def test_a_database_whose_write_ahead_log_has_a_damaged_header_is_rejected(tmp_path: Path) -> None:
    path = with_a_log(tmp_path)
    spoil(path.with_name("a.sqlite3-wal"), 17)
    engine = SqliteEngine(path)
    with pytest.raises(DatabaseUnusable, match=r"the header of its log .* is damaged"):
        engine.open()
    engine.close()
