"""Queueing hints about nodes."""

from dra_shared.api.pod import Pod

from dra_scheduler.framework.events import Event, Hint
from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.plugin import FilterPlugin
from dra_scheduler.framework.state import CycleState


def would_do_if_empty(plugin: FilterPlugin) -> Hint:
    """A node that came or changed is worth another try if the plugin would let the pod have it all."""

    def hint(pod: Pod, event: Event) -> bool:
        node = NodeInfo(event.new.metadata.name)
        node.set_node(event.new)
        return plugin.filter(CycleState(), pod, node) is None

    return hint
