"""The other core/v1 kinds that dralab reasons about."""

from msgspec import field

from dra_shared.api.meta import Condition, ConditionFields, LabelSelector, Object, Struct
from dra_shared.api.pod import LocalObjectReference, ObjectReference, PodTemplateSpec


class LimitRangeItem(Struct):
    default: dict[str, str] = field(default_factory=dict)
    default_request: dict[str, str] = field(default_factory=dict)
    max: dict[str, str] = field(default_factory=dict)
    max_limit_request_ratio: dict[str, str] = field(default_factory=dict)
    min: dict[str, str] = field(default_factory=dict)
    type: str = ""


class LimitRangeSpec(Struct):
    limits: tuple[LimitRangeItem, ...] = ()


class LimitRange(Object):
    spec: LimitRangeSpec = field(default_factory=LimitRangeSpec)


class NamespaceSpec(Struct):
    finalizers: tuple[str, ...] = ()


class NamespaceCondition(ConditionFields):
    """A condition of a Namespace."""


class NamespaceStatus(Struct):
    conditions: tuple[NamespaceCondition, ...] = ()
    phase: str = ""


class Namespace(Object):
    spec: NamespaceSpec = field(default_factory=NamespaceSpec)
    status: NamespaceStatus = field(default_factory=NamespaceStatus)


class ServiceAccount(Object):
    automount_service_account_token: bool | None = None
    image_pull_secrets: tuple[LocalObjectReference, ...] = ()
    secrets: tuple[ObjectReference, ...] = ()


class ConfigMap(Object):
    binary_data: dict[str, str] = field(default_factory=dict)
    data: dict[str, str] = field(default_factory=dict)
    immutable: bool | None = None


class Secret(Object):
    data: dict[str, str] = field(default_factory=dict)
    immutable: bool | None = None
    string_data: dict[str, str] = field(default_factory=dict)
    type: str = ""


class EventSeries(Struct):
    count: int | None = None
    last_observed_time: str | None = None


class EventSource(Struct):
    component: str = ""
    host: str = ""


class Event(Object):
    action: str = ""
    count: int | None = None
    event_time: str | None = None
    first_timestamp: str | None = None
    involved_object: ObjectReference = field(default_factory=ObjectReference)
    last_timestamp: str | None = None
    message: str = ""
    reason: str = ""
    related: ObjectReference | None = None
    reporting_component: str = ""
    reporting_instance: str = ""
    series: EventSeries | None = None
    source: EventSource = field(default_factory=EventSource)
    type: str = ""


class ScopedResourceSelectorRequirement(Struct):
    operator: str = ""
    scope_name: str = ""
    values: tuple[str, ...] = ()


class ScopeSelector(Struct):
    match_expressions: tuple[ScopedResourceSelectorRequirement, ...] = ()


class ResourceQuotaSpec(Struct):
    hard: dict[str, str] = field(default_factory=dict)
    scope_selector: ScopeSelector | None = None
    scopes: tuple[str, ...] = ()


class ResourceQuotaStatus(Struct):
    hard: dict[str, str] = field(default_factory=dict)
    used: dict[str, str] = field(default_factory=dict)


class ResourceQuota(Object):
    spec: ResourceQuotaSpec = field(default_factory=ResourceQuotaSpec)
    status: ResourceQuotaStatus = field(default_factory=ResourceQuotaStatus)


class ReplicationControllerSpec(Struct):
    min_ready_seconds: int = 0
    replicas: int = 0
    selector: dict[str, str] = field(default_factory=dict)
    template: PodTemplateSpec | None = None


class ReplicationControllerCondition(ConditionFields):
    """A condition of a ReplicationController."""


class ReplicationControllerStatus(Struct):
    available_replicas: int | None = None
    conditions: tuple[ReplicationControllerCondition, ...] = ()
    fully_labeled_replicas: int | None = None
    observed_generation: int | None = None
    ready_replicas: int | None = None
    replicas: int = 0


