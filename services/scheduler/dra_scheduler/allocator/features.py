"""Feature gates of the allocator (upstream's ``structured.Features``), and what changed between versions.

The properties are named after what a version of Kubernetes does, and mirror the history of
``structured/internal/*/allocator_*.go`` and ``pools_*.go``.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from dra_shared.version import DEFAULT, V1_35, V1_36, V1_37, Version

# Upstream's combined name, next to the plain gates: binding conditions need the device status, too.
_BINDING = "DRADeviceBindingConditions+DRAResourceClaimDeviceStatus"
# In 1.34 this gate alone, which is on by default, asks for the newest of upstream's allocators.
_STATUS = "DRAResourceClaimDeviceStatus"


class Arithmetic(enum.Enum):
    """How amounts of capacity are rounded: in 64 bits, with errors for what does not fit, or in thousandths, too."""

    WRAPPING = enum.auto()
    WHOLE = enum.auto()
    FRACTIONS = enum.auto()


class Implementation(enum.Enum):
    """Upstream's allocators. The oldest one that supports the features is picked."""

    STABLE = enum.auto()
    INCUBATING = enum.auto()
    EXPERIMENTAL = enum.auto()


# What the allocators of 1.36 support, each besides what the one before it does.
_OLD_GATES = frozenset(("DRAAdminAccess", "DRADeviceTaints", "DRAPartitionableDevices", "DRAPrioritizedList"))
_SHARES = frozenset(("DRAConsumableCapacity", "DRAFractionalCapacityRange", _BINDING))
_NEWEST = frozenset(
    (
        "DRADerivedAttributes",
        "DRADeviceCompatibilityGroups",
        "DRAListTypeAttributes",
        "DRAOptionalNodeOperations",
    )
)


def _implementation(names: set[str], kubernetes: Version) -> Implementation:
    """Return the allocator that upstream picks for the gates (``NewAllocator`` in structured/allocator.go)."""
    if names & _NEWEST or (kubernetes < V1_35 and _STATUS in names):
        return Implementation.EXPERIMENTAL
    if names & _SHARES:
        return Implementation.INCUBATING if kubernetes >= V1_36 else Implementation.EXPERIMENTAL
    if names & _OLD_GATES and kubernetes < V1_36:
        return Implementation.INCUBATING
    return Implementation.STABLE


