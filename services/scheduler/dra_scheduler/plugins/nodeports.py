"""NodePorts: no two pods with the same host port on one node.

Mirrors upstream's ``pkg/scheduler/framework/plugins/nodeports``.
"""

from collections.abc import Hashable, Sequence

from dra_shared.api.pod import Pod

from dra_scheduler.framework.events import Action, Event, Interest, Kind
from dra_scheduler.framework.nodeinfo import HostPort, NodeInfo, host_ports
from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import SKIP, Status, unschedulable

_ANY = "0.0.0.0"


class NodePorts:
    """Filters by the host ports that are free."""

    name = "NodePorts"

    def events_to_register(self) -> Sequence[Interest]:
        return (
            Interest(Kind.POD, Action.DELETE, hint=_frees_a_port),
            Interest(Kind.NODE, Action.ADD),
        )

    def sign(self, pod: Pod) -> Hashable:
        return tuple(host_ports(pod))

    def pre_filter(self, state: CycleState, pod: Pod) -> tuple[frozenset[str] | None, Status | None]:
        ports = host_ports(pod)
        state.write(self.name, ports)
        return None, None if ports else SKIP

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        wanted = state.read(self.name, list)
        if any(_is_taken(port, node) for port in (host_ports(pod) if wanted is None else wanted)):
            return unschedulable("node(s) didn't have free ports for the requested pod ports")
        return None


def _is_taken(wanted: HostPort, node: NodeInfo) -> bool:
    return any(conflict(wanted, used) for used in node.ports)


def conflict(one: HostPort, other: HostPort) -> bool:
    """True if both ports cannot be used on the same node."""
    same = one[0] == other[0] and one[2] == other[2]
    return same and (one[1] == other[1] or _ANY in (one[1], other[1]))


def _frees_a_port(pod: Pod, event: Event) -> bool:
    freed = host_ports(event.old)
    return any(conflict(wanted, port) for wanted in host_ports(pod) for port in freed)
