"""Compare list and watch with a simple reference. A seeded schedule decides which waiting task continues next."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest
from dra_apiserver.api import Api
from dra_apiserver.config import Config
from dra_apiserver.errors import StatusError
from dra_apiserver.handlers import get
from dra_apiserver.handlers.options import ListOptions
from dra_apiserver.kinds import catalog
from dra_apiserver.metrics import Metrics
from dra_apiserver.negotiation import Accepted
from dra_apiserver.response import Presenter
from dra_apiserver.storage import ADDED, DELETED, MODIFIED, Put, Record, Remove, Store
from dra_apiserver.storage import collection as collection_module
from dra_apiserver.storage import snapshot as snapshot_module
from dra_apiserver.storage import store as store_module
from dra_apiserver.storage.records import Change
from dra_apiserver.storage.sqlite import SqliteEngine
from dra_apiserver.target import Target
from dra_apiserver.watch import Selection, WatchStream
from dra_apiserver.watch import stream as stream_module
from dra_shared.clock import FakeClock, settle
from dra_shared.fieldselectors import parse_field_selector
from dra_shared.jsontypes import JsonObject
from dra_shared.selectors import parse_label_selector

from tests.support.sampling import sample
from tests.support.waiting import until

RESOURCE = ("", "configmaps")
KEYS = [f"{namespace}/{name}" for namespace in ("one", "two") for name in "abcde"]
STEPS = 250
State = dict[str, JsonObject]


class Query(NamedTuple):
    """A client's selector, with a reference implementation of it."""

    namespace: str
    labels: str
    fields: str
    matches: Callable[[JsonObject], bool]


QUERIES = [
    Query("", "", "", lambda meta: True),
    Query("one", "", "", lambda meta: meta["namespace"] == "one"),
    Query("", "team=a", "", lambda meta: meta["labels"]["team"] == "a"),
    Query("two", "team=b", "", lambda meta: meta["namespace"] == "two" and meta["labels"]["team"] == "b"),
    Query("one", "", "metadata.name=c", lambda meta: (meta["namespace"], meta["name"]) == ("one", "c")),
]


class Reference:
    """Everything that became durable, in order."""

    def __init__(self) -> None:
        self._changes: list[tuple[int, str, JsonObject | None]] = []

    def add(self, change: Change) -> None:
        event = change.event
        self._changes.append(
            (event.revision, event.key, None if event.type == DELETED else event.record.object())
        )

    def state(self, revision: int, query: Query) -> list[JsonObject]:
        """Return the keys of a list at that revision, in order."""
        state: State = {}
        for at, key, obj in self._changes:
            if at <= revision:
                state.pop(key, None)
                if obj is not None:
                    state[key] = obj
        return [state[key] for key in sorted(state) if query.matches(state[key]["metadata"])]

    def events(self, after: int, query: Query) -> list[tuple[str, str, int]]:
        """Return the type, key and revision of the events of a watch after that revision."""
        state: State = {}
        found = []
        for at, key, obj in self._changes:
            earlier = state.pop(key, None)
            if obj is not None:
                state[key] = obj
            before = earlier is not None and query.matches(earlier["metadata"])
            now = obj is not None and query.matches(obj["metadata"])
            if at > after and (before or now):
                found.append((MODIFIED if before and now else ADDED if now else DELETED, key, at))
        return found


class Pauses:
    """Pauses that tasks wait for. The schedule decides when each one ends."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []
        self.open = False

    async def pause(self) -> None:
        if not self.open:
            self._waiting.append(asyncio.get_running_loop().create_future())
            await self._waiting[-1]

    def __len__(self) -> int:
        self._waiting = [one for one in self._waiting if not one.done()]
        return len(self._waiting)

    def go_on(self, number: int) -> None:
        self._waiting.pop(number).set_result(None)

    def release(self) -> None:
        self.open = True
        for one in self._waiting:
            if not one.done():
                one.set_result(None)

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Replace `asyncio.to_thread`: the schedule decides when the call happens and when its result arrives."""
        await self.pause()
        result = function(*arguments)
        await self.pause()
        return result


class HeldEngine(SqliteEngine):
    """An engine whose writes wait for a permit, and whose disk can be full."""

    def __init__(self, path: Path, reference: Reference) -> None:
        super().__init__(path, relaxed=True)
        self._reference = reference
        self.permits = threading.Semaphore(0)
        self.finished: list[str] = []
        self.full = False

    def write(self, changes: Sequence[Change]) -> None:
        self.permits.acquire()
        try:
            if self.full:
                raise sqlite3.OperationalError("database or disk is full")
            super().write(changes)
            for change in changes:
                self._reference.add(change)
        finally:
            self.finished.append("write")

    def compact(self, revision: int, limit: int) -> bool:
        self.permits.acquire()
        try:
            return super().compact(revision, 1000)
        finally:
            self.finished.append("compact")


