"""Relay a reader's requests, except plain reads, to the API server that has the database.

They use a local socket that only the server's own user can open. On it, the reader passes the client's
address and the names in its certificate. The API server reads everything else from the request.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple

import httptools
import msgspec
from dra_shared.clientcertificate import ClientCertificate
from dra_shared.unixsocket import unix_connection

from dra_apiserver.connection import TAKE_OVER, Connection
from dra_apiserver.errors import StatusError, deadline_exceeded, service_unavailable
from dra_apiserver.handthrough import SWITCHING, hand_through, send_body
from dra_apiserver.http import CERTIFICATE, Disconnected, Headers, Receive, Request, Scope, Send

# In seconds. A server that was killed has restarted by then.
_CONNECT_TIMEOUT = 5.0
_CONNECT_EVERY = 0.05
# The value of kube-apiserver's --request-timeout.
_REQUEST_TIMEOUT = 60.0
_READ_BYTES = 1 << 16
_WHOLE_BYTES = 4 << 20
_MOST_IDLE = 64
_CLIENT = b"dralab-client"
_HOP_BY_HOP = frozenset({b"connection", b"keep-alive", b"transfer-encoding", b"expect", b"proxy-connection"})
# This server adds these headers by itself, but here the API server has added them already.
_ADDED = (b"date", b"cache-control")
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class Client(msgspec.Struct, array_like=True):
    """The facts about a client that its connection provides."""

    address: tuple[str, int] | None
    scheme: str
    certificate: ClientCertificate | None


_clients = msgspec.json.Decoder(Client)


class RelayedConnection(Connection):
    """A connection from a reader. Each request on it names its client."""

    def on_headers_complete(self) -> None:
        for index, (name, value) in enumerate(self.headers):
            if name == _CLIENT:
                client = _clients.decode(value)
                self.scope["client"], self.scope["scheme"] = client.address, client.scheme
                self._certificate = client.certificate
                del self.headers[index]
                break
        super().on_headers_complete()


class _Gone(Exception):
    """The connection to the API server has ended."""


class _Line(NamedTuple):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class Relay:
    """Relays requests to the API server that listens at `path`.

    `silent` returns True if it does not respond at all.
    """

    def __init__(self, path: Path, silent: Callable[[], bool]) -> None:
        self._path = path
        self._silent = silent
        self._idle: deque[_Line] = deque()

    def close(self) -> None:
        """Close the idle connections."""
        for line in self._idle:
            line.writer.close()
        self._idle.clear()

    async def pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Relay one request, and its response."""
        request = Request(scope, receive, send, "")
        try:
            await self._pass_on(request)
        except StatusError as error:
            await request.fail(error)
        except Disconnected:
            return
        except (_Gone, OSError, httptools.HttpParserError):
            # The result of the request is unknown. The client must see the same as if this server had
            # crashed.
            request.lose_answer()

    async def _pass_on(self, request: Request) -> None:
        upgrades = TAKE_OVER in request.scope
        framed = await _framed_body(request)
        while True:
            line, fresh = await self._line(upgrades)
            try:
                again = await _Exchange(request, line, self._silent).run(framed)
            except (_Gone, OSError):
                line.writer.close()
                # A server may close an idle connection at any time.
                if not fresh and not request.code and request.method in _SAFE:
                    continue
                raise
            except BaseException:
                line.writer.close()
                raise
            if again and len(self._idle) < _MOST_IDLE:
                self._idle.append(line)
            else:
                line.writer.close()
            return

    async def _line(self, upgrades: bool) -> tuple[_Line, bool]:
        """Return a connection, and whether it is new.

        Raises:
            StatusError: 503, the API server is away.
        """
        while self._idle and not upgrades:
            line = self._idle.pop()
            if not line.reader.at_eof() and not line.writer.is_closing():
                return line, False
        loop = asyncio.get_running_loop()
        until = loop.time() + _CONNECT_TIMEOUT
        while True:
            try:
                return _Line(*await asyncio.open_unix_connection(sock=unix_connection(self._path))), True
            except OSError:
                if loop.time() > until:
                    raise service_unavailable(
                        "the API server that this one passes requests on to does not answer"
                    ) from None
            await asyncio.sleep(_CONNECT_EVERY)


async def _framed_body(request: Request) -> bytes | None:
    """Return the request's body with its framing if it is short; None if it is sent in parts."""
    length = request.headers.get(b"content-length")
    if length is None and b"transfer-encoding" not in request.headers:
        return b""
    if length is None or int(length) > _WHOLE_BYTES:
        return None
    return b"".join([piece async for piece in request.pieces()])


