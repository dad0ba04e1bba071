"""Defaults of the configuration and of plugins' arguments (``pkg/scheduler/apis/config/v1/defaults.go``)."""

from collections.abc import Callable
from typing import Any

from dra_shared.durations import seconds
from dra_shared.features import FeatureGates

from dra_scheduler.componentconfig.defaultplugins import default_plugins, enabled_names, merge_plugins
from dra_scheduler.componentconfig.types import (
    API_VERSION,
    ARGS,
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PluginConfig,
    PodTopologySpreadArgs,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
    VolumeBindingArgs,
)

DEFAULT_SCHEDULER_NAME = "default-scheduler"


def set_defaults(config: KubeSchedulerConfiguration, gates: FeatureGates) -> None:
    """Fill in the defaults of fields that the file does not set."""
    config.parallelism = _either(config.parallelism, 16)
    config.profiles = config.profiles or [KubeSchedulerProfile()]
    # The default name applies to a single profile only. With several, validation reports a missing name.
    if len(config.profiles) == 1:
        config.profiles[0].scheduler_name = _either(config.profiles[0].scheduler_name, DEFAULT_SCHEDULER_NAME)
    for profile in config.profiles:
        _profile(profile, gates)
    config.percentage_of_nodes_to_score = _either(config.percentage_of_nodes_to_score, 0)
    connection = config.client_connection
    connection.content_type = connection.content_type or "application/vnd.kubernetes.protobuf"
    connection.qps = connection.qps or 50.0
    connection.burst = connection.burst or 100
    _leader_election(config.leader_election)
    config.pod_initial_backoff_seconds = _either(config.pod_initial_backoff_seconds, 1)
    config.pod_max_backoff_seconds = _either(config.pod_max_backoff_seconds, 10)
    config.enable_profiling = _either(config.enable_profiling, True)
    # Without profiling upstream sets no default, and the conversion to its internal type yields false.
    config.enable_contention_profiling = _either(config.enable_contention_profiling, config.enable_profiling)


def _either(value: Any, default: Any) -> Any:
    return default if value is None else value


def _leader_election(election: LeaderElectionConfiguration) -> None:
    election.leader_elect = _either(election.leader_elect, True)
    election.resource_lock = election.resource_lock or "leases"
    election.resource_namespace = election.resource_namespace or "kube-system"
    election.resource_name = election.resource_name or "kube-scheduler"
    election.lease_duration = election.lease_duration or seconds(15)
    election.renew_deadline = election.renew_deadline or seconds(10)
    election.retry_period = election.retry_period or seconds(2)


def _profile(profile: KubeSchedulerProfile, gates: FeatureGates) -> None:
    profile.plugins = merge_plugins(default_plugins(gates), profile.plugins)
    given = profile.plugin_config or []
    for plugin in given:
        _args(plugin.args, gates)
    names = {plugin.name for plugin in given}
    for name in enabled_names(profile.plugins):
        kind = f"{name}Args"
        if name not in names and kind in ARGS:
            args = ARGS[kind](kind=kind, api_version=API_VERSION)
            _args(args, gates)
            given.append(PluginConfig(name, args))
    profile.plugin_config = given


def _args(args: object, gates: FeatureGates) -> None:
    fill = _DEFAULTS.get(type(args))
    if fill is not None:
        fill(args, gates)


def _default_preemption(args: DefaultPreemptionArgs, _: FeatureGates) -> None:
    args.min_candidate_nodes_percentage = _either(args.min_candidate_nodes_percentage, 10)
    args.min_candidate_nodes_absolute = _either(args.min_candidate_nodes_absolute, 100)


def _dynamic_resources(args: DynamicResourcesArgs, gates: FeatureGates) -> None:
    if args.filter_timeout is None and gates.enabled("DRASchedulerFilterTimeout"):
        args.filter_timeout = seconds(10)
    if args.binding_timeout is None and gates.enabled("DRADeviceBindingConditions"):
        args.binding_timeout = seconds(600)


def _inter_pod_affinity(args: InterPodAffinityArgs, _: FeatureGates) -> None:
    args.hard_pod_affinity_weight = _either(args.hard_pod_affinity_weight, 1)


def _cpu_and_memory() -> list[ResourceSpec]:
    return [ResourceSpec("cpu", 1), ResourceSpec("memory", 1)]


def _default_weights(resources: list[ResourceSpec] | None) -> list[ResourceSpec]:
    if not resources:
        return _cpu_and_memory()
    for resource in resources:
        resource.weight = resource.weight or 1
    return resources


def _balanced_allocation(args: NodeResourcesBalancedAllocationArgs, _: FeatureGates) -> None:
    args.resources = _default_weights(args.resources)


def _fit(args: NodeResourcesFitArgs, _: FeatureGates) -> None:
    if args.scoring_strategy is None:
        args.scoring_strategy = ScoringStrategy("LeastAllocated")
    args.scoring_strategy.resources = _default_weights(args.scoring_strategy.resources)


def _pod_topology_spread(args: PodTopologySpreadArgs, _: FeatureGates) -> None:
    args.defaulting_type = args.defaulting_type or "System"


def _volume_binding(args: VolumeBindingArgs, gates: FeatureGates) -> None:
    args.bind_timeout_seconds = _either(args.bind_timeout_seconds, 600)
    if not args.shape and gates.enabled("StorageCapacityScoring"):
        args.shape = [UtilizationShapePoint(0, 10), UtilizationShapePoint(100, 0)]


_DEFAULTS: dict[type, Callable[[Any, FeatureGates], None]] = {
    DefaultPreemptionArgs: _default_preemption,
    DynamicResourcesArgs: _dynamic_resources,
    InterPodAffinityArgs: _inter_pod_affinity,
    NodeResourcesBalancedAllocationArgs: _balanced_allocation,
    NodeResourcesFitArgs: _fit,
    PodTopologySpreadArgs: _pod_topology_spread,
    VolumeBindingArgs: _volume_binding,
}
