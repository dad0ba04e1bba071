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
from dra_scheduler.plugins.basic import DefaultBinder, PrioritySort, SchedulingGates
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
from dra_scheduler.plugins.placements import PodGroupPodsCount, TopologyPlacementGenerator
from dra_scheduler.plugins.podtopologyspread import PodTopologySpread
from dra_scheduler.plugins.siblings import Siblings
from dra_scheduler.plugins.tainttoleration import NodeUnschedulable, TaintToleration
from dra_scheduler.plugins.volumes.committer import VolumeCommitter
from dra_scheduler.plugins.volumes.nodevolumelimits import NodeVolumeLimits
from dra_scheduler.plugins.volumes.objects import VolumeObjects
from dra_scheduler.plugins.volumes.volumebinding import VolumeBinding
from dra_scheduler.plugins.volumes.volumerestrictions import VolumeRestrictions
from dra_scheduler.plugins.volumes.volumezone import VolumeZone

# The binding timeout without binding conditions. Nothing else in a claim's binding takes this long.
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


@dataclass(frozen=True)
class Build:
    """The framework that is built: its profile, its plugins' dependencies, and the framework itself once it exists."""

    parts: Parts
    profile: Profile
    framework: Callable[[], Framework]


def new_framework(parts: Parts, profile: Profile) -> ProfileFramework:
    """Create the framework of the profile with its own plugins."""
    build = Build(parts, profile, lambda: framework)
    made = [plugin for make in PLUGINS.values() if (plugin := make(build)) is not None]
    dynamic_resources = next(plugin for plugin in made if isinstance(plugin, DynamicResources))
    rivals = Rivals(parts.manager, parts.client, parts.clock, dynamic_resources, parts.cache.node)
    dynamic_resources.deallocator.on_loss = lambda pod, claim: parts.spawn(rivals.restore(pod, claim))
    points = {**profile.points, "preBind": _with_rivals(profile.points["preBind"])}
    needed = {name for names in points.values() for name in names}
    plugins = [plugin for plugin in (*made, rivals) if plugin.name in needed]
    framework = Framework(plugins, profile.weights, points)
    return ProfileFramework(framework, dynamic_resources)


def _with_rivals(names: Sequence[str]) -> list[str]:
    """Insert Rivals, which profiles do not name, directly after the plugin that it checks."""
    with_rivals: list[str] = []
    for name in names:
        with_rivals += (name, Rivals.name) if name == DynamicResources.name else (name,)
    return with_rivals


def _without_parts(plugin: Callable[[], Plugin]) -> Callable[[Build], Plugin]:
    return lambda build: plugin()


def _absent(build: Build) -> None:
    """Return None for a plugin whose work is done by the queue or the pod group cycle."""


def _dynamic_resources(build: Build) -> DynamicResources:
    parts = build.parts
    args: DynamicResourcesArgs = build.profile.args_of(DynamicResources.name, DynamicResourcesArgs)
    return DynamicResources(
        parts.gates,
        parts.manager,
        parts.client,
        pod_groups=parts.groups,
        recorder=parts.recorder,
        clock=parts.clock,
        stopwatch=parts.stopwatch,
        # A timeout of zero also disables it.
        filter_timeout=args.filter_timeout.seconds if args.filter_timeout else None,
        binding_timeout=(args.binding_timeout or _BINDING_TIMEOUT).seconds,
    )


def _preemption(build: Build) -> DefaultPreemption:
    parts = build.parts
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
    for_groups = GroupPreemption(
        parts.cache, parts.groups, evictor, build.framework, parts.budgets, parts.clock
    )
    args: DefaultPreemptionArgs = build.profile.args_of(DefaultPreemption.name, DefaultPreemptionArgs)
    return DefaultPreemption(
        parts.cache,
        evictor,
        framework=build.framework,
        budgets=parts.budgets,
        args=args,
        extenders=parts.extenders,
        for_groups=for_groups,
        measured=parts.measured,
    )


