"""Devices of plugins, and the options that containers get for them (pkg/kubelet/cm/devicemanager/types.go)."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from dra_driverkit.proto import deviceplugin_v1beta1_pb2 as pb

HEALTHY = "Healthy"
NODE_WITHOUT_TOPOLOGY = -1
"""The NUMA node of devices that belong to none."""

"""Devices by their ids."""


class DeviceError(Exception):
    """Devices could not be allocated or prepared. The text reaches the pod's status."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device of a plugin. ``numa_nodes`` is None if the plugin reports no topology."""

    id: str
    health: str = HEALTHY
    numa_nodes: tuple[int, ...] | None = None

    @classmethod
    def from_message(cls, message: pb.Device) -> "Device":
        """Return the device in a plugin's list."""
        nodes = tuple(node.ID for node in message.topology.nodes) if message.HasField("topology") else None
        return cls(message.ID, message.health, nodes)


@dataclass(frozen=True)
class DeviceInfo:
    """A device node of the host in a container."""

    path_on_host: str
    path_in_container: str
    permissions: str = ""


@dataclass(frozen=True)
class DeviceMount:
    """A directory or file of the host in a container."""

    container_path: str
    host_path: str
    read_only: bool = False


@dataclass
class DeviceRunContainerOptions:
    """The options that allocated devices add to a container. The first of two settings for one key wins."""

    envs: dict[str, str] = field(default_factory=dict)
    mounts: dict[str, DeviceMount] = field(default_factory=dict)
    devices: dict[str, DeviceInfo] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    cdi_devices: dict[str, None] = field(default_factory=dict)

    def add(self, response: pb.ContainerAllocateResponse) -> None:
        """Add a plugin's answer."""
        for key, value in response.envs.items():
            self.envs.setdefault(key, value)
        for mount in response.mounts:
            added = DeviceMount(mount.container_path, mount.host_path, mount.read_only)
            self.mounts.setdefault(mount.container_path, added)
        for device in response.devices:
            info = DeviceInfo(device.host_path, device.container_path, device.permissions)
            self.devices.setdefault(device.container_path, info)
        for key, value in response.annotations.items():
            self.annotations.setdefault(key, value)
        for cdi_device in response.cdi_devices:
            self.cdi_devices.setdefault(cdi_device.name)


@dataclass(frozen=True)
class PluginOptions:
    """The optional calls that a plugin wants."""

    pre_start_required: bool = False
    get_preferred_allocation_available: bool = False


class DevicePlugin(Protocol):
    """The calls to one connected plugin. They raise DeviceError with the text of Go's gRPC."""

    async def get_options(self) -> PluginOptions:
        """Call GetDevicePluginOptions."""
        ...

    async def get_preferred_allocation(
        self, available: Collection[str], must_include: Collection[str], size: int
    ) -> Sequence[Sequence[str]]:
        """Call GetPreferredAllocation for one container. Return the ids of each container response."""
        ...

    async def allocate(self, devices: Collection[str]) -> Sequence[pb.ContainerAllocateResponse]:
        """Call Allocate for one container. Return its container responses."""
        ...

    async def pre_start_container(self, devices: Collection[str]) -> None:
        """Call PreStartContainer."""
        ...
