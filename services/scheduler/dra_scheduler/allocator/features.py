"""Feature gates of the allocator (upstream's ``structured.Features``), and the differences between versions.

Each property says whether the configured Kubernetes version behaves in a certain way. The properties mirror the
history of ``structured/internal/*/allocator_*.go`` and ``pools_*.go``.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from dra_shared.version import DEFAULT, V1_35, V1_36, V1_37, V1_38, Version

# A name that upstream uses for two gates together: binding conditions need the device status gate as well.
_BINDING = "DRADeviceBindingConditions+DRAResourceClaimDeviceStatus"
# In 1.34 this gate alone, which is on by default, selects the newest of upstream's allocators.
_STATUS = "DRAResourceClaimDeviceStatus"


class Arithmetic(enum.Enum):
    """The arithmetic for rounding capacity: 64 bits with overflow, 64 bits with errors, or thousandths."""

    WRAPPING = enum.auto()
    WHOLE = enum.auto()
    FRACTIONS = enum.auto()


class Implementation(enum.Enum):
    """Upstream's three allocator implementations. The oldest one that supports the enabled features is used."""

    STABLE = enum.auto()
    INCUBATING = enum.auto()
    EXPERIMENTAL = enum.auto()


# The gates that the allocators of 1.36 support. Each allocator also supports those of the one before it.
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
    if kubernetes >= V1_38:
        return Implementation.INCUBATING if names & _NEWEST else Implementation.STABLE
    if names & _NEWEST or (kubernetes < V1_35 and _STATUS in names):
        return Implementation.EXPERIMENTAL
    if names & _SHARES:
        return Implementation.INCUBATING if kubernetes >= V1_36 else Implementation.EXPERIMENTAL
    if names & _OLD_GATES and kubernetes < V1_36:
        return Implementation.INCUBATING
    return Implementation.STABLE


