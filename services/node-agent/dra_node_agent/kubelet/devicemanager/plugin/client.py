"""The connection to one device plugin (pkg/kubelet/cm/devicemanager/plugin/v1beta1/client.go)."""

from collections.abc import Collection, Sequence
from typing import Protocol, TypeVar

from dra_driverkit.proto import deviceplugin_v1beta1_pb2 as pb
from dra_driverkit.transport import CHANNEL_OPTIONS
from dra_shared.clock import Clock, wait_for
from dra_shared.log import logger
from google.protobuf.message import Message
from grpc import aio

from dra_node_agent.kubelet.devicemanager.types import Device, DeviceError, DevicePlugin, PluginOptions
from dra_node_agent.kubelet.dra import wire

_SERVICE = "/v1beta1.DevicePlugin"
_DIAL_TIMEOUT = 10.0
# KubeletPreStartContainerRPCTimeoutInSecs: a plugin may reset a device during the call. Other calls have no
# timeout.
_PRE_START_TIMEOUT = 30.0

_log = logger(__name__)

M = TypeVar("M", bound=Message)


class ClientHandler(Protocol):
    """Receives the reports of plugins: the device manager."""

    async def plugin_connected(self, resource: str, plugin: DevicePlugin, /) -> None: ...

    def plugin_disconnected(self, resource: str, /) -> None: ...

    async def plugin_devices(self, resource: str, devices: Collection[Device], /) -> None: ...


class PluginClient:
    """Calls the plugin for ``resource`` at ``socket``, and watches its devices."""

    def __init__(self, resource: str, socket: str, handler: ClientHandler, clock: Clock) -> None:
        self.resource = resource
        self.socket = socket
        self._handler = handler
        self._clock = clock
        self._channel: aio.Channel | None = None

    async def connect(self) -> None:
        """Connect, and report the plugin to the handler.

        Raises:
            DeviceError: it does not answer.
        """
        channel = aio.insecure_channel(f"unix:{self.socket}", options=CHANNEL_OPTIONS)
        ready = False

        async def dial() -> None:
            nonlocal ready
            await channel.channel_ready()
            ready = True

        try:
            await wait_for(dial(), _DIAL_TIMEOUT, self._clock)
            if not ready:
                raise DeviceError("failed to dial device plugin: context deadline exceeded")
        except BaseException:
            await channel.close()
            raise
        self._channel = channel
        await self._handler.plugin_connected(self.resource, self)

    @property
    def is_connected(self) -> bool:
        """True if the plugin can be called."""
        return self._channel is not None

    async def run(self) -> None:
        """Pass each of the plugin's lists to the handler until the stream ends."""
        channel = self._channel
        if channel is None:
            return
        answers = wire.stream(channel, f"{_SERVICE}/ListAndWatch", pb.Empty(), pb.ListAndWatchResponse)
        try:
            async for answer in answers:
                devices = [Device.from_message(message) for message in answer.devices]
                await self._handler.plugin_devices(self.resource, devices)
        except wire.CallError as error:
            _log.info("list of devices has ended", resource=self.resource, error=str(error))

    async def disconnect(self) -> None:
        """Close the connection, and report to the handler that the resource has no plugin."""
        channel, self._channel = self._channel, None
        self._handler.plugin_disconnected(self.resource)
        if channel is not None:
            await channel.close()

    # Calls

    async def get_options(self) -> PluginOptions:
        """Call GetDevicePluginOptions."""
        answer = await self._call("GetDevicePluginOptions", pb.Empty(), pb.DevicePluginOptions)
        return PluginOptions(answer.pre_start_required, answer.get_preferred_allocation_available)

    async def get_preferred_allocation(
        self, available: Collection[str], must_include: Collection[str], size: int
    ) -> Sequence[Sequence[str]]:
        """Call GetPreferredAllocation."""
        wanted = pb.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=must_include, allocation_size=size
        )
        request = pb.PreferredAllocationRequest(container_requests=[wanted])
        answer = await self._call("GetPreferredAllocation", request, pb.PreferredAllocationResponse)
        return [list(container.deviceIDs) for container in answer.container_responses]

    async def allocate(self, devices: Collection[str]) -> Sequence[pb.ContainerAllocateResponse]:
        """Call Allocate."""
        wanted = pb.ContainerAllocateRequest(devices_ids=devices)
        request = pb.AllocateRequest(container_requests=[wanted])
        answer = await self._call("Allocate", request, pb.AllocateResponse)
        return list(answer.container_responses)

    async def pre_start_container(self, devices: Collection[str]) -> None:
        """Call PreStartContainer."""
        request = pb.PreStartContainerRequest(devices_ids=devices)
        await self._call("PreStartContainer", request, pb.PreStartContainerResponse, _PRE_START_TIMEOUT)

    async def _call(self, method: str, request: Message, answer: type[M], timeout: float | None = None) -> M:
        if self._channel is None:
            raise DeviceError("rpc error: code = Canceled desc = grpc: the client connection is closing")
        try:
            return await wire.call(self._channel, f"{_SERVICE}/{method}", request, answer, timeout)
        except wire.CallError as error:
            raise DeviceError(str(error)) from error
        except aio.UsageError as error:
            # The plugin disconnected during the call.
            raise DeviceError(
                "rpc error: code = Canceled desc = grpc: the client connection is closing"
            ) from error
