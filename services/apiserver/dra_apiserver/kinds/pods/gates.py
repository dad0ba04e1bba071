"""The fields of pods behind feature gates (`dropDisabledFields` in pkg/api/pod/util.go)."""

from __future__ import annotations

from dra_apiserver.common.gates import GatedFields

# 1.35 names the workload, later versions the group.
POD = (GatedFields(("GenericWorkload",), ("spec.workloadRef", "spec.schedulingGroup")),)
POD_STATUS = (
    GatedFields(("DRAExtendedResource",), ("status.extendedResourceClaimStatus",)),
    GatedFields(("DRANodeAllocatableResources",), ("status.nodeAllocatableResourceClaimStatuses",)),
)


def template(path: str) -> tuple[GatedFields, ...]:
    """Return the gated fields of the pod template at `path` (`DropDisabledTemplateFields`)."""
    return tuple(rule.below(path) for rule in POD)


# The names of gated fields. Most pods have none of them, so their gates need not be checked.
IN_SPEC, IN_STATUS = (
    frozenset(path.rpartition(".")[2] for rule in rules for path in rule.fields)
    for rules in (POD, POD_STATUS)
)
