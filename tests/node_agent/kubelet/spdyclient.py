"""A SPDY client like kubectl."""

import asyncio
import struct
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from dra_node_agent.kubelet.spdy import DICTIONARY

from tests.support.kubelet.channels import Answered

Send = Callable[[bytes], Awaitable[None]]
Receive = Callable[[], Awaitable[bytes]]


class Client:
    """Streams by number. :meth:`frame` reads the next frame of any stream."""

    def __init__(self, send: Send, receive: Receive) -> None:
        self.send, self._receive = send, receive
        self._buffer = b""
        self._pack = zlib.compressobj(9, zlib.DEFLATED, 15, 9, zlib.Z_DEFAULT_STRATEGY, DICTIONARY)
        self._unpack = zlib.decompressobj(15, DICTIONARY)
        self._number = -1

    async def open(self, final: bool = False, **headers: str) -> int:
        """Open a stream. Return its number."""
        self._number += 2
        words = b"".join(
            struct.pack("!I", len(text)) + text.encode()
            for text in (word for pair in headers.items() for word in pair)
        )
        block = self._pack.compress(struct.pack("!I", len(headers)) + words)
        body = struct.pack("!IIH", self._number, 0, 0) + block + self._pack.flush(zlib.Z_SYNC_FLUSH)
        await self.control(1, body, flags=int(final))
        return self._number

    async def control(self, kind: int, body: bytes, flags: int = 0) -> None:
        """Send a control frame."""
        await self.send(struct.pack("!II", 0x80030000 | kind, flags << 24 | len(body)) + body)

    async def data(self, number: int, data: bytes, final: bool = False) -> None:
        """Send data on a stream."""
        await self.send(struct.pack("!II", number, int(final) << 24 | len(data)) + data)

    async def frame(self) -> tuple[int, int, bytes]:
        """Return the stream's number (or the negated kind of a control frame), the flags and the rest."""
        first, second = struct.unpack("!II", await self._exactly(8))
        body = await self._exactly(second & 0xFFFFFF)
        return (-(first & 0xFFFF) if first >> 31 else first), second >> 24, body

    async def reply(self) -> int:
        """Return the number of the stream that the next frame replies to."""
        kind, _, body = await self.frame()
        assert kind == -2, (kind, body)
        assert self._unpack.decompress(body[4:]) == struct.pack("!I", 0)
        return int(struct.unpack_from("!I", body)[0])

    async def everything(self, *numbers: int) -> dict[int, bytes]:
        """Return all data of the streams, once each has ended."""
        found = dict.fromkeys(numbers, b"")
        open_ones = set(numbers)
        while open_ones:
            number, flags, body = await self.frame()
            if number in found:
                found[number] += body
                if flags & 1:
                    open_ones.discard(number)
        return found

    async def _exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._buffer += await self._receive()
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken


@asynccontextmanager
async def upgrade(port: int, path: str, *versions: str) -> AsyncIterator[Client]:
    """Connect, and upgrade to SPDY. Raise Answered if the server refuses."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        lines = [f"X-Stream-Protocol-Version: {version}" for version in versions]
        head = [
            f"POST {path} HTTP/1.1",
            "Host: 127.0.0.1",
            "Connection: Upgrade",
            "Upgrade: SPDY/3.1",
            *lines,
        ]
        writer.write("\r\n".join([*head, "Content-Length: 0", "", ""]).encode())
        answer = (await reader.readuntil(b"\r\n\r\n")).decode()
        if not answer.startswith("HTTP/1.1 101 "):
            raise Answered(int(answer.split()[1]), (await reader.read()).decode())
        assert f"x-stream-protocol-version: {versions[0]}" in answer

        async def send(data: bytes) -> None:
            writer.write(data)
            await writer.drain()

        async def receive() -> bytes:
            data = await reader.read(1 << 16)
            if not data:
                raise EOFError
            return data

        yield Client(send, receive)
    finally:
        writer.close()
