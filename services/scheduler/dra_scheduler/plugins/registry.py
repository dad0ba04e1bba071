"""The existing plugins, and the framework of a profile (``pkg/scheduler/framework/plugins/registry.go``)."""

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dra_shared.api.pod import Pod
from dra_shared.api.policy import PodDisruptionBudget
from dra_shared.client.events import Recorder
from dra_shared.client.rest import Client
from dra_shared.clock import Clock
from dra_shared.durations import seconds
from dra_shared.features import FeatureGates

from dra_scheduler.componentconfig.profiles import Profile
from dra_scheduler.componentconfig.types import (
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    VolumeBindingArgs,
)
from dra_scheduler.dra.manager import DRAManager
from dra_scheduler.dra.podgroups import PodGroups
from dra_scheduler.extenders.chain import Extenders
from dra_scheduler.framework.cache import Cache
from dra_scheduler.framework.plugin import Plugin
from dra_scheduler.framework.podsinprebind import PodsInPreBind
from dra_scheduler.framework.runtime import Framework
from dra_scheduler.plugins.basic import DefaultBinder, SchedulingGates
from dra_scheduler.plugins.classdevices import ClassDevices
from dra_scheduler.plugins.defaultpreemption import DefaultPreemption
from dra_scheduler.plugins.dynamicresources.plugin import DynamicResources
from dra_scheduler.plugins.dynamicresources.rivals import Rivals
from dra_scheduler.plugins.evictor import Evictor
from dra_scheduler.plugins.gangscheduling import GangScheduling
from dra_scheduler.plugins.grouppreemption import GroupPreemption
from dra_scheduler.plugins.imagelocality import ImageLocality
from dra_scheduler.plugins.interpodaffinity import InterPodAffinity
from dra_scheduler.plugins.nodeaffinity import NodeAffinity, NodeName
from dra_scheduler.plugins.nodedeclaredfeatures import NodeDeclaredFeatures
from dra_scheduler.plugins.nodeports import NodePorts
from dra_scheduler.plugins.noderesources import NodeResourcesBalancedAllocation, NodeResourcesFit
from dra_scheduler.plugins.podtopologyspread import PodTopologySpread
from dra_scheduler.plugins.siblings import Siblings
from dra_scheduler.plugins.tainttoleration import NodeUnschedulable, TaintToleration
from dra_scheduler.plugins.volumes.committer import VolumeCommitter
from dra_scheduler.plugins.volumes.nodevolumelimits import NodeVolumeLimits
from dra_scheduler.plugins.volumes.objects import VolumeObjects
from dra_scheduler.plugins.volumes.volumebinding import VolumeBinding
from dra_scheduler.plugins.volumes.volumerestrictions import VolumeRestrictions
from dra_scheduler.plugins.volumes.volumezone import VolumeZone

# Without binding conditions, nothing in a claim's binding takes this long.
_BINDING_TIMEOUT = seconds(600)


@dataclass(frozen=True)
class Parts:
    """The dependencies of plugins. ``measured``: count their actions in the service's metrics."""

    gates: FeatureGates
    cache: Cache
    manager: DRAManager
    groups: PodGroups
    client: Client
    recorder: Recorder
    clock: Clock
    stopwatch: Clock
    volumes: VolumeObjects
    namespace_labels: Callable[[str], Mapping[str, str]]
    newest_pod: Callable[[str], Pod | None]
    spawn: Callable[[Coroutine[Any, Any, None]], object]
    siblings: Siblings
    budgets: Callable[[], Iterable[PodDisruptionBudget]]
    in_pre_bind: PodsInPreBind
    activate: Callable[[Iterable[str]], None]
    extenders: Extenders
    measured: bool = False


@dataclass(frozen=True)
class ProfileFramework:
    """A profile's framework, and the plugin that other parts of the scheduler need."""

    framework: Framework
    dynamic_resources: DynamicResources


def new_framework(parts: Parts, profile: Profile) -> ProfileFramework:
    """Create the framework of the profile with its own plugins."""
    dynamic_resources = _dynamic_resources(parts, profile)
    rivals = Rivals(parts.manager, parts.client, parts.clock, dynamic_resources, parts.cache.node)
    dynamic_resources.deallocator.on_loss = lambda pod, claim: parts.spawn(rivals.restore(pod, claim))
    plugins: list[Plugin] = [
        *_node_plugins(parts, profile),
        *_volume_plugins(parts, profile),
        dynamic_resources,
        rivals,
        SchedulingGates(),
        GangScheduling(parts.groups, trees=parts.gates.enabled("CompositePodGroup")),
        _preemption(parts, profile, lambda: framework),
        DefaultBinder(parts.client),
    ]
    points = {**profile.points, "preBind": _with_rivals(profile.points["preBind"])}
    needed = {name for names in points.values() for name in names}
    framework = Framework([plugin for plugin in plugins if plugin.name in needed], profile.weights, points)
    return ProfileFramework(framework, dynamic_resources)


