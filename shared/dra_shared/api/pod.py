"""core/v1 Pod."""

from msgspec import field

from dra_shared.api.container import (
    Container,
    ContainerStatus,
    EphemeralContainer,
    PodSecurityContext,
    ResourceRequirements,
)
from dra_shared.api.meta import Condition, LabelSelector, Object, ObjectMeta, Struct
from dra_shared.api.node import NodeSelector, NodeSelectorTerm, Toleration
from dra_shared.api.volume import Volume


class PreferredSchedulingTerm(Struct):
    preference: NodeSelectorTerm = field(default_factory=NodeSelectorTerm)
    weight: int = 0


class NodeAffinity(Struct):
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


class PodAffinityTerm(Struct):
    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    topology_key: str = ""


class WeightedPodAffinityTerm(Struct):
    pod_affinity_term: PodAffinityTerm = field(default_factory=PodAffinityTerm)
    weight: int = 0


class PodAffinity(Struct):
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()
    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()


class PodAntiAffinity(Struct):
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()
    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()


class Affinity(Struct):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


class PodDNSConfigOption(Struct):
    name: str = ""
    value: str = ""


class PodDNSConfig(Struct):
    nameservers: tuple[str, ...] = ()
    options: tuple[PodDNSConfigOption, ...] = ()
    searches: tuple[str, ...] = ()


class HostAlias(Struct):
    hostnames: tuple[str, ...] = ()
    ip: str = ""


class LocalObjectReference(Struct):
    name: str = ""


class PodOS(Struct):
    name: str = ""


class PodReadinessGate(Struct):
    condition_type: str = ""


class PodResourceClaim(Struct):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGate(Struct):
    name: str = ""


class PodSchedulingGroup(Struct):
    pod_group_name: str | None = None


class WorkloadReference(Struct):
    """The pod group of a pod in 1.35. Later versions have ``scheduling_group`` instead."""

    name: str = ""
    pod_group: str = ""
    pod_group_replica_key: str | None = None


class TopologySpreadConstraint(Struct):
    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    max_skew: int = 0
    min_domains: int | None = None
    node_affinity_policy: str = ""
    node_taints_policy: str = ""
    topology_key: str = ""
    when_unsatisfiable: str = ""


class EvictionResponder(Struct):
    name: str = ""
    priority: int | None = None


class PodSpec(Struct):
    active_deadline_seconds: int | None = None
    affinity: Affinity | None = None
    automount_service_account_token: bool | None = None
    containers: tuple[Container, ...] = ()
    dns_config: PodDNSConfig | None = None
    dns_policy: str = ""
    enable_service_links: bool | None = None
    ephemeral_containers: tuple[EphemeralContainer, ...] = ()
    eviction_responders: tuple[EvictionResponder, ...] = ()
    host_aliases: tuple[HostAlias, ...] = ()
    host_ipc: bool | None = field(default=None, name="hostIPC")
    host_network: bool | None = None
    host_pid: bool | None = field(default=None, name="hostPID")
    host_users: bool | None = None
    hostname: str = ""
    hostname_override: str | None = None
    image_pull_secrets: tuple[LocalObjectReference, ...] = ()
    init_containers: tuple[Container, ...] = ()
    node_name: str = ""
    node_selector: dict[str, str] = field(default_factory=dict)
    os: PodOS | None = None
    overhead: dict[str, str] = field(default_factory=dict)
    preemption_policy: str | None = None
    priority: int | None = None
    priority_class_name: str = ""
    readiness_gates: tuple[PodReadinessGate, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    resources: ResourceRequirements | None = None
    restart_policy: str = ""
    runtime_class_name: str | None = None
    scheduler_name: str = ""
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    scheduling_group: PodSchedulingGroup | None = None
    security_context: PodSecurityContext | None = None
    service_account: str = ""
    service_account_name: str = ""
    set_hostname_as_fqdn: bool | None = field(default=None, name="setHostnameAsFQDN")
    share_process_namespace: bool | None = None
    subdomain: str = ""
    termination_grace_period_seconds: int | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    volumes: tuple[Volume, ...] = ()
    workload_ref: WorkloadReference | None = None


class PodCondition(Condition):
    last_probe_time: str | None = None


class ContainerExtendedResourceRequest(Struct):
    container_name: str = ""
    request_name: str = ""
    resource_name: str = ""


class PodExtendedResourceClaimStatus(Struct):
    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    resource_claim_name: str = ""


class HostIP(Struct):
    ip: str = ""


class NodeAllocatableMappedResources(Struct):
    name: str = ""
    quantity: str = "0"


class NodeAllocatableOverheadResources(Struct):
    name: str = ""
    per_container: str | None = None
    per_pod: str | None = None


class NodeAllocatableResourceClaimStatus(Struct):
    containers: tuple[str, ...] = ()
    mapping: tuple[NodeAllocatableMappedResources, ...] = ()
    overhead: tuple[NodeAllocatableOverheadResources, ...] = ()
    resource_claim_name: str = ""
    resources: dict[str, str] = field(default_factory=dict)


class PodIP(Struct):
    ip: str = ""


class PodResourceClaimStatus(Struct):
    name: str = ""
    resource_claim_name: str | None = None


class PodStatus(Struct):
    allocated_resources: dict[str, str] = field(default_factory=dict)
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None
    host_ip: str = field(default="", name="hostIP")
    host_ips: tuple[HostIP, ...] = field(default=(), name="hostIPs")
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    message: str = ""
    node_allocatable_resource_claim_statuses: tuple[NodeAllocatableResourceClaimStatus, ...] = ()
    nominated_node_name: str = ""
    observed_generation: int | None = None
    phase: str = ""
    pod_ip: str = field(default="", name="podIP")
    pod_ips: tuple[PodIP, ...] = field(default=(), name="podIPs")
    qos_class: str = ""
    reason: str = ""
    resize: str = ""
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    resources: ResourceRequirements | None = None
    start_time: str | None = None


class Pod(Object):
    spec: PodSpec = field(default_factory=PodSpec)
    status: PodStatus = field(default_factory=PodStatus)


class PodTemplateSpec(Struct):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodSpec = field(default_factory=PodSpec)


class ObjectReference(Struct):
    api_version: str = ""
    field_path: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    uid: str = ""


class Binding(Object):
    target: ObjectReference = field(default_factory=ObjectReference)
