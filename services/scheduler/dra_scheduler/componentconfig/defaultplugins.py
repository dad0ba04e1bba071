"""The default plugins, and their merge with a profile (``pkg/scheduler/apis/config/v1/default_plugins.go``)."""

import dataclasses

from dra_shared.features import FeatureGates
from dra_shared.podgroups import gangs_wait

from dra_scheduler.componentconfig.types import Plugin, Plugins, PluginSet

_DEFAULTS: tuple[tuple[str, int], ...] = (
    ("SchedulingGates", 0),
    ("PrioritySort", 0),
    ("NodeUnschedulable", 0),
    ("NodeName", 0),
    ("TaintToleration", 3),
    ("NodeAffinity", 2),
    ("NodePorts", 0),
    ("NodeResourcesFit", 1),
    ("VolumeRestrictions", 0),
    ("NodeVolumeLimits", 0),
    ("VolumeBinding", 0),
    ("VolumeZone", 0),
    ("PodTopologySpread", 2),
    ("InterPodAffinity", 2),
    ("DynamicResources", 2),
    ("DefaultPreemption", 0),
    ("NodeResourcesBalancedAllocation", 1),
    ("ImageLocality", 1),
    ("DefaultBinder", 0),
    ("NodeDeclaredFeatures", 0),
    ("GangScheduling", 0),
    ("TopologyPlacementGenerator", 0),
    ("PodGroupPodsCount", 1),
)
_GATES = {
    "DynamicResources": "DynamicResourceAllocation",
    "NodeDeclaredFeatures": "NodeDeclaredFeatures",
    "TopologyPlacementGenerator": "TopologyAwareWorkloadScheduling",
    "PodGroupPodsCount": "TopologyAwareWorkloadScheduling",
}


def default_plugins(gates: FeatureGates) -> Plugins:
    """Return the plugins that are enabled by default with these gates, all of them through multiPoint."""
    names = [(n, weight) for n, weight in _DEFAULTS if _is_on(n, gates)]
    return Plugins(multi_point=PluginSet([Plugin(name, weight or None) for name, weight in names]))


def _is_on(name: str, gates: FeatureGates) -> bool:
    if name == "GangScheduling":
        return gangs_wait(gates)
    return name not in _GATES or gates.enabled(_GATES[name])


def merge_plugins(defaults: Plugins, custom: Plugins | None) -> Plugins:
    """Merge the profile's plugins into the defaults for every extension point."""
    if custom is None:
        return defaults
    points = [point.name for point in dataclasses.fields(Plugins)]
    return Plugins(**{point: _merge(getattr(defaults, point), getattr(custom, point)) for point in points})


def _merge(defaults: PluginSet, custom: PluginSet) -> PluginSet:
    """Return the defaults that are not disabled, with the profile's weights, then the profile's other plugins."""
    disabled = [Plugin(plugin.name) for plugin in (*(custom.disabled or ()), *(defaults.disabled or ()))]
    off = {plugin.name for plugin in disabled}
    given = custom.enabled or []
    # If the profile names a plugin twice, the last entry replaces the default.
    last = {plugin.name: index for index, plugin in enumerate(given)}
    merged: list[Plugin] = []
    used: set[int] = set()
    for plugin in () if "*" in off else defaults.enabled or ():
        if plugin.name in off:
            continue
        index = last.get(plugin.name)
        if index is not None:
            used.add(index)
            plugin = given[index]
        merged.append(plugin)
    merged += [plugin for index, plugin in enumerate(given) if index not in used]
    return PluginSet(merged or None, disabled or None)


def enabled_names(plugins: Plugins) -> list[str]:
    """Return the sorted names of plugins that are enabled at any extension point."""
    points = dataclasses.fields(Plugins)
    return sorted({plugin.name for point in points for plugin in getattr(plugins, point.name).enabled or ()})
