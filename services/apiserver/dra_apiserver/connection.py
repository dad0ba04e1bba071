"""A client's connection: uvicorn's protocol, which writes the head and body of a response together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from dra_shared.clientcertificate import ClientCertificate, client_certificate
from dra_shared.httpserver import BoundedConnection
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from dra_apiserver.http import CERTIFICATE, DIRECT, Headers, Scope

#: The key in a request's scope of the function that takes over the connection of an upgrade. It is also the
#: type of the message that the connection was taken over.
TAKE_OVER = "dralab.take_over"

_HELD_BYTES = 1 << 16

# Webhooks and proxied servers may respond with a status that no RFC defines. Go sends these words as the reason
# phrase.
for _code in range(600, 1000):
    STATUS_LINE[_code] = b"HTTP/1.1 %d status code %d\r\n" % (_code, _code)


class Peer(Protocol):
    """The client's end of a connection that was taken over."""

    def write(self, data: bytes) -> None: ...

    async def drain(self) -> None:
        """Wait while the client's buffer is full."""
        ...

    def full(self) -> bool:
        """True if the client's buffer is full."""
        ...

    def close(self) -> None: ...

    def pause(self, paused: bool) -> None:
        """Stop or resume reading from the client."""
        ...


TakeOver = Callable[[Callable[[bytes], None], Callable[[], None]], Peer]


class JoiningTransport(asyncio.Transport):
    """Joins all writes of one turn of the event loop.

    Separate writes would each be a system call here and a wake-up at the client. Large data is passed on at
    once, so that the socket's back-pressure takes effect.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._held: list[bytes] = []
        self._size = 0
        self._losing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        # Since Python 3.12 if the last item of writelines() is empty, asyncio tries forever to write it and
        # never closes the connection.
        if not data:
            return
        if not self._held:
            self._loop.call_soon(self.flush)
        self._held.append(bytes(data))
        self._size += len(data)
        if self._size > _HELD_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the buffered data."""
        held = self._held
        if not held:
            return
        self._held, self._size = [], 0
        if self._losing:
            self._transport.abort()
        if self._transport.is_closing():
            return
        if len(held) == 1:
            self._transport.write(held[0])
        else:
            self._transport.writelines(held)

    def abort_at_flush(self) -> None:
        """Cut the connection instead of writing the buffered data."""
        self._losing = True

    def write_now(self, data: bytes) -> None:
        """Write the buffered data and ``data`` now, without waiting for the end of the turn."""
        if data:
            self._held.append(data)
        self.flush()

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def can_write_eof(self) -> bool:
        return self._transport.can_write_eof()

    def write_eof(self) -> None:
        self.flush()
        self._transport.write_eof()

    def abort(self) -> None:
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()


class Connection(BoundedConnection):
    """One client's connection. A request to upgrade it may take it over, and receives its data from then on."""

    _received: Callable[[bytes], None] | None = None
    _ended: Callable[[], None] | None = None

    _certificate: ClientCertificate | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn narrows it
        super().connection_made(JoiningTransport(transport, self.loop))
        self._certificate = client_certificate(transport)

    def read(self, scope: Scope) -> bytes | None:
        """Return the request's whole body, or None if it is not complete yet."""
        cycle = self.cycle
        if (
            cycle.scope is not scope
            or cycle.more_body
            or cycle.waiting_for_100_continue
            or cycle.disconnected
        ):
            return None
        body = bytes(cycle.body)
        cycle.body = bytearray()
        cycle.message_event.clear()
        self.flow.resume_reading()
        return body

    def answer(self, scope: Scope, code: int, headers: Headers, body: bytes) -> bool:
        """Send a whole response.

        Return False and send nothing if sending would block, or if the response ends the connection.
        """
        cycle = self.cycle
        if (
            cycle.scope is not scope
            or self.flow.write_paused
            or cycle.disconnected
            or cycle.response_started
            or not cycle.keep_alive
            or scope["method"] == "HEAD"
        ):
            return False
        lines = [b"%b: %b\r\n" % header for header in (*cycle.default_headers, *headers)]
        assert isinstance(self.transport, JoiningTransport)
        self.transport.write_now(b"".join((STATUS_LINE[code], *lines, b"\r\n", body)))
        cycle.waiting_for_100_continue = False
        cycle.response_started = cycle.response_complete = True
        cycle.message_event.set()
        cycle.on_response()
        return True

    def write(self, scope: Scope, part: bytes) -> bool:
        """Send a part of a started response. Return False and send nothing if sending would block."""
        cycle = self.cycle
        if (
            cycle.scope is not scope
            or self.flow.write_paused
            or cycle.disconnected
            or cycle.response_complete
            or not cycle.chunked_encoding
        ):
            return False
        assert isinstance(self.transport, JoiningTransport)
        self.transport.write_now(b"%x\r\n%b\r\n" % (len(part), part))
        return True

    def replace_header(self, name: bytes) -> None:
        self.cycle.default_headers = [header for header in self.cycle.default_headers if header[0] != name]

    def lose_answer(self) -> None:
        assert isinstance(self.transport, JoiningTransport)
        self.transport.abort_at_flush()

    def on_headers_complete(self) -> None:
        if self._certificate is not None:
            self.scope[CERTIFICATE] = self._certificate  # type: ignore[literal-required]  # our own key
        self.scope["extensions"] = {DIRECT: self}  # type: ignore[dict-item]  # an object, as only this server has it
        super().on_headers_complete()
        if self.parser.should_upgrade():
            self.scope[TAKE_OVER] = partial(self._take_over, self.cycle)  # type: ignore[literal-required]  # our own key

    def data_received(self, data: bytes) -> None:
        if self._received is not None:
            self._received(data)
        else:
            super().data_received(data)

    def eof_received(self) -> bool:  # type: ignore[override]  # uvicorn's never keeps a connection open
        """Write the buffered data before the event loop closes the inner transport, which does not know of it."""
        stays_open = super().eof_received()
        if not stays_open:
            assert isinstance(self.transport, JoiningTransport)
            self.transport.flush()
        return stays_open

    def connection_lost(self, exc: Exception | None) -> None:
        if self._ended is not None:
            self._ended()
        super().connection_lost(exc)

    def _take_over(
        self, cycle: RequestResponseCycle, received: Callable[[bytes], None], ended: Callable[[], None]
    ) -> _Taken:
        self._received, self._ended = received, ended
        cycle.response_started = cycle.response_complete = True
        self._unset_keepalive_if_required()
        if self._raw:
            # Deliver the data in the next turn, because the caller does not have the peer yet.
            self.loop.call_soon(received, bytes(self._raw))
        self._raw = None
        self.flow.resume_reading()
        return _Taken(self.transport, self.flow)


class _Taken:
    def __init__(self, transport: asyncio.Transport, flow: FlowControl) -> None:
        self._transport = transport
        self._flow = flow

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    async def drain(self) -> None:
        await self._flow.drain()

    def full(self) -> bool:
        return self._flow.write_paused

    def close(self) -> None:
        self._transport.close()

    def pause(self, paused: bool) -> None:
        (self._transport.pause_reading if paused else self._transport.resume_reading)()