class Client:
    """A client that watches and resumes. Each of its sends may block."""

    def __init__(self, world: World, query: Query, start: int | None) -> None:
        self._world = world
        self._query = query
        self.slow = False
        self.ended = False
        self.received: list[tuple[str, str, int]] = []
        self.initial: list[JsonObject] = []
        self._initial_end = start is not None
        store = world.store
        self.start = store.revision if start is None else start
        selection = world.selection(query)
        presenter = Presenter(world.target.kind, "v1", Accepted(), "", world.clock)
        self.stream = WatchStream(
            store,
            RESOURCE,
            selection,
            presenter,
            self._send,
            world.clock,
            bookmarks=True,
            timeout=3600,
            write=self._write,
        )
        if start is None:
            collection = store.collection(RESOURCE)
            records = [collection.records[key] for key in collection.range(selection.prefix)]
            work = self.stream.run_from_now(selection.filter(records), initial_end=True)
        else:
            work = self.stream.run_after(start)
        self.task = asyncio.create_task(work)

    @property
    def at(self) -> int:
        return self.received[-1][2] if self.received else self.start

    async def _send(self, chunk: bytes) -> None:
        await self._world.pauses.pause()
        self._note(chunk)

    def _write(self, chunk: bytes) -> bool:
        if self.slow:
            return False
        self._note(chunk)
        return True

    def _note(self, chunk: bytes) -> None:
        for line in chunk.splitlines():
            event = orjson.loads(line)
            obj = event["object"]
            if event["type"] == "ERROR":
                assert obj["code"] == 410
                assert self.at < self._world.store.compacted_revision
                self.ended = True
                continue
            meta = obj["metadata"]
            if event["type"] == "BOOKMARK":
                assert int(meta["resourceVersion"]) == self.start
                self._initial_end = True
                assert self.initial == self._world.reference.state(self.start, self._query)
            elif self._initial_end:
                key = f"{meta['namespace']}/{meta['name']}"
                self.received.append((event["type"], key, int(meta["resourceVersion"])))
            else:
                assert event["type"] == ADDED
                self.initial.append(obj)

    def check(self, complete: bool = False) -> None:
        """Check that each event came once and in order, up to some revision. With `complete`, up to the last."""
        expected = self._world.reference.events(self.start, self._query)
        assert self.received == (expected if complete else expected[: len(self.received)])


