"""The fields of resource.k8s.io behind feature gates (the strategies' dropDisabledFields)."""

from __future__ import annotations

from dra_shared.version import V1_35

from dra_apiserver.common.gates import GatedFields


def claim_spec_fields(at: str, *, status: tuple[str, ...] = ()) -> tuple[GatedFields, ...]:
    """Return the gated fields of a claim's spec at the path `at`.

    `status`: for 1.34, the fields of the claim's status that show that consumable capacity is in use.
    """
    exact, alternative = f"{at}.devices.requests.*.exactly", f"{at}.devices.requests.*.firstAvailable.*"
    capacity = (f"{exact}.capacity", f"{alternative}.capacity")
    distinct = f"{at}.devices.constraints.*.distinctAttribute"
    return (
        GatedFields(("DRAPrioritizedList",), (f"{at}.devices.requests.*.firstAvailable",)),
        GatedFields(
            ("DRADeviceTaints",), (f"{exact}.tolerations", f"{alternative}.tolerations"), since=V1_35
        ),
        GatedFields(("DRAAdminAccess",), (f"{exact}.adminAccess",)),
        GatedFields(("DRAConsumableCapacity",), capacity, (distinct, *status), structs=True, until=V1_35),
        GatedFields(("DRAConsumableCapacity",), capacity, (distinct,), structs=True, since=V1_35),
        # 1.34 does not drop these fields, because its loop modifies copies.
        GatedFields(("DRAConsumableCapacity",), (distinct,), capacity, structs=True, since=V1_35),
        GatedFields(
            ("DRADerivedAttributes",), (f"{exact}.derivedAttributes", f"{alternative}.derivedAttributes")
        ),
    )


_BINDING = ("DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus")
_RESULT = "status.allocation.devices.results.*"
_CONDITIONS = (f"{_RESULT}.bindingConditions", f"{_RESULT}.bindingFailureConditions")

_SHARES = (f"{_RESULT}.shareID", f"{_RESULT}.consumedCapacity", "status.devices.*.shareID")

CLAIM = claim_spec_fields("spec", status=_SHARES)
CLAIM_STATUS = (
    GatedFields(("DRAResourceClaimDeviceStatus",), ("status.devices",)),
    GatedFields(("DRAAdminAccess",), (f"{_RESULT}.adminAccess",), CLAIM[2].fields),
    GatedFields(
        ("DRAConsumableCapacity",),
        _SHARES,
        (*CLAIM[3].fields, *CLAIM[5].fields),
    ),
    GatedFields(_BINDING, (*_CONDITIONS, "status.allocation.allocationTimestamp"), until=V1_35),
    GatedFields(("DRADeviceBindingConditions",), _CONDITIONS, since=V1_35),
    GatedFields(("DRAOptionalNodeOperations",), (f"{_RESULT}.skipNodeOperations",)),
)
CLAIM_TEMPLATE = claim_spec_fields("spec.spec")
SLICE = (
    GatedFields(("DRADeviceTaints",), ("spec.devices.*.taints",)),
    GatedFields(
        ("DRAPartitionableDevices",),
        (
            "spec.sharedCounters",
            "spec.perDeviceNodeSelection",
            "spec.devices.*.consumesCounters",
            "spec.devices.*.nodeName",
            "spec.devices.*.nodeSelector",
            "spec.devices.*.allNodes",
        ),
        structs=True,
    ),
    GatedFields(
        _BINDING,
        (
            "spec.devices.*.bindsToNode",
            "spec.devices.*.bindingConditions",
            "spec.devices.*.bindingFailureConditions",
        ),
    ),
    GatedFields(
        ("DRAConsumableCapacity",),
        ("spec.devices.*.allowMultipleAllocations", "spec.devices.*.capacity.*.requestPolicy"),
        structs=True,
    ),
    GatedFields(
        ("DRAListTypeAttributes",),
        tuple(f"spec.devices.*.attributes.*.{kind}" for kind in ("bools", "ints", "strings", "versions")),
    ),
    GatedFields(
        ("DRANodeAllocatableResources",),
        ("spec.devices.*.nodeAllocatableResourceMappings", "spec.devices.*.nodeAllocatableResources"),
    ),
    GatedFields(
        ("DRADeviceCompatibilityGroups",), ("spec.devices.*.consumesCounters.*.compatibilityGroups",)
    ),
    GatedFields(("DRAOptionalNodeOperations",), ("spec.skipNodeOperations",)),
    GatedFields(("DRAPartitionableDevicesType",), ("spec.partitionTypeAttribute",)),
)
CLASS = (GatedFields(("DRAExtendedResource",), ("spec.extendedResourceName",)),)
POOL_STATUS_REQUEST = (
    GatedFields(("DRAPartitionableDevicesType",), ("spec.defaultPartitionTypeAttribute",)),
)
