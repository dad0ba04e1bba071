"""The plugin of one resource, while connected and shortly after (pkg/kubelet/cm/devicemanager/endpoint.go)."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from dra_driverkit.proto import deviceplugin_v1beta1_pb2 as pb

from dra_node_agent.kubelet.devicemanager.types import DeviceError, DevicePlugin, PluginOptions

STOP_GRACE_PERIOD = 300.0
"""Seconds that a resource stays in the node's status after its plugin disconnected (``endpointStopGracePeriod``)."""


@dataclass
class Endpoint:
    """A resource's plugin.

    ``plugin`` is None for a resource that is only known from a checkpoint. ``stopped_at`` is a monotonic time.
    """

    resource: str
    plugin: DevicePlugin | None = None
    options: PluginOptions | None = None
    stopped_at: float | None = None

    @property
    def is_stopped(self) -> bool:
        """True if the plugin has disconnected."""
        return self.stopped_at is not None

    def has_expired(self, now: float) -> bool:
        """True if the plugin disconnected so long ago that its resource is forgotten."""
        return self.stopped_at is not None and now - self.stopped_at > STOP_GRACE_PERIOD

    async def allocate(self, devices: Collection[str]) -> Sequence[pb.ContainerAllocateResponse]:
        """Call Allocate for one container. Raises DeviceError."""
        return await self._get_plugin().allocate(devices)

    async def get_preferred_allocation(
        self, available: Collection[str], must_include: Collection[str], size: int
    ) -> Sequence[Sequence[str]]:
        """Call GetPreferredAllocation for one container. Raises DeviceError."""
        return await self._get_plugin().get_preferred_allocation(available, must_include, size)

    async def pre_start_container(self, devices: Collection[str]) -> None:
        """Call PreStartContainer. Raises DeviceError."""
        await self._get_plugin().pre_start_container(devices)

    def _get_plugin(self) -> DevicePlugin:
        if self.is_stopped or self.plugin is None:
            raise DeviceError(f"endpoint {self.resource} has been stopped")
        return self.plugin
