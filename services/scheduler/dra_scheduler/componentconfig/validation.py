"""Validation of a configuration (``pkg/scheduler/apis/config/validation/validation.go``)."""

from collections.abc import Iterable, Sequence
from typing import Any

from dra_shared.features import FeatureGates
from dra_shared.names import label_key

from dra_scheduler.componentconfig.fielderrors import duplicate_value, invalid_value, required_value
from dra_scheduler.componentconfig.pluginargs import CHECKS
from dra_scheduler.componentconfig.types import (
    API_VERSION,
    ClientConnectionConfiguration,
    Extender,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
    PluginConfig,
    Plugins,
    PluginSet,
)

_REMOVED = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})
# Upstream validates the arguments of NodeResourcesFit under a name that no plugin has, so it only finds
# arguments of a wrong type.
_MISNAMED = "NodeResourcesFitArgs"
_POINTS = {
    "preEnqueue": "pre_enqueue",
    "queueSort": "queue_sort",
    "preFilter": "pre_filter",
    "filter": "filter",
    "postFilter": "post_filter",
    "preScore": "pre_score",
    "score": "score",
    "reserve": "reserve",
    "permit": "permit",
    "preBind": "pre_bind",
    "bind": "bind",
    "postBind": "post_bind",
}
_EXTENDED_PREFIX = "requests."


def validate(config: KubeSchedulerConfiguration, gates: FeatureGates) -> list[str]:
    """Return all errors of a configuration that has its defaults."""
    errors = _check_client(config.client_connection)
    errors += _check_leader_election(config.leader_election)
    if (config.parallelism or 0) <= 0:
        text = "should be an integer value greater than zero"
        errors.append(invalid_value("parallelism", config.parallelism, text))
    errors += _check_profiles(config.profiles or [], gates)
    errors += _check_percentage("percentageOfNodesToScore", config.percentage_of_nodes_to_score)
    initial, most = config.pod_initial_backoff_seconds or 0, config.pod_max_backoff_seconds or 0
    if initial <= 0:
        errors.append(invalid_value("podInitialBackoffSeconds", initial, "must be greater than 0"))
    if most < initial:
        text = "must be greater than or equal to PodInitialBackoffSeconds"
        errors.append(invalid_value("podMaxBackoffSeconds", most, text))
    return errors + _check_extenders(config.extenders or [])


def _check_client(connection: ClientConnectionConfiguration) -> list[str]:
    if connection.burst >= 0:
        return []
    return [invalid_value("clientConnection.burst", connection.burst, "must be non-negative")]


def _check_leader_election(election: LeaderElectionConfiguration) -> list[str]:
    if not election.leader_elect:
        return []
    errors = [
        invalid_value(f"leaderElection.{name}", value, "must be greater than zero")
        for name, value in (
            ("leaseDuration", election.lease_duration),
            ("renewDeadline", election.renew_deadline),
            ("retryPeriod", election.retry_period),
        )
        if value.nanoseconds <= 0
    ]
    if not election.lease_duration > election.renew_deadline:
        text = "must be greater than `RenewDeadline`"
        errors.append(invalid_value("leaderElection.leaseDuration", election.renew_deadline, text))
    if election.resource_lock != "leases":
        text = 'resourceLock value must be "leases"'
        errors.append(invalid_value("leaderElection.resourceLock", election.resource_lock, text))
    return errors


def _check_percentage(path: str, value: int | None) -> list[str]:
    if value is None or 0 <= value <= 100:
        return []
    return [invalid_value(path, value, "not in valid range [0-100]")]


def _check_profiles(profiles: Sequence[KubeSchedulerProfile], gates: FeatureGates) -> list[str]:
    errors: list[str] = []
    names: set[str] = set()
    for index, profile in enumerate(profiles):
        path, name = f"profiles[{index}]", profile.scheduler_name or ""
        if not name:
            errors.append(required_value(f"{path}.schedulerName"))
        errors += _check_percentage(f"{path}.percentageOfNodesToScore", profile.percentage_of_nodes_to_score)
        errors += _check_points(f"{path}.plugins", profile.plugins or Plugins())
        errors += _check_plugin_config(f"{path}.pluginConfig", profile.plugin_config or [], gates)
        if name in names:
            # Upstream passes a field.Path as the duplicate value. Its fields are unexported, so Go prints it as
            # {}.
            errors.append(duplicate_value(f"{path}.schedulerName", {}))
        names.add(name)
    return errors + _check_queue_sort(profiles)


