"""The kinds of kubescheduler.config.k8s.io/v1, with the same fields as in Go.

Mirrors ``types.go`` and ``types_pluginargs.go`` of ``k8s.io/kube-scheduler/config/v1``, and the parts of
``k8s.io/component-base/config/v1alpha1`` and ``k8s.io/api/core/v1`` that they use. ``| None`` stands for a
Go pointer or an absent list.
"""

from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

from dra_shared.durations import ZERO, Duration

GROUP = "kubescheduler.config.k8s.io"
VERSION = "v1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "KubeSchedulerConfiguration"

T = TypeVar("T")

Int32 = Annotated[int, "int32"]
Int64 = Annotated[int, "int64"]
Float32 = Annotated[float, "float32"]

# A field without ``omitempty``: Go writes it even if it is empty.
Always = Annotated[T, "always"]


@dataclass(frozen=True)
class Json:
    """The JSON name of a field, if it is not the camel case of the Python name."""

    name: str


@dataclass(frozen=True)
class Embedded:
    """The embedded Go struct that contains the field. Go's errors name it."""

    struct: str


_DEBUGGING = Embedded("DebuggingConfiguration")


@dataclass
class LeaderElectionConfiguration:
    leader_elect: Always[bool | None] = None
    lease_duration: Always[Duration] = ZERO
    renew_deadline: Always[Duration] = ZERO
    retry_period: Always[Duration] = ZERO
    resource_lock: Always[str] = ""
    resource_name: Always[str] = ""
    resource_namespace: Always[str] = ""


@dataclass
class ClientConnectionConfiguration:
    kubeconfig: Always[str] = ""
    accept_content_types: Always[str] = ""
    content_type: Always[str] = ""
    qps: Always[Float32] = 0.0
    burst: Always[Int32] = 0


@dataclass
class Plugin:
    """A plugin and, for score plugins, its weight."""

    name: Always[str] = ""
    weight: Int32 | None = None


@dataclass
class PluginSet:
    """The plugins that an extension point enables in addition to the defaults, and the defaults that it disables."""

    enabled: list[Plugin] | None = None
    disabled: list[Plugin] | None = None


@dataclass
class Plugins:
    """The plugins of each extension point. ``multi_point`` applies to all points that a plugin implements."""

    pre_enqueue: PluginSet = field(default_factory=PluginSet)
    queue_sort: PluginSet = field(default_factory=PluginSet)
    pre_filter: PluginSet = field(default_factory=PluginSet)
    filter: PluginSet = field(default_factory=PluginSet)
    post_filter: PluginSet = field(default_factory=PluginSet)
    pre_score: PluginSet = field(default_factory=PluginSet)
    score: PluginSet = field(default_factory=PluginSet)
    reserve: PluginSet = field(default_factory=PluginSet)
    permit: PluginSet = field(default_factory=PluginSet)
    pre_bind: PluginSet = field(default_factory=PluginSet)
    bind: PluginSet = field(default_factory=PluginSet)
    post_bind: PluginSet = field(default_factory=PluginSet)
    multi_point: PluginSet = field(default_factory=PluginSet)
    placement_generate: PluginSet = field(default_factory=PluginSet)
    placement_score: PluginSet = field(default_factory=PluginSet)


@dataclass
class TypeMeta:
    """The common fields of plugin arguments."""

    kind: str = ""
    api_version: str = ""


@dataclass
class Unknown:
    """The arguments of an unknown plugin, or of one without arguments. They are kept unchanged."""

    value: Any


@dataclass
class PluginConfig:
    """A plugin's arguments: JSON until they are decoded as the plugin's own type."""

    name: Always[str] = ""
    args: Always[Any] = None


@dataclass
class KubeSchedulerProfile:
    """The configuration for pods of one ``spec.schedulerName``."""

    scheduler_name: str | None = None
    percentage_of_nodes_to_score: Int32 | None = None
    plugins: Plugins | None = None
    plugin_config: list[PluginConfig] | None = None


@dataclass
class ExtenderTLSConfig:
    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes | None = None
    key_data: bytes | None = None
    ca_data: bytes | None = None


@dataclass
class ExtenderManagedResource:
    name: Always[str] = ""
    ignored_by_scheduler: bool = False


@dataclass
class Extender:
    url_prefix: Always[str] = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: Annotated[bool, Json("enableHTTPS")] = False
    tls_config: ExtenderTLSConfig | None = None
    http_timeout: Always[Duration] = ZERO
    node_cache_capable: bool = False
    managed_resources: list[ExtenderManagedResource] | None = None
    ignorable: bool = False


