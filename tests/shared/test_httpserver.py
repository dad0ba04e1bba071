"""Test that connections have kube-apiserver's limits. The API server and the services use the same class."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from dra_shared import httpserver
from dra_shared.httpserver import HEADER_BYTES, BoundedConnection, report_end
from dra_shared.service import HealthServer

HEAD = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n"
OK = b"HTTP/1.1 200 OK"
TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Connection: close\r\n\r\n431 Request Header Fields Too Large"
)
BAD = b"HTTP/1.1 400 Bad Request\r\n"


async def _echo(request: Any) -> Any:
    from starlette.responses import Response

    return Response(await request.body())


class Client:
    """A connection that can send any bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self._writer = reader, writer

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def answer(self) -> bytes:
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        return head + await self.reader.readexactly(length)

    async def rest(self) -> bytes:
        try:
            return await asyncio.wait_for(self.reader.read(), 60)
        except ConnectionError:
            return b""

    def end(self) -> None:
        self._writer.write_eof()

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()


Connect = Callable[[], Awaitable[Client]]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    clients: list[Client] = []
    async with HealthServer("127.0.0.1", 0, {}, {"POST /echo": _echo}) as server:

        async def connect_client() -> Client:
            clients.append(Client(*await asyncio.open_connection("127.0.0.1", server.port)))
            return clients[-1]

        yield connect_client
        for client in clients:
            await client.close()


async def _send_all(client: Client, data: bytes, step: int) -> None:
    try:
        for start in range(0, len(data), step):
            await client.send(data[start : start + step])
    except ConnectionError:
        pass  # The request is rejected before it has arrived completely.


