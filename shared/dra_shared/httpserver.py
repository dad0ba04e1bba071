"""uvicorn's side of a connection with the bounds of Go's ``net/http`` as kube-apiserver sets them.

The numbers are those of ``SecureServingInfo.Serve`` (apiserver's ``pkg/server/secure_serving.go``) and of ``net/http``:
what is too large is refused with its words, and a client that is too slow is disconnected without any.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

IDLE_TIMEOUT = 90
"""Seconds that a connection may wait for its next request."""

HEADER_TIMEOUT = 32.0
"""Seconds for a request's line and headers, or for what a client still sends of a body that was answered."""

HEADER_BYTES = (1 << 20) + 4096
"""In a request's line and headers together."""

_HEADERS = 10_000  # Go counts bytes alone; its headers take less memory than ours.
_LINE_BYTES = 4096  # Of a chunk's first line, and of all trailers.
_SURPLUS_BYTES = 256 << 10  # Of a body that is read after its answer.
_STEP_BYTES = 16 << 10
_LINGER = 0.5


class _Flow(FlowControl):
    """Reads no further while requests wait that came before the answer to the one that is served."""

    def __init__(self, transport: asyncio.Transport, waiting: Any) -> None:
        super().__init__(transport)
        self._waiting = waiting

    def resume_reading(self) -> None:
        if self.read_paused and not self._waiting:
            super().resume_reading()


class _Refused(Exception):
    """Raised through the parser, which then calls `send_400_response`."""


class BoundedConnection(HttpToolsProtocol):
    """A client's connection, whose requests are bounded in size and time before anything is made of them."""

    body_limit: int | None = None
    """In bytes; None where the application looks after that."""

    _head_bytes = 0
    _body_bytes = 0
    _surplus = 0
    # What the parser got since it last had something to tell.
    _silent_bytes = 0
    _moved = False
    _code = 400
    # Refused, or handed over to another protocol.
    _over = False
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn narrows it
        super().connection_made(transport)
        self.flow = _Flow(transport, self.pipeline)
        self._held = bytearray()
        self._start_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._over:
            return
        goes_on = self._in_head()
        if goes_on:
            self._head_bytes += len(data)
            if self._head_bytes > HEADER_BYTES:
                self._refuse(431)
                return
            # The parser joins the parts of a line one by one, which takes quadratic time where they are many.
            self._held += data
            if b"\n" not in data and len(self._held) < _STEP_BYTES:
                return
            data = bytes(self._held)
            self._held.clear()
        self._moved = False
        super().data_received(data)
        cycle: RequestResponseCycle | None = self.cycle
        if self._moved and cycle is not None and cycle.scope is self.scope and not cycle.response_complete:
            # Most often: a request that is served has come, or a part of its body.
            return
        self._bound(data, goes_on)

    def _bound(self, data: bytes, goes_on: bool) -> None:
        """Refuse what is too much already, and give the client time for what is still to come."""
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
        """Whether a request has begun whose headers are not complete: it has a scope, and no cycle yet."""
        cycle: RequestResponseCycle | None = self.cycle
        return self.scope is not (None if cycle is None else cycle.scope)

    def _is_between(self) -> bool:
        """Whether no request is served, and the client sends something else than one."""
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
            # What follows are trailers: their request is under way without them.
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

    def handle_websocket_upgrade(self) -> None:
        self._over = True
        super().handle_websocket_upgrade()

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
        # Were it closed at once, what comes meanwhile would make the kernel reset it, and the client miss the answer.
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
            self._start_deadline()  # What waits has time until the answer before it.
        else:
            self.transport.close()


_PHRASES = {400: "Bad Request", 413: "Request Entity Too Large", 431: "Request Header Fields Too Large"}
