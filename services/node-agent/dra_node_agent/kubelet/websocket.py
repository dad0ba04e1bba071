"""The server's side of WebSocket (RFC 6455), as much of it as exec and attach need."""

import asyncio
import base64
import hashlib
import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import parse_qsl, unquote, urlsplit

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0, 1, 2, 8, 9, 10
_LONGEST_MESSAGE = 32 << 20
# Messages that the handler has not taken yet; above this the client is not read from.
_MOST_WAITING = 64
_REASONS = {400: "Bad Request", 403: "Forbidden", 404: "Not Found", 500: "Internal Server Error"}

Handler = Callable[["WebSocket"], Awaitable[None]]


class Refused(Exception):
    """The request gets an HTTP answer instead of a WebSocket."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Upgrade:
    """The request that asked for a WebSocket."""

    path: str
    query: Sequence[tuple[str, str]]
    headers: Mapping[str, str]

    @property
    def protocols(self) -> Sequence[str]:
        """The subprotocols that the client offers, the preferred first."""
        return [name.strip() for name in self.headers.get("sec-websocket-protocol", "").split(",") if name]


class WebSocket(asyncio.Protocol):
    """A connection that uvicorn hands over when a client asks for an upgrade; ``handler`` runs until it ends.

    The handler reads :attr:`request`, calls :meth:`accept`, and then :meth:`receive` and :meth:`send`; it raises
    :class:`Refused` before it has accepted where it answers otherwise.
    """

    def __init__(self, handler: Handler, server_state: Any) -> None:
        self.request = Upgrade("", (), {})
        self._handler = handler
        self._state = server_state
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._accepted = False
        self._fragments = bytearray()
        self._messages: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._writable = asyncio.Event()
        self._writable.set()
        self._task: asyncio.Task[None] | None = None

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
        """The client will send no more; what is under way is ended with it."""

    def shutdown(self) -> None:
        """The server stops."""
        if self._task is not None:
            self._task.cancel()
        if self._transport is not None:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._task is None:
            head, found, rest = bytes(self._buffer).partition(b"\r\n\r\n")
            if found:
                self.request = _parse(head)
                self._buffer = bytearray(rest)
                self._task = asyncio.get_running_loop().create_task(self._run())
                self._state.tasks.add(self._task)
                self._task.add_done_callback(self._state.tasks.discard)
            return
        if self._accepted:
            self._take_frames()

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
            if self._accepted and not transport.is_closing():
                transport.write(_frame(_CLOSE, struct.pack("!H", 1000)))
        finally:
            transport.close()

    def accept(self, protocol: str) -> None:
        """Answer the upgrade; from now on messages flow.

        Raises:
            Refused: it is no proper request for a WebSocket.
        """
        key = self.request.headers.get("sec-websocket-key", "")
        if self.request.headers.get("sec-websocket-version") != "13" or not key:
            raise Refused(400, "only version 13 of WebSocket is served")
        token = base64.b64encode(hashlib.sha1(key.encode() + _GUID).digest()).decode()
        head = "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
        head += f"sec-websocket-accept: {token}\r\n"
        if protocol:
            head += f"sec-websocket-protocol: {protocol}\r\n"
        assert self._transport is not None
        self._transport.write(f"{head}\r\n".encode())
        self._accepted = True
        self._take_frames()

    async def receive(self) -> bytes | None:
        """The next message; None once the client has gone."""
        message = await self._messages.get()
        if message is None:
            self._messages.put_nowait(None)
        elif self._transport is not None and self._messages.qsize() < _MOST_WAITING:
            self._transport.resume_reading()
        return message

    async def send(self, message: bytes) -> None:
        """Send a binary message, once the client has taken what came before."""
        await self._writable.wait()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(_frame(_BINARY, message))

    def _take_frames(self) -> None:
        while (frame := self._next_frame()) is not None:
            final, opcode, payload = frame
            if opcode in (_CONTINUATION, _TEXT, _BINARY):
                self._fragments += payload
                if len(self._fragments) > _LONGEST_MESSAGE:
                    self._fail(1009)
                    return
                if final:
                    self._messages.put_nowait(bytes(self._fragments))
                    self._fragments.clear()
            elif opcode == _PING and self._transport is not None:
                self._transport.write(_frame(_PONG, payload))
            elif opcode == _CLOSE:
                self._messages.put_nowait(None)
        if self._messages.qsize() > _MOST_WAITING and self._transport is not None:
            self._transport.pause_reading()

    def _next_frame(self) -> tuple[bool, int, bytes] | None:
        data = self._buffer
        if len(data) < 2:
            return None
        size, offset = data[1] & 0x7F, 2
        if size >= 126:
            form = "!H" if size == 126 else "!Q"
            if len(data) < offset + struct.calcsize(form):
                return None
            (size,) = struct.unpack_from(form, data, offset)
            offset += struct.calcsize(form)
        if not data[1] & 0x80 or size > _LONGEST_MESSAGE:
            self._fail(1002)
            return None
        if len(data) < offset + 4 + size:
            return None
        mask = bytes(data[offset : offset + 4])
        offset += 4
        payload = _unmasked(bytes(data[offset : offset + size]), mask)
        final, opcode = bool(data[0] & 0x80), data[0] & 0x0F
        del data[: offset + size]
        return final, opcode, payload

    def _fail(self, code: int) -> None:
        self._buffer.clear()
        self._messages.put_nowait(None)
        if self._transport is not None:
            self._transport.write(_frame(_CLOSE, struct.pack("!H", code)))
            self._transport.close()


def _parse(head: bytes) -> Upgrade:
    first, *lines = head.decode("latin-1").split("\r\n")
    target = first.split(" ")[1]
    headers = {name.strip().lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
    url = urlsplit(target)
    return Upgrade(unquote(url.path), parse_qsl(url.query, keep_blank_values=True), headers)


def _frame(opcode: int, payload: bytes) -> bytes:
    size = len(payload)
    if size < 126:
        head = bytes((0x80 | opcode, size))
    elif size < 1 << 16:
        head = struct.pack("!BBH", 0x80 | opcode, 126, size)
    else:
        head = struct.pack("!BBQ", 0x80 | opcode, 127, size)
    return head + payload


def _unmasked(payload: bytes, mask: bytes) -> bytes:
    size = len(payload)
    pattern = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(pattern, "big")).to_bytes(size, "big")