class _Exchange:
    """One request on a connection, and its response."""

    def __init__(self, request: Request, line: _Line, silent: Callable[[], bool]) -> None:
        self._request, self._line, self._silent = request, line, silent
        self._parser = httptools.HttpResponseParser(self)
        self._headers: Headers = []
        self._pieces: list[bytes] = []
        self._started = self._complete = False

    async def run(self, body: bytes | None) -> bool:
        """Send the request and its body (in parts if it is None), and pass on the response.

        Returns:
            True if the connection can be used again.

        Raises:
            Disconnected: the client has disconnected.
            OSError, _Gone: the API server has disconnected.
            StatusError: 504, it does not respond.
        """
        request, (reader, writer) = self._request, self._line
        upgrades = TAKE_OVER in request.scope
        writer.write(_head(request, upgrades=upgrades) + (body or b""))
        sending = asyncio.create_task(send_body(request, writer)) if body is None else None
        try:
            first = await _unless_gone(
                sending,
                self._answer(lambda: _response_head(reader) if upgrades else reader.read(_READ_BYTES)),
            )
            is_accepted = upgrades and first.startswith(SWITCHING)
            if not is_accepted:
                await self._receive(first)
        finally:
            is_sent = sending is None or (sending.done() and sending.exception() is None)
            if sending is not None:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
        if is_accepted:
            await hand_through(request, reader, writer, first)
        if upgrades or request.has_ended():
            return False
        return is_sent and self._parser.should_keep_alive()

    async def _answer(self, read: Callable[[], Coroutine[Any, Any, bytes]]) -> bytes:
        """Return the start of the response.

        There is no timeout unless the server is silent, because some requests take long.
        """
        while True:
            try:
                async with asyncio.timeout(_REQUEST_TIMEOUT):
                    return await read()
            except TimeoutError:
                if self._silent():
                    raise deadline_exceeded() from None

    async def _receive(self, data: bytes) -> None:
        reader = self._line.reader
        leaving: asyncio.Future[None] | None = None
        try:
            while True:
                await self._take(data)
                if self._complete:
                    return
                if self._started and leaving is None:
                    # The response may take long.
                    leaving = asyncio.ensure_future(self._wait_for_client_end())
                data = await _unless(leaving, reader.read(_READ_BYTES))
        finally:
            if leaving is not None:
                leaving.cancel()

    async def _wait_for_client_end(self) -> None:
        """Return when the client has disconnected.

        A half-closed client may still expect its response. Its end is passed on, because the API server then
        ends a watch.
        """
        await self._request.wait_until_gone()
        if self._request.has_ended():
            self._line.writer.write_eof()
            await asyncio.Event().wait()

    async def _take(self, data: bytes) -> None:
        """Pass on received data."""
        if not data:
            raise _Gone
        self._parser.feed_data(data)
        request = self._request
        if not self._started:
            return
        if not request.code:
            request.code = self._parser.get_status_code()
            headers = [header for header in self._headers if header[0] not in _HOP_BY_HOP]
            for name in _ADDED:
                request.replace_header(name)
            await request.send({"type": "http.response.start", "status": request.code, "headers": headers})
        pieces, self._pieces = b"".join(self._pieces), []
        if pieces or self._complete:
            await request.stream(pieces, more=not self._complete)

    # httptools

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        if self._parser.get_status_code() < 200:
            self._headers = []
            return
        self._started = True
        self._complete = self._request.method == "HEAD"

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)

    def on_message_complete(self) -> None:
        self._complete = self._started


def _head(request: Request, *, upgrades: bool = False) -> bytes:
    scope = request.scope
    target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
    client = Client(scope.get("client"), scope["scheme"], scope.get(CERTIFICATE))
    passed = [
        header
        for header in scope["headers"]
        if header[0] != _CLIENT
        and (header[0] not in _HOP_BY_HOP or (upgrades and header[0] == b"connection"))
    ]
    if b"transfer-encoding" in request.headers:
        passed.append((b"transfer-encoding", b"chunked"))
    lines = [b"%b %b HTTP/1.1" % (request.method.encode(), target)]
    lines += [b"%b: %b" % header for header in (*passed, (_CLIENT, msgspec.json.encode(client)))]
    return b"\r\n".join([*lines, b"", b""])


async def _unless_gone(sending: asyncio.Task[None] | None, work: Coroutine[Any, Any, bytes]) -> bytes:
    """Return the result of the work while a body is sent.

    Raises:
        Disconnected: the client left before the end of the body, and the API server would wait for the rest.
    """
    if sending is None:
        return await work
    reading = asyncio.ensure_future(work)
    try:
        await asyncio.wait((reading, sending), return_when=asyncio.FIRST_COMPLETED)
        if not reading.done() and isinstance(sending.exception(), Disconnected):
            raise Disconnected
        return await reading
    finally:
        reading.cancel()


async def _unless(leaving: asyncio.Future[None] | None, work: Coroutine[Any, Any, bytes]) -> bytes:
    """Return the result of the work.

    Raises:
        Disconnected: the client left first.
    """
    if leaving is None:
        return await work
    reading = asyncio.ensure_future(work)
    try:
        await asyncio.wait((reading, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not reading.done():
            raise Disconnected
        return reading.result()
    finally:
        reading.cancel()


async def _response_head(reader: asyncio.StreamReader) -> bytes:
    """Return the received data once it contains the head of the response."""
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        raise _Gone from None
