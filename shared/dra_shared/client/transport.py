"""An httpx transport on httptools. For the small requests of services it uses a fifth of the CPU of httpx's own.

HTTP/1.1 with keep-alive and one pool of idle connections for each origin. A response that is not read to its
end closes its connection.
"""

import asyncio
import socket
import ssl
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial

import httpx

from dra_shared.client.connection import Connection, Dropped

# The number of parallel requests in a burst of pods. Fewer would close connections that are opened again at
# once.
_IDLE_CONNECTIONS = 256
# HTTP/2 limits the streams of a connection to the same number. More requests do not make a server faster, and
# each needs a connection here.
_EXCHANGES_AT_ONCE = 128
# Seconds of silence until a connection is probed, between probes, and until it is closed. client-go's HTTP/2
# takes as long to notice a silent loss (ReadIdleTimeout and PingTimeout in apimachinery's
# pkg/util/net/http.go).
_PROBE_AFTER, _PROBE_EVERY, _GONE_AFTER = 30, 5, 45
# Seconds until a connection is established, as client-go dials (tlsTransportCache in k8s.io/client-go's
# transport/cache.go). A program that is held up for a few seconds on a busy machine still gets its connection.
_CONNECT_TIMEOUT = 30.0
_FAILED = 500
_SAFE = frozenset(("GET", "HEAD", "OPTIONS"))

# Scheme, host and port.
Origin = tuple[str, str, int]


class HttpTransport(httpx.AsyncBaseTransport):
    """Sends httpx requests; see the module's docstring.

    Raises:
        httpx.ConnectError, httpx.ConnectTimeout: (from ``handle_async_request``) the server cannot be
            reached.
        httpx.RemoteProtocolError: the connection broke before the response was complete.
    """

    def __init__(
        self,
        *,
        ssl_context: ssl.SSLContext | None = None,
        server_name: str | None = None,
        connect_timeout: float = _CONNECT_TIMEOUT,
    ) -> None:
        self._ssl = ssl_context
        self._server_name = server_name
        self._connect_timeout = connect_timeout
        self._idle: defaultdict[Origin, deque[Connection]] = defaultdict(deque)
        self._turns: defaultdict[Origin, asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(_EXCHANGES_AT_ONCE)
        )
        self._closed = False

    def create_another(self) -> "HttpTransport":
        """Return a transport with its own connections."""
        return HttpTransport(
            ssl_context=self._ssl, server_name=self._server_name, connect_timeout=self._connect_timeout
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        origin = (url.scheme, url.host, url.port or (443 if url.scheme == "https" else 80))
        data = _head(request) + await request.aread()
        status, headers, stream = await self.stream(origin, request.method, data, request)
        return httpx.Response(status, headers=headers, stream=stream, request=request)

    async def stream(
        self, origin: Origin, method: str, data: bytes, request: httpx.Request | None = None
    ) -> tuple[int, list[tuple[bytes, bytes]], httpx.AsyncByteStream]:
        """Send one request, head and body. Return status, fields and the body, which is read in parts.

        Raises:
            the errors of ``handle_async_request``, about ``request``.
        """
        while True:
            connection = self._idle_connection(origin)
            reused = connection is not None
            if connection is None:
                connection = await self._connect(origin, request)
            try:
                status, headers = await connection.send(data, method)
            except BaseException as error:
                connection.close()
                if reused and isinstance(error, Dropped) and (not error.sent or method in _SAFE):
                    continue
                if isinstance(error, Dropped):
                    raise httpx.RemoteProtocolError(str(error), request=request) from error
                raise
            return status, headers, _Body(connection, partial(self.put_back, origin, connection, status))

    async def exchange(
        self, origin: Origin, method: str, data: bytes, *, timeout: float
    ) -> tuple[int, bytes]:
        """Send one request and return the status and body of the whole response, without httpx's objects.

        Not for HEAD. ``timeout`` is in seconds and starts when the request is sent. With many active
        requests, it first waits for its turn.

        Raises:
            TimeoutError: the response was not complete in time.
            Otherwise the errors of ``handle_async_request``.
        """
        async with self._turns[origin]:
            return await self._exchange(origin, method, data, timeout)

    async def _exchange(self, origin: Origin, method: str, data: bytes, timeout: float) -> tuple[int, bytes]:
        loop = asyncio.get_running_loop()
        while True:
            connection = self._idle_connection(origin)
            reused = connection is not None
            if connection is None:
                connection = await self._connect(origin, None)
            timer = loop.call_later(timeout, connection.expire)
            try:
                answer = await connection.exchange(data)
            except BaseException as error:
                connection.close()
                if not isinstance(error, Dropped):
                    raise
                if reused and (not error.sent or method in _SAFE):
                    continue
                raise httpx.RemoteProtocolError(str(error)) from error
            finally:
                timer.cancel()
            self.put_back(origin, connection, answer[0])
            return answer

    async def aclose(self) -> None:
        self._closed = True
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle.clear()

    def _idle_connection(self, origin: Origin) -> Connection | None:
        idle = self._idle[origin]
        while idle:
            connection = idle.pop()
            if connection.usable:
                return connection
        return None

    async def _connect(self, origin: Origin, request: httpx.Request | None) -> Connection:
        scheme, host, port = origin
        loop = asyncio.get_running_loop()
        secure = scheme == "https"
        if secure and self._ssl is None:
            self._ssl = ssl.create_default_context()
        try:
            async with asyncio.timeout(self._connect_timeout):
                transport, connection = await loop.create_connection(
                    Connection,
                    host,
                    port,
                    ssl=self._ssl if secure else None,
                    server_hostname=self._server_name if secure else None,
                )
        except TimeoutError as error:
            raise httpx.ConnectTimeout(f"no connection to {host}:{port}", request=request) from error
        except OSError as error:
            raise httpx.ConnectError(str(error), request=request) from error
        _watch_peer(transport.get_extra_info("socket"))
        return connection

    def put_back(self, origin: Origin, connection: Connection, status: int) -> None:
        """Keep a connection for the next request after its response was read to the end.

        A connection on which the server failed is closed: behind a balancer, another one may reach a healthy
        server. The kubelet closes connections after failed heartbeats for the same reason
        (`onRepeatedHeartbeatFailure`).
        """
        idle = self._idle[origin]
        if self._closed or status >= _FAILED or not connection.usable or len(idle) >= _IDLE_CONNECTIONS:
            connection.close()
        else:
            idle.append(connection)


def _watch_peer(end: socket.socket | None) -> None:
    """Let the kernel end the connection if the server becomes unreachable.

    A watch only reads and would not notice.
    """
    if end is None:
        return
    # On a closed socket, asyncio raises one of these and uvloop the other.
    with suppress(OSError, ValueError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _PROBE_AFTER)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _PROBE_EVERY)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _GONE_AFTER * 1000)


class _Body(httpx.AsyncByteStream):
    def __init__(self, connection: Connection, release: Callable[[], None]) -> None:
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
