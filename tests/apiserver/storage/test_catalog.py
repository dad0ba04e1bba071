"""Test that the URL selects the storage engine, and that a new engine needs only one catalog entry."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from dra_apiserver.config import Config
from dra_apiserver.main import main
from dra_apiserver.server import ApiServer
from dra_apiserver.storage import catalog
from dra_apiserver.storage.catalog import Database, engine
from dra_apiserver.storage.engine import DatabaseUnusable, Engine
from dra_apiserver.storage.sqlite import SqliteEngine


def test_the_default_database_is_a_file_in_the_servers_directory(tmp_path: Path) -> None:
    assert engine(Database(Config(data=tmp_path).database, tmp_path)).name == str(tmp_path / "dralab.sqlite3")


@pytest.mark.parametrize(
    ("url", "path"), [("sqlite:///a.sqlite3", "a.sqlite3"), ("sqlite:////var/a.sqlite3", "/var/a.sqlite3")]
)
def test_a_url_can_name_another_file(tmp_path: Path, url: str, path: str) -> None:
    assert engine(Database(url, tmp_path)).name == path


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("mysql://host/db", "unknown database 'mysql://host/db', known: sqlite:, postgresql:, memory:"),
        ("sqlite", "unknown database 'sqlite', known: sqlite:, postgresql:, memory:"),
        ("sqlite:a", "not a file's URL, such as sqlite:///objects.sqlite3: sqlite:a"),
        ("postgresql://host:port", "not a database's URL, such as postgresql://user@host/database"),
        ("memory:a", "not the URL of a database in memory, which is 'memory:': memory:a"),
        ("sqlite:///", "not a file's URL, such as sqlite:///objects.sqlite3: sqlite:///"),
    ],
)
def test_an_invalid_url_is_an_invalid_option(
    capsys: pytest.CaptureFixture[str], url: str, problem: str
) -> None:
    with pytest.raises(SystemExit) as exit:
        main(["--database", url])
    assert exit.value.code == 2
    assert problem in capsys.readouterr().err


def test_server_with_a_database_in_memory_needs_no_sql(tmp_path: Path) -> None:
    program = f"""
import asyncio, sys
from pathlib import Path
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer

async def main():
    async with ApiServer(Config(port=0, data=Path({str(tmp_path)!r}), database="memory:")) as server:
        assert server.store.get(("", "namespaces"), "default") is not None
        assert not await server.store.check()

asyncio.run(main())
assert not {{"sqlalchemy", "sqlite3", "psycopg"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    assert not list(tmp_path.rglob("*.sqlite3"))


def test_database_in_memory_has_one_server_at_a_time(tmp_path: Path) -> None:
    first, second = (engine(Database("memory:", tmp_path)) for _ in range(2))
    first.open()
    with pytest.raises(DatabaseUnusable):
        second.open()
    first.close()
    second.open()


async def test_a_new_engine_needs_one_catalog_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Database] = []

    def other(database: Database) -> Engine:
        made.append(database)
        return SqliteEngine(tmp_path / "other.sqlite3", relaxed=True)

    engines: dict[str, Callable[[Database], Engine]] = {**catalog.ENGINES, "other": other}
    monkeypatch.setattr(catalog, "ENGINES", engines)
    config = Config(port=0, data=tmp_path, database="other://somewhere")
    async with ApiServer(config) as server:
        assert server.store.database == str(tmp_path / "other.sqlite3")
    assert made == [Database("other://somewhere", tmp_path / "apiserver")]
    assert (tmp_path / "other.sqlite3").stat().st_size
