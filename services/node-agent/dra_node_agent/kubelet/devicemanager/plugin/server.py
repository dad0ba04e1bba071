"""``device-plugins/kubelet.sock``, where plugins register.

Mirrors pkg/kubelet/cm/devicemanager/plugin/v1beta1/{server,handler}.go. The kubelet keeps one client for
each resource. As upstream, a second registration leaves the first plugin's stream running: its lists still
count, and its end disconnects the second.
"""

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc
from dra_driverkit.proto import deviceplugin_v1beta1_pb2 as pb
from dra_driverkit.proto import rpc
from dra_shared.clock import Clock
from dra_shared.log import logger
from dra_shared.names import is_extended_resource_name
from dra_shared.quoting import go_quote
from grpc import aio

from dra_node_agent.kubelet.devicemanager.checkpoint import CHECKPOINT_FILE
from dra_node_agent.kubelet.devicemanager.metrics import REGISTRATIONS
from dra_node_agent.kubelet.devicemanager.plugin.client import ClientHandler, PluginClient
from dra_node_agent.kubelet.devicemanager.types import DeviceError
from dra_node_agent.kubelet.ondemand import OnDemandServer
from dra_node_agent.kubelet.registration.watch import DirectoryWatcher
from dra_node_agent.tasks import Tasks

VERSION = "v1beta1"
SOCKET = "kubelet.sock"
_RETRY_SECONDS = 1.0

_log = logger(__name__)


class RegistrationServer:
    """The registration of one node's device plugins.

    Raises:
        DeviceError: the socket's path is not absolute.
    """

    def __init__(self, socket: str, handler: ClientHandler, clock: Clock) -> None:
        if not os.path.isabs(socket):
            raise DeviceError(f"bad socketPath, must be an absolute path: {socket}")
        self.directory = Path(socket).parent
        self._handler = handler
        self._clock = clock
        self._clients: dict[str, PluginClient] = {}
        self._following: list[PluginClient] = []
        self._socket_path = socket
        self._server: OnDemandServer | None = None
        self._tasks = Tasks()
        self._serving = Tasks()
        self._opened = self._stopped = False

    @property
    def count_streams(self) -> int:
        """The number of plugins whose lists are followed, except those being disconnected."""
        return sum(client.is_connected for client in self._following)

    async def start(self, watcher: DirectoryWatcher | None = None) -> None:
        """Remove the previous kubelet's sockets, which makes plugins register again, and listen.

        With a ``watcher``, the socket is created only once the first plugin has created its own, because few
        of thousands of nodes have a device plugin.

        Raises:
            OSError: the directory cannot be created.
        """
        self.directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        _clean(self.directory)
        if watcher is None:
            await self._open()
        else:
            watcher.watch(self.directory, self._look)
            self._look()

    def _look(self) -> None:
        if not (self._opened or self._stopped) and any(_sockets(self.directory)):
            self._opened = True
            self._serving.start(self._open())

    async def _open(self) -> None:
        self._opened = True
        # Put this socket next to the directory, which may only contain plugins' files and certain files of the
        # kubelet.
        behind = self.directory.with_name(f".{self.directory.name}.sock")
        server = self._server = OnDemandServer(Path(self._socket_path), behind, self._add)
        try:
            await server.start()
        except OSError:
            self._serving.start(self._listen(server))

    async def stop(self) -> None:
        """Disconnect all plugins, and stop listening."""
        self._stopped = True
        for resource, client in list(self._clients.items()):
            await self._disconnect(resource, client)
        await self._serving.close()
        if self._server is not None:
            await self._server.close()
        await self._tasks.close()

    async def _listen(self, server: OnDemandServer) -> None:
        while True:
            try:
                await server.start()
                return
            except OSError as error:
                _log.error("device plugins can't register, trying again", error=str(error))
            await self._clock.sleep(_RETRY_SECONDS)

    def _add(self, server: aio.Server) -> None:
        rpc.serve(pb, "Registration", _Registration(self), server)

    # Register, on kubelet.sock

    async def register_request(self, version: str, resource: str, endpoint: str) -> None:
        """Handle a Register call. Raises DeviceError."""
        REGISTRATIONS.labels(resource).inc()
        _log.info("device plugin registers", resource=resource, endpoint=endpoint)
        if version != VERSION:
            raise DeviceError(
                f"requested API version {go_quote(version)} is not supported by kubelet."
                f' Supported version is ["{VERSION}"]'
            )
        if not is_extended_resource_name(resource):
            raise DeviceError(f"the ResourceName {go_quote(resource)} is invalid")
        await self._connect(resource, self._socket(endpoint))

    # The plugin watcher's handler for the type DevicePlugin

    def plugin_handler(self) -> "RegistrationServer":
        """Return the handler.

        A file DEPRECATION in the directory says that plugins should use the plugin watcher instead.
        """
        self.directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        (self.directory / "DEPRECATION").touch()
        return self

    def validate(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        """Check that the plugin can be used. Raises DeviceError."""
        if VERSION not in versions:
            raise DeviceError(
                f"manager version, {VERSION}, is not among plugin supported versions [{' '.join(versions)}]"
            )
        if not is_extended_resource_name(name):
            raise DeviceError(
                f"invalid name of device plugin socket: the ResourceName {go_quote(name)} is invalid"
            )

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        """Use the plugin. Raises DeviceError."""
        await self._connect(name, endpoint)

    async def deregister(self, name: str, endpoint: str) -> None:
        """Disconnect a plugin whose socket was removed."""
        client = self._clients.get(name)
        if client is not None:
            await self._disconnect(name, client)

    # Clients

    async def _connect(self, resource: str, socket: str) -> None:
        client = self._clients[resource] = PluginClient(resource, socket, self._handler, self._clock)
        try:
            await client.connect()
        except BaseException:
            # As upstream, a client that worked until then is dropped, too.
            self._clients.pop(resource, None)
            raise
        self._following.append(client)
        self._tasks.start(self._run(resource, client), name=f"device plugin {resource}")

    async def _run(self, resource: str, client: PluginClient) -> None:
        try:
            await client.run()
        finally:
            self._following.remove(client)
        current = self._clients.get(resource)
        if current is not None:
            await self._disconnect(resource, current)

    def _socket(self, endpoint: str) -> str:
        # Like filepath.Join: an absolute path starts in the directory, too.
        return os.path.normpath(f"{self.directory}/{endpoint}")

    async def _disconnect(self, resource: str, client: PluginClient) -> None:
        self._clients.pop(resource, None)
        await client.disconnect()


class _Registration:
    def __init__(self, server: RegistrationServer) -> None:
        self._server = server

    async def Register(self, request: pb.RegisterRequest, context: Any) -> pb.Empty:
        try:
            await self._server.register_request(request.version, request.resource_name, request.endpoint)
        except DeviceError as error:
            await context.abort(grpc.StatusCode.UNKNOWN, str(error))
        return pb.Empty()


def _clean(directory: Path) -> None:
    """Remove the sockets in the directory (``CleanupPluginDirectory``)."""
    for path in _sockets(directory):
        try:
            path.unlink()
        except OSError as error:
            _log.error("a file of the previous kubelet can't be removed", path=str(path), error=str(error))


def _sockets(directory: Path) -> Iterator[Path]:
    for entry in list(os.scandir(directory)):
        with contextlib.suppress(OSError):
            if entry.name != CHECKPOINT_FILE and stat.S_ISSOCK(entry.stat().st_mode):
                yield Path(entry.path)
