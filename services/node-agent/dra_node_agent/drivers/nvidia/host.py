"""The parts of a machine that the driver reads besides NVML: sysfs, proc files of the kernel driver, libraries."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from dra_node_agent.drivers.nvidia.devices import Gpu
from dra_node_agent.nvml.library import NvmlLibrary

# The driver's programs.
BINARIES = (
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
    "nvidia-debugdump",
    "nvidia-persistenced",
    "nvidia-smi",
)
# The character device major of the nvidia kernel module. Those of its other modules are not fixed.
NVIDIA_MAJOR = 195
# The directory with the devices of IMEX channels.
CHANNELS = "/dev/nvidia-caps-imex-channels"
# The modes of devices, and of devices for capabilities.
DEVICE_MODE = 0o666
CAPS_MODE = 0o444


@dataclass(frozen=True)
class CharDevice:
    """A character device node. If the numbers are 0, the engine reads them from the node itself."""

    path: str
    major: int = 0
    minor: int = 0
    mode: int = 0


@dataclass(frozen=True)
class PciGpu:
    """An NVIDIA GPU on the PCI bus, bound to any kernel driver."""

    address: str
    name: str
    device_id: int
    vendor_id: int
    numa_node: int
    iommu_group: int
    iommu_fd: str
    addressable_memory_bytes: int


class Host(Protocol):
    """The machine that the driver runs on."""

    nvml: NvmlLibrary

    def equal_gpus(self) -> list[Gpu] | None:
        """Return the GPUs, by index, of a known machine that differs only in UUIDs, or None."""
        ...

    def note_gpus(self, gpus: list[Gpu]) -> None:
        """Store the GPUs that NVML found, for machines that are built the same way."""
        ...

    def pcie_root(self, pci_bus_id: str) -> str | None:
        """Return the PCIe root complex of the device, such as ``pci0000:64``, or None."""
        ...

    def numa_node(self, pci_bus_id: str) -> int:
        """Return the device's NUMA node, or -1."""
        ...

    def pci_gpus(self) -> list[PciGpu]:
        """Return all NVIDIA GPUs on the bus, by address."""
        ...

    def pci_class(self, pci_bus_id: str) -> int:
        """Return class and subclass of the device: 0x0300 for a display controller, 0x0302 for a 3D one, else 0."""
        ...

    def machine_type(self) -> str:
        """Return the type of the machine according to its firmware."""
        ...

    def bind_vfio(self, pci_bus_id: str, bound: bool) -> None:
        """Bind the device to vfio-pci, or back to the nvidia driver. Raises OSError."""
        ...

    def iommu_fd_enabled(self) -> bool: ...

    def gpu_node(self, minor: int) -> CharDevice: ...

    def control_nodes(self) -> list[CharDevice]: ...

    def caps_node(self, gpu_minor: int, gpu_instance: int, compute_instance: int | None = None) -> CharDevice:
        """Return the /dev/nvidia-caps node of a MIG instance. Raises OSError if there is none."""
        ...

    def gpu_modules(self) -> Mapping[str, int]:
        """Return the GPUs' positions on their baseboard, starting at 1, by PCI address."""
        ...

    def has_switches(self) -> bool:
        """True if the GPUs are connected to NVLink switches of this machine."""
        ...

    def imex_channel(self, number: int) -> CharDevice:
        """Return a channel to the GPU memory of other nodes. Raises OSError if the machine has none."""
        ...

    def imex_management(self) -> CharDevice:
        """Return the /dev/nvidia-caps node that an IMEX daemon needs. Raises OSError if there is none."""
        ...

    def check_imex(self, socket: str) -> None:
        """Check that the machine's IMEX daemon on that socket is ready. Raises OSError if not."""
        ...

    def driver_files(self, driver_version: str) -> list[tuple[str, str]]:
        """Return (path on the host, path in containers) of the driver's libraries and programs."""
        ...

    def library_dir(self) -> str:
        """Return the directory of libcuda.so in containers."""
        ...

    def soname(self, library: str) -> str | None:
        """Return the name under which programs load a library of the host: the link next to it, ``libcuda.so.1``."""
        ...

    def hook_path(self) -> str:
        """Return the path of the nvidia-cdi-hook program."""
        ...


def vfio_uuid(pci_bus_id: str) -> str:
    """Return a passthrough device's UUID, which is always the same for its address."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, pci_bus_id))
