"""gRPC servers that run only while a client is connected.

A gRPC server needs much more memory than a socket, and on most of many nodes no client calls it. So it
starts with the first connection, behind a socket that is always open, and stops after the last connection.
"""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

from grpc import aio

from dra_node_agent.tasks import Tasks


class OnDemandServer:
    """Serves on the socket ``path``.

    ``add`` adds the services to the server. ``behind`` is the socket of the real server.
    """

    def __init__(self, path: Path, behind: Path, add: Callable[[aio.Server], None]) -> None:
        self.path = path
        self._behind = behind
        self._add = add
        self._server: aio.Server | None = None
        self._stopping: asyncio.Future[None] | None = None
        self._turn = asyncio.Lock()
        self._door: asyncio.Server | None = None
        self._connections = Tasks()
        self._connected = 0

    async def start(self) -> None:
        """Listen. Raises OSError."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.unlink(missing_ok=True)
        self._door = await asyncio.start_unix_server(self._accept, self.path)

    async def close(self) -> None:
        """Stop listening, and end all calls."""
        if self._door is not None:
            self._door.close()
            self._door = None
        await self._connections.close()
        await self._stop_server()
        self.path.unlink(missing_ok=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.start(self._serve(reader, writer))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connected += 1
        try:
            await self._start_server()
            await self._forward(reader, writer)
        finally:
            self._connected -= 1
            writer.close()
        await self._stop_server()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, requests = await asyncio.open_unix_connection(self._behind)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pump(reader, requests))
                group.create_task(_pump(answers, writer))
        finally:
            requests.close()

    async def _start_server(self) -> None:
        async with self._turn:
            if self._server is not None:
                return
            await self._wait_until_stopped()
            server = aio.server()
            self._add(server)
            server.add_insecure_port(f"unix:{self._behind}")
            await server.start()
            self._server = server

    async def _stop_server(self) -> None:
        async with self._turn:
            if not self._connected and self._server is not None:
                self._stopping = asyncio.ensure_future(self._server.stop(None))
                self._server = None
            await self._wait_until_stopped()

    async def _wait_until_stopped(self) -> None:
        """Wait for the end of the previous server. Cancelling the connection does not cancel the wait."""
        if self._stopping is not None:
            await asyncio.shield(self._stopping)
            self._stopping = None
        if self._server is None:
            self._behind.unlink(missing_ok=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await reader.read(1 << 16):
            writer.write(piece)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.close()
