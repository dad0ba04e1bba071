"""The driver's data about its devices, and their names (cmd/gpu-kubelet-plugin/deviceinfo.go, allocatable.go)."""

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
        """Return the capacity of a MIG device of this profile by name, with memory in bytes."""
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
        """True if MIG devices can be created on demand: MIG mode is on, or can be switched on without a reset."""
        return self.mig_capable and not self.virtual and (self.toggles_mig or self.mig_enabled)


@dataclass(frozen=True, slots=True)
class MigLive:
    """An existing MIG device."""

    parent_minor: int
    parent_uuid: str
    gpu_instance: int
    compute_instance: int
    uuid: str


@dataclass(slots=True)
class MigDevice:
    """A MIG device that exists (static), or that could be created (dynamic, ``live`` is None)."""

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
    """A GPU that can be passed through to a virtual machine."""

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
    """The position of a MIG device, as encoded in its name."""

    parent_minor: int
    profile_id: int
    start: int


def mig_position(name: str) -> MigPosition | None:
    """Return the position that a MIG device's name encodes, or None for other names."""
    match = _MIG_NAME.fullmatch(name)
    if match is None:
        return None
    return MigPosition(int(match[1]), int(match[3]), int(match[4]))


def device_type(device: Allocatable) -> str:
    """Return the type for the driver's messages, which distinguish possible from existing MIG devices."""
    if isinstance(device, Gpu):
        return "gpu"
    if isinstance(device, VfioGpu):
        return "vfio"
    return "mig" if device.live else "migdyn"


def dns_label(text: str) -> str:
    """Convert to lower case, and replace all characters except letters, digits, dots and hyphens by hyphens."""
    return re.sub(r"[^a-z0-9.-]", "-", text.lower()).strip("-").removesuffix(".")[:253]


def kebab(name: str) -> str:
    """Convert a capacity's name to a counter's name: ``copyEngines`` becomes ``copy-engines``."""
    name = re.sub(r"([a-z0-9])([A-Z])", r"\1-\2", name)
    return dns_label(re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1-\2", name))
