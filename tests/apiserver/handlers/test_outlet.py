"""Test watches over WebSockets, as browsers use them: one event per message, and upstream's handshake."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from dra_apiserver.server import ApiServer
from dra_shared.websocket import CLOSE, PING, PONG, TEXT, Frame, Frames, frame

from tests.support.cases import each_case
from tests.support.waiting import until

_PATH = "/api/v1/namespaces/default/configmaps"
_HANDSHAKE = {
    "Connection": "keep-alive, Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


class _Client:
    """The client's end of a WebSocket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._frames = Frames(masked=False)
        self._ready: list[Frame] = []

    async def head(self) -> str:
        return (await self._reader.readuntil(b"\r\n\r\n")).decode()

    def send(self, opcode: int, payload: bytes = b"") -> None:
        self._writer.write(frame(opcode, payload, masked=True))

    async def next(self) -> Frame:
        while not self._ready:
            data = await self._reader.read(1 << 16)
            assert data, "the connection has ended"
            self._ready += self._frames.feed(data)
        return self._ready.pop(0)

    async def event(self) -> dict[str, Any]:
        found = await self.next()
        assert (found.opcode, found.payload[-1:]) == (TEXT, b"\n")
        event: dict[str, Any] = json.loads(found.payload)
        return event

    async def has_ended(self) -> bool:
        return await self._reader.read() == b""


@asynccontextmanager
async def _socket(server: ApiServer, query: str, **more: str) -> AsyncIterator[_Client]:
    host = server.url.removeprefix("http://")
    headers = {"Host": host, "Origin": server.url, **_HANDSHAKE, **more}
    lines = [f"GET {_PATH}?watch=1{query} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items() if v), "", ""]
    name, _, port = host.rpartition(":")
    reader, writer = await asyncio.open_connection(name, int(port))
    try:
        writer.write("\r\n".join(lines).encode())
        yield _Client(reader, writer)
    finally:
        writer.close()


async def _create(server: ApiServer, name: str) -> None:
    async with httpx.AsyncClient(base_url=server.url) as client:
        assert (await client.post(_PATH, json={"metadata": {"name": name}})).status_code == 201


async def test_each_watch_event_is_a_websocket_message(server: ApiServer) -> None:
    await _create(server, "a")
    async with _socket(server, "") as client:
        head = await client.head()
        assert head.startswith("HTTP/1.1 101 ")
        assert re.search(r"(?i)sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK\+xOo=", head)
        first = await client.event()
        assert (first["type"], first["object"]["metadata"]["name"]) == ("ADDED", "a")
        await _create(server, "b")
        await _create(server, "c")
        assert [(await client.event())["object"]["metadata"]["name"] for _ in range(2)] == ["b", "c"]


async def test_a_ping_is_answered_and_a_close_ends_the_watch(server: ApiServer) -> None:
    async with _socket(server, "") as client:
        await client.head()
        client.send(PING, b"there?")
        assert await client.next() == Frame(True, PONG, b"there?")
        assert len(server.api.streams) == 1
        client.send(CLOSE)
        assert (await client.next()).opcode == CLOSE
        assert await client.has_ended()
    assert not server.api.streams


async def test_a_ping_before_the_handshake_is_answered(server: ApiServer) -> None:
    async with _socket(server, "") as client:
        client.send(PING, b"early?")
        await client.head()
        assert await client.next() == Frame(True, PONG, b"early?")


async def test_a_watch_ends_when_its_client_disconnects(server: ApiServer) -> None:
    async with _socket(server, "") as client:
        await client.head()
        await until(lambda: len(server.api.streams) == 1)
    await until(lambda: not server.api.streams)


async def test_an_expired_revision_is_reported_in_the_first_message(server: ApiServer) -> None:
    await _create(server, "a")
    server.store.compact(server.store.revision)
    async with _socket(server, "&resourceVersion=1") as client:
        await client.head()
        event = await client.event()
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
        assert (await client.next()).opcode == CLOSE


async def test_the_timeout_ends_a_websocket_watch(server: ApiServer) -> None:
    async with _socket(server, "&timeoutSeconds=1") as client:
        await client.head()
        assert (await client.next()).opcode == CLOSE


@each_case(
    ("header", "value", "code"),
    [
        ("Origin", "", 403),
        ("Origin", "http://elsewhere.example", 403),
        ("Sec-WebSocket-Version", "12", 400),
        ("Sec-WebSocket-Key", "short", 400),
        ("Upgrade", "h2c", 200),
        ("Connection", "keep-alive", 200),
    ],
)
async def test_invalid_websocket_handshakes_are_rejected(
    server: ApiServer, header: str, value: str, code: int
) -> None:
    async with _socket(server, "", **{header: value}) as client:
        assert (await client.head()).startswith(f"HTTP/1.1 {code} ")
