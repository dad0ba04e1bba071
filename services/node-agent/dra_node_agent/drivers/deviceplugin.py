"""A device plugin's side of the kubelet's protocol (k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1).

One gRPC server for each resource, on a socket in the kubelet's ``device-plugins`` directory. It registers on
``kubelet.sock``, and again whenever that is a new file, because a restarted kubelet knows no plugins.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

import grpc
from dra_driverkit.cdi import DeviceNode, Mount
from dra_driverkit.errors import DriverConfigError, make_directory
from dra_driverkit.proto import deviceplugin_v1beta1_pb2 as pb
from dra_driverkit.proto import rpc
from dra_shared.clock import Clock
from dra_shared.log import logger
from grpc import aio

DIRECTORY = "device-plugins"
KUBELET_SOCKET = "kubelet.sock"
VERSION = "v1beta1"

# In seconds: the interval at which the kubelet's socket is checked, and the timeout of a registration.
_LOOK_EVERY = 1.0
_REGISTER_SECONDS = 5.0
_STOP_GRACE = 0.2
_SOCKET_PATH_MAX = 107
_SERVER_OPTIONS: Sequence[tuple[str, Any]] = (("grpc.so_reuseport", 0),)
_CHANNEL_OPTIONS: Sequence[tuple[str, Any]] = (
    ("grpc.default_authority", "localhost"),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
)

_log = logger(__name__)


@dataclass(frozen=True)
class PluginDevice:
    """A device from the kubelet's point of view."""

    id: str
    healthy: bool = True
    numa_nodes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Allocation:
    """The effects of allocated devices on a container."""

    env: Mapping[str, str] = field(default_factory=dict)
    mounts: Sequence[Mount] = ()
    device_nodes: Sequence[DeviceNode] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    cdi_ids: Sequence[str] = ()


class AllocationError(Exception):
    """Devices cannot be allocated. The message goes to the kubelet and into the pod's status."""


class DevicePlugin(Protocol):
    """One resource of a device plugin."""

    resource: str
    socket: str
    prefers: bool

    def devices(self) -> Sequence[PluginDevice]:
        """Return all devices in their current state."""
        ...

    def allocate(self, ids: Sequence[str]) -> Allocation:
        """Return the allocation for a container with these devices. Raises AllocationError."""
        ...

    def choose_preferred(self, available: Sequence[str], required: Sequence[str], size: int) -> list[str]:
        """Return ``size`` available devices that fit best together, including the required ones.

        Raises AllocationError.
        """
        ...


