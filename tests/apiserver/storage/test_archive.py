"""Test that the archive has the revisions before Kubernetes' window, on every database."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from dra_apiserver.errors import StatusError
from dra_apiserver.storage import MODIFIED, Put, Record, Remove, Resource
from dra_apiserver.storage.archive import keeper, reading
from dra_apiserver.storage.archive.keeper import Keeper
from dra_apiserver.storage.archive.segment import pack, read_bodies, read_heads
from dra_apiserver.storage.catalog import ENGINES, Database, engine
from dra_apiserver.storage.sessions import Item, Moment, Range
from dra_apiserver.storage.shared import store_for
from dra_apiserver.storage.sqlsessions import SqlReading
from dra_apiserver.storage.store import Store
from dra_apiserver.storage.timeline import Timeline
from dra_shared.clock import FakeClock
from dra_shared.retention import Retention, parse_retention

from tests.support import databases

PODS, NODES = ("", "pods"), ("", "nodes")
ALL = parse_retention("all")

Objects = dict[str, bytes]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make segments and the distance between keyframes small."""
    monkeypatch.setattr(keeper, "_LEAST", 20)
    monkeypatch.setattr(keeper, "_MOST", 30)
    monkeypatch.setattr(keeper, "_RAW", 4000)
    monkeypatch.setattr(keeper, "_FORGET_STEP", 7)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=sorted(ENGINES))
def open_store(
    request: pytest.FixtureRequest, tmp_path: Path, postgres: Callable[[], str], clock: FakeClock
) -> Callable[[Retention | None], Store]:
    database = Database(databases.url(request.param, postgres), tmp_path, relaxed=True)
    # An in-memory database is deleted with its last engine, so keep one open.
    kept = engine(database)

    def start(retention: Retention | None) -> Store:
        assert kept.name
        return store_for(engine(database), clock, 300, retention)

    return start


class Life:
    """Creates, changes and deletes objects at random, and remembers the state at each revision."""

    def __init__(self, store: Store, clock: FakeClock, seed: int = 1, every: float = 1) -> None:
        self.store = store
        self._every = every
        self.seen: dict[int, dict[Resource, Objects]] = {}
        self._clock = clock
        self._random = random.Random(seed)
        self._now: dict[Resource, Objects] = {PODS: {}, NODES: {}}

    async def go_on(self, writes: int) -> None:
        for _ in range(writes):
            resource = PODS if self._random.random() < 0.9 else NODES
            await self._write(resource, f"ns-{self._random.randrange(2)}/{self._random.randrange(8)}")
            await self._clock.advance(self._every)

    async def _write(self, resource: Resource, key: str) -> None:
        size = self._random.randrange(300)

        def change(current: Record | None) -> Put | Remove:
            if current is not None and self._random.random() < 0.2:
                return Remove(current.object())
            return Put({"metadata": {"name": key}, "spec": "x" * size})

        record = await self.store.write(resource, key, change)
        assert record is not None
        current = self.store.get(resource, key)
        objects = {name: data for name, data in self._now[resource].items() if name != key}
        self._now = {**self._now, resource: objects if current is None else {**objects, key: current.data}}
        self.seen[record.revision] = self._now

    async def archive(self) -> None:
        """Archive everything that can be archived."""
        self.store.compact(self.store.revision)
        done = Keeper(self.store.engine, self.store.retention or ALL)
        compacted, now = self.store.compacted_revision, int(self._clock.now().timestamp() * 1000)
        while await done.step(compacted, now, asyncio.to_thread, self.store._in_writer):
            pass


async def _objects(store: Store, resource: Resource, revision: int, prefix: str = "") -> Objects:
    found = await Timeline(store).objects(resource, revision, prefix)
    return {key: record.data for key, record in found.items()}


@pytest.fixture
async def life(open_store: Any, clock: FakeClock) -> AsyncIterator[Life]:
    async with open_store(ALL) as store:
        made = Life(store, clock)
        for _ in range(3):
            await made.go_on(60)
            await made.archive()
        await made.go_on(10)
        yield made