@dataclass
class KubeSchedulerConfiguration(TypeMeta):
    """The whole file."""

    parallelism: Int32 | None = None
    leader_election: LeaderElectionConfiguration = field(default_factory=LeaderElectionConfiguration)
    client_connection: ClientConnectionConfiguration = field(default_factory=ClientConnectionConfiguration)
    enable_profiling: Annotated[bool | None, _DEBUGGING] = None
    enable_contention_profiling: Annotated[bool | None, _DEBUGGING] = None
    percentage_of_nodes_to_score: Int32 | None = None
    pod_initial_backoff_seconds: Int64 | None = None
    pod_max_backoff_seconds: Int64 | None = None
    profiles: list[KubeSchedulerProfile] | None = None
    extenders: list[Extender] | None = None
    delay_cache_until_active: bool = False


# Arguments of plugins


@dataclass
class DefaultPreemptionArgs(TypeMeta):
    min_candidate_nodes_percentage: Int32 | None = None
    min_candidate_nodes_absolute: Int32 | None = None


@dataclass
class DynamicResourcesArgs(TypeMeta):
    filter_timeout: Always[Duration | None] = None
    binding_timeout: Duration | None = None


@dataclass
class InterPodAffinityArgs(TypeMeta):
    hard_pod_affinity_weight: Int32 | None = None
    ignore_preferred_terms_of_existing_pods: Always[bool] = False


@dataclass
class NodeSelectorRequirement:
    key: Always[str] = ""
    operator: Always[str] = ""
    values: list[str] | None = None


@dataclass
class NodeSelectorTerm:
    match_expressions: list[NodeSelectorRequirement] | None = None
    match_fields: list[NodeSelectorRequirement] | None = None


@dataclass
class NodeSelector:
    node_selector_terms: Always[list[NodeSelectorTerm] | None] = None


@dataclass
class PreferredSchedulingTerm:
    weight: Always[Int32] = 0
    preference: NodeSelectorTerm = field(default_factory=NodeSelectorTerm)


@dataclass
class NodeAffinity:
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredSchedulingTerm] | None = None


@dataclass
class NodeAffinityArgs(TypeMeta):
    added_affinity: NodeAffinity | None = None


@dataclass
class ResourceSpec:
    name: Always[str] = ""
    weight: Int64 = 0


@dataclass
class NodeResourcesBalancedAllocationArgs(TypeMeta):
    resources: list[ResourceSpec] | None = None


@dataclass
class UtilizationShapePoint:
    utilization: Always[Int32] = 0
    score: Always[Int32] = 0


@dataclass
class RequestedToCapacityRatioParam:
    shape: list[UtilizationShapePoint] | None = None


@dataclass
class ScoringStrategy:
    type: str = ""
    resources: list[ResourceSpec] | None = None
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None


@dataclass
class NodeResourcesFitArgs(TypeMeta):
    ignored_resources: list[str] | None = None
    ignored_resource_groups: list[str] | None = None
    scoring_strategy: ScoringStrategy | None = None


@dataclass
class LabelSelectorRequirement:
    key: Always[str] = ""
    operator: Always[str] = ""
    values: list[str] | None = None


@dataclass
class LabelSelector:
    match_labels: dict[str, str] | None = None
    match_expressions: list[LabelSelectorRequirement] | None = None


@dataclass
class TopologySpreadConstraint:
    max_skew: Always[Int32] = 0
    topology_key: Always[str] = ""
    when_unsatisfiable: Always[str] = ""
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


@dataclass
class PodTopologySpreadArgs(TypeMeta):
    default_constraints: list[TopologySpreadConstraint] | None = None
    defaulting_type: str = ""


@dataclass
class VolumeBindingArgs(TypeMeta):
    bind_timeout_seconds: Int64 | None = None
    shape: list[UtilizationShapePoint] | None = None


ARGS: dict[str, type[TypeMeta]] = {
    kind.__name__: kind
    for kind in (
        DefaultPreemptionArgs,
        DynamicResourcesArgs,
        InterPodAffinityArgs,
        NodeAffinityArgs,
        NodeResourcesBalancedAllocationArgs,
        NodeResourcesFitArgs,
        PodTopologySpreadArgs,
        VolumeBindingArgs,
    )
}
