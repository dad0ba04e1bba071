"""Guarantees that clients of etcd-backed watches rely on, with many concurrent writers."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import orjson
import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_shared.jsontypes import JsonObject

from tests.support.sampling import sample

GROUP = "/apis/resource.k8s.io/v1"
CLAIMS = f"{GROUP}/resourceclaims"
NAMESPACES = ("default", "kube-public")
Served = tuple[ApiServer, httpx.AsyncClient]


@contextlib.asynccontextmanager
async def run_server(config: Config) -> AsyncIterator[tuple[ApiServer, httpx.AsyncClient]]:
    """Start an API server and a client of it."""
    async with (
        ApiServer(config) as started,
        httpx.AsyncClient(base_url=started.url, timeout=30) as client,
    ):
        yield started, client


@pytest.fixture
async def running_server(tmp_path: Path) -> AsyncIterator[Served]:
    async with run_server(Config(port=0, data=tmp_path, relaxed=True)) as made:
        yield made


@pytest.fixture
def server(running_server: Served) -> ApiServer:
    return running_server[0]


@pytest.fixture
def client(running_server: Served) -> httpx.AsyncClient:
    return running_server[1]


def claim(name: str, **labels: str) -> JsonObject:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "labels": labels},
        "spec": {"devices": {"requests": [request]}},
    }


def path(namespace: str, name: str = "") -> str:
    return f"{GROUP}/namespaces/{namespace}/resourceclaims" + (f"/{name}" if name else "")


def revision(obj: JsonObject) -> int:
    return int(obj["metadata"]["resourceVersion"])


async def start_revision(client: httpx.AsyncClient) -> int:
    return revision((await client.get(CLAIMS)).json())


@dataclass
class Log:
    """The responses to the writers: each revision with the object. `before` is None if there was no object."""

    writes: dict[int, tuple[str, JsonObject]] = field(default_factory=dict)


async def storm(client: httpx.AsyncClient, seed: int, operations: int, log: Log) -> None:
    rng = random.Random(seed)
    for _ in range(operations):
        namespace, name = rng.choice(NAMESPACES), f"claim-{rng.randrange(12)}"
        labels = {"team": rng.choice("ab"), "n": str(rng.randrange(1000))}
        match rng.randrange(4):
            case 0:
                answer = await client.post(path(namespace), json=claim(name, **labels))
            case 1:
                answer = await client.delete(path(namespace, name))
            case _:
                answer = await client.patch(
                    path(namespace, name),
                    content=orjson.dumps({"metadata": {"labels": labels}}),
                    headers={"Content-Type": "application/merge-patch+json"},
                )
        assert answer.status_code in {200, 201, 404, 409}, answer.text
        if answer.status_code < 300:
            obj = answer.json()
            known = log.writes.setdefault(revision(obj), (answer.request.method, obj))
            assert known[1] == obj, "two answers with one revision"


@dataclass
class Watcher:
    """A watch that may be cut or stalled, and resumes from the last revision that it received."""

    parameters: dict[str, str]
    base: str = CLAIMS
    cut_after: Callable[[], int] | None = None
    stall: Callable[[], float] | None = None
    events: list[JsonObject] = field(default_factory=list)
    bookmarks: int = 0
    last: int = 0
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, client: httpx.AsyncClient, after: int, until: Callable[[], int | None]) -> None:
        self.last = after
        while (end := until()) is None or self.last < end:
            if end is not None and not await self._behind(client, end):
                return
            await self._once(client)

    async def _behind(self, client: httpx.AsyncClient, end: int) -> bool:
        # No more events may arrive; one short watch decides.
        before = len(self.events)
        await self._once(client, seconds=1)
        return len(self.events) > before

    async def _once(self, client: httpx.AsyncClient, seconds: int = 2) -> None:
        left = self.cut_after() if self.cut_after is not None else None
        parameters = {
            **self.parameters, "watch": "1", "resourceVersion": str(self.last), "timeoutSeconds": str(seconds),
        }  # fmt: skip
        async with client.stream("GET", self.base, params=parameters) as answer:
            assert answer.status_code == 200, await answer.aread()
            self.begun.set()
            async for line in answer.aiter_lines():
                event = orjson.loads(line)
                assert event["type"] != "ERROR", event
                seen = revision(event["object"])
                if event["type"] == "BOOKMARK":
                    assert seen >= self.last, "a bookmark behind an event"
                    self.bookmarks += 1
                else:
                    assert seen > self.last, "an event twice, or behind a later event or bookmark"
                    self.events.append(event)
                self.last = seen
                if self.stall is not None:
                    await asyncio.sleep(self.stall())
                if left is not None:
                    left -= 1
                    if left <= 0:
                        return


def expected_events(
    log: list[JsonObject], selects: Callable[[JsonObject], bool]
) -> list[tuple[str, int, str]]:
    """Return the events of the whole log that a selection has to observe."""
    state: dict[str, JsonObject] = {}
    found = []
    for event in log:
        obj = event["object"]
        key = f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"
        before = key in state and selects(state[key])
        now = event["type"] != "DELETED" and selects(obj)
        if event["type"] == "DELETED":
            state.pop(key, None)
        else:
            state[key] = obj
        if before and now:
            found.append(("MODIFIED", revision(obj), key))
        elif now:
            found.append(("ADDED", revision(obj), key))
        elif before:
            found.append(("DELETED", revision(obj), key))
    return found


def received_events(watcher: Watcher) -> list[tuple[str, int, str]]:
    return [
        (
            event["type"],
            revision(event["object"]),
            f"{event['object']['metadata']['namespace']}/{event['object']['metadata']['name']}",
        )
        for event in watcher.events
    ]


SELECTIONS: list[tuple[dict[str, str], str, Callable[[JsonObject], bool]]] = [
    ({}, CLAIMS, lambda obj: True),
    ({}, path("default"), lambda obj: obj["metadata"]["namespace"] == "default"),
    ({"labelSelector": "team=a"}, CLAIMS, lambda obj: obj["metadata"]["labels"]["team"] == "a"),
    (
        {"labelSelector": "team!=a"},
        path("kube-public"),
        lambda obj: obj["metadata"]["namespace"] == "kube-public" and obj["metadata"]["labels"]["team"] != "a",
    ),
    ({"fieldSelector": "metadata.name=claim-3"}, CLAIMS, lambda obj: obj["metadata"]["name"] == "claim-3"),
    (
        {"fieldSelector": "metadata.name=claim-4", "labelSelector": "team=b"},
        path("default"),
        lambda obj: obj["metadata"]["namespace"] == "default"
        and obj["metadata"]["name"] == "claim-4"
        and obj["metadata"]["labels"]["team"] == "b",
    ),
]  # fmt: skip


def watchers_for(rng: random.Random) -> list[tuple[Watcher, Callable[[JsonObject], bool]]]:
    made = []
    for parameters, base, selects in SELECTIONS:
        bookmarked = {**parameters, "allowWatchBookmarks": "true"}
        made.append((Watcher(parameters, base), selects))
        made.append((Watcher(bookmarked, base, cut_after=lambda: rng.randrange(1, 9)), selects))
        made.append((Watcher(bookmarked, base, stall=lambda: rng.random() * 0.01), selects))
    return made


@pytest.mark.parametrize("seed", sample([1, 2], 1))
async def test_every_watcher_receives_every_change_once_and_in_order(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    config = Config(port=0, data=tmp_path, relaxed=True)
    log = Log()
    done: int | None = None
    async with run_server(config) as (server, client):
        first = await start_revision(client)
        crowd = watchers_for(rng)
        tasks = [asyncio.create_task(watcher.run(client, first, lambda: done)) for watcher, _ in crowd]
        await asyncio.gather(*(storm(client, seed * 100 + n, 40, log) for n in range(4)))
        done = server.store.revision
        await asyncio.gather(*tasks)
        whole = crowd[0][0].events
        # W1: the unfiltered watch saw exactly the responses of the writers. W6: this includes deletes, at
        # their own revision.
        assert {revision(event["object"]): event["object"] for event in whole} == {
            number: obj for number, (_, obj) in log.writes.items()
        }
        for watcher, selects in crowd:
            assert received_events(watcher) == expected_events(whole, selects), watcher.parameters
        # S3: a list is at least as new as each of its items.
        listed = (await client.get(CLAIMS)).json()
        assert all(revision(listed) >= revision(item) for item in listed["items"])
        assert server.store.collection(("resource.k8s.io", "resourceclaims")).floor == 1
    # W3: the same from the database, after a restart, from the last revision of each watcher.
    async with run_server(config) as (server, client):
        begins = [rng.choice([first, *log.writes]) for _ in SELECTIONS]
        resumed = [
            Watcher(parameters, base, last=after)
            for after, (parameters, base, _) in zip(begins, SELECTIONS, strict=True)
        ]
        await asyncio.gather(*(watcher._once(client, seconds=1) for watcher in resumed))
        for watcher, after, (_, _, selects) in zip(resumed, begins, SELECTIONS, strict=True):
            assert received_events(watcher) == [
                one for one in expected_events(whole, selects) if one[1] > after
            ]
        assert await server.store.check() == []


async def test_a_watch_from_the_revision_of_a_list_misses_no_event(client: httpx.AsyncClient) -> None:
    """List at a revision and watch from it, while others write."""
    log = Log()
    writing = asyncio.create_task(storm(client, 7, 60, log))
    checks = []
    while not writing.done():
        listed = (await client.get(CLAIMS)).json()
        state = {(item["metadata"]["namespace"], item["metadata"]["name"]): item for item in listed["items"]}
        checks.append((revision(listed), state))
        await asyncio.sleep(0.02)
    await writing
    final = {
        (item["metadata"]["namespace"], item["metadata"]["name"]): revision(item)
        for item in (await client.get(CLAIMS)).json()["items"]
    }

    async def replay(listed_at: int, state: dict[tuple[str, str], JsonObject]) -> dict[tuple[str, str], int]:
        watcher = Watcher({})
        watcher.last = listed_at
        await watcher._once(client, seconds=1)
        replayed = {key: revision(item) for key, item in state.items()}
        for event in watcher.events:
            meta = event["object"]["metadata"]
            key = (meta["namespace"], meta["name"])
            if event["type"] == "DELETED":
                del replayed[key]
            else:
                replayed[key] = revision(event["object"])
        return replayed

    chosen = random.Random(7).sample(checks, min(8, len(checks)))
    assert all(replayed == final for replayed in await asyncio.gather(*(replay(*one) for one in chosen)))


async def test_a_compacted_revision_is_rejected_with_410(
    server: ApiServer, client: httpx.AsyncClient
) -> None:
    """Watches, lists and continue tokens of every kind are rejected."""
    for number in range(6):
        await client.post(path("default"), json=claim(f"c-{number}"))
    old = await start_revision(client)
    page = (await client.get(CLAIMS, params={"limit": "2"})).json()
    await client.post(path("default"), json=claim("more"))
    await client.delete(path("default", "more"))
    following = {"limit": "2", "continue": page["metadata"]["continue"]}
    rest = (await client.get(CLAIMS, params=following)).json()
    assert [item["metadata"]["name"] for item in rest["items"]] == ["c-2", "c-3"]
    assert rest["metadata"]["resourceVersion"] == page["metadata"]["resourceVersion"]
    server.store.compact(server.store.revision)
    for base in (CLAIMS, "/api/v1/pods", "/api/v1/nodes"):
        answer = await client.get(base, params={"resourceVersion": str(old), "resourceVersionMatch": "Exact"})
        assert (answer.status_code, answer.json()["reason"]) == (410, "Expired")
        watched = {"watch": "1", "resourceVersion": str(old), "timeoutSeconds": "1"}
        event = (await client.get(base, params=watched)).json()
        assert (event["type"], event["object"]["reason"]) == ("ERROR", "Expired")
    answer = await client.get(CLAIMS, params=following)
    assert (answer.status_code, answer.json()["reason"]) == (410, "Expired")
    assert "inconsistent list" in answer.json()["message"]


async def test_a_list_or_watch_at_a_future_revision_never_returns_older_state(
    server: ApiServer, client: httpx.AsyncClient
) -> None:
    await client.post(path("default"), json=claim("a"))
    ahead = server.store.revision + 1000
    for base in (CLAIMS, path("default", "a")):
        answer = await client.get(base, params={"resourceVersion": str(ahead)})
        assert answer.status_code == 504
        status = answer.json()
        assert status["reason"] == "Timeout"
        assert status["message"] == f"Timeout: Too large resource version: {ahead}, current: {ahead - 1000}"
        causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
        assert status["details"] == {"causes": causes, "retryAfterSeconds": 1}
    watcher = Watcher({})
    watcher.last = ahead
    watching = asyncio.create_task(watcher._once(client, seconds=1))
    await client.post(path("default"), json=claim("b"))
    await watching
    assert watcher.events == []


async def test_an_object_that_leaves_a_selection_is_reported_as_deleted(client: httpx.AsyncClient) -> None:
    made = (await client.post(path("default"), json=claim("a", team="a"))).json()
    patched = await client.patch(
        path("default", "a"),
        content=b'{"metadata":{"labels":{"team":"b"}}}',
        headers={"Content-Type": "application/merge-patch+json"},
    )
    watcher = Watcher({"labelSelector": "team=a"})
    watcher.last = revision(made)
    await watcher._once(client, seconds=1)
    assert [event["type"] for event in watcher.events] == ["DELETED"]
    gone = watcher.events[0]["object"]
    assert gone["metadata"]["labels"] == {"team": "a"}
    assert revision(gone) == revision(patched.json())


async def test_initial_events_end_with_a_bookmark_that_is_not_ahead(client: httpx.AsyncClient) -> None:
    """The watch with sendInitialEvents starts while others write."""
    log = Log()
    await storm(client, 3, 40, log)
    writing = asyncio.create_task(storm(client, 4, 60, log))
    parameters = {
        "watch": "1", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true", "timeoutSeconds": "2",
    }  # fmt: skip
    async with client.stream("GET", CLAIMS, params=parameters) as answer:
        lines = [orjson.loads(line) async for line in answer.aiter_lines()]
    await writing
    ends = [
        index
        for index, event in enumerate(lines)
        if event["type"] == "BOOKMARK" and event["object"]["metadata"].get("annotations")
    ]
    assert len(ends) == 1
    bookmark = lines[ends[0]]["object"]
    assert bookmark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    initial = lines[: ends[0]]
    assert {event["type"] for event in initial} <= {"ADDED"}
    assert all(revision(event["object"]) <= revision(bookmark) for event in initial)
    later = [revision(event["object"]) for event in lines[ends[0] + 1 :] if event["type"] != "BOOKMARK"]
    until = max(revision(event["object"]) for event in lines)
    assert later == sorted(number for number in log.writes if revision(bookmark) < number <= until)


async def test_a_client_that_does_not_read_does_not_block_others(
    server: ApiServer, client: httpx.AsyncClient
) -> None:
    """Writers and other watchers continue, and the memory for the slow client is bounded."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", int(server.url.rpartition(":")[2]), limit=1 << 10
    )
    writer.write(b"GET /api/v1/configmaps?watch=1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await writer.drain()
    await reader.readline()
    first = revision((await client.get("/api/v1/configmaps")).json())
    padding = "x" * 400_000
    for number in range(60):
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "big"},
            "data": {"padding": padding, "n": str(number)},
        }
        base = "/api/v1/namespaces/default/configmaps"
        answer = await (client.put(f"{base}/big", json=body) if number else client.post(base, json=body))
        assert answer.status_code < 300
    collection = server.store.collection(("", "configmaps"))
    assert collection.end <= 60
    kept = collection.events(collection.position_after(collection.floor) or 0, 100) or []
    assert sum(len(event.record.data) for event in kept) <= 64 << 20
    fast = Watcher({}, "/api/v1/configmaps", cut_after=lambda: 60)
    fast.last = first
    await fast._once(client, seconds=60)
    assert [event["object"]["data"]["n"] for event in fast.events] == [str(number) for number in range(60)]
    writer.close()


