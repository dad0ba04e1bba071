"""Queueing hints for node events, shared by several plugins."""

from dra_shared.api.node import Node
from dra_shared.api.pod import Pod

from dra_scheduler.framework.events import Event, Hint
from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.plugin import FilterPlugin
from dra_scheduler.framework.state import CycleState


def would_accept(plugin: FilterPlugin, pod: Pod, node: Node) -> bool:
    """True if the plugin would accept the pod on the empty node."""
    info = NodeInfo(node.metadata.name)
    info.set_node(node)
    return plugin.filter(CycleState(), pod, info) is None


def hint_for_acceptance(plugin: FilterPlugin) -> Hint:
    """Return a hint: retry if the plugin accepts the node now and did not accept it before the change."""

    def hint(pod: Pod, event: Event) -> bool:
        return would_accept(plugin, pod, event.new) and (
            event.old is None or not would_accept(plugin, pod, event.old)
        )

    return hint
