"""core/v1 Node and the selectors and tolerations that choose one."""

from msgspec import field

from dra_shared.api.meta import ConditionFields, Object, Struct


class ConfigMapNodeConfigSource(Struct):
    kubelet_config_key: str = ""
    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    uid: str = ""


class NodeConfigSource(Struct):
    config_map: ConfigMapNodeConfigSource | None = None


class Taint(Struct):
    effect: str = ""
    key: str = ""
    time_added: str | None = None
    value: str = ""


class NodeSpec(Struct):
    config_source: NodeConfigSource | None = None
    external_id: str = field(default="", name="externalID")
    pod_cidr: str = field(default="", name="podCIDR")
    pod_cid_rs: tuple[str, ...] = field(default=(), name="podCIDRs")
    provider_id: str = field(default="", name="providerID")
    taints: tuple[Taint, ...] = ()
    unschedulable: bool | None = None


class NodeAddress(Struct):
    address: str = ""
    type: str = ""


class NodeCondition(ConditionFields):
    last_heartbeat_time: str | None = None


class NodeConfigStatus(Struct):
    active: NodeConfigSource | None = None
    assigned: NodeConfigSource | None = None
    error: str = ""
    last_known_good: NodeConfigSource | None = None


class DaemonEndpoint(Struct):
    port: int = field(default=0, name="Port")


class NodeDaemonEndpoints(Struct):
    kubelet_endpoint: DaemonEndpoint = field(default_factory=DaemonEndpoint)


class NodeFeatures(Struct):
    supplemental_groups_policy: bool | None = None


class ContainerImage(Struct):
    names: tuple[str, ...] = ()
    size_bytes: int | None = None


class NodeSwapStatus(Struct):
    capacity: int | None = None


class NodeSystemInfo(Struct):
    architecture: str = ""
    boot_id: str = field(default="", name="bootID")
    container_runtime_version: str = ""
    kernel_version: str = ""
    kube_proxy_version: str = ""
    kubelet_version: str = ""
    machine_id: str = field(default="", name="machineID")
    operating_system: str = ""
    os_image: str = ""
    swap: NodeSwapStatus | None = None
    system_uuid: str = field(default="", name="systemUUID")


class NodeRuntimeHandlerFeatures(Struct):
    recursive_read_only_mounts: bool | None = None
    user_namespaces: bool | None = None


class NodeRuntimeHandler(Struct):
    features: NodeRuntimeHandlerFeatures | None = None
    name: str = ""


class AttachedVolume(Struct):
    device_path: str = ""
    name: str = ""


class NodeStatus(Struct):
    addresses: tuple[NodeAddress, ...] = ()
    allocatable: dict[str, str] = field(default_factory=dict)
    capacity: dict[str, str] = field(default_factory=dict)
    conditions: tuple[NodeCondition, ...] = ()
    config: NodeConfigStatus | None = None
    daemon_endpoints: NodeDaemonEndpoints = field(default_factory=NodeDaemonEndpoints)
    declared_features: tuple[str, ...] = ()
    features: NodeFeatures | None = None
    images: tuple[ContainerImage, ...] = ()
    node_info: NodeSystemInfo = field(default_factory=NodeSystemInfo)
    phase: str = ""
    runtime_handlers: tuple[NodeRuntimeHandler, ...] = ()
    volumes_attached: tuple[AttachedVolume, ...] = ()
    volumes_in_use: tuple[str, ...] = ()


class Node(Object):
    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)


class NodeSelectorRequirement(Struct):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Struct):
    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Struct):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class Toleration(Struct):
    effect: str = ""
    key: str = ""
    operator: str = ""
    toleration_seconds: int | None = None
    value: str = ""
