"""The fields of pods behind feature gates (`dropDisabledFields` in pkg/api/pod/util.go)."""

from __future__ import annotations

from dra_apiserver.kinds.common.gates import GatedFields

# 1.35 names the workload, later versions the group.
POD = (GatedFields(("GenericWorkload",), ("spec.workloadRef", "spec.schedulingGroup")),)
POD_STATUS = (
    GatedFields(("DRAExtendedResource",), ("status.extendedResourceClaimStatus",)),
    GatedFields(("DRANodeAllocatableResources",), ("status.nodeAllocatableResourceClaimStatuses",)),
)
