"""The server side of SPDY/3.1, as far as Kubernetes' clients use it (like moby/spdystream).

Clients open streams with SYN_STREAM, whose headers describe their purpose. Neither side uses flow control
windows. The frames are sent on a connection that was upgraded to SPDY, or on a WebSocket that tunnels it.
"""

import asyncio
import struct
import zlib
from collections.abc import Mapping
from typing import Protocol

# The value of the Upgrade header.
SPDY = "SPDY/3.1"
_VERSION = 3
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY, _HEADERS = 1, 2, 3, 6, 7, 8
_FIN = 1
_REFUSED, _PROTOCOL_ERROR = 3, 1
_PIECE = 1 << 15
# The maximum sizes in bytes of a frame and of a block of headers.
_LONGEST_FRAME = 4 << 20
_LONGEST_HEADERS = 1 << 16
_MOST_STREAMS = 1024
# The maximum number of unread pieces of a stream. Beyond it, the connection is not read.
_MOST_WAITING = 64

# The dictionary of header blocks (SPDY/3, section 2.6.10.1): names with their lengths, then frequent values.
_NAMES = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
_VALUES = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _with_length(text: str) -> bytes:
    data = text.encode("latin-1")
    return struct.pack("!I", len(data)) + data


DICTIONARY = b"".join(_with_length(name.replace("_", " ")) for name in _NAMES.split()) + _VALUES.encode()


class SpdyError(Exception):
    """The received bytes are not SPDY."""


class Carrier(Protocol):
    """The connection that carries the frames."""

    async def receive(self) -> bytes | None:
        """Return the next bytes, or None at the end."""

    async def send(self, message: bytes, /) -> None:
        """Send bytes."""


class Stream:
    """A stream. ``headers`` are keyed by lower-case name."""

    def __init__(self, session: "Session", number: int, headers: Mapping[str, str]) -> None:
        self.number = number
        self.headers = headers
        self._session = session
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue(_MOST_WAITING)
        self._read_all = False
        self._closed = False

    async def read(self) -> bytes:
        """Return the next piece, or an empty one at the end."""
        if self._read_all:
            return b""
        piece = await self._pieces.get()
        self._read_all = not piece
        return piece

    async def write(self, data: bytes) -> None:
        """Send data. No-op once the stream is closed."""
        for start in range(0, len(data), _PIECE):
            if not self._closed:
                await self._session.send_data(self.number, data[start : start + _PIECE])

    async def close(self) -> None:
        """Close this side of the stream."""
        if not self._closed:
            self._closed = True
            await self._session.send_data(self.number, b"", final=True)

    async def take(self, data: bytes, *, final: bool) -> None:
        """Store data received for this stream."""
        if data:
            await self._pieces.put(data)
        if final:
            await self._pieces.put(b"")

    def abandon(self) -> None:
        """Close both directions."""
        self._closed = True
        if self._pieces.full():
            self._pieces.get_nowait()
        self._pieces.put_nowait(b"")


