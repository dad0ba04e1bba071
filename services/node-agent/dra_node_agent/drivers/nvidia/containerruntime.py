"""The handling of ``NVIDIA_VISIBLE_DEVICES`` by NVIDIA's container runtime (nvidia-container-toolkit).

Device plugins use it to pass devices by environment: the runtime reads the variable and injects the GPUs
that it names. If the value is ``/var/run/nvidia-container-devices``, mounts below that directory name the
GPUs.
"""

import posixpath
from collections.abc import Mapping, Sequence

from dra_driverkit.cdi import ContainerEdits

from dra_node_agent.drivers.nvidia import edits
from dra_node_agent.drivers.nvidia.devices import Gpu, MigDevice
from dra_node_agent.drivers.nvidia.discovery import DeviceLibrary

VARIABLE = "NVIDIA_VISIBLE_DEVICES"
MOUNTS_ROOT = "/var/run/nvidia-container-devices"


def wanted_devices(environment: Mapping[str, str], mounts: Sequence[str]) -> list[str] | None:
    """Return the devices that a container names, possibly ``all``. None if it does not request GPUs."""
    value = environment.get(VARIABLE, "")
    if value == MOUNTS_ROOT:
        return [posixpath.basename(mount) for mount in mounts if mount.startswith(f"{MOUNTS_ROOT}/")]
    if value in ("", "void"):
        return None
    return [] if value == "none" else value.split(",")


def device_edits(library: DeviceLibrary, wanted: Sequence[str]) -> ContainerEdits:
    """Return the edits for the driver's files and the named GPUs and MIG devices. Raises DiscoveryError."""
    found = edits.common_edits(library.host, library.driver_version())
    for index, device in all_devices(library):
        if "all" in wanted or index in wanted or device_id(device) in wanted:
            found = found.merge(own_edits(library, device))
    return found


def own_edits(library: DeviceLibrary, device: Gpu | MigDevice) -> ContainerEdits:
    """Return the edits of a single device."""
    if isinstance(device, Gpu):
        return edits.gpu_edits(library.host, device.minor)
    assert device.live is not None
    return edits.mig_edits(library.host, device.live)


def all_devices(library: DeviceLibrary) -> list[tuple[str, Gpu | MigDevice]]:
    """Return GPUs and existing MIG devices with their indexes, ``0`` or ``0:1``. Raises DiscoveryError."""
    devices: list[tuple[str, Gpu | MigDevice]] = []
    for gpu in library.gpus():
        devices.append((str(gpu.index), gpu))
        devices += [(f"{gpu.index}:{n}", mig) for n, mig in enumerate(library.mig_devices(gpu))]
    return devices


def device_id(device: Gpu | MigDevice) -> str:
    """Return the device's UUID."""
    if isinstance(device, Gpu):
        return device.uuid
    return device.live.uuid if device.live is not None else ""
