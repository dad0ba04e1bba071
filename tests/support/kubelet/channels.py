"""A client of exec and attach like kubectl."""

import asyncio
import base64
import json
import os
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

STDIN, STDOUT, STDERR, ERROR, RESIZE, END = 0, 1, 2, 3, 4, 255


class Answered(Exception):
    """The server responded instead of opening a WebSocket."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code, self.text = code, text


class Channels:
    """An open session."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, protocol: str) -> None:
        self.protocol = protocol
        self._reader, self._writer = reader, writer

    async def send(self, channel: int, data: bytes, *, opcode: int = 2, final: bool = True) -> None:
        """Send a message, or the first of its fragments."""
        payload = bytes((channel,)) + data if opcode else data
        mask = os.urandom(4)
        size = len(payload)
        head = bytes(((0x80 if final else 0) | opcode,))
        head += bytes((0x80 | size,)) if size < 126 else struct.pack("!BH", 0x80 | 126, size)
        masked = bytes(byte ^ mask[place % 4] for place, byte in enumerate(payload))
        self._writer.write(head + mask + masked)
        await self._writer.drain()

    async def frame(self) -> tuple[int, bytes]:
        """Return the next frame: opcode and payload."""
        first, second = await self._reader.readexactly(2)
        size = second & 0x7F
        if size == 126:
            (size,) = struct.unpack("!H", await self._reader.readexactly(2))
        elif size == 127:
            (size,) = struct.unpack("!Q", await self._reader.readexactly(8))
        return first & 0x0F, await self._reader.readexactly(size)

    async def read(self) -> tuple[int, bytes]:
        """Return the next message: channel and data."""
        opcode, payload = await self.frame()
        assert opcode == 2
        return payload[0], payload[1:]

    async def read_until(self, text: bytes) -> bytes:
        """Return the output up to one that ends with ``text``."""
        seen = b""
        while not seen.endswith(text):
            seen += (await self.read())[1]
        return seen

    async def result(self) -> tuple[dict[int, bytes], dict[str, Any]]:
        """Return all output by channel, and the Status."""
        output: dict[int, bytes] = {}
        while True:
            channel, data = await self.read()
            if channel == ERROR and data:
                return output, json.loads(data)
            if data:
                output[channel] = output.get(channel, b"") + data


@asynccontextmanager
async def session(
    port: int, path: str, protocol: str = "v5.channel.k8s.io", **headers: str
) -> AsyncIterator[Channels]:
    """Open a session. Raise Answered if the server refuses."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        sent = {
            "Host": "localhost",
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
            "Sec-WebSocket-Protocol": protocol,
            **headers,
        }
        lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items()), "", ""]
        writer.write("\r\n".join(lines).encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        code = int(head.split(" ")[1])
        fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
        if code != 101:
            body = await reader.readexactly(int(fields["content-length"]))
            raise Answered(code, body.decode())
        yield Channels(reader, writer, fields.get("sec-websocket-protocol", ""))
    finally:
        writer.close()
