"""The fields of resource.k8s.io behind feature gates (the strategies' dropDisabledFields)."""

from __future__ import annotations

from dra_apiserver.kinds.common.gates import GatedFields


def claim_spec_fields(at: str) -> tuple[GatedFields, ...]:
    """The gated fields of a claim's spec that lies at the path `at`."""
    exact, alternative = f"{at}.devices.requests.*.exactly", f"{at}.devices.requests.*.firstAvailable.*"
    return (
        GatedFields(("DRAPrioritizedList",), (f"{at}.devices.requests.*.firstAvailable",)),
        GatedFields(("DRADeviceTaints",), (f"{exact}.tolerations", f"{alternative}.tolerations")),
        GatedFields(("DRAAdminAccess",), (f"{exact}.adminAccess",)),
        GatedFields(
            ("DRAConsumableCapacity",),
            (
                f"{exact}.capacity",
                f"{alternative}.capacity",
                f"{at}.devices.constraints.*.distinctAttribute",
            ),
        ),
        GatedFields(
            ("DRADerivedAttributes",), (f"{exact}.derivedAttributes", f"{alternative}.derivedAttributes")
        ),
    )


_BINDING = ("DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus")
_RESULT = "status.allocation.devices.results.*"

CLAIM = claim_spec_fields("spec")
CLAIM_STATUS = (
    GatedFields(("DRAResourceClaimDeviceStatus",), ("status.devices",)),
    GatedFields(("DRAAdminAccess",), (f"{_RESULT}.adminAccess",), CLAIM[2].fields),
    GatedFields(
        ("DRAConsumableCapacity",),
        (f"{_RESULT}.shareID", f"{_RESULT}.consumedCapacity", "status.devices.*.shareID"),
        CLAIM[3].fields,
    ),
    GatedFields(_BINDING, (f"{_RESULT}.bindingConditions", f"{_RESULT}.bindingFailureConditions")),
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
