"""Test the store's guarantees on every database. A new database is added in `tests/support/databases.py`."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from dra_apiserver.errors import StatusError
from dra_apiserver.storage import ADDED, DELETED, MODIFIED, Put, Record, Remove, Store
from dra_apiserver.storage.records import Change
from dra_apiserver.storage.sqlite import SqliteEngine
from dra_shared.clock import FakeClock, settle
from sqlalchemy.exc import OperationalError

from tests.support import databases
from tests.support.waiting import until

PODS = ("", "pods")
CLAIMS = ("resource.k8s.io", "resourceclaims")


@pytest.fixture(params=databases.ALL)
def open_store(
    request: pytest.FixtureRequest, tmp_path: Path, postgres: Callable[[], str]
) -> Callable[[], Store]:
    made = databases.opener(request.param, tmp_path, postgres)
    return lambda: made(FakeClock(), 300)


def put(name: str, **fields: object) -> Callable[[Record | None], Put]:
    return lambda current: Put({"metadata": {"name": name}, **fields})


def remove(current: Record | None) -> Remove:
    assert current is not None
    return Remove(current.object())


async def test_a_write_is_read_back_with_its_revision(open_store: Callable[[], Store]) -> None:
    async with open_store() as store:
        record = await store.write(PODS, "ns/a", put("a"))
        assert record is not None
        assert record.object() == {"metadata": {"name": "a", "resourceVersion": str(record.revision)}}
        found = store.get(PODS, "ns/a")
        assert found is not None
        assert (found.key, found.revision, found.data) == (record.key, record.revision, record.data)
        assert store.revision == record.revision


async def test_revisions_of_all_resources_come_from_one_counter(open_store: Callable[[], Store]) -> None:
    async with open_store() as store:
        writes = [
            store.write(resource, f"ns/{n}", put(str(n))) for n in range(20) for resource in (PODS, CLAIMS)
        ]
        records = await asyncio.gather(*writes)
        revisions = [record.revision for record in records if record is not None]
        assert sorted(revisions) == list(range(min(revisions), min(revisions) + 40))
        assert store.revision == max(revisions)


async def test_all_objects_and_revisions_survive_a_restart(open_store: Callable[[], Store]) -> None:
    async with open_store() as store:
        await store.write(PODS, "ns/a", put("a"))
        await store.write(PODS, "ns/b", put("b"))
        await store.write(PODS, "ns/a", put("a", spec=1))
        gone = await store.write(PODS, "ns/b", remove)
        assert gone is not None
    async with open_store() as store:
        assert store.revision == gone.revision
        assert list(store.collection(PODS).records) == ["ns/a"]
        kept = store.get(PODS, "ns/a")
        assert kept is not None
        assert kept.object()["spec"] == 1
        again = await store.write(PODS, "ns/b", put("b"))
        assert again is not None
        assert again.revision == gone.revision + 1
        assert await store.check() == []


async def test_revisions_are_never_reused_after_compaction(
    open_store: Callable[[], Store],
) -> None:
    async with open_store() as store:
        await store.write(PODS, "ns/a", put("a"))
        gone = await store.write(PODS, "ns/a", remove)
        assert gone is not None
        store.compact(gone.revision)
    async with open_store() as store:
        assert store.revision == gone.revision
        assert store.compacted_revision == gone.revision


async def test_history_has_each_change_with_its_previous_object(open_store: Callable[[], Store]) -> None:
    async with open_store() as store:
        start = store.revision
        await store.write(PODS, "ns/a", put("a", spec=1))
        await store.write(CLAIMS, "ns/a", put("a"))
        await store.write(PODS, "ns/a", put("a", spec=2))
        await store.write(PODS, "ns/a", remove)
        events = (await store.history(PODS, start)).events
        assert [event.type for event in events] == [ADDED, MODIFIED, DELETED]
        assert [event.revision for event in events] == [start + 1, start + 3, start + 4]
        assert [event.previous.object()["spec"] if event.previous else None for event in events] == [
            None,
            1,
            2,
        ]
        assert [event.revision for event in (await store.history(PODS, start + 1)).events] == [
            start + 3,
            start + 4,
        ]


async def test_compaction_drops_only_revisions_outside_the_window(open_store: Callable[[], Store]) -> None:
    async with open_store() as store:
        for spec in range(5):
            await store.write(PODS, "ns/a", put("a", spec=spec))
        middle = store.revision - 2
        store.compact(middle)
        with pytest.raises(StatusError) as caught:
            await store.history(PODS, middle - 1)
        assert (caught.value.code, caught.value.reason) == (410, "Expired")
    async with open_store() as store:
        events = (await store.history(PODS, middle)).events
        assert [event.record.object()["spec"] for event in events] == [3, 4]
        assert events[0].previous is not None
        assert events[0].previous.object()["spec"] == 2


async def test_a_future_revision_is_refused(open_store: Callable[[], Store]) -> None:
    async with open_store() as store:
        with pytest.raises(StatusError) as caught:
            await store.history(PODS, store.revision + 1000)
        assert caught.value.code == 504
        assert caught.value.message == (
            f"Timeout: Too large resource version: {store.revision + 1000}, current: {store.revision}"
        )


async def test_a_change_function_sees_the_newest_version_before_it_is_durable(
    open_store: Callable[[], Store],
) -> None:
    async with open_store() as store:
        await store.write(PODS, "ns/a", put("a", count=0))

        def increment(current: Record | None) -> Put:
            assert current is not None
            obj = current.object()
            return Put({**obj, "count": obj["count"] + 1})

        await asyncio.gather(*(store.write(PODS, "ns/a", increment) for _ in range(50)))
        record = store.get(PODS, "ns/a")
        assert record is not None
        assert record.object()["count"] == 50


async def test_an_unchanged_object_keeps_its_revision(open_store: Callable[[], Store]) -> None:
    async with open_store() as store:
        first = await store.write(PODS, "ns/a", put("a"))
        again = await store.write(PODS, "ns/a", lambda current: None)
        assert first is not None
        assert again is not None
        assert again.revision == store.revision == first.revision


async def test_a_dry_run_stores_nothing(open_store: Callable[[], Store]) -> None:
    async with open_store() as store:
        before = store.revision
        record = await store.write(PODS, "ns/a", put("a", spec=1), dry_run=True)
        assert record is not None
        assert record.object()["spec"] == 1
        assert store.get(PODS, "ns/a") is None
        assert store.revision == before


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_past_state_is_read_from_memory_or_from_the_database(
    open_store: Callable[[], Store], restarted: bool
) -> None:
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_store())
        await store.write(PODS, "ns/a", put("a", spec=1))
        await store.write(PODS, "ns/b", put("b"))
        await store.write(PODS, "ns/d", put("d"))
        then = store.revision
        await store.write(PODS, "ns/a", put("a", spec=2))
        await store.write(PODS, "ns/b", remove)
        await store.write(PODS, "ns/c", put("c"))
        if restarted:
            await stack.aclose()
            store = await stack.enter_async_context(open_store())
        snapshot = await store.snapshot(PODS, then)
        found = [record async for records in snapshot.records(snapshot.keys) for record in records]
        assert [(record.key, record.revision) for record in found] == [
            ("ns/a", then - 2),
            ("ns/b", then - 1),
            ("ns/d", then),
        ]


async def test_events_have_previous_objects_from_before_the_window(
    open_store: Callable[[], Store],
) -> None:
    async with open_store() as store:
        await store.write(PODS, "ns/a", put("a", spec=1))
        store.compact(store.revision)
        await store.write(PODS, "ns/b", put("b"))
        then = store.revision
        await store.write(PODS, "ns/a", put("a", spec=2))
    async with open_store() as store:
        (event,) = (await store.history(PODS, then)).events
        assert event.previous is not None
        assert event.previous.object()["spec"] == 1
        snapshot = await store.snapshot(PODS, then)
        assert snapshot.keys == ["ns/a", "ns/b"]
        found = [record async for records in snapshot.records(snapshot.keys) for record in records]
        assert found[0].object()["spec"] == 1


async def test_a_delayed_compaction_does_not_lower_the_compacted_revision(tmp_path: Path) -> None:
    engine = SqliteEngine(tmp_path / "test.sqlite3", relaxed=True)
    engine.open()
    engine.compact(20, 1)
    engine.compact(10, 1)
    engine.close()
    again = SqliteEngine(tmp_path / "test.sqlite3", relaxed=True)
    assert again.open().compacted == 20
    again.close()


async def test_history_and_versions_are_read_in_limited_steps(open_store: Callable[[], Store]) -> None:
    async with open_store() as store:
        start = store.revision
        for number in range(10):
            await store.write(PODS, f"ns/{number}", put(str(number), spec="x" * 100_000))
        step = await store.history(PODS, start)
        assert len(step.events) == 3
        assert step.until == step.events[-1].revision
        rest = await store.history(PODS, store.revision - 1)
        assert (len(rest.events), rest.until) == (1, store.revision)
        revisions = [record.revision for record in store.collection(PODS).records.values()]
        found = await store.versions(store.revision, revisions)
        assert [record.revision for record in found] == revisions[:3]


class Failing(SqliteEngine):
    """An engine whose disk can be full, and whose writes can be paused."""

    full = False

    def __init__(self, path: Path) -> None:
        super().__init__(path, relaxed=True)
        self.proceed = threading.Event()
        self.proceed.set()

    def write(self, changes: Sequence[Change]) -> None:
        self.proceed.wait()
        self._need_room()
        super().write(changes)

    def compact(self, revision: int, limit: int) -> bool:
        self._need_room()
        return super().compact(revision, limit)

    def _need_room(self) -> None:
        if self.full:
            raise OperationalError("INSERT", None, sqlite3.OperationalError("database or disk is full"))


async def test_no_reader_sees_a_failed_transaction(tmp_path: Path) -> None:
    engine = Failing(tmp_path / "test.sqlite3")
    async with Store(engine, FakeClock(), 300) as store:
        first = await store.write(PODS, "ns/a", put("a", spec=1))
        engine.full = True
        with pytest.raises(StatusError) as caught:
            await store.write(PODS, "ns/a", put("a", spec=2))
        assert caught.value.code == 500
        assert str(caught.value) == "storage: database or disk is full"
        assert store.failure == "database or disk is full"
        assert store.get(PODS, "ns/a") is first
        assert store.newest(PODS, "ns/a") is first
        engine.full = False
        second = await store.write(PODS, "ns/a", put("a", spec=3))
        assert first is not None
        assert second is not None
        assert second.revision > first.revision + 1
        assert store.failure is None


async def test_a_recovered_database_is_detected_without_a_write(tmp_path: Path) -> None:
    engine, clock = Failing(tmp_path / "test.sqlite3"), FakeClock()
    async with Store(engine, clock, 300) as store:
        await settle()
        engine.full = True
        with pytest.raises(StatusError):
            await store.write(PODS, "ns/a", put("a"))

        await clock.advance(20)
        assert store.failure == "database or disk is full"
        engine.full = False
        await until(lambda: store.failure is None, clock=clock)
        await store.write(PODS, "ns/a", put("a"))
        engine.full = True
        store.compact(store.revision)
        await until(lambda: store.failure == "database or disk is full", clock=clock)


async def test_a_rejection_is_sent_only_after_the_state_that_it_is_based_on_is_durable(
    tmp_path: Path,
) -> None:
    engine = Failing(tmp_path / "test.sqlite3")
    async with Store(engine, FakeClock(), 300) as store:
        engine.proceed.clear()
        first = asyncio.create_task(store.write(PODS, "ns/a", put("a")))
        await asyncio.sleep(0)

        def refuse(current: Record | None) -> None:
            assert current is not None
            raise ValueError("there is one already")

        second = asyncio.create_task(store.write(PODS, "ns/a", refuse))
        await asyncio.sleep(0.01)
        assert not second.done()
        assert store.get(PODS, "ns/a") is None
        engine.proceed.set()
        with pytest.raises(ValueError, match="already"):
            await second
        assert first.done()


async def test_concurrent_writes_are_committed_in_few_transactions(tmp_path: Path) -> None:
    async with Store(SqliteEngine(tmp_path / "test.sqlite3"), FakeClock(), 300) as store:
        await asyncio.gather(*(store.write(PODS, f"ns/{n}", put(str(n))) for n in range(100)))
        assert store.committed_writes == 100
        assert store.commits <= 3


async def test_revisions_older_than_the_window_are_compacted_as_time_passes(tmp_path: Path) -> None:
    clock = FakeClock()
    async with Store(SqliteEngine(tmp_path / "test.sqlite3"), clock, 40) as store:
        await store.write(PODS, "ns/a", put("a"))
        old = store.revision
        for _ in range(3):
            await settle(1)
            await clock.advance(10)
        await store.write(PODS, "ns/a", put("a", spec=1))
        assert store.compacted_revision < old
        for _ in range(4):
            await clock.advance(10)
        assert store.compacted_revision == old
        await clock.advance(10)
        assert store.compacted_revision == store.revision


async def test_a_cancelled_write_cancels_no_other_request(open_store: Callable[[], Store]) -> None:
    def leave(current: Record | None) -> None:
        assert current is not None

    async with open_store() as store:
        writer = asyncio.create_task(store.write(PODS, "ns/a", put("a")))
        reader = asyncio.create_task(store.write(PODS, "ns/a", leave))
        # After the second turn of the loop the write is being executed. It is done in the third turn at the
        # earliest.
        await settle(2)
        writer.cancel()
        seen = await reader
        assert seen is not None
        assert seen.object()["metadata"]["name"] == "a"
        assert store.get(PODS, "ns/a") is not None
        with pytest.raises(asyncio.CancelledError):
            await writer