class World:
    """A store, its clients, and a schedule of what happens next."""

    def __init__(self, path: Path, seed: int) -> None:
        self._path = path
        self._rng = random.Random(seed)
        self.reference = Reference()
        self.clock = FakeClock()
        self.pauses = Pauses()
        self._compactions = 0
        self._writes: list[asyncio.Task[None]] = []
        self._lists: list[asyncio.Task[None]] = []
        self._clients: list[Client] = []
        kind = catalog.registry("").get(*RESOURCE)
        assert kind is not None
        self.target = Target(kind, "v1")
        self.listed = 0

    async def run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(asyncio, "to_thread", lambda *arguments: self.pauses.call(*arguments))
            await self._open()
            for _ in range(STEPS):
                await self._step()
                await settle()
            await self._finish()

    async def _open(self) -> None:
        self.pauses = Pauses()
        self.pauses.open = True
        self._engine = HeldEngine(self._path, self.reference)
        self.store = await Store(self._engine, self.clock, 1e9).__aenter__()
        self.pauses.open = False
        self._compactions = 0
        self.api = Api(
            Config(data=self._path.parent), self.store, catalog.registry(""), self.clock, Metrics()
        )

    def selection(self, query: Query) -> Selection:
        labels, fields = parse_label_selector(query.labels), parse_field_selector(query.fields)
        return Selection(self.target.kind, query.namespace, labels, fields)

    async def _step(self) -> None:
        rng = self._rng
        match rng.choices(
            ["write", "job", "go on", "list", "watch", "slow", "compact", "fail", "restart"],
            [30, 30, 40, 6, 3, 4, 2, 1, 0.7],
        )[0]:
            case "write":
                self._writes.append(asyncio.create_task(self._write()))
            case "job":
                await self._job()
            case "go on" if len(self.pauses):
                self.pauses.go_on(rng.randrange(len(self.pauses)))
            case "list":
                self._lists.append(asyncio.create_task(self._list()))
            case "watch" if len(self._clients) < 6:
                start = None if rng.random() < 0.3 else self._some_revision()
                self._clients.append(Client(self, rng.choice(QUERIES), start))
            case "slow" if self._clients:
                client = rng.choice(self._clients)
                client.slow = not client.slow
            case "compact":
                self.store.compact(self._some_revision())
                self._compactions += 1
            case "fail":
                self._engine.full = True
                await self._job()
                self._engine.full = False
            case "restart":
                await self._restart()
        for client in self._clients:
            client.check()

    def _some_revision(self) -> int:
        newest = self.store.revision
        return self._rng.randint(max(self.store.compacted_revision, newest - 40, 1), newest)

    async def _write(self) -> None:
        rng = self._rng
        key = rng.choice(KEYS)
        namespace, _, name = key.partition("/")
        labels = {"team": rng.choice("ab")}
        removed = rng.random() < 0.3
        padding = "x" * rng.choice([0, 0, 100, 400])

        def change(current: Record | None) -> Put | Remove | None:
            if removed:
                return None if current is None else Remove(current.object())
            meta = {"name": name, "namespace": namespace, "labels": labels}
            return Put({"kind": "ConfigMap", "apiVersion": "v1", "metadata": meta, "data": {"x": padding}})

        with contextlib.suppress(StatusError):
            await self.store.write(RESOURCE, key, change)

    async def _job(self) -> None:
        """Let the writer's thread do its next job, and wait for the effect."""
        store, engine = self.store, self._engine
        if not self._compactions and not store.queue_length:
            return
        done, commits = len(engine.finished), store.commits
        store.failure = None
        engine.permits.release()
        await until(lambda: len(engine.finished) != done, every=0)
        if engine.finished[-1] == "compact":
            self._compactions -= 1
            return
        await until(lambda: store.commits != commits or store.failure is not None, every=0)

    async def _let_go(self) -> None:
        """End all pauses, and wait until everything is written."""
        self.pauses.release()
        self._engine.permits.release(10_000)
        await until(lambda: not self.store.queue_length, every=0)
        await settle()

    async def _restart(self) -> None:
        for client in self._clients:
            client.task.cancel()
        for task in self._lists:
            task.cancel()
        await asyncio.gather(*(client.task for client in self._clients), *self._lists, return_exceptions=True)
        await self._let_go()
        await self.store.__aexit__()
        self._clients, self._lists = [], []
        await self._open()

    async def _finish(self) -> None:
        for client in self._clients:
            client.slow = False
        await self._let_go()
        await asyncio.gather(*self._lists, *self._writes)
        for client in self._clients:
            client.check(complete=not client.ended)
            client.stream.stop()
            await client.task
        await self.store.__aexit__()

    async def _list(self) -> None:
        rng = self._rng
        query = rng.choice(QUERIES)
        selection = self.selection(query)
        limit = rng.choice([0, 1, 2, 3])
        wanted = 0 if rng.random() < 0.3 else self._some_revision()
        store = self.store
        token, revision, found = "", 0, list[JsonObject]()
        while True:
            options = ListOptions(
                labels=parse_label_selector(query.labels),
                fields=parse_field_selector(query.fields),
                watch=False,
                bookmarks=False,
                resource_version=str(wanted) if wanted and not token else "",
                revision=0 if token else wanted,
                match="Exact" if wanted and not token else "",
                limit=limit,
                continue_token=token,
                timeout=0,
                send_initial_events=None,
            )
            try:
                records, metadata = await get.select(self.api, self.target, options, selection)
            except StatusError as error:
                if error.code != 410 or (revision or wanted) >= store.compacted_revision:
                    raise
                return
            assert revision in (0, int(metadata["resourceVersion"]))
            revision = int(metadata["resourceVersion"])
            assert wanted in (0, revision)
            found += [record.object() for record in records]
            assert not limit or len(records) <= limit
            expected = self.reference.state(revision, query)
            assert found == expected[: len(found)]
            if "remainingItemCount" in metadata:
                assert metadata["remainingItemCount"] == len(expected) - len(found)
            token = metadata.get("continue", "")
            if not token:
                assert found == expected
                self.listed += 1
                return
            await self.pauses.pause()


@pytest.mark.parametrize("seed", sample(range(16), 5))
async def test_lists_and_watches_agree_with_a_reference(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collection_module, "RING_EVENTS", 8)
    monkeypatch.setattr(store_module, "STEP_BYTES", 300)
    monkeypatch.setattr(stream_module, "_CHUNK_BYTES", 300)
    monkeypatch.setattr(stream_module, "_STEP", 5)
    monkeypatch.setattr(snapshot_module, "_STEP", 3)
    world = World(tmp_path / "test.sqlite3", seed)
    await world.run(monkeypatch)
    assert world.listed > 3