def _fit(build: Build) -> NodeResourcesFit:
    manager, extended = build.parts.manager, build.parts.gates.enabled("DRAExtendedResource")
    return NodeResourcesFit(
        lambda name: extended and manager.classes.for_resource(name) is not None,
        build.profile.args_of(NodeResourcesFit.name, NodeResourcesFitArgs),
        **_devices(build.parts),
    )


def _balanced_allocation(build: Build) -> NodeResourcesBalancedAllocation:
    args = build.profile.args_of(NodeResourcesBalancedAllocation.name, NodeResourcesBalancedAllocationArgs)
    return NodeResourcesBalancedAllocation(args, **_devices(build.parts))


def _devices(parts: Parts) -> dict[str, ClassDevices]:
    return {"devices": ClassDevices(parts.manager)} if parts.gates.enabled("DRAExtendedResource") else {}


def _node_affinity(build: Build) -> NodeAffinity:
    return NodeAffinity(build.profile.args_of(NodeAffinity.name, NodeAffinityArgs))


def _topology_spread(build: Build) -> PodTopologySpread:
    args = build.profile.args_of(PodTopologySpread.name, PodTopologySpreadArgs)
    return PodTopologySpread(build.parts.cache, build.parts.siblings, args)


def _pod_affinity(build: Build) -> InterPodAffinity:
    args = build.profile.args_of(InterPodAffinity.name, InterPodAffinityArgs)
    return InterPodAffinity(build.parts.cache, build.parts.namespace_labels, args)


def _declared_features(build: Build) -> NodeDeclaredFeatures | None:
    return NodeDeclaredFeatures() if build.parts.gates.enabled("NodeDeclaredFeatures") else None


def _volume_binding(build: Build) -> VolumeBinding:
    parts = build.parts
    args: VolumeBindingArgs = build.profile.args_of(VolumeBinding.name, VolumeBindingArgs)
    committer = VolumeCommitter(
        parts.volumes,
        parts.client,
        parts.clock,
        node=parts.cache.node_object,
        newest_pod=parts.newest_pod,
        timeout=float(args.bind_timeout_seconds or 0),
    )
    return VolumeBinding(parts.volumes, committer)


def _gang_scheduling(build: Build) -> GangScheduling:
    return GangScheduling(build.parts.groups, trees=build.parts.gates.enabled("CompositePodGroup"))


#: All plugins that a profile may name, and how each is made for a profile.
PLUGINS: Mapping[type[Plugin], Callable[[Build], Plugin | None]] = {
    NodeUnschedulable: _without_parts(NodeUnschedulable),
    NodeName: _without_parts(NodeName),
    TaintToleration: lambda build: TaintToleration(build.parts.cache),
    NodeAffinity: _node_affinity,
    NodePorts: _without_parts(NodePorts),
    NodeResourcesFit: _fit,
    NodeResourcesBalancedAllocation: _balanced_allocation,
    PodTopologySpread: _topology_spread,
    InterPodAffinity: _pod_affinity,
    ImageLocality: lambda build: ImageLocality(build.parts.cache),
    NodeDeclaredFeatures: _declared_features,
    VolumeRestrictions: lambda build: VolumeRestrictions(build.parts.cache, build.parts.volumes),
    NodeVolumeLimits: lambda build: NodeVolumeLimits(build.parts.volumes),
    VolumeBinding: _volume_binding,
    VolumeZone: lambda build: VolumeZone(build.parts.volumes),
    DynamicResources: _dynamic_resources,
    SchedulingGates: _without_parts(SchedulingGates),
    GangScheduling: _gang_scheduling,
    DefaultPreemption: _preemption,
    DefaultBinder: lambda build: DefaultBinder(build.parts.client),
    PrioritySort: _absent,
    TopologyPlacementGenerator: _absent,
    PodGroupPodsCount: _absent,
}
