"""Measure the cost of one more write, one more idle pod and one more watcher for the API server.

The objects are small: claims of 0.7 KiB, and pods of one container. Each row of the result is the increase of the
server's CPU time or memory, divided by the number of added objects or watchers.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import orjson

from bench._processes import Cost
from bench.apiserver import claim, connect, request, status

_NAMESPACE = "namespaces/default"
_CLAIMS = f"/apis/resource.k8s.io/v1/{_NAMESPACE}/resourceclaims"
_PODS = f"/api/v1/{_NAMESPACE}/pods"
_CONNECTIONS = 16
_WARM_UP = 200
_MERGE = "application/merge-patch+json"
# The cost of one more object, write or watcher: CPU in microseconds, memory in KiB.
Row = dict[str, float | str]


@dataclass(frozen=True)
class Server:
    """An API server without other clients."""

    pid: int
    port: int

    async def cost(self, requests: Iterable[bytes]) -> Cost:
        """Send the requests over several connections, and return the server's cost."""
        before = Cost.of(self.pid)
        waiting = iter(requests)
        await asyncio.gather(*(self._send(waiting) for _ in range(_CONNECTIONS)))
        return Cost.of(self.pid) - before

    async def _send(self, waiting: Iterator[bytes]) -> None:
        connection = await connect(self.port)
        for one in waiting:
            code, body = await connection.request(one)
            if code not in (200, 201):
                raise RuntimeError(f"{code}: {body[:300]!r}")
        connection.close()


async def measure(server: Server, units: int, watchers: int) -> list[Row]:
    """Return a row for each operation: a creation, a status write, an idle watcher, …"""
    rows = []
    for name, create, update in (("claim", _claim, _claim_status), ("pod", _pod, _pod_status)):
        await server.cost([*_each(create, "warm", _WARM_UP), *_each(update, "warm", _WARM_UP)])
        created = await server.cost(_each(create, name, units))
        rows.append(_row(f"{name}: creation", created, units))
        rows.append(_row(f"{name}: status write", await server.cost(_each(update, name, units)), units))
    return [*rows, *await _measure_watchers(server, units, watchers)]


async def _measure_watchers(server: Server, events: int, watchers: int) -> list[Row]:
    """Measure idle watchers, and the cost that they add to a write."""
    alone = await server.cost(_each(_claim, "alone", events))
    _, listed = await (await connect(server.port)).request(request("GET", f"{_CLAIMS}?limit=1"))
    path = f"{_CLAIMS}?watch=1&resourceVersion={orjson.loads(listed)['metadata']['resourceVersion']}"
    before = Cost.of(server.pid)
    received = 0

    def count(data: bytes) -> None:
        nonlocal received
        received += data.count(b"\n")

    streams = [await connect(server.port, count) for _ in range(watchers)]
    for stream in streams:
        stream.send(request("GET", path))
    await asyncio.sleep(1)
    opened = Cost.of(server.pid) - before
    before = Cost.of(server.pid)
    await server.cost(_each(_claim, "watched", events))
    async with asyncio.timeout(60):
        while received < watchers * events:  # noqa: ASYNC110 - nothing announces the last event
            await asyncio.sleep(0.1)
    watched = Cost.of(server.pid) - before
    for stream in streams:
        stream.close()
    delivered = Cost(watched.cpu - alone.cpu, 0, 0)
    return [_row("watcher", opened, watchers), _row("event of a watcher", delivered, watchers * events)]


def _row(name: str, cost: Cost, units: int) -> Row:
    return {"unit": name, "cpu_us": cost.cpu / units * 1e6, "kib": cost.memory / units * 1024}


def _each(make: Callable[[str], bytes], prefix: str, units: int) -> list[bytes]:
    return [make(f"{prefix}-{number}") for number in range(units)]


def _claim(name: str) -> bytes:
    return request("POST", _CLAIMS, claim(name))


def _claim_status(name: str) -> bytes:
    return request("PATCH", f"{_CLAIMS}/{name}/status", status(0), _MERGE)


def _pod(name: str) -> bytes:
    container = {"name": "main", "image": "any", "command": ["sleep", "infinity"]}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container]},
    }
    return request("POST", _PODS, orjson.dumps(body))


def _pod_status(name: str) -> bytes:
    started = "2026-01-01T00:00:00Z"
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": started}
        for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    ]
    container = {
        "name": "main",
        "image": "any",
        "imageID": "any@sha256:0",
        "ready": True,
        "restartCount": 0,
        "state": {"running": {"startedAt": started}},
    }
    body = {"phase": "Running", "conditions": conditions, "containerStatuses": [container]}
    return request("PATCH", f"{_PODS}/{name}/status", orjson.dumps({"status": body}), _MERGE)