def _check_points(path: str, plugins: Plugins) -> list[str]:
    return [
        _removed_error(f"{path}.{point}.enabled[{index}]", plugin.name)
        for point, attribute in _POINTS.items()
        for index, plugin in enumerate(getattr(plugins, attribute).enabled or ())
        if plugin.name in _REMOVED
    ]


def _removed_error(path: str, name: str) -> str:
    return invalid_value(
        path, name, f'was invalid in version "v1" (KubeSchedulerConfiguration is version "{API_VERSION}")'
    )


def _check_plugin_config(path: str, configs: Iterable[PluginConfig], gates: FeatureGates) -> list[str]:
    errors: list[str] = []
    seen: set[str] = set()
    for index, plugin in enumerate(configs):
        here = f"{path}[{index}]"
        if plugin.name in seen:
            errors.append(duplicate_value(here, plugin.name))
        seen.add(plugin.name)
        if plugin.name in _REMOVED:
            errors.append(_removed_error(here, plugin.name))
        elif plugin.name == _MISNAMED:
            errors.append(invalid_value(f"{here}.args", plugin.args, "has to match plugin args"))
        elif plugin.name in CHECKS:
            errors += CHECKS[plugin.name](f"{here}.args", plugin.args, gates)
    return errors


def _check_queue_sort(profiles: Sequence[KubeSchedulerProfile]) -> list[str]:
    """Check that all profiles sort the queue in the same way, because they share one queue."""
    canon, *others = [_queue_sort(profile) for profile in profiles]
    enabled = canon.enabled or []
    errors = []
    if len(enabled) > 1:
        text = "only one queue sort plugin can be enabled"
        errors.append(invalid_value("profiles[0].plugins.queueSort.Enabled", len(enabled), text))
    name = enabled[0].name if enabled else ""
    args = [_args(profile, name) for profile in profiles]
    for index, queue_sort in enumerate(others, start=1):
        path = f"profiles[{index}]"
        if not _same_set(canon, queue_sort):
            text = "must be the same for all profiles"
            errors.append(invalid_value(f"{path}.plugins.queueSort", queue_sort, text))
        errors += [
            invalid_value(f"{path}.pluginConfig.args", found, "queueSort must be the same for all profiles")
            for found in args[index]
            if found != (args[0][-1] if name and args[0] else None)
        ]
    return errors


def _queue_sort(profile: KubeSchedulerProfile) -> PluginSet:
    return profile.plugins.queue_sort if profile.plugins is not None else PluginSet()


def _args(profile: KubeSchedulerProfile, name: str) -> list[Any]:
    return [plugin.args for plugin in profile.plugin_config or () if plugin.name == name]


def _same_set(one: PluginSet, other: PluginSet) -> bool:
    def list_plugins(plugins: PluginSet) -> list[list[tuple[str, int]]]:
        sets = (plugins.enabled or (), plugins.disabled or ())
        return [[(plugin.name, plugin.weight or 0) for plugin in found] for found in sets]

    return list_plugins(one) == list_plugins(other)


def _check_extenders(extenders: Sequence[Extender]) -> list[str]:
    errors: list[str] = []
    managed: set[str] = set()
    for index, extender in enumerate(extenders):
        path = f"extenders[{index}]"
        if extender.prioritize_verb and extender.weight <= 0:
            text = "must have a positive weight applied to it"
            errors.append(invalid_value(f"{path}.weight", extender.weight, text))
        for number, resource in enumerate(extender.managed_resources or ()):
            where = f"{path}.managedResources[{number}].name"
            errors += _check_extended_resource(where, resource.name)
            if resource.name in managed:
                errors.append(invalid_value(where, resource.name, "duplicate extender managed resource name"))
            managed.add(resource.name)
    binders = sum(bool(extender.bind_verb) for extender in extenders)
    if binders > 1:
        found = f"found {binders} extenders implementing bind"
        errors.append(invalid_value("extenders", found, "only one extender can implement bind"))
    return errors


def _check_extended_resource(path: str, name: str) -> list[str]:
    errors = [invalid_value(path, name, problem) for problem in label_key(name)]
    native = "/" not in name or "kubernetes.io/" in name
    if not errors and (native or name.startswith(_EXTENDED_PREFIX) or label_key(_EXTENDED_PREFIX + name)):
        errors.append(invalid_value(path, name, "is an invalid extended resource name"))
    return errors
