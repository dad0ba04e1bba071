"""Test a reader's store: it starts with all objects, follows the writer's log, and resumes where it was."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from dra_apiserver.errors import StatusError
from dra_apiserver.storage import Put, Record, Remove, Store, feed, replica
from dra_apiserver.storage.feed import Feed
from dra_apiserver.storage.replica import AnotherDatabase, Replica
from dra_apiserver.storage.sqlite import SqliteEngine
from dra_apiserver.storage.wire import FEED
from dra_shared.clock import FakeClock

from tests.support.waiting import until

PODS, NODES = ("", "pods"), ("", "nodes")


@asynccontextmanager
async def writing(folder: Path, name: str = "objects") -> AsyncIterator[Store]:
    store = Store(SqliteEngine(folder / name, relaxed=True), FakeClock(), 300)
    async with store, Feed(store, folder / FEED):
        yield store


def put(name: str, **fields: object) -> Callable[[Record | None], Put]:
    return lambda current: Put({"metadata": {"name": name}, **fields})


def remove(current: Record | None) -> Remove | None:
    return None if current is None else Remove(current.object())


def contents(store: Store) -> dict[tuple[str, str], dict[str, bytes]]:
    return {
        resource: {key: record.data for key, record in store.collection(resource).records.items()}
        for resource, count in store.resources().items()
        if count
    }


async def test_a_reader_begins_with_all_objects_and_follows(tmp_path: Path) -> None:
    async with writing(tmp_path) as writer:
        await writer.write(PODS, "ns/a", put("a"))
        await writer.write(NODES, "n", put("n", padding="x" * (2 << 20)))
        async with Replica(tmp_path / FEED, FakeClock()) as reader:
            assert contents(reader) == contents(writer)
            position = reader.collection(PODS).end
            await writer.write(PODS, "ns/b", put("b"))
            await writer.write(PODS, "ns/a", remove)
            await reader.fresh()
            assert contents(reader) == contents(writer)
            assert reader.revision == writer.revision
            events = reader.collection(PODS).events(position, 10) or []
            assert [(event.type, event.key) for event in events] == [("ADDED", "ns/b"), ("DELETED", "ns/a")]
            assert events[1].previous is not None


async def test_a_reader_goes_on_from_the_log_when_the_writer_is_back(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        first = AsyncExitStack()
        writer = await first.enter_async_context(writing(tmp_path))
        await writer.write(PODS, "ns/a", put("a"))
        reader = await stack.enter_async_context(Replica(tmp_path / FEED, FakeClock()))
        await first.aclose()
        await until(lambda: reader.failure)
        # What happens while the reader is away: more than one step of the log.
        async with Store(SqliteEngine(tmp_path / "objects", relaxed=True), FakeClock(), 300) as alone:
            for number in range(20):
                await alone.write(PODS, "ns/a", put("a", number=number))
        position = reader.collection(PODS).end
        async with writing(tmp_path) as writer:
            await reader.fresh()
            assert reader.failure is None
            assert contents(reader) == contents(writer)
            # The ring goes on: each change is there, none twice.
            events = reader.collection(PODS).events(position, 100) or []
            assert [event.record.object()["number"] for event in events] == list(range(20))


async def test_a_reader_that_was_away_too_long_gets_all_objects(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        first = AsyncExitStack()
        writer = await first.enter_async_context(writing(tmp_path))
        await writer.write(PODS, "ns/gone", put("gone"))
        reader = await stack.enter_async_context(Replica(tmp_path / FEED, FakeClock()))
        before, position = reader.revision, reader.collection(PODS).end
        await first.aclose()
        async with Store(SqliteEngine(tmp_path / "objects", relaxed=True), FakeClock(), 300) as alone:
            await alone.write(PODS, "ns/gone", remove)
            await alone.write(NODES, "n", put("n"))
            alone.compact(alone.revision)
        async with writing(tmp_path) as writer:
            await reader.fresh()
            assert contents(reader) == contents(writer) == {NODES: contents(writer)[NODES]}
            assert reader.collection(PODS).position_after(before) is None
            # Nor does a watch go on that was at the end of the ring.
            assert reader.collection(PODS).events(position, 10) is None
            with pytest.raises(StatusError) as caught:
                await reader.history(PODS, before)
            assert caught.value.code == 410
            assert (await reader.history(PODS, reader.revision)).events == []


async def test_what_the_writer_compacts_is_gone_at_the_reader(tmp_path: Path) -> None:
    async with writing(tmp_path) as writer, Replica(tmp_path / FEED, FakeClock()) as reader:
        await writer.write(PODS, "ns/a", put("a"))
        await writer.write(PODS, "ns/a", put("a", spec=1))
        writer.compact(writer.revision)
        await reader.fresh()
        assert reader.compacted == writer.revision
        with pytest.raises(StatusError) as caught:
            reader.check_revision(writer.revision - 1)
        assert caught.value.code == 410


async def test_a_read_fails_in_time_where_the_writer_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica, "_FRESH_TIMEOUT", 0.05)
    async with AsyncExitStack() as stack:
        async with writing(tmp_path):
            reader = await stack.enter_async_context(Replica(tmp_path / FEED, FakeClock()))
        await until(lambda: reader.failure)
        with pytest.raises(StatusError) as caught:
            await reader.fresh()
        assert caught.value.code == 503


async def test_a_writer_that_is_silent_is_noticed_and_requests_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica, "_POLL", 0.01)
    monkeypatch.setattr(replica, "_SILENCE", 0.05)
    async with writing(tmp_path) as writer, Replica(tmp_path / FEED, FakeClock()) as reader:
        await writer.write(PODS, "ns/a", put("a"))
        await reader.fresh()
        monkeypatch.setattr(replica, "_REQUEST_TIMEOUT", 0.2)
        with monkeypatch.context() as silent:
            # As one that is stopped: its connection stays.
            silent.setattr(feed._Reader, "answer", lambda *_: None)
            await until(lambda: reader.failure)
            for question in (reader.fresh(), reader.versions(reader.revision, [reader.revision])):
                with pytest.raises(StatusError) as caught:
                    await question
                assert caught.value.code == 504
        await until(lambda: reader.failure is None)
        await reader.fresh()


async def test_a_reader_ends_where_the_writer_has_another_database(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        async with writing(tmp_path) as writer:
            for number in range(3):
                await writer.write(PODS, f"ns/{number}", put("a"))
            reader = await stack.enter_async_context(Replica(tmp_path / FEED, FakeClock()))
        async with writing(tmp_path, "other"):
            with pytest.raises(AnotherDatabase):
                await reader.ended


async def test_paths_that_the_kernel_does_not_take_are_no_hindrance(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    async with writing(folder) as writer, Replica(folder / FEED, FakeClock()) as reader:
        await writer.write(PODS, "ns/a", put("a"))
        await reader.fresh()
        assert contents(reader) == contents(writer)
