"""WebSocket connections, frame by frame."""

import asyncio
import struct
from types import SimpleNamespace

import pytest
from dra_node_agent.kubelet.websocket import WebSocket

UPGRADE = b"GET /exec HTTP/1.1\r\nsec-websocket-key: x\r\nsec-websocket-version: 13\r\n\r\n"
PING, TEXT = 9, 1


class Wire(asyncio.Transport):
    """The client's end. It reads nothing until a test asks for it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


def frame(opcode: int, size: int) -> bytes:
    lengths = bytes((0x80 | size,)) if size < 126 else struct.pack("!BH", 0x80 | 126, size)
    return bytes((0x80 | opcode,)) + lengths + bytes(4) + b"x" * size


async def _accept() -> tuple[WebSocket, Wire]:
    accepted = asyncio.Event()

    async def handler(made: WebSocket) -> None:
        made.accept("")
        accepted.set()
        while await made.receive() is not None:
            pass

    websocket, wire = WebSocket(handler, SimpleNamespace(connections=set(), tasks=set())), Wire()
    websocket.connection_made(wire)
    websocket.data_received(UPGRADE)
    await accepted.wait()
    wire.written.clear()
    return websocket, wire


async def test_pings_are_answered_while_the_client_reads() -> None:
    websocket, wire = await _accept()
    websocket.data_received(frame(PING, 3))
    assert bytes(wire.written) == b"\x8a\x03xxx"
    websocket.pause_writing()
    for _ in range(1000):
        websocket.data_received(frame(PING, 125))
    assert len(wire.written) == 5
    websocket.resume_writing()
    websocket.data_received(frame(PING, 1))
    assert bytes(wire.written[5:]) == b"\x8a\x01x"


@pytest.mark.parametrize(
    ("opcode", "size", "closed"), [(PING, 125, False), (PING, 126, True), (TEXT, 126, False)]
)
async def test_long_control_frames_close_the_connection(opcode: int, size: int, closed: bool) -> None:
    websocket, wire = await _accept()
    websocket.data_received(frame(opcode, size))
    assert wire.closed == closed


async def test_the_connection_is_closed_if_a_request_has_no_end() -> None:
    async def handler(_: WebSocket) -> None: ...

    websocket, wire = WebSocket(handler, SimpleNamespace(connections=set(), tasks=set())), Wire()
    websocket.connection_made(wire)
    for _ in range(40):
        if not wire.closed:
            websocket.data_received(b"x" * (1 << 16))
    assert wire.closed
