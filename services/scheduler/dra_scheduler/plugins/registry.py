"""The default set of plugins, in upstream's order and with upstream's weights."""

from collections.abc import Mapping

from dra_shared.client.rest import Client
from dra_shared.features import FeatureGates

from dra_scheduler.framework.cache import Cache
from dra_scheduler.framework.runtime import Framework
from dra_scheduler.plugins.basic import DefaultBinder, SchedulingGates
from dra_scheduler.plugins.dynamicresources.manager import DRAManager
from dra_scheduler.plugins.dynamicresources.plugin import DynamicResources
from dra_scheduler.plugins.nodeaffinity import NodeAffinity, NodeName
from dra_scheduler.plugins.nodeports import NodePorts
from dra_scheduler.plugins.noderesources import NodeResourcesBalancedAllocation, NodeResourcesFit
from dra_scheduler.plugins.tainttoleration import NodeUnschedulable, TaintToleration

_WEIGHTS: Mapping[str, int] = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DynamicResources": 2,
}


def default_framework(
    gates: FeatureGates,
    cache: Cache,
    manager: DRAManager,
    client: Client,
    dynamic_resources: DynamicResources,
) -> Framework:
    """All plugins that there are."""
    extended = gates.enabled("DRAExtendedResource")
    return Framework(
        (
            SchedulingGates(),
            NodeUnschedulable(),
            NodeName(),
            TaintToleration(cache),
            NodeAffinity(),
            NodePorts(),
            NodeResourcesFit(lambda name: extended and manager.classes.for_resource(name) is not None),
            dynamic_resources,
            NodeResourcesBalancedAllocation(),
            DefaultBinder(client),
        ),
        _WEIGHTS,
    )
