"""Forward an upgrade request to another server, and connect the client with it (upstream's upgradeaware proxy)."""

from __future__ import annotations

import asyncio

import httptools

from dra_apiserver.connection import TAKE_OVER, Peer, TakeOver
from dra_apiserver.errors import quote, server_error
from dra_apiserver.http import Disconnected, Headers, Request

SWITCHING = b"HTTP/1.1 101 "
"""The start of a response that accepts an upgrade."""

_READ_BYTES = 1 << 16
# The timeout of upstream's handler for a response that rejects the upgrade.
_REFUSAL_TIMEOUT = 10.0
_HOP_BY_HOP = frozenset({b"connection", b"keep-alive", b"transfer-encoding", b"upgrade", b"date"})


async def upgrade(
    request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes
) -> None:
    """Send a request for an upgrade to another server, and join the two connections if that accepts it.

    A rejection is passed on to the client, and its connection is closed. If the connections were joined after a
    rejection, the client could send further requests to the other server with this server's rights.

    Raises:
        StatusError: 500, the other server does not speak HTTP, or responds without an upgrade.
        Disconnected: the client has disconnected.
    """
    try:
        writer.write(head)
        first = await _answer_head(request, reader, writer)
        if first.startswith(SWITCHING):
            await hand_through(request, reader, writer, first)
        else:
            await _refuse(request, reader, first)
    finally:
        writer.close()


async def _answer_head(request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """Send the body, and return the start of the response once its head is complete."""
    sending = asyncio.ensure_future(send_body(request, writer))
    reading = asyncio.ensure_future(reader.readuntil(b"\r\n\r\n"))
    leaving: asyncio.Future[None] | None = None
    try:
        await asyncio.wait((sending, reading), return_when=asyncio.FIRST_COMPLETED)
        if not reading.done():
            sending.result()
            leaving = asyncio.ensure_future(request.wait_until_gone())
            await asyncio.wait((leaving, reading), return_when=asyncio.FIRST_COMPLETED)
        if not reading.done():
            raise Disconnected
        return reading.result()
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
        raise server_error("unexpected EOF") from None
    finally:
        tasks = [task for task in (sending, reading, leaving) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def send_body(request: Request, writer: asyncio.StreamWriter) -> None:
    """Send the request's body in parts, framed according to its headers.

    Raises:
        Disconnected: the body ended early.
        ConnectionError: the other server has disconnected.
    """
    is_counted = b"content-length" in request.headers
    if not is_counted and b"transfer-encoding" not in request.headers:
        return
    async for piece in request.pieces():
        if piece:
            writer.write(piece if is_counted else b"%x\r\n%b\r\n" % (len(piece), piece))
            await writer.drain()
    if not is_counted:
        writer.write(b"0\r\n\r\n")


class _Refusal:
    """A response that is read completely: the callbacks of httptools."""

    def __init__(self) -> None:
        self.headers: Headers = []
        self.body = bytearray()
        self.complete = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() not in _HOP_BY_HOP:
            self.headers.append((name.lower(), value))

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.complete = True


async def _refuse(request: Request, reader: asyncio.StreamReader, first: bytes) -> None:
    """Pass the other server's rejection on to the client (upstream's `tryUpgrade`).

    Raises:
        StatusError: 500, the response is neither an upgrade nor a valid rejection.
    """
    refusal = _Refusal()
    parser = httptools.HttpResponseParser(refusal)
    try:
        parser.feed_data(first)
        code = parser.get_status_code()
        if code < 400:
            raise server_error(f"invalid upgrade response: status code {code}")
        async with asyncio.timeout(_REFUSAL_TIMEOUT):
            while not refusal.complete and (data := await reader.read(_READ_BYTES)):
                parser.feed_data(data)
    except httptools.HttpParserError:
        line = first.partition(b"\r\n")[0].decode("latin-1")
        raise server_error(f"malformed HTTP response {quote(line)}") from None
    except (TimeoutError, ConnectionError):
        # Pass on the data received so far.
        pass
    body = b"" if request.method == "HEAD" else bytes(refusal.body)
    headers = [header for header in refusal.headers if header[0] != b"content-length"]
    headers += [(b"content-length", b"%d" % len(body)), (b"connection", b"close")]
    await request.start(code, headers)
    await request.stream(body, more=False)


async def hand_through(
    request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, first: bytes = b""
) -> None:
    """Join the client's connection to another one until either ends.

    `first` is the data that was already read from the other connection.
    """
    take_over: TakeOver = request.scope[TAKE_OVER]
    try:
        gone = asyncio.Event()

        def to_node(data: bytes) -> None:
            writer.write(data)
            if writer.transport.get_write_buffer_size():
                peer.pause(True)
                drains.add(drain := asyncio.ensure_future(_resume_after_drain(writer, peer)))
                drain.add_done_callback(drains.discard)

        drains: set[asyncio.Future[None]] = set()
        peer = take_over(to_node, gone.set)
        if first:
            peer.write(first)
        request.code = 101
        if request.audit is not None:
            request.audit.start_response()
        copying = asyncio.ensure_future(_copy(reader, peer))
        leaving = asyncio.ensure_future(gone.wait())
        await asyncio.wait((copying, leaving), return_when=asyncio.FIRST_COMPLETED)
        copying.cancel()
        leaving.cancel()
        await asyncio.gather(copying, leaving, *drains, return_exceptions=True)
        peer.close()
    finally:
        writer.close()


async def _resume_after_drain(writer: asyncio.StreamWriter, peer: Peer) -> None:
    try:
        await writer.drain()
    except ConnectionError:
        return
    peer.pause(False)


async def _copy(reader: asyncio.StreamReader, peer: Peer) -> None:
    try:
        while data := await reader.read(1 << 16):
            peer.write(data)
    except ConnectionError:
        return
