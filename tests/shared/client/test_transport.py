import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from typing import Any

import httpx
import pytest
import uvloop
from dra_shared.api.resources import NODES
from dra_shared.client.rest import Client
from dra_shared.client.transport import HttpTransport, _watch_peer

from tests.shared.client.fake_server import CHUNKED, Handler, chunk, reply, serve

Send = Callable[[HttpTransport, str, str], Awaitable[bytes]]


async def _in_pieces(transport: HttpTransport, url: str, method: str) -> bytes:
    response = await transport.handle_async_request(httpx.Request(method, url))
    return await response.aread()


async def _whole(transport: HttpTransport, url: str, method: str, seconds: float = 60) -> bytes:
    target = httpx.URL(url)
    assert target.port is not None
    head = b"%b %b HTTP/1.1\r\nhost: %b\r\n\r\n" % (method.encode(), target.raw_path, target.netloc)
    origin = (target.scheme, target.host, target.port)
    status, body = await transport.exchange(origin, method, head, timeout=seconds)
    assert status == 200
    return body


both_ways = pytest.mark.parametrize("send", [_in_pieces, _whole])


@both_ways
async def test_connections_are_kept_alive(send: Send) -> None:
    connections: set[int] = set()

    async def handle(request: bytes, writer: asyncio.StreamWriter) -> None:
        connections.add(id(writer))
        writer.write(reply(request.split(b" ")[1]))

    async with serve(handle) as url, HttpTransport() as transport:
        answers = [await send(transport, f"{url}/{i}", "GET") for i in range(3)]
    assert answers == [b"/0", b"/1", b"/2"]
    assert len(connections) == 1


@both_ways
async def test_a_connection_whose_server_failed_is_not_used_again(send: Send) -> None:
    connections: list[object] = []

    async def handle(request: bytes, writer: asyncio.StreamWriter) -> None:
        connections.append(writer.get_extra_info("peername"))
        writer.write(reply(b"", "500 Failed" if len(connections) == 1 else "200 OK"))

    async with serve(handle) as url, HttpTransport() as transport:
        with suppress(AssertionError):
            await send(transport, url, "GET")
        for _ in range(2):
            await send(transport, url, "GET")
    assert connections[0] != connections[1]
    assert connections[1] == connections[2]


async def test_chunks_are_streamed_as_they_arrive() -> None:
    go_on = asyncio.Event()

    async def handle(request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + chunk(b"one"))
        await go_on.wait()
        writer.write(chunk(b"two") + b"0\r\n\r\n")

    async with serve(handle) as url, HttpTransport() as transport:
        response = await transport.handle_async_request(httpx.Request("GET", url))
        pieces = response.aiter_raw()
        assert await anext(pieces) == b"one"
        go_on.set()
        assert await anext(pieces) == b"two"
        with pytest.raises(StopAsyncIteration):
            await anext(pieces)
        await response.aclose()


