"""Queueing hints for node events, shared by several plugins."""

from dra_shared.api.node import Node
from dra_shared.api.pod import Pod

from dra_scheduler.framework.events import Event, Hint
from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.plugin import FilterPlugin
from dra_scheduler.framework.state import CycleState


def would_do(plugin: FilterPlugin, pod: Pod, node: Node) -> bool:
    """Whether the plugin would let the pod have the node if it were empty."""
    info = NodeInfo(node.metadata.name)
    info.set_node(node)
    return plugin.filter(CycleState(), pod, info) is None


def comes_to_do(plugin: FilterPlugin) -> Hint:
    """A node is worth another try if the plugin would let the pod have it, and would not have before it changed."""

    def hint(pod: Pod, event: Event) -> bool:
        return would_do(plugin, pod, event.new) and (
            event.old is None or not would_do(plugin, pod, event.old)
        )

    return hint
