"""The TCP ports of a simulated pod. Connections are pairs of sockets in this process, not ports of the host."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterator

from dra_node_agent.runtime.base import RuntimeFailure
from dra_node_agent.tasks import Tasks

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

_MOST_CONNECTIONS = 256


class PodPorts:
    """The ports of one pod on which something listens."""

    def __init__(self) -> None:
        self._listening: dict[int, tuple[Serve, Tasks]] = {}
        self._connections = 0

    @contextlib.contextmanager
    def listen(self, port: int, serve: Serve) -> Iterator[None]:
        """Run `serve` for each connection to the port, as `asyncio.start_server` does, and end them with the context.

        Raises:
            OSError: the port is in use, or is not valid.
        """
        if not 0 < port < 1 << 16:
            raise OSError("Invalid argument")
        if port in self._listening:
            raise OSError("Address already in use")
        tasks = Tasks()
        self._listening[port] = serve, tasks
        try:
            yield
        finally:
            del self._listening[port]
            tasks.cancel()

    async def connect(self, port: int) -> Connection:
        """Connect to the port.

        Raises:
            RuntimeFailure: nothing listens on the port, or it has too many connections.
        """
        if port not in self._listening or self._connections >= _MOST_CONNECTIONS:
            raise RuntimeFailure("ConnectionRefused", refusal(port))
        serve, tasks = self._listening[port]
        ours, theirs = socket.socketpair()
        tasks.start(self._serve(serve, theirs))
        return await asyncio.open_connection(sock=ours)

    async def _serve(self, serve: Serve, end: socket.socket) -> None:
        self._connections += 1
        reader, writer = await asyncio.open_connection(sock=end)
        try:
            await serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._connections -= 1
            writer.close()


def refusal(port: int) -> str:
    """Return the message of a container runtime for a port on which nothing listens."""
    return (
        f"failed to connect to localhost:{port} inside namespace: IPv4: dial tcp4 127.0.0.1:{port}: connect: connection"
        f" refused, IPv6: dial tcp6 [::1]:{port}: connect: connection refused"
    )