@dataclass(frozen=True, slots=True)
class Features:
    """The optional parts that are on (upstream's structured.Features), and the allocator that answers."""

    admin_access: bool = False
    consumable_capacity: bool = False
    device_binding: bool = False
    device_taints: bool = False
    list_type_attributes: bool = False
    partitionable_devices: bool = False
    prioritized_list: bool = False
    implementation: Implementation = Implementation.EXPERIMENTAL
    kubernetes: Version = DEFAULT
    compatibility_groups: bool = False
    derived_attributes: bool = False
    fractional_capacity: bool = False
    optional_node_operations: bool = False

    @property
    def knows_shares(self) -> bool:
        """True if the allocator has code for shares, binding conditions and distinctAttribute, on or off.

        Without it, capacity requests and ``allowMultipleAllocations`` are not read, and devices with binding
        conditions do not come last.
        """
        if self.implementation is Implementation.INCUBATING:
            return self.kubernetes >= V1_36
        return self.implementation is Implementation.EXPERIMENTAL

    @property
    def alternatives_end_as_the_first(self) -> bool:
        """True if an alternative for all devices gets one of its own, and then those that the first one lacks."""
        return self.kubernetes < V1_36

    @property
    def pools_are_sorted(self) -> bool:
        """Whether pools come by driver and name and slices by name; before, both come as the slices did.

        Upstream's oldest allocator leaves the order of pools to chance, and this is one that it may have.
        """
        return self.kubernetes >= V1_36

    @property
    def starts_over(self) -> bool:
        """Whether each device of a request is looked for from the start, so that one may be shared with itself."""
        return self.kubernetes < V1_36

    @property
    def shares_use_counters(self) -> bool:
        """Whether devices of which claims have shares use up counters, as those that a claim has for itself do."""
        return self.kubernetes >= V1_36

    @property
    def pools_are_the_nodes(self) -> bool:
        """Whether only slices that the node can reach make up a pool.

        Then devices of a pool that lacks slices may be taken one by one, and one that contradicts itself ends a search
        that gets to it.
        """
        return self.kubernetes < V1_35

    @property
    def counters_are_the_slices(self) -> bool:
        """Whether devices consume counters of their own slice, instead of the pool's."""
        oldest = self.implementation is Implementation.STABLE
        return self.kubernetes < (V1_36 if oldest else V1_35)

    @property
    def shares_consume_counters_again(self) -> bool:
        """Whether each share of a device consumes the device's counters, instead of the first one alone."""
        return self.kubernetes < V1_35

    @property
    def any_taint_prevents(self) -> bool:
        """Whether taints of effects that are not known keep devices from being allocated, too."""
        return self.kubernetes < V1_35

    @property
    def distinct_are_devices(self) -> bool:
        """Whether distinctAttribute compares where values are stored, so that only a device equals itself."""
        return self.kubernetes < V1_35

    @property
    def checks_capacity_of_neighbour(self) -> bool:
        """Whether a picked device's capacity is looked up at the place in its slice that the pick has in its request.

        Where the slice has no such place upstream crashes; here the device's own capacity counts then.
        """
        return self.kubernetes < V1_35 and self.consumable_capacity

    @property
    def results_have_tolerations(self) -> bool:
        """Whether an allocated device's result says which taints the request tolerates."""
        oldest = self.implementation is Implementation.STABLE
        return self.kubernetes >= (V1_36 if oldest else V1_35)

    @property
    def arithmetic(self) -> Arithmetic:
        """How amounts of capacity are worked out."""
        if self.kubernetes < V1_37:
            return Arithmetic.WRAPPING
        return Arithmetic.FRACTIONS if self.fractional_capacity else Arithmetic.WHOLE

    @property
    def takes_all_back(self) -> bool:
        """Whether a device that is rejected or given back leaves nothing behind."""
        return self.kubernetes >= V1_37

    @property
    def shares_exclude_whole_devices(self) -> bool:
        """Whether a device of which claims have shares cannot be had as a whole, if it allows no more shares."""
        return self.kubernetes >= V1_37

    @property
    def whole_capacity_counts_for_all(self) -> bool:
        """Whether a request for all devices wants also those whose capacity is used up, and so fails."""
        return self.kubernetes >= V1_37

    @property
    def requests_are_counted(self) -> bool:
        """Whether a claim's devices are counted request by request."""
        return self.kubernetes >= V1_37

    @property
    def counters_have_drivers(self) -> bool:
        """Whether pools of one name, but of several drivers, have counters of their own."""
        return self.kubernetes >= V1_37

    @property
    def counter_sets_have_nodes(self) -> bool:
        """Whether a slice with counter sets is shown to its own nodes; the others find it when the pool needs it."""
        return self.kubernetes >= V1_37 and self.implementation is not Implementation.STABLE

    @property
    def derivations_are_known(self) -> bool:
        """Whether derived attributes of a request are an error where the feature is off; before, they are not read."""
        return self.kubernetes >= V1_37

    @property
    def operations_are_known(self) -> bool:
        """Whether devices whose operations are skipped are left alone where that can't be; before, none is read."""
        return self.kubernetes >= V1_37

    @property
    def groups_are_known(self) -> bool:
        """Whether devices with compatibility groups are left alone where the feature is off."""
        return self.kubernetes >= V1_37

    @property
    def configurations_are_merged(self) -> bool:
        """Whether a configuration is in the result once, and names no requests if it is for all of them."""
        return self.kubernetes >= V1_37

    @property
    def errors_name_the_device(self) -> bool:
        """Whether the error of a selector says for which device it was evaluated."""
        return self.kubernetes >= V1_37

    @property
    def lists_are_readable(self) -> bool:
        """Whether selectors can read attributes that are lists."""
        return self.list_type_attributes or self.kubernetes >= V1_37

    @property
    def unknown_values_match(self) -> bool:
        """Whether a first device may have a value that matchAttribute does not know, such as a list."""
        return self.kubernetes < V1_37

    @classmethod
    def from_gates(cls, enabled: Iterable[str], kubernetes: Version = DEFAULT) -> "Features":
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
            implementation=_implementation(names | ({_BINDING} if binding else set()), kubernetes),
            kubernetes=kubernetes,
            compatibility_groups="DRADeviceCompatibilityGroups" in names,
            derived_attributes="DRADerivedAttributes" in names,
            fractional_capacity="DRAFractionalCapacityRange" in names,
            optional_node_operations="DRAOptionalNodeOperations" in names,
        )

    @classmethod
    def all(cls) -> "Features":
        """Everything on."""
        return cls(True, True, True, True, True, True, True)
