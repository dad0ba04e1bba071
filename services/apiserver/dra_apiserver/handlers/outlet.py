"""Send a watch's events: as a chunked response, or through a WebSocket with one message for each event.

Mirrors ``HandleHTTP`` and ``HandleWS`` of apiserver's ``endpoints/handlers/watch.go``. The handshake is that
of ``golang.org/x/net/websocket``, which requires an origin. Browsers open few HTTP connections to one server,
but hundreds of WebSockets.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import re
import zlib
from typing import Protocol

from dra_shared.websocket import CLOSE, PING, PONG, TEXT, FrameError, Frames, frame

from dra_apiserver import cbor
from dra_apiserver.connection import TAKE_OVER, Peer, TakeOver
from dra_apiserver.http import JSON, Request
from dra_apiserver.negotiation import Accepted

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_VERSION = "13"
_LEVEL = 1
_NORMAL = b"\x03\xe8"
_UPGRADE = re.compile(r"(^|.*,\s*)upgrade($|\s*,)", re.IGNORECASE)


class Outlet(Protocol):
    """A stream of events to one client."""

    async def start(self) -> bool:
        """Begin the stream. Return False if the client was rejected."""
        ...

    async def send(self, chunk: bytes) -> None:
        """Send whole lines. Wait while the client's buffer is full."""
        ...

    def write(self, chunk: bytes) -> bool:
        """Send whole lines at once. Return False, with nothing sent, if that would have to wait."""
        ...

    async def end(self) -> None:
        """End the stream."""
        ...

    async def wait_until_gone(self) -> None:
        """Wait until the client disconnects."""
        ...


def outlet(request: Request, accepted: Accepted, *, compressed: bool = False) -> Outlet:
    """Return the outlet that the request asks for. With ``compressed``, a client may get parts in gzip."""
    upgrades = request.header(b"upgrade").lower() == "websocket"
    if upgrades and _UPGRADE.match(request.header(b"connection")) and TAKE_OVER in request.scope:
        return _WebSocket(request)
    if compressed and request.accepts_gzip():
        return _Compressed(request, accepted)
    return _Parts(request, accepted)


class _Parts:
    def __init__(self, request: Request, accepted: Accepted) -> None:
        self._request = request
        self._media_type = JSON
        if accepted.protobuf:
            self._media_type = f"{accepted.media_type};stream=watch"
        elif accepted.cbor:
            self._media_type = cbor.SEQUENCE
        self._headers: dict[str, str] = {}
        self.send = request.stream
        self.write = request.write
        self.wait_until_gone = request.wait_until_gone

    async def start(self) -> bool:
        await self._request.start_stream(self._media_type, self._headers)
        await self._request.stream(b"")
        return True

    async def end(self) -> None:
        await self._request.stream(b"", more=False)


class _Compressed(_Parts):
    """Sends each part as a gzip member of its own, so that the client can read it at once (`perFlushGzipWriter`)."""

    def __init__(self, request: Request, accepted: Accepted) -> None:
        super().__init__(request, accepted)
        self._headers = {"content-encoding": "gzip", "vary": "Accept-Encoding"}
        self.send = self._send_compressed
        self.write = self._write_compressed

    async def _send_compressed(self, chunk: bytes, more: bool = True) -> None:
        await self._request.stream(_compress(chunk), more)

    def _write_compressed(self, chunk: bytes) -> bool:
        return self._request.write(_compress(chunk))


def _compress(chunk: bytes) -> bytes:
    """Return a gzip member whose last block is empty.

    Without it, Go's reader would wait for the next member before it returns the data.
    """
    member = zlib.compressobj(_LEVEL, wbits=zlib.MAX_WBITS + 16)
    return member.compress(chunk) + member.flush(zlib.Z_SYNC_FLUSH) + member.flush()


class _WebSocket:
    def __init__(self, request: Request) -> None:
        self._request = request
        self._frames = Frames(masked=True)
        self._gone = asyncio.Event()
        self._peer: Peer | None = None

    async def start(self) -> bool:
        code, text = _refusal(self._request)
        if code:
            await self._request.respond(code, text.encode(), "text/plain; charset=utf-8")
            return False
        take_over: TakeOver = self._request.scope[TAKE_OVER]
        self._peer = take_over(self._receive, self._gone.set)
        self._request.code = 101
        key = self._request.header(b"sec-websocket-key").strip().encode()
        accept = base64.b64encode(hashlib.sha1(key + _GUID).digest())
        head = (b"HTTP/1.1 101 Switching Protocols", b"Upgrade: websocket", b"Connection: Upgrade")
        self._peer.write(b"\r\n".join((*head, b"Sec-WebSocket-Accept: " + accept, b"", b"")))
        return True

    async def send(self, chunk: bytes) -> None:
        assert self._peer is not None
        await self._peer.drain()
        self._peer.write(_messages(chunk))

    def write(self, chunk: bytes) -> bool:
        if self._peer is None or self._peer.full():
            return False
        self._peer.write(_messages(chunk))
        return True

    async def end(self) -> None:
        if self._peer is not None:
            self._peer.write(frame(CLOSE, _NORMAL))
            self._peer.close()

    async def wait_until_gone(self) -> None:
        await self._gone.wait()

    def _receive(self, data: bytes) -> None:
        # Only control frames of the client matter here.
        try:
            for one in self._frames.feed(data):
                if one.opcode == PING and self._peer is not None:
                    self._peer.write(frame(PONG, one.payload))
                elif one.opcode == CLOSE:
                    self._gone.set()
        except FrameError:
            self._gone.set()


def _refusal(request: Request) -> tuple[int, str]:
    """Return the status code and text for rejecting the WebSocket handshake; code 0 if the handshake is valid."""
    if request.header(b"sec-websocket-version") != _VERSION:
        return 400, "missing or bad WebSocket Version"
    try:
        key = base64.b64decode(request.header(b"sec-websocket-key"), validate=True)
    except binascii.Error:
        key = b""
    if len(key) != 16:
        return 400, "mismatch challenge/response"
    return (0, "") if request.header(b"origin") else (403, "")


def _messages(chunk: bytes) -> bytes:
    """Return a message for each line, because Go's encoder ends each event with a newline."""
    return b"".join(frame(TEXT, line) for line in chunk.splitlines(keepends=True))
