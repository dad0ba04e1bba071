"""A device plugin with configurable behaviour for tests (pkg/kubelet/cm/devicemanager/plugin/v1beta1/stub.go)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import grpc
from dra_driverkit.proto import deviceplugin_v1beta1_pb2 as pb
from dra_driverkit.proto import registration_v1_pb2, rpc
from dra_driverkit.transport import CHANNEL_OPTIONS
from dra_node_agent.kubelet.devicemanager.types import Device
from dra_node_agent.kubelet.dra import wire
from grpc import aio

Responder = Callable[[str, Sequence[str]], pb.ContainerAllocateResponse]
"""Returns the answer to Allocate for a resource and device ids."""


class StreamFailure(Exception):
    """Marker in the queue of device lists: end the ListAndWatch stream with an error."""


class StubPlugin:
    """A plugin for one resource, which listens on ``socket``. ``calls`` lists the methods that the kubelet called."""

    def __init__(
        self,
        resource: str,
        socket: Path,
        *,
        options: pb.DevicePluginOptions | None = None,
        respond: Responder = lambda _resource, _ids: pb.ContainerAllocateResponse(),
    ) -> None:
        self.resource = resource
        self.socket = socket
        self.calls: list[str] = []
        self.sent = 0
        self.streams = 0
        self.options_error = ""
        self.registered = False
        self._options = options or pb.DevicePluginOptions()
        self._respond = respond
        self._lists: asyncio.Queue[list[Device] | StreamFailure | None] = asyncio.Queue()
        self._server: aio.Server | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    async def start(self) -> None:
        """Listen on the socket."""
        self.socket.unlink(missing_ok=True)
        server = aio.server(options=(("grpc.so_reuseport", 0),))
        rpc.serve(pb, "DevicePlugin", self, server)
        rpc.serve(registration_v1_pb2, "Registration", _Watched(self), server)
        server.add_insecure_port(f"unix:{self.socket}")
        await server.start()
        self._server = server

    async def stop(self) -> None:
        """Stop listening, and end all calls."""
        if self._server is not None:
            await self._server.stop(None)
            self._server = None
        await self._idle.wait()

    async def register(self, kubelet_socket: Path, version: str = "v1beta1", endpoint: str = "") -> None:
        """Register with the kubelet. Raises CallError."""
        request = pb.RegisterRequest(
            version=version, endpoint=endpoint or self.socket.name, resource_name=self.resource
        )
        async with aio.insecure_channel(f"unix:{kubelet_socket}", options=CHANNEL_OPTIONS) as channel:
            await wire.call(channel, "/v1beta1.Registration/Register", request, pb.Empty, None)

    def update(self, devices: Iterable[Device]) -> None:
        """Send this list of devices to the kubelet."""
        self._lists.put_nowait(list(devices))

    def end_stream(self, *, failure: bool = False) -> None:
        """End the ListAndWatch stream after the lists sent so far, with an error if ``failure``."""
        self._lists.put_nowait(StreamFailure() if failure else None)

    @property
    def waiting_lists(self) -> int:
        """The number of device lists that were not sent to the kubelet yet."""
        return self._lists.qsize()

    # gRPC methods

    async def GetDevicePluginOptions(self, request: Any, context: Any) -> pb.DevicePluginOptions:
        self.calls.append("GetDevicePluginOptions")
        if self.options_error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, self.options_error)
        return self._options

    async def ListAndWatch(self, request: Any, context: Any) -> AsyncIterator[pb.ListAndWatchResponse]:
        self.calls.append("ListAndWatch")
        self.streams += 1
        self._idle.clear()
        failed = False
        try:
            while (devices := await self._lists.get()) is not None:
                if isinstance(devices, StreamFailure):
                    failed = True
                    break
                self.sent += 1
                yield pb.ListAndWatchResponse(devices=map(_message, devices))
        finally:
            self.streams -= 1
            if not self.streams:
                self._idle.set()
        if failed:
            await context.abort(grpc.StatusCode.INTERNAL, "stream failed")

    async def GetPreferredAllocation(self, request: Any, context: Any) -> pb.PreferredAllocationResponse:
        self.calls.append("GetPreferredAllocation")
        answer = pb.PreferredAllocationResponse()
        for wanted in request.container_requests:
            must = list(wanted.must_include_deviceIDs)
            others = [id_ for id_ in wanted.available_deviceIDs if id_ not in must]
            answer.container_responses.add(deviceIDs=[*must, *others][: wanted.allocation_size])
        return answer

    async def Allocate(self, request: Any, context: Any) -> pb.AllocateResponse:
        self.calls.append("Allocate")
        answers = [self._respond(self.resource, list(one.devices_ids)) for one in request.container_requests]
        return pb.AllocateResponse(container_responses=answers)

    async def PreStartContainer(self, request: Any, context: Any) -> pb.PreStartContainerResponse:
        self.calls.append("PreStartContainer")
        return pb.PreStartContainerResponse()


class _Watched:
    """The gRPC service that the kubelet's plugin watcher calls for a socket in ``plugins_registry``."""

    def __init__(self, plugin: StubPlugin) -> None:
        self._plugin = plugin

    async def GetInfo(self, request: Any, context: Any) -> registration_v1_pb2.PluginInfo:
        return registration_v1_pb2.PluginInfo(
            type="DevicePlugin", name=self._plugin.resource, supported_versions=["v1beta1"]
        )

    async def NotifyRegistrationStatus(
        self, request: Any, context: Any
    ) -> registration_v1_pb2.RegistrationStatusResponse:
        self._plugin.registered = request.plugin_registered
        return registration_v1_pb2.RegistrationStatusResponse()


def _message(device: Device) -> pb.Device:
    message = pb.Device(ID=device.id, health=device.health)
    if device.numa_nodes is not None:
        message.topology.SetInParent()
        for node in device.numa_nodes:
            message.topology.nodes.add(ID=node)
    return message
