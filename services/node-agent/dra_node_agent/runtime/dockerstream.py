"""Streams of an engine, Docker or Podman: hijacked connections to processes, and blocking reads of docker-py."""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import AsyncIterator
from typing import Any

from dra_node_agent.runtime.base import Streams

_HEAD = struct.Struct("!BxxxL")
_STDERR = 2
_PIECE = 1 << 16


async def pump(connection: Any, streams: Streams, *, tty: bool) -> None:
    """Carry input and output between ``streams`` and a connection of the engine until the process has ended."""
    raw: socket.socket = getattr(connection, "_sock", connection)
    raw.setblocking(False)
    sending = asyncio.get_running_loop().create_task(_send(raw, streams))
    try:
        await (_raw(raw, streams) if tty else _frames(raw, streams))
    finally:
        sending.cancel()
        with contextlib.suppress(asyncio.CancelledError, OSError):
            await sending
        connection.close()
        raw.close()


async def pieces(source: Any) -> AsyncIterator[bytes]:
    """Yield the pieces of a blocking stream. A thread reads the stream. The thread ends with this generator."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes | None] = asyncio.Queue()

    def read() -> None:
        with contextlib.suppress(Exception):
            for piece in source:
                loop.call_soon_threadsafe(queue.put_nowait, piece)
        # The loop may be closed by now.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(queue.put_nowait, None)

    threading.Thread(target=read, daemon=True, name="container log").start()
    try:
        while (piece := await queue.get()) is not None:
            yield piece
    finally:
        with contextlib.suppress(Exception):
            source.close()


async def _send(raw: socket.socket, streams: Streams) -> None:
    loop = asyncio.get_running_loop()
    if not streams.stdin:
        return
    while data := await streams.read():
        await loop.sock_sendall(raw, data)
    raw.shutdown(socket.SHUT_WR)


async def _raw(raw: socket.socket, streams: Streams) -> None:
    loop = asyncio.get_running_loop()
    with contextlib.suppress(ConnectionError):
        while data := await loop.sock_recv(raw, _PIECE):
            await streams.write(data)


async def _frames(raw: socket.socket, streams: Streams) -> None:
    """Pass on standard output and standard error.

    Without a terminal they share the connection, in frames that name the stream.
    """
    loop = asyncio.get_running_loop()
    buffer = bytearray()
    with contextlib.suppress(ConnectionError):
        while data := await loop.sock_recv(raw, _PIECE):
            buffer += data
            while len(buffer) >= _HEAD.size:
                stream, size = _HEAD.unpack_from(buffer)
                if len(buffer) < _HEAD.size + size:
                    break
                await streams.write(bytes(buffer[_HEAD.size : _HEAD.size + size]), stderr=stream == _STDERR)
                del buffer[: _HEAD.size + size]
