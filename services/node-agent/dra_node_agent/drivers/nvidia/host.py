"""What the driver reads from a machine besides NVML: sysfs, the kernel driver's proc files, its libraries."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from dra_node_agent.drivers.nvidia.devices import Gpu
from dra_node_agent.nvml.library import NvmlLibrary

#: The driver's programs.
BINARIES = (
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
    "nvidia-debugdump",
    "nvidia-persistenced",
    "nvidia-smi",
)
#: Character device majors of the NVIDIA kernel modules; only nvidia's own is fixed.
NVIDIA_MAJOR = 195
#: Where the devices of IMEX channels are.
CHANNELS = "/dev/nvidia-caps-imex-channels"
#: The modes of devices, and of those that stand for capabilities.
DEVICE_MODE = 0o666
CAPS_MODE = 0o444


@dataclass(frozen=True)
class CharDevice:
    """A character device node; numbers are 0 where the engine is to look at the node itself."""

    path: str
    major: int = 0
    minor: int = 0
    mode: int = 0


@dataclass(frozen=True)
class PciGpu:
    """An NVIDIA GPU on the PCI bus, whichever kernel driver holds it."""

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
        """The GPUs of a machine whose UUIDs alone are others, by index; None where none is known."""
        ...

    def note_gpus(self, gpus: list[Gpu]) -> None:
        """Remember the GPUs that NVML found on this one, for machines that are built the same way."""
        ...

    def pcie_root(self, pci_bus_id: str) -> str | None:
        """The PCIe root complex above the device, ``pci0000:64``, if it is known."""
        ...

    def numa_node(self, pci_bus_id: str) -> int:
        """The device's NUMA node, -1 if it has none."""
        ...

    def pci_gpus(self) -> list[PciGpu]:
        """All NVIDIA GPUs on the bus, by address."""
        ...

    def pci_class(self, pci_bus_id: str) -> int:
        """The device's class and subclass: 0x0300 for a display controller, 0x0302 for a 3D one; 0 if unknown."""
        ...

    def machine_type(self) -> str:
        """What the machine is, as its firmware says."""
        ...

    def bind_vfio(self, pci_bus_id: str, bound: bool) -> None:
        """Hand the device to vfio-pci, or back to the nvidia driver; raises OSError."""
        ...

    def iommu_fd_enabled(self) -> bool: ...

    def gpu_node(self, minor: int) -> CharDevice: ...

    def control_nodes(self) -> list[CharDevice]: ...

    def caps_node(self, gpu_minor: int, gpu_instance: int, compute_instance: int | None = None) -> CharDevice:
        """The /dev/nvidia-caps node that guards a MIG instance; raises OSError if there is none."""
        ...

    def gpu_modules(self) -> Mapping[str, int]:
        """The GPUs' places on their baseboard, from one, by PCI address."""
        ...

    def has_switches(self) -> bool:
        """Whether the GPUs are behind NVLink switches of this machine."""
        ...

    def imex_channel(self, number: int) -> CharDevice:
        """A channel to the GPU memory of other nodes; raises OSError if the machine has none."""
        ...

    def imex_management(self) -> CharDevice:
        """The /dev/nvidia-caps node that an IMEX daemon needs; raises OSError if there is none."""
        ...

    def check_imex(self, socket: str) -> None:
        """Ask the machine's own IMEX daemon, which listens there; raises OSError unless it is ready."""
        ...

    def driver_files(self, driver_version: str) -> list[tuple[str, str]]:
        """(path on the host, path in containers) of the driver's libraries and programs."""
        ...

    def library_dir(self) -> str:
        """Where libcuda.so lies, as containers see it."""
        ...

    def soname(self, library: str) -> str | None:
        """The name under which programs load a library of the host: a link next to it, ``libcuda.so.1``."""
        ...

    def hook_path(self) -> str:
        """The nvidia-cdi-hook program."""
        ...


def vfio_uuid(pci_bus_id: str) -> str:
    """A passthrough device's UUID: derived from its address, so that it is always the same."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, pci_bus_id))
