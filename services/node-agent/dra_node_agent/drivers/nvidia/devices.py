"""What the driver knows of its devices, and their names (cmd/gpu-kubelet-plugin/deviceinfo.go, allocatable.go)."""

import re
from dataclasses import dataclass, field

_MIG_NAME = re.compile(r"gpu-(\d+)-mig-(.+)-(\d+)-(\d+)")


@dataclass(frozen=True, slots=True)
class GiProfile:
    """A GPU instance profile as NVML reports it."""

    slot: int
    id: int
    slices: int
    memory_mib: int
    multiprocessors: int
    copy_engines: int
    decoders: int
    encoders: int
    jpeg_engines: int
    ofa_engines: int
    placements: tuple[tuple[int, int], ...]

    def capacity(self) -> dict[str, int]:
        """The capacity of a MIG device of this profile by name; memory in bytes."""
        return {
            "multiprocessors": self.multiprocessors,
            "copyEngines": self.copy_engines,
            "decoders": self.decoders,
            "encoders": self.encoders,
            "jpegEngines": self.jpeg_engines,
            "ofaEngines": self.ofa_engines,
            "memory": self.memory_mib * 1024 * 1024,
        }


@dataclass(slots=True)
class Gpu:
    """A whole GPU."""

    uuid: str
    minor: int
    index: int
    mig_capable: bool
    mig_enabled: bool
    toggles_mig: bool
    virtual: bool
    memory_bytes: int | None
    product_name: str
    brand: str
    architecture: str
    cuda_compute_capability: str
    driver_version: str
    cuda_driver_version: str
    pci_bus_id: str
    pcie_root: str | None
    numa_node: int
    addressing_mode: str | None
    profiles: tuple[GiProfile, ...] = ()
    vfio_enabled: bool = False
    max_capacity: dict[str, int] = field(default_factory=dict)
    memory_slices: int = 0

    @property
    def name(self) -> str:
        return f"gpu-{self.minor}"

    @property
    def counter_set(self) -> str:
        return f"{self.name}-counter-set"

    @property
    def dynamic_mig_capable(self) -> bool:
        """Whether MIG devices can be made on demand: needs MIG mode on, or a mode that needs no reset."""
        return self.mig_capable and not self.virtual and (self.toggles_mig or self.mig_enabled)


@dataclass(frozen=True, slots=True)
class MigLive:
    """A MIG device that exists."""

    parent_minor: int
    parent_uuid: str
    gpu_instance: int
    compute_instance: int
    uuid: str


@dataclass(slots=True)
class MigDevice:
    """A MIG device: one that exists (static), or one that could (dynamic, ``live`` is None)."""

    parent: Gpu
    profile: GiProfile
    profile_name: str
    start: int
    size: int
    live: MigLive | None = None

    @property
    def name(self) -> str:
        compact = dns_label(self.profile_name.replace(".", ""))
        return f"gpu-{self.parent.minor}-mig-{compact}-{self.profile.id}-{self.start}"


@dataclass(slots=True)
class VfioGpu:
    """A GPU as something to pass through to a virtual machine."""

    uuid: str
    index: int
    product_name: str
    pci_bus_id: str
    pcie_root: str | None
    numa_node: int
    device_id: str
    vendor_id: str
    iommu_group: int
    iommu_fd_enabled: bool
    addressable_memory_bytes: int
    iommu_fd: str = ""

    @property
    def name(self) -> str:
        return f"gpu-vfio-{self.index}"


Allocatable = Gpu | MigDevice | VfioGpu


@dataclass(frozen=True, slots=True)
class MigPosition:
    """Where a MIG device sits, as its name tells."""

    parent_minor: int
    profile_id: int
    start: int


def mig_position(name: str) -> MigPosition | None:
    """The position that a MIG device's name encodes; None if the name is not one of a MIG device."""
    match = _MIG_NAME.fullmatch(name)
    if match is None:
        return None
    return MigPosition(int(match[1]), int(match[3]), int(match[4]))


def device_type(device: Allocatable) -> str:
    """The type in the driver's own messages, which distinguish possible MIG devices from existing ones."""
    if isinstance(device, Gpu):
        return "gpu"
    if isinstance(device, VfioGpu):
        return "vfio"
    return "mig" if device.live else "migdyn"


def dns_label(text: str) -> str:
    """Lower case, other characters than letters, digits, dots and hyphens turned into hyphens."""
    return re.sub(r"[^a-z0-9.-]", "-", text.lower()).strip("-").removesuffix(".")[:253]


def kebab(name: str) -> str:
    """A counter's name from a capacity's: ``copyEngines`` becomes ``copy-engines``."""
    name = re.sub(r"([a-z0-9])([A-Z])", r"\1-\2", name)
    return dns_label(re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1-\2", name))
