import asyncio

import httpx
import pytest
from dra_shared.client.transport import HttpTransport

from tests.shared.client.fake_server import CHUNKED, chunk, reply, serving


async def _send(transport: HttpTransport, url: str, method: str = "GET", body: bytes = b"") -> httpx.Response:
    response = await transport.handle_async_request(httpx.Request(method, url, content=body or None))
    await response.aread()
    return response


async def test_keeps_connections_alive() -> None:
    connections: set[int] = set()

    async def handle(request: bytes, writer: asyncio.StreamWriter) -> None:
        connections.add(id(writer))
        writer.write(reply(request.split(b" ")[1]))

    async with serving(handle) as url, HttpTransport() as transport:
        answers = [(await _send(transport, f"{url}/{i}")).content for i in range(3)]
    assert answers == [b"/0", b"/1", b"/2"]
    assert len(connections) == 1


async def test_streams_chunks_as_they_come() -> None:
    go_on = asyncio.Event()

    async def handle(request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + chunk(b"one"))
        await go_on.wait()
        writer.write(chunk(b"two") + b"0\r\n\r\n")

    async with serving(handle) as url, HttpTransport() as transport:
        response = await transport.handle_async_request(httpx.Request("GET", url))
        pieces = response.aiter_raw()
        assert await anext(pieces) == b"one"
        go_on.set()
        assert await anext(pieces) == b"two"
        with pytest.raises(StopAsyncIteration):
            await anext(pieces)
        await response.aclose()


async def test_a_stale_idle_connection_is_replaced() -> None:
    async def handle(request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(reply(b"ok"))
        await writer.drain()
        writer.close()

    async with serving(handle) as url, HttpTransport() as transport:
        for _ in range(3):
            assert (await _send(transport, url)).content == b"ok"


async def test_a_write_that_may_have_happened_is_not_sent_again() -> None:
    seen: list[bytes] = []

    async def handle(request: bytes, writer: asyncio.StreamWriter) -> None:
        seen.append(request.split(b" ")[0])
        if len(seen) == 1:
            writer.write(reply(b"warm"))
        else:
            writer.close()

    async with serving(handle) as url, HttpTransport() as transport:
        await _send(transport, url)
        with pytest.raises(httpx.RemoteProtocolError):
            await _send(transport, url, "POST", b"{}")
    assert seen == [b"GET", b"POST"]


async def test_a_body_cut_short_is_an_error() -> None:
    async def handle(request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort")
        await writer.drain()
        writer.close()

    async with serving(handle) as url, HttpTransport() as transport:
        with pytest.raises(httpx.RemoteProtocolError):
            await _send(transport, url)


async def test_nobody_listens() -> None:
    async with serving(lambda *_: asyncio.sleep(0)) as url:
        pass
    async with HttpTransport() as transport:
        with pytest.raises(httpx.ConnectError):
            await _send(transport, url)
