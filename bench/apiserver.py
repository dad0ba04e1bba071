"""Measure the API server alone, with durable and with relaxed writes: request rates, watch latency, start, memory.

A real server process on the loopback address; the load comes from this process over keep-alive connections.
"""

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import httptools
import orjson
from dra_lab.ports import Port

_CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
_CONNECTIONS = (1, 16, 64)


class Server:
    """A server process."""

    def __init__(self, data: Path, relaxed: bool, *arguments: str) -> None:
        self._held = Port()
        self.port = self._held.number
        command = [sys.executable, "-m", "dra_apiserver.main", "--port", str(self.port), "--data", str(data)]
        command += ["--log-level", "error", *(["--relaxed"] if relaxed else []), *arguments]
        self.started = time.perf_counter()
        self.process = subprocess.Popen(command)

    async def ready(self) -> float:
        """Wait until the server is ready, and return the seconds since the process started."""
        while True:
            try:
                connection = await connect(self.port)
                code, _ = await connection.request(request("GET", "/readyz"))
                connection.close()
                if code == 200:
                    return time.perf_counter() - self.started
            except OSError:
                pass
            if self.process.poll() is not None:
                raise RuntimeError("the server ended")
            await asyncio.sleep(0.005)

    def memory(self) -> float:
        """Resident MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    def cpu(self) -> float:
        """CPU seconds used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def stop(self) -> None:
        """End the process."""
        self.process.terminate()
        self.process.wait(10)
        self._held.close()


class Connection(asyncio.Protocol):
    """One keep-alive connection to the server. Requests are passed as encoded bytes."""

    def __init__(self, on_body: Callable[[bytes], None] | None = None) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._on_body = on_body
        self._body: list[bytes] = []
        self._done: asyncio.Future[tuple[int, bytes]] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        if self._on_body is not None:
            self._on_body(body)
        else:
            self._body.append(body)

    def on_message_complete(self) -> None:
        body, self._body = b"".join(self._body), []
        if self._done is not None and not self._done.done():
            self._done.set_result((self._parser.get_status_code(), body))
        self._parser = httptools.HttpResponseParser(self)

    async def request(self, data: bytes) -> tuple[int, bytes]:
        """Send a request, and return the code and body of the response."""
        assert self._transport is not None
        self._done = asyncio.get_running_loop().create_future()
        self._transport.write(data)
        return await self._done

    def send(self, data: bytes) -> None:
        """Send a request without waiting for the response. The protocol passes its body to the callback."""
        assert self._transport is not None
        self._transport.write(data)

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()


async def connect(port: int, on_body: Callable[[bytes], None] | None = None) -> Connection:
    """Open a connection to a server on this machine."""
    loop = asyncio.get_running_loop()
    _, protocol = await loop.create_connection(lambda: Connection(on_body), "127.0.0.1", port)
    return protocol


def request(method: str, path: str, body: bytes = b"", media_type: str = "application/json") -> bytes:
    """Return the bytes of an HTTP request."""
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bench/1\r\nAccept: application/json\r\n"
    )
    if body:
        head += f"Content-Type: {media_type}\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


def claim(name: str) -> bytes:
    """Return a claim that takes about 0.7 KiB in the database."""
    return orjson.dumps(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name, "labels": {"app": "bench", "name": name}},
            "spec": {
                "devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}
            },
        }
    )


def status(index: int) -> bytes:
    """Return a claim status that differs for each ``index``."""
    allocation = {
        "devices": {
            "results": [{"request": "gpu", "driver": "gpu.example.com", "pool": "node", "device": "gpu-0"}]
        }
    }
    consumers = [{"name": "p", "resource": "pods", "uid": str(index)}]
    return orjson.dumps({"status": {"allocation": allocation, "reservedFor": consumers}})


async def rate(
    server: Server, connections: int, seconds: float, make: Callable[[int], bytes], codes: tuple[int, ...]
) -> tuple[float, float]:
    """Return the requests per second, and the server's CPU microseconds for each."""
    opened = [await connect(server.port) for _ in range(connections)]
    count = 0
    stop = time.perf_counter() + seconds
    before = server.cpu()
    started = time.perf_counter()

    async def one(connection: Connection) -> None:
        nonlocal count
        while time.perf_counter() < stop:
            index = count
            count += 1
            code, body = await connection.request(make(index))
            if code not in codes:
                raise RuntimeError(f"{code}: {body[:300]!r}")

    await asyncio.gather(*(one(connection) for connection in opened))
    elapsed = time.perf_counter() - started
    for connection in opened:
        connection.close()
    return count / elapsed, (server.cpu() - before) / count * 1e6


async def watch_latency(
    server: Server, watchers: int, events: int, tag: str, other: Server | None = None
) -> list[float]:
    """Return the milliseconds from each create until each watcher has its event.

    The watchers connect to the server ``other`` if it is given, and else to the one that gets the writes.
    """
    sent: dict[bytes, float] = {}
    delays: list[float] = []

    def watcher() -> Callable[[bytes], None]:
        rest = b""

        def receive(data: bytes) -> None:
            nonlocal rest
            now = time.perf_counter()
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                name = line.partition(b'"name":"')[2].partition(b'"')[0]
                if name in sent:
                    delays.append((now - sent[name]) * 1000)

        return receive

    watched = other or server
    _, listed = await (await connect(watched.port)).request(request("GET", f"{_CLAIMS}?limit=1"))
    revision = orjson.loads(listed)["metadata"]["resourceVersion"]
    streams = []
    for _ in range(watchers):
        stream = await connect(watched.port, watcher())
        stream.send(request("GET", f"{_CLAIMS}?watch=1&resourceVersion={revision}"))
        streams.append(stream)
    await asyncio.sleep(0.3)
    writer = await connect(server.port)
    for index in range(events):
        name = f"watched-{tag}-{watchers}-{index}"
        sent[name.encode()] = time.perf_counter()
        code, body = await writer.request(request("POST", _CLAIMS, claim(name)))
        if code != 201:
            raise RuntimeError(f"{code}: {body[:300]!r}")
        await asyncio.sleep(0.01)
    for _ in range(200):
        if len(delays) == watchers * events:
            break
        await asyncio.sleep(0.02)
    for stream in streams:
        stream.close()
    if len(delays) != watchers * events:
        raise RuntimeError(f"{len(delays)} of {watchers * events} events arrived")
    return delays