def _with_rivals(names: Sequence[str]) -> list[str]:
    """Insert Rivals, which profiles do not name, directly after the plugin that it checks."""
    with_rivals: list[str] = []
    for name in names:
        with_rivals += (name, Rivals.name) if name == DynamicResources.name else (name,)
    return with_rivals


def _dynamic_resources(parts: Parts, profile: Profile) -> DynamicResources:
    args: DynamicResourcesArgs = profile.args_of(DynamicResources.name, DynamicResourcesArgs)
    return DynamicResources(
        parts.gates,
        parts.manager,
        parts.client,
        pod_groups=parts.groups,
        recorder=parts.recorder,
        clock=parts.clock,
        stopwatch=parts.stopwatch,
        # Zero also disables it.
        filter_timeout=args.filter_timeout.seconds if args.filter_timeout else None,
        binding_timeout=(args.binding_timeout or _BINDING_TIMEOUT).seconds,
    )


def _preemption(parts: Parts, profile: Profile, framework: Callable[[], Framework]) -> DefaultPreemption:
    evictor = Evictor(
        DefaultPreemption.name,
        parts.cache.nominations,
        parts.client,
        parts.recorder,
        parts.clock,
        in_pre_bind=parts.in_pre_bind,
        spawn=parts.spawn,
        activate=parts.activate,
        newest=parts.newest_pod,
        measured=parts.measured,
    )
    for_groups = GroupPreemption(parts.cache, parts.groups, evictor, framework, parts.budgets, parts.clock)
    args: DefaultPreemptionArgs = profile.args_of(DefaultPreemption.name, DefaultPreemptionArgs)
    return DefaultPreemption(
        parts.cache,
        evictor,
        framework=framework,
        budgets=parts.budgets,
        args=args,
        extenders=parts.extenders,
        for_groups=for_groups,
        measured=parts.measured,
    )


def _node_plugins(parts: Parts, profile: Profile) -> list[Plugin]:
    """Return the plugins that examine the node and its pods."""
    cache, manager = parts.cache, parts.manager
    extended = parts.gates.enabled("DRAExtendedResource")
    devices = {"devices": ClassDevices(manager)} if extended else {}
    return [
        NodeUnschedulable(),
        NodeName(),
        TaintToleration(cache),
        NodeAffinity(profile.args_of(NodeAffinity.name, NodeAffinityArgs)),
        NodePorts(),
        NodeResourcesFit(
            lambda name: extended and manager.classes.for_resource(name) is not None,
            profile.args_of(NodeResourcesFit.name, NodeResourcesFitArgs),
            **devices,
        ),
        NodeResourcesBalancedAllocation(
            profile.args_of(NodeResourcesBalancedAllocation.name, NodeResourcesBalancedAllocationArgs),
            **devices,
        ),
        PodTopologySpread(
            cache, parts.siblings, profile.args_of(PodTopologySpread.name, PodTopologySpreadArgs)
        ),
        InterPodAffinity(
            cache, parts.namespace_labels, profile.args_of(InterPodAffinity.name, InterPodAffinityArgs)
        ),
        ImageLocality(cache),
        *([NodeDeclaredFeatures()] if parts.gates.enabled("NodeDeclaredFeatures") else []),
    ]


def _volume_plugins(parts: Parts, profile: Profile) -> list[Plugin]:
    args: VolumeBindingArgs = profile.args_of(VolumeBinding.name, VolumeBindingArgs)
    committer = VolumeCommitter(
        parts.volumes,
        parts.client,
        parts.clock,
        node=parts.cache.node_object,
        newest_pod=parts.newest_pod,
        timeout=float(args.bind_timeout_seconds or 0),
    )
    return [
        VolumeRestrictions(parts.cache, parts.volumes),
        NodeVolumeLimits(parts.volumes),
        VolumeBinding(parts.volumes, committer),
        VolumeZone(parts.volumes),
    ]
