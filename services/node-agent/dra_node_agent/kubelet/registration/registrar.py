"""Registers plugins with sockets in ``plugins_registry``, and deregisters those whose sockets are removed.

A plugin is anything that registers with the kubelet over such a socket (pkg/kubelet/pluginmanager). Here
these are drivers.
"""

import asyncio
import os
import stat
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from dra_driverkit.proto import registration_v1_pb2
from dra_driverkit.transport import Sockets, UnixSockets
from dra_shared.clock import Clock
from dra_shared.log import logger

from dra_node_agent.kubelet.devicemanager.types import DeviceError
from dra_node_agent.kubelet.dra import wire
from dra_node_agent.kubelet.dra.connection import DriverError
from dra_node_agent.kubelet.registration.watch import DirectoryWatcher
from dra_node_agent.tasks import Tasks

DRA_TYPE = "DRAPlugin"
DEVICE_TYPE = "DevicePlugin"
_SERVICE = "/pluginregistration.Registration"
_DIAL_TIMEOUT, _INFO_TIMEOUT, _NOTIFY_TIMEOUT = 10.0, 1.0, 5.0
_FIRST_RETRY, _LONGEST_RETRY = 0.5, 122.0

_log = logger(__name__)


Pending = Coroutine[Any, Any, None]
"""The slow part of a registration."""


class PluginHandler(Protocol):
    """The handler of plugins of one type. ``validate`` and ``register`` raise DriverError or DeviceError."""

    def validate(self, name: str, endpoint: str, services: Sequence[str], /) -> None: ...

    def register(self, name: str, endpoint: str, services: Sequence[str], /) -> Pending | None: ...

    def deregister(self, name: str, endpoint: str, /) -> Pending | None: ...


@dataclass(frozen=True)
class _Socket:
    path: str
    inode: int
    made: int


@dataclass
class _Registered:
    kind: str
    name: str
    endpoint: str


class Registrar:
    """The registered plugins of one node. ``handlers`` are keyed by plugin type."""

    def __init__(
        self,
        directory: Path,
        watcher: DirectoryWatcher,
        handlers: dict[str, PluginHandler],
        clock: Clock,
        sockets: Sockets | None = None,
    ) -> None:
        self._directory = directory
        self._watcher = watcher
        self._handlers = handlers
        self._clock = clock
        self._places = sockets or UnixSockets()
        self._watched: set[str] = set()
        self._sockets: dict[_Socket, asyncio.Task[None]] = {}
        self._registered: dict[_Socket, _Registered] = {}
        self._tasks = Tasks()

    def start(self) -> None:
        """Register existing plugins, and follow changes from now on."""
        self._directory.mkdir(parents=True, exist_ok=True)
        self._places.watch(self._directory, self._scan)
        self._scan()

    async def close(self) -> None:
        """Stop following changes. Plugins stay registered with their handlers."""
        await self._tasks.close()

    def _scan(self) -> None:
        while self._watch_folders():
            pass
        found = set(_sockets(self._directory))
        # A socket in memory has no modification time.
        found |= {_Socket(path, number, 0) for path, number in self._places.listeners(self._directory)}
        for socket in self._sockets.keys() - found:
            self._sockets.pop(socket).cancel()
            known = self._registered.pop(socket, None)
            if known is not None:
                self._deregister(known)
        for socket in found - self._sockets.keys():
            self._sockets[socket] = self._tasks.start(self._register(socket))

    def _deregister(self, known: _Registered) -> None:
        pending = self._handlers[known.kind].deregister(known.name, known.endpoint)
        if pending is not None:
            self._tasks.start(pending)

    def _watch_folders(self) -> bool:
        """Watch folders that are not watched yet. Return True if there were any, because more may have been created."""
        folders = {folder for folder, _, _ in os.walk(self._directory)}
        new = folders - self._watched
        for folder in new:
            self._watcher.watch(Path(folder), self._scan)
        self._watched = folders
        return bool(new)

    async def _register(self, socket: _Socket) -> None:
        delay = _FIRST_RETRY
        while True:
            try:
                await self._introduce(socket)
                return
            except (DriverError, wire.CallError, TimeoutError) as error:
                _log.warning("plugin not registered, trying again", socket=socket.path, error=str(error))
            await self._clock.sleep(delay)
            delay = min(delay * 2, _LONGEST_RETRY)

    async def _introduce(self, socket: _Socket) -> None:
        async with self._places.channel(socket.path) as channel:
            async with asyncio.timeout(_DIAL_TIMEOUT):
                await channel.channel_ready()
            request, answer = registration_v1_pb2.InfoRequest(), registration_v1_pb2.PluginInfo
            info = await wire.call(channel, f"{_SERVICE}/GetInfo", request, answer, _INFO_TIMEOUT)
            endpoint = info.endpoint or socket.path
            services = list(info.supported_versions)
            handler = self._handlers.get(info.type)
            try:
                if handler is None:
                    raise DriverError(
                        f"RegisterPlugin error -- no handler registered for plugin type: {info.type}"
                        f" at socket {socket.path}"
                    )
                try:
                    handler.validate(info.name, endpoint, services)
                except (DriverError, DeviceError) as error:
                    raise DriverError(
                        f"RegisterPlugin error -- plugin validation failed with err: {error}"
                    ) from error
                try:
                    pending = handler.register(info.name, endpoint, services)
                    if pending is not None:
                        await pending
                except (DriverError, DeviceError) as error:
                    raise DriverError(
                        f"RegisterPlugin error -- plugin registration failed with err: {error}"
                    ) from error
            except DriverError as error:
                await _notify(channel, str(error))
                raise
            known = self._registered[socket] = _Registered(info.type, info.name, endpoint)
            try:
                await _notify(channel, "")
            except wire.CallError:
                # A plugin that cannot be notified of its registration is not registered.
                del self._registered[socket]
                self._deregister(known)
                raise


async def _notify(channel: Any, error: str) -> None:
    status = registration_v1_pb2.RegistrationStatus(plugin_registered=not error, error=error)
    answer = registration_v1_pb2.RegistrationStatusResponse
    await wire.call(channel, f"{_SERVICE}/NotifyRegistrationStatus", status, answer, _NOTIFY_TIMEOUT)


def _sockets(directory: Path) -> Iterator[_Socket]:
    for folder, _, names in os.walk(directory):
        for name in names:
            if name.startswith("."):
                continue
            path = os.path.join(folder, name)
            try:
                info = os.lstat(path)
            except OSError:
                continue
            if stat.S_ISSOCK(info.st_mode):
                # Use the modification time: a change of permissions does not create a new socket.
                yield _Socket(path, info.st_ino, info.st_mtime_ns)