async def _loads(server: Server, mode: str, seconds: float, figures: dict[str, Any]) -> None:
    for connections in _CONNECTIONS:
        prefix = f"c{connections}"

        def create(n: int, prefix: str = prefix) -> bytes:
            return request("POST", _CLAIMS, claim(f"{prefix}-{n}"))

        created, cost = await rate(server, connections, seconds, create, (201,))
        figures[f"{mode} create c={connections}"] = (created, cost)
        names = [f"{prefix}-{n}" for n in range(min(500, int(created * seconds)))]

        def update(n: int, known: list[str] = names) -> bytes:
            path = f"{_CLAIMS}/{known[n % len(known)]}/status"
            return request("PATCH", path, status(n), "application/merge-patch+json")

        def get(n: int, known: list[str] = names) -> bytes:
            return request("GET", f"{_CLAIMS}/{known[n % len(known)]}")

        figures[f"{mode} status update c={connections}"] = await rate(
            server, connections, seconds, update, (200,)
        )
        figures[f"{mode} get c={connections}"] = await rate(server, connections, seconds, get, (200,))

        def listing(_: int) -> bytes:
            return request("GET", f"{_CLAIMS}?limit=1000")

        figures[f"{mode} list 1000 c={connections}"] = await rate(
            server, connections, seconds, listing, (200,)
        )


async def _measure(seconds: float, large: int) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for relaxed in (False, True):
        mode = "relaxed" if relaxed else "durable"
        with tempfile.TemporaryDirectory() as folder:
            server = Server(Path(folder), relaxed)
            figures[f"{mode} ready, empty"] = await server.ready()
            figures[f"{mode} memory idle"] = server.memory()
            try:
                for index in range(1000):
                    await (await _shared_connection(server)).request(
                        request("POST", _CLAIMS, claim(f"seed-{index:04}"))
                    )
                await _loads(server, mode, seconds, figures)
                for watchers in (1, 100, 500):
                    figures[f"{mode} watch latency, {watchers} watchers"] = await watch_latency(
                        server, watchers, 100, mode
                    )
                figures[f"{mode} memory after"] = server.memory()
            finally:
                _connections.clear()
                server.stop()
    if large:
        figures.update(await _large(large))
    return figures


_connections: dict[int, Connection] = {}


async def _shared_connection(server: Server) -> Connection:
    found = _connections.get(server.port)
    if found is None:
        found = _connections[server.port] = await connect(server.port)
    return found


async def _large(count: int) -> dict[str, Any]:
    """Measure the server's memory with many stored objects of 2 KiB, and the time that it needs to start with them."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder), relaxed=True)
        try:
            await server.ready()
            rate_ = await _fill(server, count)
            figures: dict[str, Any] = {
                f"creates/s while storing {count} objects": rate_,
                f"memory with {count} objects": server.memory(),
            }
        finally:
            server.stop()
        server = Server(Path(folder), relaxed=True)
        try:
            figures[f"ready with {count} objects"] = await server.ready()
            figures[f"memory with {count} objects after a restart"] = server.memory()
        finally:
            server.stop()
        return figures


async def _fill(server: Server, count: int) -> float:
    padding = "x" * 1500

    def make(index: int) -> bytes:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"object-{index:06}"},
            "data": {"padding": padding},
        }
        return request("POST", "/api/v1/namespaces/default/configmaps", orjson.dumps(body))

    opened = [await connect(server.port) for _ in range(64)]
    numbers = iter(range(count))

    async def fill(connection: Connection) -> None:
        for index in numbers:
            code, body = await connection.request(make(index))
            if code != 201:
                raise RuntimeError(f"{code}: {body[:300]!r}")

    started = time.perf_counter()
    await asyncio.gather(*(fill(connection) for connection in opened))
    return count / (time.perf_counter() - started)


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark and print one line a figure, or JSON."""
    parser = argparse.ArgumentParser(prog="bench apiserver", description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of each measurement")
    parser.add_argument(
        "--large", type=int, default=100_000, help="objects for the test with many objects; 0 skips it"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    import uvloop

    figures = uvloop.run(_measure(options.seconds, options.large))
    if options.json:
        print(orjson.dumps(figures, option=orjson.OPT_INDENT_2).decode())
        return
    for name, value in figures.items():
        if isinstance(value, tuple):
            print(f"{name}: {value[0]:,.0f}/s, {value[1]:.0f} us of the server's CPU each")
        elif isinstance(value, list):
            ordered = sorted(value)
            print(
                f"{name}: p50 {statistics.median(ordered):.2f} ms, p99 {ordered[int(len(ordered) * 0.99)]:.2f} ms"
            )
        elif "memory" in name:
            print(f"{name}: {value:.0f} MiB")
        elif "ready" in name:
            print(f"{name}: {value:.2f} s")
        else:
            print(f"{name}: {value:,.0f}/s")


if __name__ == "__main__":
    main()
