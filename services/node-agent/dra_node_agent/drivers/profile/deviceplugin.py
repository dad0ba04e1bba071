"""A profile as a device plugin: the devices of the node's pool as an extended resource."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from dra_driverkit.cdi import CdiDevice, ContainerEdits, Spec, SpecError, qualified_name, write_spec
from dra_driverkit.errors import DriverConfigError, PrepareError
from dra_shared.api.resource import Device
from dra_shared.clock import Clock

from dra_node_agent.drivers.deviceplugin import Allocation, AllocationError, DevicePluginServer, PluginDevice
from dra_node_agent.drivers.profile.devices import loop_values, resources
from dra_node_agent.drivers.profile.edits import container_edits, device_values
from dra_node_agent.drivers.profile.model import DevicePluginTemplate, Profile

_NUMA = "resource.kubernetes.io/numaNode"
_VENDOR = "device-plugin."


class ProfilePlugin:
    """The devices of one node.

    Raises:
        DriverConfigError: the profile's devices or edits are invalid.
    """

    prefers = False

    def __init__(self, profile: Profile, template: DevicePluginTemplate, node_name: str) -> None:
        self.resource = template.resource_name
        self.socket = f"{template.resource_name.replace('/', '-')}.sock"
        self._profile = profile
        self._by_cdi = template.by_cdi
        pool = resources(profile, node_name).pools[node_name]
        loops = loop_values(profile, node_name)
        self._devices = {device.name: device for part in pool.slices for device in part.devices}
        base = {"node": node_name, "driver": profile.driver}
        try:
            self._common = container_edits(profile, profile.common_edits, base)
            self._edits = {
                name: container_edits(
                    profile,
                    profile.device_edits,
                    base | loops.get((node_name, name), {}) | device_values(device),
                )
                for name, device in self._devices.items()
            }
        except PrepareError as error:
            raise DriverConfigError(str(error)) from error

    def devices(self) -> Sequence[PluginDevice]:
        return [PluginDevice(name, True, _numa_nodes(device)) for name, device in self._devices.items()]

    def choose_preferred(self, available: Sequence[str], required: Sequence[str], size: int) -> list[str]:
        return [*required, *(id_ for id_ in available if id_ not in required)][:size]

    def allocate(self, ids: Sequence[str]) -> Allocation:
        for id_ in ids:
            if id_ not in self._devices:
                raise AllocationError(
                    f'invalid allocation request for "{self.resource}": unknown device: {id_}'
                )
        if self._by_cdi:
            return Allocation(cdi_ids=[self._cdi_id(id_) for id_ in ids])
        edits = self._common
        for id_ in ids:
            edits = edits.merge(self._edits[id_])
        return Allocation(edits.environment(), edits.mounts, edits.device_nodes)

    def write_spec(self, directory: Path) -> None:
        """Write the CDI file of all devices if they are passed through CDI.

        Raises:
            DriverConfigError: it cannot be written.
        """
        if not self._by_cdi:
            return
        devices = [
            CdiDevice(name, container_edits=self._common.merge(edits))
            for name, edits in self._edits.items()
            if self._common.merge(edits) != ContainerEdits()
        ]
        kind = f"{self._vendor}/{self._profile.cdi_class}"
        try:
            write_spec(directory, kind.replace("/", "-"), Spec(kind, tuple(devices)))
        except (OSError, SpecError) as error:
            raise DriverConfigError(f"driver {self._profile.driver}: {error}") from error

    @property
    def _vendor(self) -> str:
        return f"{_VENDOR}{self._profile.driver}"

    def _cdi_id(self, device: str) -> str:
        return qualified_name(self._vendor, self._profile.cdi_class, device)


class RunningPlugin:
    """The plugin within its context."""

    def __init__(self, plugin: ProfilePlugin, server: DevicePluginServer) -> None:
        self.plugin = plugin
        self.server = server

    async def wait_until_published(self) -> None:
        """Wait until the kubelet has registered the resource."""
        await self.server.registered.wait()


@contextlib.asynccontextmanager
async def run_plugin(
    plugin: ProfilePlugin, kubelet_root: Path, cdi_directory: Path, clock: Clock
) -> AsyncIterator[RunningPlugin]:
    """Serve the plugin on a node."""
    plugin.write_spec(cdi_directory)
    async with DevicePluginServer(plugin, kubelet_root, clock) as server:
        yield RunningPlugin(plugin, server)


def _numa_nodes(device: Device) -> tuple[int, ...]:
    attribute = device.attributes.get(_NUMA)
    if attribute is None:
        return ()
    return (attribute.int_,) if attribute.int_ is not None else tuple(attribute.ints or ())
