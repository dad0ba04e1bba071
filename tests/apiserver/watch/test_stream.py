"""Test when a stream sends events: at once, or later if the client is slow."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from dra_apiserver.kinds import catalog
from dra_apiserver.negotiation import Accepted
from dra_apiserver.response import Presenter
from dra_apiserver.storage import Put, Store, collection
from dra_apiserver.watch import Selection, WatchStream
from dra_apiserver.watch.stream import Sender, Writer
from dra_shared.clock import SystemClock
from dra_shared.fieldselectors import parse_field_selector
from dra_shared.selectors import parse_label_selector

from tests.support import databases

CONFIG_MAPS = ("", "configmaps")


class Client:
    """Records each part of the stream, and whether it was written at once or sent in turn."""

    def __init__(self) -> None:
        self.parts: list[tuple[str, list[str]]] = []
        self.slow = False
        self.news = asyncio.Event()

    def write(self, chunk: bytes) -> bool:
        if self.slow:
            return False
        self._note("at once", chunk)
        return True

    async def send(self, chunk: bytes) -> None:
        self._note("in turn", chunk)

    def _note(self, way: str, chunk: bytes) -> None:
        events = [orjson.loads(line) for line in chunk.splitlines()]
        self.parts.append(
            (way, [f"{event['type']} {event['object']['metadata']['name']}" for event in events])
        )
        self.news.set()

    async def until(self, count: int) -> None:
        while len(self.parts) < count:
            self.news.clear()
            await asyncio.wait_for(self.news.wait(), 60)


@pytest.fixture(params=databases.ALL)
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, postgres: Callable[[], str]
) -> AsyncIterator[Store]:
    async with databases.opener(request.param, tmp_path, postgres)(SystemClock(), 300) as made:
        yield made


async def create(store: Store, name: str, size: int = 0) -> None:
    obj: dict[str, Any] = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}}
    obj["data"] = {"x": "x" * size}
    await store.write(CONFIG_MAPS, f"default/{name}", lambda current: Put(obj))


def stream_for(store: Store, send: Sender, write: Writer) -> WatchStream:
    kind = catalog.registry("").get(*CONFIG_MAPS)
    assert kind is not None
    clock = SystemClock()
    selection = Selection(kind, "default", parse_label_selector(""), parse_field_selector(""))
    presenter = Presenter(kind, "v1", Accepted(), "", clock)
    return WatchStream(
        store, CONFIG_MAPS, selection, presenter, send, clock, bookmarks=False, timeout=60, write=write
    )


@pytest.fixture
async def client(store: Store) -> AsyncIterator[Client]:
    made = Client()
    stream = stream_for(store, made.send, made.write)
    task = asyncio.create_task(stream.run_after(store.revision))
    await asyncio.sleep(0)
    yield made
    stream.stop()
    await task


async def test_a_client_that_reads_quickly_is_sent_each_event_at_once(store: Store, client: Client) -> None:
    for name in ("a", "b"):
        await create(store, name)
    await client.until(2)
    assert client.parts == [("at once", ["ADDED a"]), ("at once", ["ADDED b"])]


async def test_a_slow_client_gets_each_event_once_and_in_order(store: Store, client: Client) -> None:
    await create(store, "a")
    await client.until(1)
    client.slow = True
    await create(store, "b")
    await client.until(2)
    client.slow = False
    await create(store, "c")
    await client.until(3)
    assert client.parts == [("at once", ["ADDED a"]), ("in turn", ["ADDED b"]), ("at once", ["ADDED c"])]


# If servers share a database, a server may read its own write in the log before the transaction returns.
@pytest.mark.parametrize("store", [databases.SQLITE], indirect=True)
async def test_a_writer_gets_its_response_before_watchers_get_the_event(store: Store, client: Client) -> None:
    await create(store, "a")
    assert client.parts == []
    await client.until(1)


@pytest.mark.parametrize("forgotten", [False, True])
async def test_a_stream_that_is_not_read_buffers_one_chunk(
    store: Store, monkeypatch: pytest.MonkeyPatch, forgotten: bool
) -> None:
    if forgotten:
        monkeypatch.setattr(collection, "RING_EVENTS", 2)
    start = store.revision
    for number in range(20):
        await create(store, f"large-{number}", 100_000)
    chunks: list[bytes] = []
    came, taken = asyncio.Event(), asyncio.Event()

    async def send(chunk: bytes) -> None:
        chunks.append(chunk)
        came.set()
        await taken.wait()
        if sum(part.count(b"\n") for part in chunks) == 20:
            stream.stop()

    stream = stream_for(store, send, lambda chunk: False)
    task = asyncio.create_task(stream.run_after(start))
    await asyncio.wait_for(came.wait(), 60)
    taken.set()
    await asyncio.wait_for(task, 60)
    assert max(map(len, chunks)) < 500_000
    assert sum(map(len, chunks)) > 2_000_000