class DevicePluginServer:
    """Serves one resource on a node. An ``async with`` object."""

    def __init__(self, plugin: DevicePlugin, kubelet_root: Path, clock: Clock) -> None:
        self._plugin = plugin
        self._directory = kubelet_root / DIRECTORY
        self._clock = clock
        self._changed = asyncio.Condition()
        self._version = 0
        self._server: aio.Server | None = None
        self._registering: asyncio.Task[None] | None = None
        self.registered = asyncio.Event()

    @property
    def socket(self) -> Path:
        """The socket that it listens on."""
        return self._directory / self._plugin.socket

    async def __aenter__(self) -> Self:
        make_directory(f"device plugin for {self._plugin.resource}", self._directory)
        await self._listen()
        self._registering = asyncio.create_task(
            self._keep_registered(), name=f"device plugin for {self._plugin.resource}"
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._registering is not None:
            self._registering.cancel()
            await asyncio.gather(self._registering, return_exceptions=True)
        if self._server is not None:
            await self._server.stop(_STOP_GRACE)
        self.socket.unlink(missing_ok=True)

    async def notify_change(self) -> None:
        """Send the devices to the kubelet again, because some have changed."""
        async with self._changed:
            self._version += 1
            self._changed.notify_all()

    async def device_lists(self) -> AsyncIterator[Sequence[PluginDevice]]:
        """Yield the devices now and after each change."""
        while True:
            shown = self._version
            yield self._plugin.devices()
            async with self._changed:
                while self._version == shown:
                    await self._changed.wait()

    async def _keep_registered(self) -> None:
        known: tuple[int, int] | None = None
        while True:
            found = _identity(self._directory / KUBELET_SOCKET)
            # A kubelet that starts removes the sockets of plugins, after which it cannot call this plugin.
            gone = not self.socket.exists()
            if gone:
                _log.info("the socket of a device plugin was removed", socket=str(self.socket))
                await self._listen()
            if found is not None and (gone or found != known) and await self._register():
                known = found
            await self._clock.sleep(_LOOK_EVERY)

    async def _listen(self) -> None:
        if self._server is not None:
            await self._server.stop(_STOP_GRACE)
        path = str(self.socket)
        if len(os.fsencode(path)) > _SOCKET_PATH_MAX:
            raise DriverConfigError(f"socket path is longer than {_SOCKET_PATH_MAX} bytes: {path}")
        server = aio.server(options=_SERVER_OPTIONS)
        rpc.serve(pb, "DevicePlugin", _Service(self._plugin, self), server)
        self.socket.unlink(missing_ok=True)
        try:
            server.add_insecure_port(f"unix:{path}")
        except RuntimeError as error:
            raise DriverConfigError(f"cannot listen on {path}: {error}") from error
        await server.start()
        self._server = server

    async def _register(self) -> bool:
        request = pb.RegisterRequest(
            version=VERSION,
            endpoint=self._plugin.socket,
            resource_name=self._plugin.resource,
            options=_options(self._plugin),
        )
        kubelet = self._directory / KUBELET_SOCKET
        try:
            async with aio.insecure_channel(f"unix:{kubelet}", options=_CHANNEL_OPTIONS) as channel:
                await rpc.stub(pb, "Registration", channel).Register(request, timeout=_REGISTER_SECONDS)
        except aio.AioRpcError as error:
            _log.warning(
                "could not register device plugin", resource=self._plugin.resource, error=error.details()
            )
            return False
        _log.info("registered device plugin", resource=self._plugin.resource, socket=str(self.socket))
        self.registered.set()
        return True


class _Service:
    def __init__(self, plugin: DevicePlugin, server: DevicePluginServer) -> None:
        self._plugin = plugin
        self._server = server

    async def GetDevicePluginOptions(self, request: Any, context: Any) -> Any:
        return _options(self._plugin)

    async def ListAndWatch(self, request: Any, context: Any) -> AsyncIterator[Any]:
        async for devices in self._server.device_lists():
            yield pb.ListAndWatchResponse(devices=map(_device, devices))

    async def GetPreferredAllocation(self, request: Any, context: Any) -> Any:
        response = pb.PreferredAllocationResponse()
        for wanted in request.container_requests:
            try:
                ids = self._plugin.choose_preferred(
                    list(wanted.available_deviceIDs),
                    list(wanted.must_include_deviceIDs),
                    wanted.allocation_size,
                )
            except AllocationError as error:
                await context.abort(
                    grpc.StatusCode.UNKNOWN, f"error getting list of preferred allocation devices: {error}"
                )
            response.container_responses.add(deviceIDs=ids)
        return response

    async def Allocate(self, request: Any, context: Any) -> Any:
        response = pb.AllocateResponse()
        for wanted in request.container_requests:
            try:
                response.container_responses.append(_answer(self._plugin.allocate(list(wanted.devices_ids))))
            except AllocationError as error:
                await context.abort(grpc.StatusCode.UNKNOWN, str(error))
        return response

    async def PreStartContainer(self, request: Any, context: Any) -> Any:
        return pb.PreStartContainerResponse()


def _options(plugin: DevicePlugin) -> pb.DevicePluginOptions:
    return pb.DevicePluginOptions(get_preferred_allocation_available=plugin.prefers)


def _device(device: PluginDevice) -> pb.Device:
    message = pb.Device(ID=device.id, health="Healthy" if device.healthy else "Unhealthy")
    if device.numa_nodes:
        message.topology.CopyFrom(pb.TopologyInfo(nodes=[pb.NUMANode(ID=node) for node in device.numa_nodes]))
    return message


def _answer(allocation: Allocation) -> pb.ContainerAllocateResponse:
    return pb.ContainerAllocateResponse(
        envs=dict(allocation.env),
        mounts=[
            pb.Mount(
                container_path=mount.container_path,
                host_path=mount.host_path,
                read_only="ro" in mount.options,
            )
            for mount in allocation.mounts
        ],
        devices=[
            pb.DeviceSpec(
                container_path=node.path,
                host_path=node.host_path or node.path,
                permissions=node.permissions or "rw",
            )
            for node in allocation.device_nodes
        ],
        annotations=dict(allocation.annotations),
        cdi_devices=[pb.CDIDevice(name=name) for name in allocation.cdi_ids],
    )


def _identity(path: Path) -> tuple[int, int] | None:
    """Return a value that identifies the file. It changes if the socket is created again."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns
