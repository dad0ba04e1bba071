"""An httpx transport on httptools: a fifth of the CPU of httpx's own for the small requests of services.

HTTP/1.1 with keep-alive and one pool of idle connections for each origin. A response that is not read to its
end closes its connection.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator
from typing import cast

import httptools
import httpx

# Above this many unread bytes a connection stops reading from its socket; below half of it, it goes on.
_HIGH_WATER = 1 << 20
_IDLE_CONNECTIONS = 64
_SAFE = frozenset(("GET", "HEAD", "OPTIONS"))

# Scheme, host and port.
Origin = tuple[str, str, int]


class HttpTransport(httpx.AsyncBaseTransport):
    """Sends httpx requests; see the module's docstring.

    Raises (from ``handle_async_request``):
        httpx.ConnectError, httpx.ConnectTimeout: the server cannot be reached.
        httpx.RemoteProtocolError: the connection broke before the response was complete.
    """

    def __init__(
        self,
        *,
        ssl_context: ssl.SSLContext | None = None,
        server_name: str | None = None,
        connect_timeout: float = 5.0,
    ) -> None:
        self._ssl = ssl_context
        self._server_name = server_name
        self._connect_timeout = connect_timeout
        self._idle: dict[tuple[str, str, int], deque[_Connection]] = {}
        self._closed = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        origin = (url.scheme, url.host, url.port or (443 if url.scheme == "https" else 80))
        body = await request.aread()
        while True:
            connection, reused = await self._connection(origin, request)
            try:
                status, headers = await connection.send(_head(request) + body, request.method)
            except BaseException as error:
                connection.close()
                if reused and isinstance(error, _Dropped) and (not error.sent or request.method in _SAFE):
                    continue
                if isinstance(error, _Dropped):
                    raise httpx.RemoteProtocolError(str(error), request=request) from error
                raise
            stream = _Body(connection, self._release(origin, connection))
            return httpx.Response(status, headers=headers, stream=stream, request=request)

    async def exchange(
        self, origin: Origin, method: str, head: bytes, body: bytes, *, timeout: float
    ) -> tuple[int, bytes]:
        """One request and its whole response: status and body, without httpx's objects around them.

        ``head`` is everything from the request line to before the empty line. ``timeout`` is in seconds.

        Raises:
            TimeoutError: there is no whole response in time.
            Otherwise as ``handle_async_request``.
        """
        data = head + b"\r\n\r\n" + body
        async with asyncio.timeout(timeout):
            while True:
                connection, reused = await self._connection(origin, None)
                try:
                    status, _ = await connection.send(data, method)
                    chunks = []
                    while chunk := await connection.chunk():
                        chunks.append(chunk)
                except BaseException as error:
                    connection.close()
                    if not isinstance(error, _Dropped):
                        raise
                    if reused and (not error.sent or method in _SAFE):
                        continue
                    raise httpx.RemoteProtocolError(str(error)) from error
                self.put_back(origin, connection)
                return status, chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def aclose(self) -> None:
        self._closed = True
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle.clear()

    async def _connection(self, origin: Origin, request: httpx.Request | None) -> tuple["_Connection", bool]:
        idle = self._idle.get(origin)
        while idle:
            connection = idle.pop()
            if connection.usable:
                return connection, True
        scheme, host, port = origin
        loop = asyncio.get_running_loop()
        secure = scheme == "https"
        if secure and self._ssl is None:
            self._ssl = ssl.create_default_context()
        try:
            async with asyncio.timeout(self._connect_timeout):
                _, connection = await loop.create_connection(
                    _Connection,
                    host,
                    port,
                    ssl=self._ssl if secure else None,
                    server_hostname=self._server_name if secure else None,
                )
        except TimeoutError as error:
            raise httpx.ConnectTimeout(f"no connection to {host}:{port}", request=request) from error
        except OSError as error:
            raise httpx.ConnectError(str(error), request=request) from error
        return connection, False

    def _release(self, origin: tuple[str, str, int], connection: "_Connection") -> "_Release":
        return _Release(self, origin, connection)

    def put_back(self, origin: tuple[str, str, int], connection: "_Connection") -> None:
        """Keep a connection whose response was read to its end for the next request."""
        idle = self._idle.setdefault(origin, deque())
        if self._closed or not connection.usable or len(idle) >= _IDLE_CONNECTIONS:
            connection.close()
        else:
            idle.append(connection)


class _Dropped(Exception):
    """The connection was lost before any of the response arrived.

    A server may close an idle connection at any time. Where the request was already ``sent`` it may have been
    carried out, so only a request that changes nothing is sent again.
    """

    def __init__(self, sent: bool) -> None:
        super().__init__("the server closed the connection")
        self.sent = sent


class _Release:
    __slots__ = ("_connection", "_origin", "_transport")

    def __init__(
        self, transport: HttpTransport, origin: tuple[str, str, int], connection: "_Connection"
    ) -> None:
        self._transport, self._origin, self._connection = transport, origin, connection

    def __call__(self) -> None:
        self._transport.put_back(self._origin, self._connection)


class _Connection(asyncio.Protocol):
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

    @property
    def usable(self) -> bool:
        """Whether another request can go over this connection."""
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
            raise _Dropped(sent=False)
        self._parser = httptools.HttpResponseParser(self)
        self._headers, self._complete, self._head_only = [], False, method == "HEAD"
        self._head = asyncio.get_running_loop().create_future()
        self._transport.write(data)
        return await self._head

    async def chunk(self) -> bytes:
        """The next piece of the body; empty at its end."""
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
        self._fail(_Dropped(sent=True))

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
        if self._head is not None and not self._head.done():
            self._head.set_exception(error)
        self._notify()


class _Body(httpx.AsyncByteStream):
    def __init__(self, connection: _Connection, release: _Release) -> None:
        self._connection = connection
        self._release = release
        self._finished = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while chunk := await self._connection.chunk():
            yield chunk
        self._finished = True

    async def aclose(self) -> None:
        if self._finished or self._connection.usable:
            self._release()
        else:
            self._connection.close()


def _head(request: httpx.Request) -> bytes:
    lines = [b"%b %b HTTP/1.1" % (request.method.encode(), request.url.raw_path)]
    lines.extend(b"%b: %b" % header for header in request.headers.raw)
    return b"\r\n".join(lines) + b"\r\n\r\n"
