"""uvicorn's connections with the limits of Go's ``net/http`` as kube-apiserver configures them.

The limits are those of ``SecureServingInfo.Serve`` (apiserver's ``pkg/server/secure_serving.go``) and of
``net/http``. Requests that are too large are rejected with the same messages. Clients that are too slow are
disconnected without a message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

IDLE_TIMEOUT = 90
"""The seconds that a connection may wait for its next request."""

HEADER_TIMEOUT = 32.0
"""The seconds for a request's line and headers, or for the rest of a body that was already answered."""

HEADER_BYTES = (1 << 20) + 4096
"""The limit of a request's line and headers together."""

_HEADERS = 10_000  # The most headers. Go only limits their bytes, but its headers need less memory.
_LINE_BYTES = 4096  # The most bytes of a chunk's first line, or of all trailers.
_SURPLUS_BYTES = 256 << 10  # The most bytes of a body that are read after its response.
_STEP_BYTES = 16 << 10
_RAW_BYTES = 64 << 10  # The most bytes that are buffered after a request that offers an upgrade.
_LINGER = 0.5
_FRAMING = (b"content-length", b"transfer-encoding")

Receive = Callable[[], Awaitable[Any]]


def report_end(receive: Receive, has_ended: Callable[[], bool]) -> Receive:
    """Wrap an ASGI `receive` to report a half-closed client as disconnected once its body is read.

    Such a client still gets its response. But a handler that waits for the client to disconnect must not wait
    forever, because a closed connection looks the same.
    """
    is_read = False

    async def receive_or_end() -> Any:
        nonlocal is_read
        if is_read and has_ended():
            return {"type": "http.disconnect"}
        message = await receive()
        if is_read and has_ended():
            return {"type": "http.disconnect"}
        is_read = not message.get("more_body", False)
        return message

    return receive_or_end


class _Flow(FlowControl):
    """Stops reading while pipelined requests wait for the current response."""

    def __init__(self, transport: asyncio.Transport, waiting: Any) -> None:
        super().__init__(transport)
        self._waiting = waiting

    def resume_reading(self) -> None:
        if self.read_paused and not self._waiting:
            super().resume_reading()


class _Refused(Exception):
    """Raised through the parser, which then calls `send_400_response`."""


class _AfterHead:
    """Forward a parser's callbacks to the connection, except those for the headers of the first request."""

    def __init__(self, connection: BoundedConnection) -> None:
        self._connection = connection
        self._is_first = True
        self.on_body = connection.on_body
        self.on_message_complete = connection.on_message_complete

    def on_message_begin(self) -> None:
        if not self._is_first:
            self._connection.on_message_begin()

    def on_url(self, url: bytes) -> None:
        if not self._is_first:
            self._connection.on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._is_first:
            self._connection.on_header(name, value)

    def on_headers_complete(self) -> None:
        if self._is_first:
            self._is_first = False
        else:
            self._connection.on_headers_complete()