async def test_compaction_does_not_drop_events_of_open_watches(
    server: ApiServer, client: httpx.AsyncClient
) -> None:
    """Compaction happens at the revision of a delete and of a watch."""
    made = (await client.post(path("default"), json=claim("a", team="a"))).json()
    watcher = Watcher({"labelSelector": "team=a"}, cut_after=lambda: 2)
    watcher.last = revision(made)
    watching = asyncio.create_task(watcher._once(client, seconds=60))
    await watcher.begun.wait()
    gone = (await client.delete(path("default", "a"))).json()
    server.store.compact(revision(gone))
    late = Watcher({})
    late.last = revision(gone)
    await late._once(client, seconds=1)
    assert late.events == []
    again = (await client.post(path("default"), json=claim("a", team="a"))).json()
    await watching
    assert [(event["type"], revision(event["object"])) for event in watcher.events] == [
        ("DELETED", revision(gone)),
        ("ADDED", revision(again)),
    ]


async def test_one_of_many_writers_with_the_same_revision_succeeds(client: httpx.AsyncClient) -> None:
    made = (await client.post(path("default"), json=claim("a"))).json()

    async def put(number: int) -> int:
        obj = {**made, "metadata": {**made["metadata"], "labels": {"n": str(number)}}}
        return (await client.put(path("default", "a"), json=obj)).status_code

    codes = await asyncio.gather(*(put(number) for number in range(50)))
    assert sorted(codes) == [200] + [409] * 49
    wrong = {"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}}
    answer = await client.request("DELETE", path("default", "a"), json=wrong)
    assert answer.status_code == 409
    assert "UID in the precondition" in answer.json()["message"]


async def test_an_object_is_deleted_after_its_finalizers_are_removed(client: httpx.AsyncClient) -> None:
    held = claim("a")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    made = (await client.post(path("default"), json=held)).json()
    marked = (await client.delete(path("default", "a"))).json()
    assert marked["metadata"]["deletionTimestamp"]
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    again = (await client.delete(path("default", "a"))).json()
    assert revision(again) == revision(marked)
    exists = await client.post(path("default"), json=claim("a"))
    assert exists.status_code == 409
    assert exists.json()["message"].startswith("object is being deleted: ")
    released = await client.patch(
        path("default", "a"),
        content=b'{"metadata":{"finalizers":null}}',
        headers={"Content-Type": "application/merge-patch+json"},
    )
    assert released.status_code == 200
    assert (await client.get(path("default", "a"))).status_code == 404
    watcher = Watcher({})
    watcher.last = revision(made)
    await watcher._once(client, seconds=1)
    assert [event["type"] for event in watcher.events] == ["MODIFIED", "DELETED"]