@pytest.mark.parametrize(
    "head",
    [
        HEAD + b"long: " + b"x" * HEADER_BYTES,
        b"GET /" + b"x" * HEADER_BYTES,
        HEAD + b"some: thing\r\n" * (HEADER_BYTES // 13),
        HEAD + b"a:\r\n" * 20_000,
    ],
    ids=["value", "path", "headers", "small headers"],
)
async def test_a_request_head_without_end_is_rejected(connect: Connect, head: bytes) -> None:
    client = await connect()
    await _send_all(client, head, 1 << 16)
    assert await client.rest() == TOO_LARGE


async def test_a_request_head_of_one_mebibyte_is_accepted(connect: Connect) -> None:
    client = await connect()
    await client.send(HEAD + b"long: " + b"x" * (1 << 20) + b"\r\n\r\n")
    assert (await client.answer()).startswith(OK)


async def test_a_long_request_head_that_arrives_in_small_pieces_is_parsed_in_large_ones(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts: list[int] = []
    parse = BoundedConnection._parse

    def count_bytes(self: BoundedConnection, data: bytes) -> None:
        parts.append(len(data))
        parse(self, data)

    monkeypatch.setattr(BoundedConnection, "_parse", count_bytes)
    client = await connect()
    await _send_all(client, HEAD + b"long: " + b"x" * (1 << 20), 512)
    await client.send(b"\r\n\r\n")
    assert (await client.answer()).startswith(OK)
    assert sum(parts) > 1 << 20
    # Only the pieces at the start and the end of the head may be small. The others are joined before they are parsed.
    assert len([size for size in parts if size < 16 << 10]) <= 3


async def test_a_request_in_single_bytes_is_served(connect: Connect) -> None:
    client = await connect()
    body = b"the body"
    head = b"POST /echo HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
    for byte in head + b"4;name=value\r\n" + body[:4] + b"\r\n4\r\n" + body[4:] + b"\r\n0\r\nlate: x\r\n\r\n":
        await client.send(bytes([byte]))
    assert (await client.answer()).endswith(b"\r\n\r\n" + body)


@pytest.mark.parametrize(
    "body",
    [b"1;" + b"x" * (1 << 20), b"0\r\nlate: " + b"x" * (1 << 20), b"5\r\nhello\r\n" + b"0" * (1 << 20)],
    ids=["extension", "trailer", "size"],
)
async def test_lines_between_the_chunks_of_a_body_are_limited_in_length(
    connect: Connect, body: bytes
) -> None:
    client = await connect()
    await client.send(b"POST /echo HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n")
    await _send_all(client, body, 4096)
    assert (await client.rest()).startswith((BAD, b""))


async def test_the_body_of_a_request_to_a_service_is_limited_in_size(connect: Connect) -> None:
    client = await connect()
    await client.send(b"POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3000000\r\n\r\n")
    await _send_all(client, b"x" * 3_000_000, 1 << 16)
    assert (await client.rest()).startswith(b"HTTP/1.1 413 Request Entity Too Large\r\n")


async def test_malformed_requests_are_refused_as_go_does(connect: Connect) -> None:
    client = await connect()
    await client.send(b"no request\r\n\r\n")
    assert (await client.rest()).startswith(BAD)


async def test_the_connection_is_closed_if_a_body_does_not_end_after_the_response(connect: Connect) -> None:
    client = await connect()
    await client.send(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n")
    assert (await client.answer()).startswith(OK)
    await _send_all(client, b"1000\r\n%b\r\n" % (b"x" * 4096) * 1000, 1 << 16)
    await client.rest()


@pytest.mark.parametrize("sent", [b"", HEAD[:3], HEAD, HEAD + b"\r\n" + HEAD], ids=repr)
async def test_a_client_that_sends_no_request_is_disconnected(
    connect: Connect, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(httpserver, "HEADER_TIMEOUT", 0.2)
    client = await connect()
    await client.send(sent)
    if HEAD + b"\r\n" in sent:
        assert (await client.answer()).startswith(OK)
    assert await client.rest() == b""


async def test_empty_lines_before_a_request_are_ignored(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(httpserver, "HEADER_TIMEOUT", 0.2)
    client = await connect()
    await client.send(HEAD + b"\r\n")
    assert (await client.answer()).startswith(OK)
    await client.send(b"\r\n")
    assert await client.rest() == b""


async def test_a_slow_request_head_does_not_abort_the_previous_request(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(httpserver, "HEADER_TIMEOUT", 0.1)
    client = await connect()
    await client.send(b"POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3\r\n\r\n")
    # The time for heads does not count for a body.
    await asyncio.sleep(0.3)
    await client.send(b"abc" + HEAD)
    assert (await client.answer()).endswith(b"abc")
    assert await client.rest() == b""


async def test_pipelined_requests_are_not_read_before_the_current_response(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 0
    begun = BoundedConnection.on_headers_complete

    def count_pipeline(self: BoundedConnection) -> None:
        nonlocal most
        begun(self)
        most = max(most, len(self.pipeline))

    monkeypatch.setattr(BoundedConnection, "on_headers_complete", count_pipeline)
    client = await connect()
    one = b"POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\n\r\nx"
    sending = asyncio.create_task(_send_all(client, one * 20_000, 1 << 16))
    for _ in range(200):
        assert (await client.answer()).endswith(b"x")
    sending.cancel()
    # No more than one read returns.
    assert 0 < most <= (256 << 10) // len(one) + 1


OFFER = b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n"


@pytest.mark.parametrize(
    "framed",
    [
        b"content-length: 8\r\n\r\nthe body",
        b"transfer-encoding: chunked\r\n\r\n4\r\nthe \r\n4;x=y\r\nbody\r\n0\r\nlate: x\r\n\r\n",
    ],
    ids=["counted", "chunked"],
)
@pytest.mark.parametrize("step", [1, 7, 1 << 16])
async def test_bodies_of_requests_that_offer_an_upgrade_are_read(
    connect: Connect, framed: bytes, step: int
) -> None:
    client = await connect()
    request = b"POST /echo HTTP/1.1\r\nhost: localhost\r\n" + OFFER + framed
    # The connection serves further requests, with and without an offer.
    await _send_all(client, request + request + HEAD + OFFER + b"\r\n" + HEAD + b"\r\n", step)
    for body in (b"the body", b"the body", b"ok", b"ok"):
        assert (await client.answer()).endswith(b"\r\n\r\n" + body)


async def test_an_upgrade_request_with_expect_gets_100_continue(connect: Connect) -> None:
    client = await connect()
    head = b"POST /echo HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: 3\r\n"
    await client.send(head + OFFER + b"\r\n")
    assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    await client.send(b"abc")
    assert (await client.answer()).endswith(b"\r\n\r\nabc")


async def test_malformed_bodies_of_requests_that_offer_an_upgrade_are_rejected(connect: Connect) -> None:
    client = await connect()
    await client.send(b"POST /echo HTTP/1.1\r\nhost: localhost\r\n" + OFFER)
    await client.send(b"transfer-encoding: gzip\r\n\r\nbody")
    assert (await client.rest()).startswith(BAD)


async def test_an_upgrade_offer_with_a_body_beyond_the_limit_gets_413(connect: Connect) -> None:
    client = await connect()
    head = b"POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3000000\r\n"
    await client.send(head + OFFER + b"\r\n")
    await _send_all(client, b"x" * 3_000_000, 1 << 16)
    assert (await client.rest()).startswith(b"HTTP/1.1 413 Request Entity Too Large\r\n")


async def test_a_client_that_half_closes_the_connection_gets_its_responses(connect: Connect) -> None:
    client = await connect()
    request = b"POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\n\r\n"
    await client.send(request + b"a" + request + b"b")
    client.end()
    assert (await client.answer()).endswith(b"\r\n\r\na")
    assert (await client.answer()).endswith(b"\r\n\r\nb")
    assert await client.rest() == b""


@pytest.mark.parametrize("sent", [b"", HEAD, b"POST /echo HTTP/1.1\r\ncontent-length: 2\r\n\r\na"], ids=repr)
async def test_a_connection_ends_with_an_incomplete_request(connect: Connect, sent: bytes) -> None:
    client = await connect()
    await client.send(sent)
    client.end()
    assert await client.rest() == b""


async def test_a_half_closed_connection_is_reported_after_the_body() -> None:
    messages = iter([{"type": "http.request", "body": b"a", "more_body": True}, {"type": "http.request"}])

    async def receive() -> Any:
        return next(messages)

    received = report_end(receive, lambda: True)
    assert [(await received())["type"] for _ in range(3)] == ["http.request"] * 2 + ["http.disconnect"]