class BoundedConnection(HttpToolsProtocol):
    """A client's connection that limits the size and duration of requests before they are processed."""

    body_limit: int | None = None
    """The limit in bytes; None if the application checks it."""

    _head_bytes = 0
    _body_bytes = 0
    _surplus = 0
    # Bytes that the parser got since its last callback.
    _silent_bytes = 0
    _moved = False
    _code = 400
    # True after a rejection, or after the hand-over to another protocol.
    _over = False
    # The bytes after a request that offers an upgrade, until its protocol is decided.
    _raw: bytearray | None = None
    # True if the client has half-closed the connection.
    _has_ended = False
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn narrows it
        super().connection_made(transport)
        self.flow = _Flow(transport, self.pipeline)
        self._held = bytearray()
        self._start_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_deadline()
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]  # uvicorn's never keeps a connection open
        """Keep the connection open if a request is complete and not yet answered, as Go does."""
        cycle: RequestResponseCycle | None = self.cycle
        if (
            self._over
            or cycle is None
            or cycle.response_complete
            or cycle.more_body
            or self.scheme == "https"
        ):
            # asyncio cannot write to a TLS connection after its end.
            return False
        self._has_ended = True
        cycle.message_event.set()
        return True

    def has_ended(self) -> bool:
        """True if the client has half-closed the connection."""
        return self._has_ended

    def data_received(self, data: bytes) -> None:
        if self._over:
            return
        if self._raw is not None:
            self._raw += data
            if len(self._raw) > _RAW_BYTES:
                self.flow.pause_reading()
            return
        goes_on = self._in_head()
        if goes_on:
            self._head_bytes += len(data)
            if self._head_bytes > HEADER_BYTES:
                self._refuse(431)
                return
            # The parser joins the parts of a line one by one, which takes quadratic time for many parts.
            self._held += data
            if b"\n" not in data and len(self._held) < _STEP_BYTES:
                return
            data = bytes(self._held)
            self._held.clear()
        self._moved = False
        self._parse(data)
        cycle: RequestResponseCycle | None = self.cycle
        if self._moved and cycle is not None and cycle.scope is self.scope and not cycle.response_complete:
            # The common case: a complete request, or a part of its body.
            return
        self._check_bounds(data, goes_on)

    def _parse(self, data: bytes) -> None:
        """Feed the parser.

        Replaces uvicorn's `data_received`, which drops the body of a request that offers an upgrade.
        """
        self._unset_keepalive_if_required()
        unread = memoryview(data)
        try:
            while (offered := self._feed(unread)) is not None:
                unread = unread[offered:]
                if self._should_upgrade():
                    self.handle_websocket_upgrade(bytes(unread))
                    return
                if not self._read_on():
                    self._raw = bytearray(unread)
                    return
        except httptools.HttpParserError:
            self.send_400_response("")

    def _feed(self, data: memoryview) -> int | None:
        """Return the index after the head of a request that offers an upgrade, or None if all is parsed."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            return int(offer.args[0])
        return None

    def _read_on(self) -> bool:
        """Parse the body of a request that offers an upgrade like any other body.

        Go's server ignores the offer: a handler may accept it after the body. httptools ends the request
        after its head instead, so a new parser gets the headers that describe the body.

        Returns:
            False if there is no body. The following bytes may be of the other protocol then.
        """
        framing = [header for header in self.scope["headers"] if header[0] in _FRAMING]
        if not any(value.strip() != b"0" for _, value in framing):
            return False
        cycle: RequestResponseCycle = self.cycle
        cycle.more_body = True
        cycle.message_event.clear()
        self.parser = httptools.HttpRequestParser(_AfterHead(self))
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        lines = (b"POST / HTTP/1.1", *(b"%b: %b" % header for header in framing), b"", b"")
        self.parser.feed_data(b"\r\n".join(lines))
        return True

    def on_response_complete(self) -> None:
        super().on_response_complete()
        raw, cycle = self._raw, self.cycle
        if raw is not None and cycle.response_complete and not self._over:
            # The offer was not accepted, so these bytes are the next requests.
            self._raw = None
            if raw and not self.transport.is_closing():
                self.data_received(bytes(raw))
        if self._has_ended and self.cycle.response_complete:
            self.transport.close()

    def _check_bounds(self, data: bytes, goes_on: bool) -> None:
        """Reject a request that is too large already, and set the deadline for the rest of it."""
        if self._over:
            return
        if in_head := self._in_head():
            if len(self.headers) > _HEADERS:
                self._refuse(431)
                return
            if not goes_on:
                self._head_bytes = len(data)
        elif not self._moved:
            self._silent_bytes += len(data)
            if self._silent_bytes > _LINE_BYTES:
                self._refuse(400)
                return
        if self._deadline is None and (in_head or self._is_between()):
            self._start_deadline()

    def _in_head(self) -> bool:
        """True if the headers of a request are incomplete: it has a scope, but no cycle yet."""
        cycle: RequestResponseCycle | None = self.cycle
        return self.scope is not (None if cycle is None else cycle.scope)

    def _is_between(self) -> bool:
        """True if no request is being served and the client sends data that is not a request."""
        cycle: RequestResponseCycle | None = self.cycle
        return (cycle is None or cycle.response_complete) and self.timeout_keep_alive_task is None

    def on_headers_complete(self) -> None:
        self._moved, self._silent_bytes = True, 0
        self._head_bytes = self._body_bytes = self._surplus = 0
        if self._deadline is not None:
            self._end_deadline()
        if len(self.headers) > _HEADERS:
            self._code = 431
            raise _Refused
        super().on_headers_complete()
        if not self.parser.should_upgrade():
            # Further headers are trailers after a chunked body. They are ignored.
            self.headers = []

    def on_body(self, body: bytes) -> None:
        self._moved, self._silent_bytes = True, 0
        if self.cycle.response_complete:
            self._surplus += len(body)
            if self._surplus > _SURPLUS_BYTES:
                self.transport.close()
        elif self.body_limit is not None:
            self._body_bytes += len(body)
            if self._body_bytes > self.body_limit:
                self._code = 413
                raise _Refused
        super().on_body(body)

    def handle_websocket_upgrade(self, unread: bytes = b"") -> None:
        """Hand the connection over to another protocol, with the bytes received after the request's head."""
        self._over = True
        super().handle_websocket_upgrade()
        if unread:
            self.transport.get_protocol().data_received(unread)  # type: ignore[attr-defined]  # it reads

    def send_400_response(self, msg: str) -> None:
        self._refuse(self._code)

    def _refuse(self, code: int) -> None:
        self._over = True
        self._end_deadline()
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:
                self.transport.close()
                return
        text = f"{code} {_PHRASES[code]}"
        head = f"HTTP/1.1 {text}\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
        self.transport.write(f"{head}{text}".encode())
        # Closing at once would make the kernel reset the connection when more data arrives, and the client
        # would lose the response.
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(_LINGER, self.transport.close)

    def _start_deadline(self) -> None:
        self._deadline = self.loop.call_later(HEADER_TIMEOUT, self._late)

    def _end_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _late(self) -> None:
        self._deadline = None
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            # The deadline of a pipelined request starts when the previous response has been sent.
            self._start_deadline()
        else:
            self.transport.close()


_PHRASES = {400: "Bad Request", 413: "Request Entity Too Large", 431: "Request Header Fields Too Large"}