async def test_the_state_before_a_new_event_is_kept_in_a_sealed_segment(life: Life) -> None:
    """Check that a row stays if an event refers to it.

    The rows to archive are chosen in a thread while writes continue.
    """
    store = life.store
    archive = Keeper(store.engine, ALL)
    store.compact(store.revision)
    rows, newest = await asyncio.to_thread(archive._find_sealed, PODS, store.revision, store.revision)
    key = next(iter(store.collection(PODS).records))
    before = store.collection(PODS).records[key].revision
    assert before in rows
    assert await store.write(PODS, key, lambda _: Put({"metadata": {"name": key}})) is not None
    await store._in_writer(partial(archive._forget, rows, newest))
    with store.engine.begin_reading() as session:
        kept = {one.revision for name in (PODS, NODES) for one in session.events(name, 0, newest)}
    assert before in kept
    assert not kept & ({*rows} - {before})


async def test_every_past_revision_is_reconstructed(life: Life) -> None:
    store = life.store
    with store.engine.begin_reading() as session:
        assert session.sealed_revision(PODS) > 100
        assert len(session.frames(PODS)) > 1
    for revision in [*life.seen][:-10:3]:
        for resource in (PODS, NODES):
            assert await _objects(store, resource, revision) == life.seen[revision][resource]
        pods = life.seen[revision][PODS]
        assert await _objects(store, PODS, revision, "ns-1/") == {
            key: data for key, data in pods.items() if key.startswith("ns-1/")
        }
    timeline = Timeline(store)
    for revision in [*life.seen][::7]:
        for key in ("ns-0/1", "ns-1/5"):
            found = await timeline.at(PODS, revision, key)
            assert (found and found.data) == life.seen[revision][PODS].get(key)


async def test_all_changes_are_archived_with_their_previous_versions(life: Life) -> None:
    timeline = Timeline(life.store)
    before: dict[str, bytes] = {}
    found = await timeline.entries(Range(PODS, until=life.store.revision, limit=1000))
    pods = [
        revision
        for revision in life.seen
        if life.seen[revision][PODS] is not life.seen.get(revision - 1, {}).get(PODS)
    ]
    assert [entry.event.revision for entry in found] == pods
    for entry in found:
        event = entry.event
        if event.type == MODIFIED:
            assert event.previous is not None
            assert event.previous.data == before[event.key]
        before = life.seen[event.revision][PODS]
    for limit in (1, 25, 130):
        for newest in (True, False):
            part = await timeline.entries(Range(PODS, until=pods[-1], limit=limit, newest=newest))
            assert [one.event.revision for one in part] == (pods[-limit:] if newest else pods[:limit])
    own = [entry.event.revision for entry in found if entry.event.key == "ns-0/3"]
    of_key = await timeline.entries(Range(PODS, key="ns-0/3", until=pods[-1], after=own[2]))
    assert [one.event.revision for one in of_key] == own[3:]


async def test_past_moments_are_found_by_time_and_revision(life: Life, clock: FakeClock) -> None:
    timeline = Timeline(life.store)
    revisions = [*life.seen]
    start = clock.now() - timedelta(seconds=len(revisions))
    for number in range(0, len(revisions), 9):
        moment = await timeline.moment(start + timedelta(seconds=number, milliseconds=500))
        assert moment.revision == revisions[number]
        assert await timeline.moment(revisions[number]) == moment


async def test_a_restarted_server_continues_the_archive(
    life: Life, open_store: Any, clock: FakeClock
) -> None:
    seen = dict(life.seen)
    await life.store.__aexit__(None, None, None)
    async with open_store(None) as store:
        assert store.retention == ALL
        again = Life(store, clock, seed=2)
        again._now = seen[max(seen)]
        await again.go_on(60)
        await again.archive()
        for revision in [*seen][::11]:
            assert await _objects(store, PODS, revision) == seen[revision][PODS]
        # Open the store again, because the fixture will close it.
    await life.store.__aenter__()


