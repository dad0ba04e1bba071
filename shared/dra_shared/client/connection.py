"""One HTTP/1.1 connection of a client, on httptools."""

import asyncio
from collections import deque
from typing import cast

import httptools
import httpx

# A connection stops reading from its socket above this many unread bytes, and resumes below half of it.
_HIGH_WATER = 1 << 20


class Dropped(Exception):
    """The connection was lost before any part of the response arrived.

    A server may close an idle connection at any time. If the request was already ``sent``, the server may
    have executed it, so only a request that changes nothing is sent again.
    """

    def __init__(self, sent: bool) -> None:
        super().__init__("the server closed the connection")
        self.sent = sent


class Connection(asyncio.Protocol):
    """A connection that carries one request at a time. A response is read chunk by chunk, or as a whole."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._head: asyncio.Future[tuple[int, list[tuple[bytes, bytes]]]] | None = None
        self._chunks: deque[bytes] = deque()
        self._buffered = 0
        self._wake: asyncio.Future[None] | None = None
        self._complete = True
        self._keep_alive = True
        self._lost: Exception | None = None
        self._until_close = False
        self._head_only = False
        self._paused = False
        self._whole: _Whole | None = None

    @property
    def usable(self) -> bool:
        """True if another request can be sent over this connection."""
        return (
            self._complete
            and self._keep_alive
            and self._lost is None
            and self._transport is not None
            and not self._transport.is_closing()
        )

    async def send(self, data: bytes, method: str) -> tuple[int, list[tuple[bytes, bytes]]]:
        assert self._transport is not None
        if self._lost is not None:
            raise Dropped(sent=False)
        self._whole, self._parser = None, httptools.HttpResponseParser(self)
        self._headers, self._complete, self._head_only = [], False, method == "HEAD"
        self._head = asyncio.get_running_loop().create_future()
        self._transport.write(data)
        return await self._head

    async def chunk(self) -> bytes:
        """Return the next part of the body, empty at its end."""
        while not self._chunks:
            if self._complete:
                return b""
            if self._lost is not None:
                raise httpx.RemoteProtocolError("the connection was closed before the response was complete")
            self._wake = asyncio.get_running_loop().create_future()
            try:
                await self._wake
            finally:
                self._wake = None
        data = self._chunks.popleft() if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        self._buffered = 0
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return data

    def exchange(self, data: bytes) -> asyncio.Future[tuple[int, bytes]]:
        """Send a request that is not a HEAD. The result is the status and the body of the response."""
        assert self._transport is not None
        if self._lost is not None:
            raise Dropped(sent=False)
        if self._whole is None:
            self._whole = _Whole(self)
            self._parser = self._whole.parser
        self._complete = False
        answer = self._whole.expect()
        self._transport.write(data)
        return answer

    def finish_exchange(self, keep_alive: bool) -> None:
        """Record that the response is complete. The connection can be reused if ``keep_alive``."""
        self._complete, self._keep_alive = True, keep_alive

    def expire(self) -> None:
        """Fail the request because its response takes too long."""
        if self._whole is not None:
            self._whole.fail(TimeoutError())

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not derive from asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._parser is None or self._complete:
            self.close()
            return
        if self._whole is not None:
            self._whole.note(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._lost = error
            self._fail(httpx.RemoteProtocolError(f"malformed response: {error}"))
            self.close()

    def eof_received(self) -> None:
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = exc or ConnectionResetError("connection closed")
        if self._until_close and exc is None:
            self._complete = True
        if self._whole is not None:
            self._whole.end(clean=exc is None)
        self._fail(Dropped(sent=True))

    # httptools

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        status = self._parser.get_status_code()
        if 100 <= status < 200:
            self._headers = []
            return
        self._keep_alive = self._parser.should_keep_alive()
        names = {name.lower() for name, _ in self._headers}
        self._until_close = b"content-length" not in names and b"transfer-encoding" not in names
        if self._head_only or status in (204, 304):
            self._complete = True
        if self._head is not None and not self._head.done():
            self._head.set_result((status, self._headers))

    def on_body(self, body: bytes) -> None:
        self._chunks.append(body)
        self._buffered += len(body)
        if self._buffered > _HIGH_WATER and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._notify()

    def on_message_complete(self) -> None:
        if self._parser is not None and 100 <= self._parser.get_status_code() < 200:
            return
        self._complete = True
        self._notify()

    def _notify(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def _fail(self, error: Exception) -> None:
        if self._whole is not None:
            self._whole.fail(error)
        if self._head is not None and not self._head.done():
            self._head.set_exception(error)
        self._notify()


class _Whole:
    """Reads the responses of one connection, each to its end."""

    def __init__(self, connection: Connection) -> None:
        self.parser = httptools.HttpResponseParser(self)
        self._connection = connection
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._start = b""
        self._chunks: list[bytes] = []

    def expect(self) -> asyncio.Future[tuple[int, bytes]]:
        """Return a future of the next response."""
        self._start, self._chunks = b"", []
        self._answer = asyncio.get_running_loop().create_future()
        return self._answer

    def note(self, data: bytes) -> None:
        """Record that bytes arrived."""
        self._start = self._start or data

    def end(self, *, clean: bool) -> None:
        """Record the end of the data."""
        fields = self._start.lower()
        if (
            clean
            and fields
            and b"\r\ncontent-length:" not in fields
            and b"\r\ntransfer-encoding:" not in fields
        ):
            self.on_message_complete()
        elif fields:
            self.fail(httpx.RemoteProtocolError("the connection was closed before the response was complete"))

    def fail(self, error: Exception) -> None:
        """Fail the current response."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)

    # httptools

    def on_body(self, body: bytes) -> None:
        self._chunks.append(body)

    def on_message_complete(self) -> None:
        status, answer = self.parser.get_status_code(), self._answer
        if 100 <= status < 200 or answer is None or answer.done():
            return
        self._connection.finish_exchange(self.parser.should_keep_alive())
        answer.set_result((status, self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)))
