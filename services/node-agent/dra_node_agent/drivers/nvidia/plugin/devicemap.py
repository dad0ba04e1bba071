"""The devices of each resource (internal/rm/device_map.go)."""

import dataclasses
import re
from dataclasses import dataclass

from dra_driverkit.errors import DriverConfigError

from dra_node_agent.drivers.nvidia.containerruntime import device_id
from dra_node_agent.drivers.nvidia.devices import Gpu, MigDevice
from dra_node_agent.drivers.nvidia.discovery import DeviceLibrary
from dra_node_agent.drivers.nvidia.plugin.config import MIXED, NONE, SINGLE, PluginConfig, Replicated

GPU_RESOURCE = "nvidia.com/gpu"

# Matches the profile of a MIG device that has the whole compute capacity of its GPU instance.
_WHOLE_INSTANCE = re.compile(r"\d+g\..+")


@dataclass(frozen=True)
class Entry:
    """A device of a resource: a GPU or MIG device, or one of its replicas.

    Args:
        id: its UUID, with ``::N`` for a replica.
        index: as NVIDIA's tools count: ``0``, or ``0:1`` for a MIG device.
    """

    id: str
    index: str
    device: Gpu | MigDevice
    replicas: int = 0

    @property
    def uuid(self) -> str:
        """The UUID without the replica's number."""
        return self.id.partition("::")[0]

    @property
    def gpu(self) -> Gpu:
        """The GPU, or the parent of the MIG device."""
        return self.device if isinstance(self.device, Gpu) else self.device.parent


DeviceMap = dict[str, dict[str, Entry]]


def device_map(library: DeviceLibrary, config: PluginConfig) -> DeviceMap:
    """Return the devices by resource, then by id.

    Raises:
        DiscoveryError: NVML failed.
        DriverConfigError: the MIG devices do not fit the strategy.
    """
    gpus, migs = library.gpus(), {}
    if config.mig_strategy != NONE:
        migs = {gpu.index: library.mig_devices(gpu) for gpu in gpus if gpu.mig_enabled}
    whole = {gpu.uuid: Entry(gpu.uuid, str(gpu.index), gpu) for gpu in gpus if gpu.index not in migs}
    found: DeviceMap = {GPU_RESOURCE: whole} if whole else {}
    if config.mig_strategy == SINGLE:
        _check_uniform(whole, migs)
    for index, devices in sorted(migs.items()):
        for number, mig in enumerate(devices):
            entry = Entry(device_id(mig), f"{index}:{number}", mig)
            found.setdefault(_mig_resource(mig, config.mig_strategy), {})[entry.id] = entry
    return _with_replicas(found, config.replicated)


def _mig_resource(mig: MigDevice, strategy: str) -> str:
    if strategy == MIXED:
        if not _WHOLE_INSTANCE.fullmatch(mig.profile_name):
            raise DriverConfigError(
                "error building device map: error building MIG device map: "
                f"MIG profile '{mig.profile_name}' does not match any resource patterns"
            )
        return f"nvidia.com/mig-{mig.profile_name.replace('+', '.')}"
    return GPU_RESOURCE


def _check_uniform(whole: dict[str, Entry], migs: dict[int, list[MigDevice]]) -> None:
    invalid = "error building device map: invalid MIG configuration: "
    for index, devices in sorted(migs.items()):
        if not devices:
            raise DriverConfigError(
                f"{invalid}at least one device with migEnabled=true was not configured correctly: "
                f"device {index} has no MIG devices configured"
            )
    if len({mig.profile_name for devices in migs.values() for mig in devices}) > 1:
        raise DriverConfigError(f"{invalid}more than one MIG device type present on node")
    if whole and migs:
        raise DriverConfigError(
            "error building device map: all devices on the node must be configured with the same migEnabled value"
        )


def _with_replicas(found: DeviceMap, replicated: tuple[Replicated, ...]) -> DeviceMap:
    shared = {resource.name for resource in replicated}
    devices = {name: entries for name, entries in found.items() if name not in shared}
    for resource in replicated:
        for entry in found.get(resource.name, {}).values():
            for number in range(resource.replicas):
                one = dataclasses.replace(entry, id=f"{entry.id}::{number}", replicas=resource.replicas)
                devices.setdefault(resource.rename, {})[one.id] = one
    return devices