async def test_history_that_is_enabled_later_includes_existing_objects(
    open_store: Any, clock: FakeClock
) -> None:
    async with open_store(None) as store:
        assert store.retention is None
        before = Life(store, clock)
        await before.go_on(30)
    async with open_store(ALL) as store:
        begun = store.revision
        after = Life(store, clock)
        after._now = before._now
        await after.go_on(80)
        await after.archive()
        seen = {begun: before._now, **after.seen}
        for revision in [*seen][::5]:
            assert await _objects(store, PODS, revision) == seen[revision][PODS]
        with pytest.raises(StatusError) as refused:
            await Timeline(store).moment(begun - 1)
        assert refused.value.code == 410


async def test_history_is_limited_by_age(open_store: Any, clock: FakeClock) -> None:
    async with open_store(Retention(100.0 + 300)) as store:
        life = Life(store, clock, every=5)
        for _ in range(6):
            await life.go_on(30)
            await life.archive()
        timeline = Timeline(store)
        oldest = await timeline.oldest()
        newest = max(life.seen)
        assert newest - 83 < oldest.revision < newest - 77
        for revision in range(oldest.revision, newest - 1, 7):
            assert await _objects(store, PODS, revision) == life.seen[revision][PODS]
        with pytest.raises(StatusError) as refused:
            await timeline.objects(PODS, oldest.revision - 1, "")
        assert refused.value.code == 410
        changes = await timeline.entries(Range(PODS, until=newest, limit=5000))
        assert changes[0].event.revision > oldest.revision


async def test_the_start_of_the_history_never_moves_back(open_store: Any, clock: FakeClock) -> None:
    async with open_store(ALL) as store:
        life = Life(store, clock)
        await life.go_on(60)
        await life.archive()
        first, second = Keeper(store.engine, ALL), Keeper(store.engine, ALL)
        for one, revision in ((first, 40), (second, 30)):
            await store._in_writer(partial(one._cut, Moment(revision, revision)))
        assert await Timeline(store).oldest() == Moment(40, 40)
        with pytest.raises(StatusError) as refused:
            await Timeline(store).objects(PODS, 35, "")
        assert refused.value.code == 410


async def test_history_is_limited_by_size(open_store: Any, clock: FakeClock) -> None:
    async with open_store(Retention(None, 12_000)) as store:
        life = Life(store, clock)
        for _ in range(8):
            await life.go_on(60)
            await life.archive()
        with store.engine.begin_reading() as session:
            assert sum(session.usage().values()) < 12_000
            if isinstance(session, SqlReading):
                orphans = "SELECT count(*) FROM segment_keys WHERE segment NOT IN (SELECT id FROM segments)"
                assert session.connection.exec_driver_sql(orphans).scalar() == 0
        oldest = (await Timeline(store).oldest()).revision
        assert min(life.seen) < oldest < max(life.seen)
        for revision in range(oldest, max(life.seen) - 1, 7):
            assert await _objects(store, PODS, revision) == life.seen[revision][PODS]


async def test_a_history_limit_within_the_window_of_kubernetes_deletes_the_archive(
    life: Life, open_store: Any
) -> None:
    await life.store.__aexit__(None, None, None)
    async with open_store(parse_retention("5m")) as store:
        assert store.retention is None
        with store.engine.begin_reading() as session:
            assert session.usage() == {}
            assert reading.floor(session) is None
    await life.store.__aenter__()


def test_many_versions_of_one_object_take_little_space() -> None:
    data = random.Random(1).randbytes(3000)
    items = [Item(n, f"ns/{n % 50}", 1, n, "", data[n % 50 :] + b"%d" % n) for n in range(1000)]
    packed = pack(items)
    assert packed.size < 1000 * 40
    bodies = read_bodies(packed.bodies)
    heads = sorted(read_heads(packed.heads))
    assert [Item(*head[:5], bytes(bodies[head.start : head.end])) for head in heads] == items
