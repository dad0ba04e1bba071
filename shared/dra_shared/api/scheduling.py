"""scheduling.k8s.io PodGroup, CompositePodGroup and Workload: pods that are scheduled together.

PodGroup has the fields of v1alpha2 and of later versions.
"""

from typing import Any

from msgspec import field

from dra_shared.api.meta import Condition, Object, Struct


class WorkloadPodGroupTemplateReference(Struct):
    pod_group_template_name: str = ""
    workload_name: str = ""


class PodGroupTemplateReference(Struct):
    workload: WorkloadPodGroupTemplateReference | None = None


class PodGroupResourceClaim(Struct):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class TopologyConstraint(Struct):
    key: str = ""


class PodGroupSchedulingConstraints(Struct):
    topology: tuple[TopologyConstraint, ...] = ()


class BasicSchedulingPolicy(Struct):
    pass


class GangSchedulingPolicy(Struct):
    min_count: int = 0


class PodGroupSchedulingPolicy(Struct):
    basic: BasicSchedulingPolicy | None = None
    gang: GangSchedulingPolicy | None = None


class WorkloadReference(Struct):
    template_name: str = ""
    workload_name: str = ""


class PodGroupSpec(Struct):
    disruption_mode: Any = None
    parent_composite_pod_group_name: str | None = None
    pod_group_template_ref: PodGroupTemplateReference | None = None
    preemption_policy: str | None = None
    priority: int | None = None
    priority_class_name: str = ""
    resource_claims: tuple[PodGroupResourceClaim, ...] = ()
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    scheduling_policy: PodGroupSchedulingPolicy = field(default_factory=PodGroupSchedulingPolicy)
    workload_ref: WorkloadReference | None = None


class PodGroupResourceClaimStatus(Struct):
    name: str = ""
    resource_claim_name: str | None = None


class PodGroupStatus(Struct):
    conditions: tuple[Condition, ...] = ()
    resource_claim_statuses: tuple[PodGroupResourceClaimStatus, ...] = ()


class PodGroup(Object):
    spec: PodGroupSpec = field(default_factory=PodGroupSpec)
    status: PodGroupStatus = field(default_factory=PodGroupStatus)


class CompositeGangSchedulingPolicy(Struct):
    min_group_count: int = 0


class CompositePodGroupSchedulingPolicy(Struct):
    basic: BasicSchedulingPolicy | None = None
    gang: CompositeGangSchedulingPolicy | None = None


class CompositePodGroupSpec(Struct):
    disruption_mode: Any = None
    parent_composite_pod_group_name: str | None = None
    preemption_policy: str | None = None
    priority: int | None = None
    scheduling_policy: CompositePodGroupSchedulingPolicy = field(
        default_factory=CompositePodGroupSchedulingPolicy
    )


class CompositePodGroup(Object):
    """A group of groups. Its children name it as their parent."""

    spec: CompositePodGroupSpec = field(default_factory=CompositePodGroupSpec)


class TypedLocalObjectReference(Struct):
    api_group: str | None = None
    kind: str = ""
    name: str = ""


class PodGroupTemplate(Struct):
    disruption_mode: Any = None
    name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    resource_claims: tuple[PodGroupResourceClaim, ...] = ()
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    scheduling_policy: PodGroupSchedulingPolicy = field(default_factory=PodGroupSchedulingPolicy)


class WorkloadSpec(Struct):
    controller_ref: TypedLocalObjectReference | None = None
    pod_group_templates: tuple[PodGroupTemplate, ...] = ()


class Workload(Object):
    spec: WorkloadSpec = field(default_factory=WorkloadSpec)
