"""Test databases that take the place of another one and lack its last writes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack

import psycopg
import pytest
from dra_apiserver.errors import StatusError
from dra_apiserver.storage import Put, Record
from dra_apiserver.storage.postgresql import PostgresqlEngine
from dra_apiserver.storage.shared import SharedStore, store_for
from dra_shared.clock import FakeClock

from tests.support import postgres as servers
from tests.support.postgres import Postgres
from tests.support.waiting import until

PODS = ("", "pods")


def _store(url: str) -> SharedStore:
    made = store_for(PostgresqlEngine(url, relaxed=True), FakeClock(), 300)
    assert isinstance(made, SharedStore)
    return made


def put(name: str) -> Callable[[Record | None], Put]:
    return lambda current: Put({"metadata": {"name": name}})


async def _write_eventually(store: SharedStore, name: str) -> Record:
    """Write as soon as the database accepts it."""
    written: list[Record] = []

    async def works() -> bool:
        try:
            record = await store.write(PODS, f"ns/{name}", put(name))
        except StatusError:
            return False
        assert record is not None
        written.append(record)
        return True

    await until(works)
    return written[0]


@pytest.fixture
def primary() -> Iterator[Postgres]:
    with servers.run_postgres(servers.FAILOVER) as started:
        yield started


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as made:
        yield made


async def test_writes_missing_on_a_promoted_standby_are_dropped_on_all_servers(
    primary: Postgres, stack: AsyncExitStack
) -> None:
    url = primary.database()
    pair = [await stack.enter_async_context(_store(url)) for _ in range(2)]
    kept = await _write_eventually(pair[0], "kept")
    standby = await asyncio.to_thread(primary.copy)
    lost = await _write_eventually(pair[0], "lost")
    for store in pair:
        await store.fresh()
    positions = [store.collection(PODS).end for store in pair]

    await asyncio.to_thread(primary.fail_over, standby)
    # A server that starts afterwards has not seen the lost writes, and may be the first to write.
    newer = await stack.enter_async_context(_store(url))
    new = [await _write_eventually(newer, f"new{number}") for number in range(3)]
    own = [await _write_eventually(store, f"own{number}") for number, store in enumerate(pair)]

    survivor = newer.get(PODS, "ns/kept")
    assert survivor is not None
    assert survivor.data == kept.data
    # A client that has seen the lost revision does not mistake a new revision for it.
    assert min(record.revision for record in (*new, *own)) > lost.revision + 1_000_000_000
    await newer.fresh()
    for store, position in zip(pair, positions, strict=True):
        await store.fresh()
        assert store.collection(PODS).records.keys() == newer.collection(PODS).records.keys()
        assert store.get(PODS, "ns/lost") is None
        assert store.collection(PODS).events(position, 10) is None
        with pytest.raises(StatusError) as caught:
            await store.history(PODS, lost.revision)
        assert caught.value.code == 410
    assert await newer.check() == []


async def test_lost_writes_of_a_database_are_detected_by_servers_that_observed_them(
    postgres: Callable[[], str], stack: AsyncExitStack
) -> None:
    url = postgres()
    pair = [await stack.enter_async_context(_store(url)) for _ in range(2)]
    kept, lost = await _write_eventually(pair[0], "kept"), await _write_eventually(pair[0], "lost")
    for store in pair:
        await store.fresh()
    with psycopg.connect(url) as connection:
        # A restored snapshot of the disk has the same effect.
        connection.execute("DELETE FROM objects WHERE revision = %s", (lost.revision,))
        connection.execute("DELETE FROM history WHERE revision = %s", (lost.revision,))
        connection.execute("UPDATE counters SET value = %s WHERE name = 'newest'", (kept.revision,))
    for number, store in enumerate(pair):
        assert (await _write_eventually(store, f"new{number}")).revision > lost.revision + 1_000_000_000
        assert store.get(PODS, "ns/lost") is None
    assert await pair[0].check() == []


async def test_a_restored_dump_continues_with_other_revisions(postgres: Callable[[], str]) -> None:
    url = postgres()
    async with _store(url) as store:
        before = await _write_eventually(store, "a")
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE restored (LIKE counters INCLUDING ALL)")
        connection.execute("INSERT INTO restored SELECT * FROM counters")
        connection.execute("DROP TABLE counters")
        connection.execute("ALTER TABLE restored RENAME TO counters")
    async with _store(url) as store:
        found = store.get(PODS, "ns/a")
        assert found is not None
        assert found.data == before.data
        newest = store.revision
        assert newest > before.revision + 1_000_000_000
        assert (await _write_eventually(store, "b")).revision == newest + 1
    async with _store(url) as store:
        assert store.revision == newest + 1


async def test_a_replaced_primary_is_not_used_again(
    postgres: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _store(postgres()) as store:
        engine = store.engine
        assert isinstance(engine, PostgresqlEngine)
        await _write_eventually(store, "a")
        # The server has the same state once it has seen a promoted standby.
        monkeypatch.setattr(engine._succession, "_timeline", 7)
        with pytest.raises(StatusError, match="a promoted standby has replaced this database"):
            await store.write(PODS, "ns/b", put("b"))
        with pytest.raises(StatusError, match="its timeline is 1, and 7 was there already"):
            await store.fresh()
        assert store.failure is not None
        monkeypatch.setattr(engine._succession, "_timeline", 1)
        assert await _write_eventually(store, "b")


def test_a_database_without_system_identifier_is_accepted(
    postgres: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres()
    monkeypatch.setattr("dra_apiserver.storage.succession._WHICH", "no_such_function()")
    engine = PostgresqlEngine(url)
    assert engine.open().newest == 0
    assert engine.changes(1, 10).changes == []
    engine.close()
