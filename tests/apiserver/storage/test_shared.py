"""Test several stores on one database: they have one order, and no write or event is lost."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

import psycopg
import pytest
from dra_apiserver.errors import StatusError
from dra_apiserver.storage import ADDED, Counted, Event, Put, Record, Remove, shared
from dra_apiserver.storage.engine import Changes, Commit
from dra_apiserver.storage.postgresql import _WRITING, PostgresqlEngine
from dra_apiserver.storage.records import Change
from dra_apiserver.storage.shared import SharedStore, store_for
from dra_shared.clock import FakeClock

from tests.support import postgres as servers
from tests.support.waiting import until

PODS, NODES = ("", "pods"), ("", "nodes")


@pytest.fixture
async def pair(postgres: Callable[[], str]) -> AsyncIterator[tuple[SharedStore, SharedStore]]:
    url = postgres()
    async with _store(url) as one, _store(url) as other:
        yield one, other


def _store(url: str, engine: type[PostgresqlEngine] = PostgresqlEngine) -> SharedStore:
    made = store_for(engine(url, relaxed=True), FakeClock(), 300)
    assert isinstance(made, SharedStore)
    return made


def put(name: str, **fields: object) -> Callable[[Record | None], Put]:
    return lambda current: Put({"metadata": {"name": name}, **fields})


def increment(current: Record | None) -> Put:
    obj: dict[str, Any] = {"metadata": {"name": "c"}, "count": 0} if current is None else current.object()
    return Put({**obj, "count": obj["count"] + 1})


async def test_no_increment_of_64_writers_is_lost(pair: tuple[SharedStore, SharedStore]) -> None:
    async def writer(store: SharedStore) -> list[int]:
        found = [await store.write(PODS, "ns/c", increment) for _ in range(5)]
        return [record.object()["count"] for record in found if record is not None]

    counts = await asyncio.gather(*(writer(store) for store in pair for _ in range(32)))
    # Each write was computed from the result of the previous one, whichever server made that.
    assert sorted(count for one in counts for count in one) == list(range(1, 321))
    for store in pair:
        await store.fresh()
        record = store.get(PODS, "ns/c")
        assert record is not None
        assert record.object() == {
            "metadata": {"name": "c", "resourceVersion": str(record.revision)},
            "count": 320,
        }
    assert await pair[0].check() == []


def _fifth(store: SharedStore, made: Callable[[], str]) -> Callable[[Record | None], Put | None]:
    """Return a change that creates a pod if there are fewer than five."""

    def change(current: Record | None) -> Put | None:
        if len(store.newest_in(PODS, "ns/")) >= 5:
            return None
        return Put({"metadata": {"name": made()}}, [Counted(PODS, "ns/")])

    return change


async def test_preconditions_of_a_write_hold_across_servers(pair: tuple[SharedStore, SharedStore]) -> None:
    for store in pair:
        await store.write(NODES, f"other/{id(store)}", put("x"))
    writes = [
        store.write(PODS, f"ns/{number}-{place}", _fifth(store, lambda: "x"))
        for number in range(20)
        for place, store in enumerate(pair)
    ]
    made = [record for record in await asyncio.gather(*writes) if record is not None]
    assert len(made) == 5
    for store in pair:
        await store.fresh()
        assert len(store.newest_in(PODS, "ns/")) == 5
    assert await pair[0].check() == []


async def test_a_write_that_depends_on_a_rejected_write_is_computed_again(
    pair: tuple[SharedStore, SharedStore],
) -> None:
    one, other = pair
    # The second server has not seen this write yet.
    await one.write(PODS, "ns/first", put("first"))
    asked: list[int] = []

    def count_and_put(current: Record | None) -> Put:
        asked.append(len(other.newest_in(PODS, "ns/")))
        return Put({"metadata": {"name": "c"}, "count": 0}, [Counted(PODS, "ns/")])

    created, changed = await asyncio.gather(
        other.write(PODS, "ns/second", count_and_put), other.write(PODS, "ns/second", increment)
    )
    assert created is not None
    assert changed is not None
    # The write that counted pods is computed again once the first write is visible, and then finds its pod.
    assert asked[-1] >= 1
    assert (created.object()["count"], changed.object()["count"]) == (0, 1)
    assert changed.revision > created.revision
    assert await one.check() == []


async def test_all_servers_see_one_order_without_holes(pair: tuple[SharedStore, SharedStore]) -> None:
    start = pair[0].revision
    writes = [
        store.write(resource, f"ns/{number}-{place}", put("x"))
        for number in range(50)
        for place, store in enumerate(pair)
        for resource in (PODS, NODES)
    ]
    records = await asyncio.gather(*writes)
    revisions = sorted(record.revision for record in records if record is not None)
    assert revisions == list(range(start + 1, start + 201))
    seen = []
    for store in pair:
        await store.fresh()
        assert store.revision == start + 200
        events = {r: store.collection(r).events(0, 1000) or [] for r in (PODS, NODES)}
        for each in events.values():
            assert [event.revision for event in each] == sorted(event.revision for event in each)
        seen.append(sorted((e.revision, r, e.key, e.record.data) for r in events for e in events[r]))
        assert [revision for revision, *_ in seen[-1]] == revisions
        assert all(f'"resourceVersion":"{e[0]}"'.encode() in e[3] for e in seen[-1])
    assert seen[0] == seen[1]


async def test_only_one_of_two_servers_creates_an_object(pair: tuple[SharedStore, SharedStore]) -> None:
    def create(current: Record | None) -> Put:
        if current is not None:
            raise ValueError("there is one already")
        return Put({"metadata": {"name": "a"}})

    results = await asyncio.gather(
        *(store.write(PODS, "ns/a", create) for store in pair), return_exceptions=True
    )
    assert {type(result) for result in results} == {Record, ValueError}


async def test_writes_based_on_a_rejected_write_are_repeated(
    pair: tuple[SharedStore, SharedStore],
) -> None:
    one, other = pair
    await one.write(PODS, "ns/c", increment)
    await other.fresh()
    # The first batch is being sent when the state that it was computed from becomes outdated. The second
    # batch builds on the first.
    first = [asyncio.create_task(other.write(PODS, "ns/c", increment)) for _ in range(3)]
    foreign = asyncio.create_task(one.write(PODS, "ns/c", increment))
    await asyncio.sleep(0)
    second = [asyncio.create_task(other.write(PODS, "ns/c", increment)) for _ in range(3)]
    await asyncio.gather(foreign, *first, *second)
    await one.fresh()
    record = one.get(PODS, "ns/c")
    assert record is not None
    assert record.object()["count"] == 8


async def test_a_write_rejected_for_a_stale_state_is_repeated(
    pair: tuple[SharedStore, SharedStore],
) -> None:
    one, other = pair

    def remove(current: Record | None) -> Remove | None:
        return None if current is None else Remove(current.object())

    await one.write(PODS, "ns/a", put("a"))
    await other.fresh()
    removal = asyncio.create_task(other.write(PODS, "ns/a", remove))
    update = asyncio.create_task(one.write(PODS, "ns/a", put("a", spec=1)))
    await asyncio.gather(removal, update)
    for store in pair:
        await store.fresh()
    assert (one.get(PODS, "ns/a") is None) == (other.get(PODS, "ns/a") is None)
    assert await one.check() == []


async def test_a_watcher_is_woken_by_the_other_servers_write(pair: tuple[SharedStore, SharedStore]) -> None:
    one, other = pair
    for spec in range(3):
        woken = other.collection(PODS).waiter()
        record = await one.write(PODS, "ns/a", put("a", spec=spec))
        await asyncio.wait_for(woken, 60)
        assert record is not None
        found = other.get(PODS, "ns/a")
        assert found is not None
        assert (found.revision, found.data) == (record.revision, record.data)


async def test_revisions_that_another_server_compacted_are_gone(
    pair: tuple[SharedStore, SharedStore],
) -> None:
    one, other = pair
    for spec in range(4):
        await one.write(PODS, "ns/a", put("a", spec=spec))
    one.compact(one.revision - 1)
    await one.write(PODS, "ns/a", put("a", spec=9))
    await other.fresh()
    with pytest.raises(StatusError) as caught:
        await other.history(PODS, 1)
    assert caught.value.code == 410
    (event, last) = (await other.history(PODS, other.revision - 2)).events
    assert event.previous is not None
    assert (event.previous.object()["spec"], last.record.object()["spec"]) == (2, 9)


class Deaf(PostgresqlEngine):
    """An engine that does not observe writes of other servers until it is allowed to."""

    may = threading.Event()

    def listen(self, seconds: float) -> None:
        self.may.wait()
        super().listen(seconds)

    def wake(self) -> None:
        self.may.set()
        super().wake()


async def test_a_server_that_missed_compacted_events_reads_all_objects_again(
    postgres: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Deaf, "may", threading.Event())
    url = postgres()
    async with _store(url) as one:
        await one.write(PODS, "ns/gone", put("gone"))
        await one.write(PODS, "ns/kept", put("kept"))
        async with _store(url, Deaf) as away:
            before = away.revision
            position = away.collection(PODS).end
            await one.write(PODS, "ns/gone", lambda current: Remove(current.object()) if current else None)
            await one.write(PODS, "ns/new", put("new"))
            one.compact(one.revision)
            # The rows are deleted without the store's knowledge.
            log = PostgresqlEngine(url)
            await until(lambda: log.changes(1, 1).compacted == one.compacted_revision)
            log.close()
            assert away.revision == before
            await away.fresh()
            assert away.revision == one.revision
            assert sorted(away.collection(PODS).records) == ["ns/kept", "ns/new"]
            # A watch that was at the end of the ring has missed events. It must not continue as if there were
            # none.
            assert away.collection(PODS).events(position, 10) is None
            with pytest.raises(StatusError) as caught:
                await away.history(PODS, before)
            assert caught.value.code == 410
            newest = one.revision
            record = await away.write(PODS, "ns/kept", put("kept", spec=1))
            assert record is not None
            assert record.revision == newest + 1


async def test_a_server_that_lags_behind_reads_all_events_before_it_writes(
    postgres: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Deaf, "may", threading.Event())
    url = postgres()
    async with _store(url) as one, _store(url, Deaf) as behind:
        await asyncio.gather(*(one.write(PODS, f"ns/{n}", put(str(n))) for n in range(1500)))
        await one.write(PODS, "ns/c", increment)
        record = await behind.write(PODS, "ns/c", increment)
        assert record is not None
        assert record.object()["count"] == 2
        assert len(behind.collection(PODS).records) == 1501


class Silent(PostgresqlEngine):
    """An engine that does not answer until it is allowed to."""

    may = threading.Event()

    def changes(self, after: int, limit: int) -> Changes:
        self.may.wait()
        return super().changes(after, limit)

    def commit(self, changes: Sequence[Change], applied: int) -> Commit:
        self.may.wait()
        return super().commit(changes, applied)


async def test_requests_end_when_the_database_does_not_respond(
    postgres: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    may = threading.Event()
    may.set()
    monkeypatch.setattr(Silent, "may", may)
    monkeypatch.setattr(shared, "_REQUEST_TIMEOUT", 0.3)
    monkeypatch.setattr(shared, "_SILENCE", 0.1)
    async with _store(postgres(), Silent) as store:
        await store.write(PODS, "ns/a", put("a"))
        may.clear()
        try:
            await until(lambda: store.failure)
            for request in (store.fresh(), store.write(PODS, "ns/b", put("b"))):
                with pytest.raises(StatusError) as caught:
                    await request
                assert caught.value.code == 504
                assert caught.value.message == (
                    "Timeout: request did not complete within requested timeout - context deadline exceeded"
                )
        finally:
            may.set()
        await until(lambda: store.failure is None)
        # A write without an answer may have happened.
        await until(lambda: store.get(PODS, "ns/b"))


async def test_an_unsent_write_of_a_cancelled_request_is_never_executed(
    postgres: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    may = threading.Event()
    may.set()
    monkeypatch.setattr(Silent, "may", may)
    monkeypatch.setattr(shared, "_REQUEST_TIMEOUT", 0.3)
    async with _store(postgres(), Silent) as store:
        await store.write(PODS, "ns/c", increment)
        may.clear()
        try:
            sent = asyncio.create_task(store.write(PODS, "ns/sent", put("sent")))
            await until(lambda: store._writing)
            queued = [store.write(PODS, key, increment) for key in ("ns/queued", "ns/c")]
            for outcome in await asyncio.gather(sent, *queued, return_exceptions=True):
                assert isinstance(outcome, StatusError)
                assert outcome.code == 504
            # This write was computed from the change that must not happen.
            monkeypatch.setattr(shared, "_REQUEST_TIMEOUT", 60)
            later = asyncio.create_task(store.write(PODS, "ns/c", increment))
            await until(lambda: len(store._queued) == 3)
        finally:
            may.set()
        record = await later
        assert record is not None
        assert record.object()["count"] == 2
        await store.fresh()
        assert store.get(PODS, "ns/queued") is None
        assert store.get(PODS, "ns/sent") is not None
        assert await store.check() == []


async def test_a_server_stops_even_if_the_database_does_not_respond(
    postgres: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "_PATIENCE", 0.2)
    url = postgres()
    with psycopg.connect(url) as other:
        async with _store(url) as store:
            # Its responses to writes have to wait while another server holds the log's lock.
            other.execute("SELECT pg_advisory_xact_lock(%s)", (_WRITING,))
            write = asyncio.create_task(store.write(PODS, "ns/a", put("a")))
            await until(lambda: store.queue_length)
        with pytest.raises(StatusError) as caught:
            await write
        assert caught.value.code == 500


async def test_a_read_only_database_is_rejected(postgres: Callable[[], str]) -> None:
    url = postgres()
    async with _store(url) as store:
        await store.write(PODS, "ns/a", put("a"))
        with psycopg.connect(url, autocommit=True) as connection:
            # A primary that became a standby behaves like this.
            connection.execute("ALTER DATABASE postgres SET default_transaction_read_only = on")
            connection.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'dralab'"
            )
            try:
                with pytest.raises(StatusError, match="read-only"):
                    await store.write(PODS, "ns/b", put("b"))
                for _ in range(3):
                    # The log can still be read, which does not mean that the database works.
                    await store.fresh()
                    await store._try_to_catch_up()
                    assert store.failure is not None
            finally:
                connection.execute("SET default_transaction_read_only = off")
                connection.execute("ALTER DATABASE postgres RESET default_transaction_read_only")
        await until(lambda: store.failure is None)
        await store.write(PODS, "ns/b", put("b"))


async def test_acknowledged_writes_survive_the_databases_crash() -> None:
    with servers.run_postgres() as server:
        url = server.database()
        async with AsyncExitStack() as stack:
            stores = [
                await stack.enter_async_context(store_for(PostgresqlEngine(url), FakeClock(), 300))
                for _ in range(2)
            ]
            acknowledged: list[str] = []

            async def writer(name: str) -> None:
                for number in range(1000):
                    try:
                        await stores[number % 2].write(PODS, f"ns/{name}-{number}", put(name))
                    except StatusError:
                        return
                    acknowledged.append(f"ns/{name}-{number}")

            writers = [asyncio.create_task(writer(f"w{number}")) for number in range(16)]
            await until(lambda: len(acknowledged) > 50)
            await asyncio.to_thread(server.stop, "immediate")
            await asyncio.gather(*writers)
            # A connection may live a little longer, and a read on it end well after the failure of a write.
            await until(lambda: any(store.failure for store in stores))
            await asyncio.to_thread(server.start)

            async def works() -> bool:
                try:
                    return await stores[1].write(PODS, "ns/after", put("after")) is not None
                except StatusError:
                    return False

            await until(works)
            for store in stores:
                await store.fresh()
                assert set(acknowledged) <= store.collection(PODS).records.keys()
                assert store.get(PODS, "ns/after") is not None
            assert await stores[0].check() == []


def test_a_late_commit_gets_revisions_after_those_of_other_servers(postgres: Callable[[], str]) -> None:
    one = PostgresqlEngine(postgres(), relaxed=True)
    one.open()
    try:
        commit = one.commit([_change("ns/a", 2), _change("ns/b", 3)], 1)
        assert [c.event.revision for c in commit.written if c] == [2, 3]
        late = one.commit([_change("ns/b", 2), _change("ns/c", 3)], 1)
        assert [c.event.key for c in late.before] == ["ns/a", "ns/b"]
        refused, written = late.written
        assert refused is None
        assert written is not None
        assert written.event.revision == 4
        assert b'"resourceVersion":"4"' in written.event.record.data
        assert one.changes(1, 100).newest == 4
        assert [c.event.revision for c in one.changes(2, 1).changes] == [3]
    finally:
        one.close()


def _change(key: str, revision: int) -> Change:
    data = b'{"metadata":{"resourceVersion":"%d"}}' % revision
    return Change(PODS, Event(ADDED, Record(key, revision, data), None))
