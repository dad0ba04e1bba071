"""The default set of plugins, in upstream's order and with upstream's weights."""

from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dra_shared.api.pod import Pod
from dra_shared.api.policy import PodDisruptionBudget
from dra_shared.client.events import Recorder
from dra_shared.client.rest import Client
from dra_shared.clock import Clock
from dra_shared.features import FeatureGates

from dra_scheduler.dra.manager import DRAManager
from dra_scheduler.dra.podgroups import PodGroups
from dra_scheduler.framework.cache import Cache
from dra_scheduler.framework.plugin import Plugin
from dra_scheduler.framework.podsinprebind import PodsInPreBind
from dra_scheduler.framework.runtime import Framework
from dra_scheduler.plugins.basic import DefaultBinder, SchedulingGates
from dra_scheduler.plugins.defaultpreemption import DefaultPreemption
from dra_scheduler.plugins.dynamicresources.plugin import DynamicResources
from dra_scheduler.plugins.dynamicresources.rivals import Rivals
from dra_scheduler.plugins.evictor import Evictor
from dra_scheduler.plugins.gangscheduling import GangScheduling
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

_WEIGHTS: Mapping[str, int] = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DynamicResources": 2,
}


@dataclass(frozen=True)
class Parts:
    """What plugins work with."""

    gates: FeatureGates
    cache: Cache
    manager: DRAManager
    groups: PodGroups
    client: Client
    recorder: Recorder
    clock: Clock
    volumes: VolumeObjects
    namespace_labels: Callable[[str], Mapping[str, str]]
    newest_pod: Callable[[str], Pod | None]
    spawn: Callable[[Coroutine[Any, Any, None]], object]
    siblings: Siblings
    budgets: Callable[[], Iterable[PodDisruptionBudget]]
    in_pre_bind: PodsInPreBind
    activate: Callable[[Iterable[str]], None]
    binding_timeout: float


def default_framework(parts: Parts, dynamic_resources: DynamicResources) -> Framework:
    """All plugins that there are, as far as the gates have them on."""
    gates, cache, manager = parts.gates, parts.cache, parts.manager
    extended = gates.enabled("DRAExtendedResource")
    evictor = Evictor(
        DefaultPreemption.name,
        cache.nominations,
        parts.client,
        parts.recorder,
        parts.clock,
        in_pre_bind=parts.in_pre_bind,
        spawn=parts.spawn,
        activate=parts.activate,
        newest=parts.newest_pod,
    )
    committer = VolumeCommitter(
        parts.volumes,
        parts.client,
        parts.clock,
        node=cache.node_object,
        newest_pod=parts.newest_pod,
        timeout=parts.binding_timeout,
    )
    rivals = Rivals(manager, parts.client, parts.clock, dynamic_resources, cache.node)
    dynamic_resources.deallocator.on_loss = lambda pod, claim: parts.spawn(rivals.restore(pod, claim))
    plugins: list[Plugin] = [
        SchedulingGates(),
        NodeUnschedulable(),
        NodeName(),
        TaintToleration(cache),
        NodeAffinity(),
        NodePorts(),
        NodeResourcesFit(lambda name: extended and manager.classes.for_resource(name) is not None),
        VolumeRestrictions(cache, parts.volumes),
        NodeVolumeLimits(parts.volumes),
        VolumeBinding(parts.volumes, committer),
        VolumeZone(parts.volumes),
        PodTopologySpread(cache, parts.siblings),
        InterPodAffinity(cache, parts.namespace_labels),
        dynamic_resources,
        rivals,
        DefaultPreemption(cache, evictor, framework=lambda: framework, budgets=parts.budgets),
        NodeResourcesBalancedAllocation(),
        ImageLocality(cache),
        DefaultBinder(parts.client),
    ]
    if gates.enabled("NodeDeclaredFeatures"):
        plugins.append(NodeDeclaredFeatures())
    if gates.enabled("GangScheduling"):
        plugins.append(GangScheduling(parts.groups))
    framework = Framework(plugins, _WEIGHTS)
    return framework
