"""Test past states and the history of changes, on every database."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from dra_apiserver.errors import StatusError
from dra_apiserver.storage import ADDED, DELETED, MODIFIED, Put, Record, Remove, Store
from dra_apiserver.storage.authors import SERVER, Author, author_of, set_author
from dra_apiserver.storage.sessions import Moment, Range
from dra_apiserver.storage.timeline import Timeline
from dra_shared.clock import FakeClock

from tests.support import databases

PODS = ("", "pods")
ALICE = Author("alice", "kubectl/v1.36", "kubectl", "patch", "status")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=databases.ALL)
def open_store(
    request: pytest.FixtureRequest, tmp_path: Path, postgres: Callable[[], str], clock: FakeClock
) -> Callable[[], Store]:
    made = databases.opener(request.param, tmp_path, postgres)
    return lambda: made(clock, 300)


def put(name: str, **fields: object) -> Callable[[Record | None], Put]:
    return lambda current: Put({"metadata": {"name": name}, **fields})


def remove(current: Record | None) -> Remove:
    assert current is not None
    return Remove(current.object())


async def write(store: Store, key: str, change: Callable[[Record | None], Any]) -> int:
    record = await store.write(PODS, key, change)
    assert record is not None
    return record.revision


async def test_entries_have_author_and_time(open_store: Callable[[], Store], clock: FakeClock) -> None:
    async with open_store() as store:
        start = int(clock.now().timestamp() * 1000)
        added = await write(store, "ns/a", put("a", x=1))
        set_author(ALICE)
        await clock.advance(1)
        await write(store, "ns/b", put("b"))
        changed = await write(store, "ns/a", put("a", x=2))
        await clock.advance(1)
        removed = await write(store, "ns/a", remove)
        timeline = Timeline(store)
        entries = await timeline.entries(Range(PODS, key="ns/a", until=store.revision))
        assert [
            (one.event.type, one.event.revision, one.time - start, author_of(one.author)) for one in entries
        ] == [
            (ADDED, added, 0, SERVER),
            (MODIFIED, changed, 1000, ALICE),
            (DELETED, removed, 2000, ALICE),
        ]
        previous = [one.event.previous and one.event.previous.revision for one in entries]
        assert previous == [None, added, changed]


async def test_changes_are_returned_in_pages(open_store: Callable[[], Store]) -> None:
    async with open_store() as store:
        revisions = [
            await write(store, f"{ns}/{n}", put(str(n))) for ns in ("a", "b%", "c") for n in range(3)
        ]
        timeline = Timeline(store)

        async def find_revisions(**members: Any) -> list[int]:
            wanted = Range(PODS, **{"until": store.revision, **members})
            return [one.event.revision for one in await timeline.entries(wanted)]

        assert await find_revisions() == revisions
        assert await find_revisions(prefix="b%/") == revisions[3:6]
        assert await find_revisions(limit=2) == revisions[-2:]
        assert await find_revisions(limit=2, newest=False) == revisions[:2]
        assert await find_revisions(after=revisions[1], until=revisions[4]) == revisions[2:5]


async def test_a_time_is_mapped_to_the_last_revision_before_that_time(
    open_store: Callable[[], Store], clock: FakeClock
) -> None:
    async with open_store() as store:
        revisions = []
        start = clock.now()
        for number in range(40):
            revisions.append(await write(store, f"ns/{number % 3}", put("x", n=number)))
            if number % 2:
                await clock.advance(1)
        timeline = Timeline(store)
        for second in range(20):
            for part in (0, 0.5):
                wanted = start + timedelta(seconds=second + part)
                time = int((start + timedelta(seconds=second)).timestamp() * 1000)
                assert await timeline.moment(wanted) == Moment(revisions[2 * second + 1], time)
        assert (await timeline.moment(clock.now() + timedelta(days=1))).revision == revisions[-1]
        assert (await timeline.moment(revisions[4])).time == int(
            (start + timedelta(seconds=2)).timestamp() * 1000
        )


async def test_times_before_the_history_are_rejected(
    open_store: Callable[[], Store], clock: FakeClock
) -> None:
    async with open_store() as store:
        await write(store, "ns/a", put("a"))
        with pytest.raises(StatusError) as early:
            await Timeline(store).moment(clock.now() - timedelta(days=1))
        assert early.value.code == 410
        for number in range(4):
            last = await write(store, "ns/a", put("a", n=number))
            await clock.advance(1)
        store.compact(last - 1)
        timeline = Timeline(store)
        for wanted, code in ((last - 2, 410), (last + 1, 504)):
            with pytest.raises(StatusError) as refused:
                await timeline.moment(wanted)
            assert refused.value.code == code
        assert (await timeline.moment(last - 1)).revision == last - 1


async def test_past_versions_of_an_object_are_returned(open_store: Callable[[], Store]) -> None:
    async with open_store() as store:
        first = await write(store, "ns/a", put("a", x=1))
        second = await write(store, "ns/a", put("a", x=2))
        third = await write(store, "ns/a", remove)
        timeline = Timeline(store)
        shown = [await timeline.at(PODS, revision, "ns/a") for revision in (first - 1, first, second, third)]
        assert [one and one.object().get("x") for one in shown] == [None, 1, 2, None]
