"""Relays between clients and servers: a load balancer, and a connection that can be interrupted."""

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_BYTES = 1 << 16


class Gate:
    """A gate for data between two connections. While it is shut, data waits, as on an interrupted network."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()

    def shut(self) -> None:
        self._open.clear()

    def open(self) -> None:
        self._open.set()

    async def wait_until_open(self) -> None:
        """Return once the gate is open."""
        await self._open.wait()


class Relay:
    """Forwards each connection that ``listen`` accepts to one that ``connect`` opens."""

    def __init__(self, connect: Callable[[], Awaitable[_Streams]], gate: Gate | None = None) -> None:
        self._connect = connect
        self._gate = gate or Gate()
        self._server: asyncio.Server | None = None

    async def listen_at(self, path: Path) -> None:
        """Listen on a unix socket."""
        self._server = await asyncio.start_unix_server(self._accept, path)

    async def listen(self) -> int:
        """Listen on a port of loopback. Return the port."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def close(self) -> None:
        """Stop accepting connections."""
        if self._server is not None:
            self._server.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._gate.wait_until_open()
            behind, onward = await self._connect()
        except OSError:
            writer.close()
            return
        pumps = [asyncio.create_task(self._pump(*ends)) for ends in ((reader, onward), (behind, writer))]
        with contextlib.suppress(asyncio.CancelledError):
            # When one direction ends, the other one is closed too, as when a server dies.
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for pump in pumps:
            pump.cancel()
        writer.close()
        onward.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while piece := await reader.read(_BYTES):
                await self._gate.wait_until_open()
                writer.write(piece)
                await writer.drain()


def balancer(ports: Sequence[int]) -> Relay:
    """Run one port for several servers. Each connection goes to the next server that accepts it."""
    turns = itertools.count()

    async def connect() -> _Streams:
        first = next(turns)
        for step in range(len(ports)):
            with contextlib.suppress(OSError):
                return await asyncio.open_connection("127.0.0.1", ports[(first + step) % len(ports)])
        raise ConnectionRefusedError

    return Relay(connect)
