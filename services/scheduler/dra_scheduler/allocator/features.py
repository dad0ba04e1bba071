"""The parts of the allocator that feature gates switch."""

from collections.abc import Iterable
from dataclasses import dataclass

# Upstream's combined name, next to the plain gates: binding conditions need the device status, too.
_BINDING = "DRADeviceBindingConditions+DRAResourceClaimDeviceStatus"


@dataclass(frozen=True, slots=True)
class Features:
    """Which optional parts are on (upstream's structured.Features)."""

    admin_access: bool = False
    consumable_capacity: bool = False
    device_binding: bool = False
    device_taints: bool = False
    list_type_attributes: bool = False
    partitionable_devices: bool = False
    prioritized_list: bool = False

    @classmethod
    def from_gates(cls, enabled: Iterable[str]) -> "Features":
        """From the names of the gates that are on; a ``FeatureGates`` iterates over just those."""
        names = set(enabled)
        return cls(
            admin_access="DRAAdminAccess" in names,
            consumable_capacity="DRAConsumableCapacity" in names,
            device_binding=_BINDING in names
            or {"DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus"} <= names,
            device_taints="DRADeviceTaints" in names,
            list_type_attributes="DRAListTypeAttributes" in names,
            partitionable_devices="DRAPartitionableDevices" in names,
            prioritized_list="DRAPrioritizedList" in names,
        )

    @classmethod
    def all(cls) -> "Features":
        """Everything on."""
        return cls(True, True, True, True, True, True, True)