@both_ways
async def test_a_stale_idle_connection_is_replaced(send: Send) -> None:
    async def handle(request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(reply(b"ok"))
        await writer.drain()
        writer.close()

    async with serve(handle) as url, HttpTransport() as transport:
        for _ in range(3):
            assert await send(transport, url, "GET") == b"ok"


@both_ways
async def test_a_write_that_the_server_may_have_executed_is_not_sent_again(send: Send) -> None:
    seen: list[bytes] = []

    async def handle(request: bytes, writer: asyncio.StreamWriter) -> None:
        seen.append(request.split(b" ")[0])
        if len(seen) == 1:
            writer.write(reply(b"warm"))
        else:
            writer.close()

    async with serve(handle) as url, HttpTransport() as transport:
        await send(transport, url, "GET")
        with pytest.raises(httpx.RemoteProtocolError):
            await send(transport, url, "POST")
    assert seen == [b"GET", b"POST"]


@both_ways
async def test_a_body_cut_short_is_an_error(send: Send) -> None:
    async def handle(request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort")
        await writer.drain()
        writer.close()

    async with serve(handle) as url, HttpTransport() as transport:
        with pytest.raises(httpx.RemoteProtocolError):
            await send(transport, url, "GET")


@both_ways
async def test_the_end_of_the_connection_ends_a_body_of_unknown_length(send: Send) -> None:
    async def handle(request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nall")
        await writer.drain()
        writer.close()

    async with serve(handle) as url, HttpTransport() as transport:
        for _ in range(2):
            assert await send(transport, url, "GET") == b"all"


@both_ways
async def test_a_1xx_response_is_not_returned_as_the_response(send: Send) -> None:
    async def handle(request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n" + reply(b"answer"))

    async with serve(handle) as url, HttpTransport() as transport:
        for _ in range(2):
            assert await send(transport, url, "GET") == b"answer"


@both_ways
async def test_requests_and_streams_use_the_same_connection_pool(send: Send) -> None:
    connections: set[int] = set()

    async def handle(request: bytes, writer: asyncio.StreamWriter) -> None:
        connections.add(id(writer))
        writer.write(CHUNKED + chunk(b"a") + chunk(b"b") + b"0\r\n\r\n")

    async with serve(handle) as url, HttpTransport() as transport:
        for way in (send, _in_pieces, _whole, send):
            assert await way(transport, url, "GET") == b"ab"
    assert len(connections) == 1


async def test_a_response_that_takes_too_long_times_out() -> None:
    released = asyncio.Event()

    async def handle(request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nha")
        if released.is_set():
            writer.write(b"lf")

    async with serve(handle) as url, HttpTransport() as transport:
        with pytest.raises(TimeoutError):
            await _whole(transport, url, "GET", seconds=0.01)
        released.set()
        # The rest of the late answer is read by no request.
        assert await _whole(transport, url, "GET") == b"half"


@both_ways
async def test_a_refused_connection_is_a_connect_error(send: Send) -> None:
    async with serve(lambda *_: asyncio.sleep(0)) as url:
        pass
    async with HttpTransport() as transport:
        with pytest.raises(httpx.ConnectError):
            await send(transport, url, "GET")


async def test_lists_and_watches_use_a_reader_and_fall_back_to_the_server() -> None:
    asked: list[tuple[str, bytes]] = []

    def server(name: str) -> Handler:
        async def answer(request: bytes, writer: asyncio.StreamWriter) -> None:
            asked.append((name, request.split(b"\r\n")[0]))
            writer.write(reply(b'{"metadata":{"resourceVersion":"1"},"items":[]}'))

        return answer

    async with serve(server("server")) as url, AsyncExitStack() as stack:
        reader = await stack.enter_async_context(serve(server("reader")))
        async with Client(url, read_url=reader) as client:
            await client.list(NODES)
            await client.with_token("t").list(NODES)
            assert [event async for event in client.watch(NODES, timeout_seconds=400)] == []
            await client.get(NODES, "n")
            assert [name for name, _ in asked] == ["reader", "reader", "reader", "server"]
        # The reader has ended. A client that asks the server again returns to a reader within half a minute.
        await stack.aclose()
        async with Client(url, read_url=reader) as client:
            await client.list(NODES)
            assert [event async for event in client.watch(NODES, timeout_seconds=400)] == []
        assert [name for name, _ in asked[4:]] == ["server", "server"]
        assert b"timeoutSeconds=30" in asked[-1][1]


async def test_a_burst_of_requests_opens_no_connection_for_each() -> None:
    at_once, most, connections = 0, 0, set[int]()

    async def handle(request: bytes, writer: asyncio.StreamWriter) -> None:
        nonlocal at_once, most
        connections.add(id(writer))
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0)
        writer.write(reply(b"ok"))
        at_once -= 1

    async with serve(handle) as url, HttpTransport() as transport:
        answers = await asyncio.gather(*(_whole(transport, url, "GET") for _ in range(400)))
    assert answers == [b"ok"] * 400
    assert most <= len(connections) <= 128


async def test_a_separate_client_does_not_wait_for_requests_of_other_clients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dra_shared.client.transport._EXCHANGES_AT_ONCE", 1)
    answered, waiting = asyncio.Event(), asyncio.Event()

    async def handle(request: bytes, writer: asyncio.StreamWriter) -> None:
        if b"slow" in request:
            waiting.set()
            await answered.wait()
        body = b'{"metadata": {"name": "%b"}}' % request.split(b" ")[1].rpartition(b"/")[2]
        writer.write(reply(body))

    async with serve(handle) as url, Client(url, token="secret") as client, client.separate() as heartbeats:
        slow = asyncio.create_task(client.get(NODES, "slow"))
        await waiting.wait()
        assert (await heartbeats.get(NODES, "quick")).metadata.name == "quick"
        assert (await heartbeats.with_token("other").get(NODES, "quick")).metadata.name == "quick"
        answered.set()
        assert (await slow).metadata.name == "slow"


async def test_a_server_that_disappears_without_closing_its_connections_is_detected() -> None:
    async def handle(request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(reply(b""))

    async with serve(handle) as url, HttpTransport() as transport:
        target = httpx.URL(url)
        assert target.port is not None
        connection = await transport._connect((target.scheme, target.host, target.port), None)
        assert connection._transport is not None
        end = connection._transport.get_extra_info("socket")
        assert end.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_USER_TIMEOUT)
        assert [end.getsockopt(socket.IPPROTO_TCP, option) for option in options] == [30, 5, 45_000]
        connection.close()


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_server_that_closes_the_connection_at_once_causes_no_event_loop_error(
    run: Callable[[Coroutine[Any, Any, None]], None],
) -> None:
    async def connect() -> None:
        loop = asyncio.get_running_loop()
        async with await loop.create_server(asyncio.Protocol, "127.0.0.1", 0) as server:
            transport, _ = await loop.create_connection(asyncio.Protocol, *server.sockets[0].getsockname())
            transport.abort()
            await asyncio.sleep(0)
            _watch_peer(transport.get_extra_info("socket"))

    run(connect())