@dataclass(frozen=True, slots=True)
class Features:
    """The optional features that are on (upstream's structured.Features), and the allocator implementation."""

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
    def code(self) -> Implementation:
        """Return the allocator of 1.37 with the same features.

        In 1.38 the stable allocator supports the features of the earlier incubating one, and the incubating
        allocator those of the earlier experimental one.
        """
        if self.kubernetes < V1_38:
            return self.implementation
        stable = self.implementation is Implementation.STABLE
        return Implementation.INCUBATING if stable else Implementation.EXPERIMENTAL

    @property
    def knows_shares(self) -> bool:
        """True if the allocator has code for shares, binding conditions and distinctAttribute, even if they are off.

        Without it, capacity requests and ``allowMultipleAllocations`` are not read, and devices with binding
        conditions do not come last.
        """
        if self.code is Implementation.INCUBATING:
            return self.kubernetes >= V1_36
        return self.code is Implementation.EXPERIMENTAL

    @property
    def alternatives_end_as_the_first(self) -> bool:
        """True if, after one device of an alternative with mode All, upstream continues with those of the first one."""
        return self.kubernetes < V1_36

    @property
    def pools_are_sorted(self) -> bool:
        """True if pools are ordered by driver and name, and slices by name.

        If false, both are in the order in which the scheduler observed them. The order of pools in upstream's
        oldest allocator is random; the order of arrival is one of its possible orders.
        """
        return self.kubernetes >= V1_36 and self.code is not Implementation.STABLE

    @property
    def starts_over(self) -> bool:
        """True if the search for each device of a request starts at the first one, so a request can share a device."""
        return self.kubernetes < V1_36

    @property
    def shares_use_counters(self) -> bool:
        """True if devices that are allocated as shares consume counters as dedicated devices do.

        The oldest allocator does not see shares at all.
        """
        return self.kubernetes >= V1_36 and self.code is not Implementation.STABLE

    @property
    def pools_are_the_nodes(self) -> bool:
        """True if a pool consists only of slices that the node can reach.

        Then the devices of an incomplete pool can be allocated one by one, and an inconsistent pool ends a
        search only if the search reaches it.
        """
        return self.kubernetes < V1_35

    @property
    def counters_are_the_slices(self) -> bool:
        """True if devices consume the counters that their own slice defines instead of those that the pool defines."""
        oldest = self.code is Implementation.STABLE
        return self.kubernetes < (V1_36 if oldest else V1_35)

    @property
    def shares_consume_counters_again(self) -> bool:
        """True if each share of a device consumes the device's counters again, instead of only the first share."""
        return self.kubernetes < V1_35

    @property
    def any_taint_prevents(self) -> bool:
        """True if taints with an unknown effect also prevent allocation."""
        return self.kubernetes < V1_35

    @property
    def distinct_are_devices(self) -> bool:
        """True if distinctAttribute compares pointers instead of values, so different devices always differ."""
        return self.kubernetes < V1_35

    @property
    def checks_capacity_of_neighbour(self) -> bool:
        """True if capacity is read from the device at the request's device index in the slice, not from the picked one.

        Upstream crashes if the slice has no device at that index. Here the device's own capacity is used in
        that case.
        """
        return self.kubernetes < V1_35 and self.consumable_capacity

    @property
    def results_have_tolerations(self) -> bool:
        """True if the result for an allocated device contains the request's tolerations."""
        oldest = self.code is Implementation.STABLE
        return self.kubernetes >= (V1_36 if oldest else V1_35)

    @property
    def arithmetic(self) -> Arithmetic:
        """Return the arithmetic for amounts of capacity."""
        if self.kubernetes < V1_37:
            return Arithmetic.WRAPPING
        return Arithmetic.FRACTIONS if self.fractional_capacity else Arithmetic.WHOLE

    @property
    def takes_all_back(self) -> bool:
        """True if the search's state is restored completely when a device is rejected or removed."""
        return self.kubernetes >= V1_37

    @property
    def whole_capacity_counts_for_all(self) -> bool:
        """True if a request with allocation mode All fails if the capacity of one of the devices is used up."""
        return self.kubernetes >= V1_37

    @property
    def requests_are_counted(self) -> bool:
        """True if the devices of a claim are counted after each request."""
        return self.kubernetes >= V1_37

    @property
    def counters_have_drivers(self) -> bool:
        """True if pools with the same name but different drivers have separate counters."""
        return self.kubernetes >= V1_37

    @property
    def counter_sets_have_nodes(self) -> bool:
        """True if a slice with counter sets is visible only to its own nodes.

        Other nodes read the counter sets through the pool.
        """
        return self.kubernetes >= V1_37 and self.code is not Implementation.STABLE

    @property
    def derivations_are_known(self) -> bool:
        """True if derived attributes are an error while the feature is off. Older versions ignore them."""
        return self.kubernetes >= V1_37

    @property
    def operations_are_known(self) -> bool:
        """True if devices with skipped node operations need a node with support.

        Older releases, and all allocators but the newest, ignore the field.
        """
        return self.kubernetes >= V1_37 and self.code is Implementation.EXPERIMENTAL

    @property
    def groups_are_known(self) -> bool:
        """True if devices with compatibility groups are rejected while the feature is off.

        Older versions ignore the groups.
        """
        return self.kubernetes >= V1_37

    @property
    def configurations_are_merged(self) -> bool:
        """True if the result lists each configuration once. One that applies to all requests has no request names."""
        return self.kubernetes >= V1_37

    @property
    def errors_name_the_device(self) -> bool:
        """True if a selector's error names the device for which it was evaluated."""
        return self.kubernetes >= V1_37

    @property
    def lists_are_readable(self) -> bool:
        """True if selectors can read attributes that are lists."""
        return self.list_type_attributes or self.kubernetes >= V1_37

    @property
    def capacity_names_have_domains(self) -> bool:
        """True if a capacity name without a domain means the name with the driver's name as domain."""
        return self.kubernetes >= V1_38

    @property
    def shares_prevent_exclusive_use(self) -> bool:
        """True if a device is not allocated that is no longer shareable while claims still hold shares of it."""
        return self.kubernetes >= V1_38

    @property
    def unknown_values_fail(self) -> bool:
        """True if an attribute of unknown type, or an invalid version, ends the allocation if a constraint reads it."""
        return self.kubernetes >= V1_38

    @property
    def builds_are_equal(self) -> bool:
        """True if constraints ignore the build metadata of attributes that are semantic versions."""
        return self.kubernetes >= V1_38

    @property
    def incomplete_pools_fail_on_node(self) -> bool:
        """True if a request for all devices of a pool that is incomplete or invalid only fails on this node."""
        return self.kubernetes >= V1_38

    @classmethod
    def from_gates(cls, enabled: Iterable[str], kubernetes: Version = DEFAULT) -> "Features":
        """Create the features from the names of enabled gates.

        A ``FeatureGates`` can be passed, because iterating over it yields these names.
        """
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
        """Return features with every optional feature on."""
        return cls(True, True, True, True, True, True, True)