class Session:
    """The streams of one connection. :meth:`run` reads it."""

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier
        self._buffer = bytearray()
        self._streams: dict[int, Stream] = {}
        self._opened: asyncio.Queue[Stream | None] = asyncio.Queue()
        self._pack = zlib.compressobj(9, zlib.DEFLATED, 15, 9, zlib.Z_DEFAULT_STRATEGY, DICTIONARY)
        self._unpack = zlib.decompressobj(15, DICTIONARY)

    async def accept_stream(self) -> Stream | None:
        """Return the next stream that the client opens, or None once the connection has ended."""
        stream = await self._opened.get()
        if stream is None:
            self._opened.put_nowait(None)
        return stream

    async def run(self) -> None:
        """Read frames until the connection ends or an invalid one arrives."""
        try:
            while (data := await self._carrier.receive()) is not None:
                self._buffer += data
                while (found := self._next()) is not None:
                    await self._take(*found)
        except SpdyError:
            await self._control(_GOAWAY, 0, struct.pack("!II", 0, _PROTOCOL_ERROR))
        finally:
            for stream in self._streams.values():
                stream.abandon()
            self._streams.clear()
            self._opened.put_nowait(None)

    async def refuse(self, stream: Stream) -> None:
        """Reject a stream."""
        self._streams.pop(stream.number, None)
        stream.abandon()
        await self._control(_RST_STREAM, 0, struct.pack("!II", stream.number, _REFUSED))

    async def send_data(self, number: int, data: bytes, *, final: bool = False) -> None:
        """Send a data frame on the stream with this number."""
        flags = _FIN if final else 0
        await self._carrier.send(struct.pack("!II", number, flags << 24 | len(data)) + data)

    def _next(self) -> tuple[int, int, bytes] | None:
        """Return the first word, the flags and the rest of the next frame, or None."""
        if len(self._buffer) < 8:
            return None
        first, second = struct.unpack_from("!II", self._buffer)
        size = second & 0xFFFFFF
        if size > _LONGEST_FRAME:
            raise SpdyError("the frame is too long")
        if len(self._buffer) < 8 + size:
            return None
        body = bytes(self._buffer[8 : 8 + size])
        del self._buffer[: 8 + size]
        return first, second >> 24, body

    async def _take(self, first: int, flags: int, body: bytes) -> None:
        if not first & 0x80000000:
            stream = self._streams.get(first)
            if stream is not None:
                await stream.take(body, final=bool(flags & _FIN))
            return
        if first >> 16 & 0x7FFF != _VERSION:
            raise SpdyError("another version")
        kind = first & 0xFFFF
        if kind == _SYN_STREAM:
            await self._open(flags, body)
        elif kind == _PING:
            await self._control(_PING, 0, body)
        elif kind == _RST_STREAM and len(body) >= 4:
            stream = self._streams.pop(struct.unpack_from("!I", body)[0], None)
            if stream is not None:
                stream.abandon()
        elif kind == _HEADERS and len(body) >= 4:
            # The headers are not needed, but the decompressor of later ones has to process them.
            self._headers(body[4:])

    async def _open(self, flags: int, body: bytes) -> None:
        if len(body) < 10:
            raise SpdyError("the frame is too short")
        number = struct.unpack_from("!I", body)[0] & 0x7FFFFFFF
        stream = Stream(self, number, self._headers(body[10:]))
        if number in self._streams or len(self._streams) >= _MOST_STREAMS:
            await self._control(_RST_STREAM, 0, struct.pack("!II", number, _REFUSED))
            return
        self._streams[number] = stream
        if flags & _FIN:
            await stream.take(b"", final=True)
        none = self._pack.compress(struct.pack("!I", 0)) + self._pack.flush(zlib.Z_SYNC_FLUSH)
        await self._control(_SYN_REPLY, 0, struct.pack("!I", number) + none)
        self._opened.put_nowait(stream)

    def forget(self, stream: Stream) -> None:
        """Forget a stream that both sides have closed."""
        self._streams.pop(stream.number, None)
        stream.abandon()

    def _headers(self, block: bytes) -> dict[str, str]:
        try:
            data = self._unpack.decompress(block, _LONGEST_HEADERS)
        except zlib.error as error:
            raise SpdyError(f"the headers cannot be unpacked: {error}") from error
        if self._unpack.unconsumed_tail:
            raise SpdyError("the headers are too long")
        words: list[str] = []
        try:
            (count,) = struct.unpack_from("!I", data)
            offset = 4
            while len(words) < 2 * count:
                (size,) = struct.unpack_from("!I", data, offset)
                words.append(data[offset + 4 : offset + 4 + size].decode("latin-1"))
                offset += 4 + size
        except struct.error as error:
            raise SpdyError("the headers are cut short") from error
        return {
            name.lower(): value.replace("\0", ", ")
            for name, value in zip(words[::2], words[1::2], strict=True)
        }

    async def _control(self, kind: int, flags: int, body: bytes) -> None:
        head = struct.pack("!II", 0x80000000 | _VERSION << 16 | kind, flags << 24 | len(body))
        await self._carrier.send(head + body)