class ReplicationController(Object):
    spec: ReplicationControllerSpec = field(default_factory=ReplicationControllerSpec)
    status: ReplicationControllerStatus = field(default_factory=ReplicationControllerStatus)


class TypedLocalObjectReference(Struct):
    api_group: str | None = None
    kind: str = ""
    name: str = ""


class TypedObjectReference(Struct):
    api_group: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""


class VolumeResourceRequirements(Struct):
    limits: dict[str, str] = field(default_factory=dict)
    requests: dict[str, str] = field(default_factory=dict)


class PersistentVolumeClaimSpec(Struct):
    access_modes: tuple[str, ...] = ()
    data_source: TypedLocalObjectReference | None = None
    data_source_ref: TypedObjectReference | None = None
    resources: VolumeResourceRequirements = field(default_factory=VolumeResourceRequirements)
    selector: LabelSelector | None = None
    storage_class_name: str | None = None
    volume_attributes_class_name: str | None = None
    volume_mode: str | None = None
    volume_name: str | None = None


class PersistentVolumeClaimCondition(ConditionFields):
    last_probe_time: str | None = None


class ModifyVolumeStatus(Struct):
    status: str = ""
    target_volume_attributes_class_name: str = ""


class PersistentVolumeClaimStatus(Struct):
    access_modes: tuple[str, ...] = ()
    allocated_resource_statuses: dict[str, str] = field(default_factory=dict)
    allocated_resources: dict[str, str] = field(default_factory=dict)
    capacity: dict[str, str] = field(default_factory=dict)
    conditions: tuple[PersistentVolumeClaimCondition, ...] = ()
    current_volume_attributes_class_name: str = ""
    modify_volume_status: ModifyVolumeStatus | None = None
    phase: str = ""


class PersistentVolumeClaim(Object):
    spec: PersistentVolumeClaimSpec = field(default_factory=PersistentVolumeClaimSpec)
    status: PersistentVolumeClaimStatus = field(default_factory=PersistentVolumeClaimStatus)


class ServicePort(Struct):
    app_protocol: str = ""
    name: str = ""
    node_port: int | None = None
    port: int = 0
    protocol: str = ""
    target_port: int | str | None = None


class ClientIPConfig(Struct):
    timeout_seconds: int | None = None


class SessionAffinityConfig(Struct):
    client_ip: ClientIPConfig | None = field(default=None, name="clientIP")


class ServiceSpec(Struct):
    allocate_load_balancer_node_ports: bool | None = None
    cluster_ip: str = field(default="", name="clusterIP")
    cluster_ips: tuple[str, ...] = field(default=(), name="clusterIPs")
    external_ips: tuple[str, ...] = field(default=(), name="externalIPs")
    external_name: str = ""
    external_traffic_policy: str = ""
    health_check_node_port: int | None = None
    internal_traffic_policy: str = ""
    ip_families: tuple[str, ...] = ()
    ip_family_policy: str = ""
    load_balancer_class: str = ""
    load_balancer_ip: str = field(default="", name="loadBalancerIP")
    load_balancer_source_ranges: tuple[str, ...] = ()
    ports: tuple[ServicePort, ...] = ()
    publish_not_ready_addresses: bool | None = None
    selector: dict[str, str] = field(default_factory=dict)
    session_affinity: str = ""
    session_affinity_config: SessionAffinityConfig | None = None
    traffic_distribution: str = ""
    type: str = ""


class PortStatus(Struct):
    error: str = ""
    port: int = 0
    protocol: str = ""


class LoadBalancerIngress(Struct):
    hostname: str = ""
    ip: str = ""
    ip_mode: str = ""
    ports: tuple[PortStatus, ...] = ()


class LoadBalancerStatus(Struct):
    ingress: tuple[LoadBalancerIngress, ...] = ()


class ServiceStatus(Struct):
    conditions: tuple[Condition, ...] = ()
    load_balancer: LoadBalancerStatus = field(default_factory=LoadBalancerStatus)


class Service(Object):
    spec: ServiceSpec = field(default_factory=ServiceSpec)
    status: ServiceStatus = field(default_factory=ServiceStatus)
