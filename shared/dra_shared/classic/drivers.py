"""Known drivers: their former names, and the attributes that they publish today.

NVIDIA's data is from github.com/NVIDIA/k8s-dra-driver (formerly `gpuselector.go`, now `deviceinfo.go`), the
example driver's from kubernetes-sigs/dra-example-driver. Nothing is assumed about other drivers.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field


class Type(enum.Enum):
    """The type of an attribute. Quantities are capacities in v1."""

    STRING = "string"
    INT = "int"
    BOOL = "bool"
    VERSION = "version"
    QUANTITY = "quantity"


@dataclass(frozen=True, slots=True)
class Driver:
    """A driver under its current name.

    ``types`` has the types of its attributes. ``gone`` says why a former attribute has no replacement.
    ``partitioned``: its devices are of type gpu or mig, and each class selects one of them.
    """

    name: str
    types: Mapping[str, Type] = field(default_factory=dict)
    gone: Mapping[str, str] = field(default_factory=dict)
    partitioned: bool = False


NVIDIA = Driver(
    "gpu.nvidia.com",
    types={
        "architecture": Type.STRING,
        "brand": Type.STRING,
        "cudaComputeCapability": Type.VERSION,
        "cudaDriverVersion": Type.VERSION,
        "driverVersion": Type.VERSION,
        "memory": Type.QUANTITY,
        "parentUUID": Type.STRING,
        "productName": Type.STRING,
        "profile": Type.STRING,
        "type": Type.STRING,
        "uuid": Type.STRING,
    },
    gone={"index": "GPUs have no index in v1: choose by uuid, or by a device's PCI bus id"},
    partitioned=True,
)
EXAMPLE = Driver(
    "gpu.example.com",
    types={
        "driverVersion": Type.VERSION,
        "index": Type.INT,
        "memory": Type.QUANTITY,
        "model": Type.STRING,
        "uuid": Type.STRING,
    },
)
_DRIVERS = {
    "gpu.nvidia.com": NVIDIA,
    "gpu.resource.nvidia.com": NVIDIA,
    "gpu.example.com": EXAMPLE,
    "gpu.resource.example.com": EXAMPLE,
}
GPU_CLASS, MIG_CLASS = "gpu.nvidia.com", "mig.nvidia.com"
"""The DeviceClasses that NVIDIA's driver installs."""


def driver_called(name: str) -> Driver:
    """Return the driver that had this name."""
    return _DRIVERS.get(name) or Driver(name)


def known_name(name: str) -> str:
    """Return the current name of a known driver; empty for all others."""
    return _DRIVERS[name].name if name in _DRIVERS else ""


_GROUPS = {
    "gpu.nvidia.com": NVIDIA,
    "gpu.resource.nvidia.com": NVIDIA,
    "gpu.resource.example.com": EXAMPLE,
    "gpu.example.com": EXAMPLE,
}


def driver_of_group(group: str) -> Driver | None:
    """Return the driver whose parameters are objects of this API group, or None."""
    return _GROUPS.get(group)


def is_vendor_group(group: str) -> bool:
    """True if objects of this API group are parameters of a known driver."""
    return group in _GROUPS
