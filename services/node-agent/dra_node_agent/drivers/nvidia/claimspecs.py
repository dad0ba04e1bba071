"""The CDI files of prepared claims (cmd/gpu-kubelet-plugin/cdi.go)."""

import time
from collections.abc import Callable

from dra_driverkit.cdi import CdiDevice, ContainerEdits, qualified_name

from dra_node_agent.drivers.nvidia import edits
from dra_node_agent.drivers.nvidia.checkpoint import Checkpoint
from dra_node_agent.drivers.nvidia.devices import Allocatable, Gpu, MigDevice, VfioGpu
from dra_node_agent.drivers.nvidia.discovery import DeviceLibrary, PerGpu
from dra_node_agent.drivers.nvidia.prepared import PreparedGroup

_COMMON_EDITS_SECONDS = 300.0


def device_id(uid: str, device: Allocatable) -> str:
    """Return the CDI id of a claim's device."""
    return qualified_name(edits.VENDOR, edits.CLASS, _device_name(uid, device))


def _device_name(uid: str, device: Allocatable) -> str:
    return f"{uid}-{device.name}"


class ClaimSpecs:
    """Writes the CDI file of each prepared claim. ``monotonic`` returns a monotonic time in seconds."""

    def __init__(
        self,
        library: DeviceLibrary,
        checkpoint: Checkpoint,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._library = library
        self._checkpoint = checkpoint
        self._monotonic = monotonic
        self._common: tuple[ContainerEdits, float] | None = None

    def write(self, uid: str, groups: list[PreparedGroup], per_gpu: PerGpu) -> None:
        """Write the claim's file. `per_gpu` are the node's devices.

        Raises:
            PrepareError: the file can't be written.
        """
        common = self._common_edits(per_gpu)
        devices: dict[str, CdiDevice] = {}
        for group in groups:
            for prepared in group.devices:
                device, host = prepared.device, self._library.host
                if isinstance(device, Gpu):
                    own = edits.gpu_edits(host, device.minor)
                elif isinstance(device, VfioGpu):
                    own = edits.vfio_edits(device, iommu_fd=group.vfio_iommu_fd)
                    common = group.edits or common
                else:
                    live = prepared.live or device.live
                    assert live is not None
                    own = edits.mig_edits(host, live)
                if group.edits is not None and not isinstance(device, VfioGpu):
                    own = own.merge(group.edits)
                # If a claim has two shares of one device, they are a single CDI device.
                devices[device.name] = CdiDevice(_device_name(uid, device), container_edits=own)
        if devices:
            self._checkpoint.write_spec(uid, tuple(devices.values()), common)

    def _common_edits(self, per_gpu: PerGpu) -> ContainerEdits:
        """Return the edits that all containers with devices get.

        They are computed again after some minutes, in case the driver was updated.
        """
        now = self._monotonic()
        if self._common is not None and now < self._common[1]:
            return self._common[0]
        if not any(isinstance(d, Gpu | MigDevice) for found in per_gpu.values() for d in found.values()):
            return ContainerEdits()
        version = self._library.driver_version()
        found = edits.common_edits(self._library.host, version)
        self._common = found, now + _COMMON_EDITS_SECONDS
        return found
