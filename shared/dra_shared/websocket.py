"""Frames of WebSocket (RFC 6455, section 5), for both ends. The caller sends and receives them."""

import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
#: In bytes, of one frame's payload.
LONGEST_FRAME = 32 << 20
_LONGEST_CONTROL = 125
_PROTOCOL_ERROR = 1002


class FrameError(Exception):
    """The received bytes are not a valid frame. ``code`` is the status to close the connection with."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Frame(NamedTuple):
    """One frame. ``final`` is false if more frames of the same message follow."""

    final: bool
    opcode: int
    payload: bytes


class Frames:
    """Parses frames from received bytes. ``masked``: the other end masks its frames, as clients do."""

    def __init__(self, *, masked: bool) -> None:
        self._masked = masked
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that are now complete.

        Raises:
            FrameError: a frame is malformed or too long.
        """
        self._buffer += data
        while (found := self._next()) is not None:
            yield found

    def _next(self) -> Frame | None:
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
        longest = _LONGEST_CONTROL if data[0] & 0x08 else LONGEST_FRAME
        if bool(data[1] & 0x80) is not self._masked or size > longest:
            raise FrameError(_PROTOCOL_ERROR)
        start = offset + 4 if self._masked else offset
        if len(data) < start + size:
            return None
        payload = bytes(data[start : start + size])
        if self._masked:
            payload = _mask(payload, bytes(data[offset:start]))
        found = Frame(bool(data[0] & 0x80), data[0] & 0x0F, payload)
        del data[: start + size]
        return found


def frame(opcode: int, payload: bytes, *, masked: bool = False) -> bytes:
    """Return a whole message as one frame. Clients must set ``masked``."""
    size, flag = len(payload), 0x80 if masked else 0
    if size < 126:
        head = bytes((0x80 | opcode, flag | size))
    elif size < 1 << 16:
        head = struct.pack("!BBH", 0x80 | opcode, flag | 126, size)
    else:
        head = struct.pack("!BBQ", 0x80 | opcode, flag | 127, size)
    if not masked:
        return head + payload
    key = os.urandom(4)
    return head + key + _mask(payload, key)


def _mask(payload: bytes, mask: bytes) -> bytes:
    size = len(payload)
    pattern = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(pattern, "big")).to_bytes(size, "big")
