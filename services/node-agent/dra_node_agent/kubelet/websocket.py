"""The server side of WebSocket (RFC 6455), as far as streams need it, and of other upgraded connections."""

import asyncio
import base64
import hashlib
import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from dra_shared.clientcertificate import ClientCertificate, client_certificate
from dra_shared.websocket import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, FrameError, Frames, frame

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_LONGEST_MESSAGE = 32 << 20
# The maximum size of the request, including everything received before the response.
_LONGEST_REQUEST = 2 << 20
# The maximum number of messages that the handler has not read. Beyond it, the client is not read from.
_MOST_WAITING = 64
_REASONS = {400: "Bad Request", 403: "Forbidden", 404: "Not Found", 500: "Internal Server Error"}

Handler = Callable[["WebSocket"], Awaitable[None]]


class Refused(Exception):
    """The request gets an HTTP response instead of a WebSocket."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Upgrade:
    """The request for the WebSocket."""

    path: str
    query: Sequence[tuple[str, str]]
    headers: Mapping[str, str]

    @property
    def protocols(self) -> Sequence[str]:
        """The subprotocols that the client offers, the preferred one first."""
        return [name.strip() for name in self.headers.get("sec-websocket-protocol", "").split(",") if name]


class WebSocket(asyncio.Protocol):
    """A connection that uvicorn hands over for an upgrade. ``handler`` runs until it ends.

    The handler reads :attr:`request`, calls :meth:`accept`, and then :meth:`receive` and :meth:`send`. To
    respond differently, it raises :class:`Refused` before it accepts.
    """

    def __init__(self, handler: Handler, server_state: Any) -> None:
        self.request = Upgrade("", (), {})
        self._handler = handler
        self._state = server_state
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._accepted = False
        self._frames: Frames | None = None
        self._fragments = bytearray()
        self._messages: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._writable = asyncio.Event()
        self._writable.set()
        self._task: asyncio.Task[None] | None = None

    @property
    def certificate(self) -> ClientCertificate | None:
        """The identity in the client's certificate, or None."""
        return None if self._transport is None else client_certificate(self._transport)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._state.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._state.connections.discard(self)
        self._writable.set()
        self._messages.put_nowait(None)
        if self._task is not None and not self._accepted:
            self._task.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def eof_received(self) -> None:
        """Close the connection, because the client will send no more."""

    def shutdown(self) -> None:
        """End the connection, because the server stops."""
        if self._task is not None:
            self._task.cancel()
        if self._transport is not None:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        if self._task is None:
            self._buffer += data
            head, found, rest = bytes(self._buffer).partition(b"\r\n\r\n")
            if found:
                self.request = _parse(head)
                self._buffer = bytearray(rest)
                self._task = asyncio.get_running_loop().create_task(self._run())
                self._state.tasks.add(self._task)
                self._task.add_done_callback(self._state.tasks.discard)
        elif self._accepted:
            self._take(data)
        else:
            self._buffer += data
        if len(self._buffer) > _LONGEST_REQUEST:
            self._fail(1009)

    async def _run(self) -> None:
        transport = self._transport
        assert transport is not None
        try:
            await self._handler(self)
        except Refused as error:
            body = str(error).encode()
            transport.write(
                f"HTTP/1.1 {error.code} {_REASONS.get(error.code, 'Error')}\r\ncontent-type: text/plain;"
                f" charset=utf-8\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n".encode()
                + body
            )
        else:
            if self._frames is not None and not transport.is_closing():
                transport.write(frame(CLOSE, struct.pack("!H", 1000)))
        finally:
            transport.close()

    def accept(self, protocol: str) -> None:
        """Accept the upgrade. From now on messages can be exchanged.

        Raises:
            Refused: it is not a valid request for a WebSocket.
        """
        key = self.request.headers.get("sec-websocket-key", "")
        if self.request.headers.get("sec-websocket-version") != "13" or not key:
            raise Refused(400, "only version 13 of WebSocket is served")
        token = base64.b64encode(hashlib.sha1(key.encode() + _GUID).digest()).decode()
        headers = {"sec-websocket-accept": token} | ({"sec-websocket-protocol": protocol} if protocol else {})
        self._frames = Frames(masked=True)
        self.switch("websocket", headers)

    def switch(self, upgrade: str, headers: Mapping[str, str]) -> None:
        """Accept an upgrade to another protocol. From now on messages are pieces of bytes without frames."""
        lines = [f"upgrade: {upgrade}", "connection: Upgrade"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        head = "\r\n".join(("HTTP/1.1 101 Switching Protocols", *lines, "", ""))
        assert self._transport is not None
        self._transport.write(head.encode())
        self._accepted = True
        held, self._buffer = bytes(self._buffer), bytearray()
        if held:
            self._take(held)

    async def receive(self) -> bytes | None:
        """Return the next message, or None once the client has disconnected."""
        message = await self._messages.get()
        if message is None:
            self._messages.put_nowait(None)
        elif self._transport is not None and self._messages.qsize() < _MOST_WAITING:
            self._transport.resume_reading()
        return message

    async def send(self, message: bytes) -> None:
        """Send a message after the client has accepted the previous ones."""
        await self._writable.wait()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(message if self._frames is None else frame(BINARY, message))

    def _take(self, data: bytes) -> None:
        if self._frames is None:
            self._messages.put_nowait(data)
        else:
            try:
                for found in self._frames.feed(data):
                    self._take_frame(*found)
            except FrameError as error:
                self._fail(error.code)
                return
        if self._messages.qsize() > _MOST_WAITING and self._transport is not None:
            self._transport.pause_reading()

    def _take_frame(self, final: bool, opcode: int, payload: bytes) -> None:
        if opcode in (CONTINUATION, TEXT, BINARY):
            self._fragments += payload
            if len(self._fragments) > _LONGEST_MESSAGE:
                raise FrameError(1009)
            if final:
                self._messages.put_nowait(bytes(self._fragments))
                self._fragments.clear()
        elif opcode == PING and self._transport is not None:
            # Do not answer a client that does not read its responses.
            if self._writable.is_set():
                self._transport.write(frame(PONG, payload))
        elif opcode == CLOSE:
            self._messages.put_nowait(None)

    def _fail(self, code: int) -> None:
        self._messages.put_nowait(None)
        if self._transport is not None:
            self._transport.write(frame(CLOSE, struct.pack("!H", code)))
            self._transport.close()


def _parse(head: bytes) -> Upgrade:
    first, *lines = head.decode("latin-1").split("\r\n")
    target = first.split(" ")[1]
    headers: dict[str, str] = {}
    for name, _, value in (line.partition(":") for line in lines):
        key = name.strip().lower()
        headers[key] = f"{headers[key]}, {value.strip()}" if key in headers else value.strip()
    url = urlsplit(target)
    return Upgrade(unquote(url.path), parse_qsl(url.query, keep_blank_values=True), headers)
