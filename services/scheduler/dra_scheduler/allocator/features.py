"""Feature gates of the allocator (upstream's ``structured.Features``)."""

from collections.abc import Iterable
from dataclasses import dataclass

# Upstream's combined name, next to the plain gates: binding conditions need the device status, too.
_BINDING = "DRADeviceBindingConditions+DRAResourceClaimDeviceStatus"


@dataclass(frozen=True, slots=True)
class Features:
    """Which optional parts are on (upstream's structured.Features).

    ``stable``: answer as the oldest of upstream's allocators, which is picked where the features allow.
    """

    admin_access: bool = False
    consumable_capacity: bool = False
    device_binding: bool = False
    device_taints: bool = False
    list_type_attributes: bool = False
    partitionable_devices: bool = False
    prioritized_list: bool = False
    stable: bool = False

    @classmethod
    def from_gates(cls, enabled: Iterable[str]) -> "Features":
        """From the names of the gates that are on; a ``FeatureGates`` iterates over just those."""
        names = set(enabled)
        capacity, lists = "DRAConsumableCapacity" in names, "DRAListTypeAttributes" in names
        binding = _BINDING in names or {"DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus"} <= names
        return cls(
            admin_access="DRAAdminAccess" in names,
            consumable_capacity=capacity,
            device_binding=binding,
            device_taints="DRADeviceTaints" in names,
            list_type_attributes=lists,
            partitionable_devices="DRAPartitionableDevices" in names,
            prioritized_list="DRAPrioritizedList" in names,
            stable=not (capacity or binding or lists),
        )

    @classmethod
    def all(cls) -> "Features":
        """Everything on."""
        return cls(True, True, True, True, True, True, True)
