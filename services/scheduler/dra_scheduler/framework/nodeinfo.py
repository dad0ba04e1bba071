"""NodeInfo: a node with the pods on it (upstream's ``framework.NodeInfo``)."""

from dra_shared.api.node import Node
from dra_shared.api.pod import Pod

from dra_scheduler.framework.resize import as_resized
from dra_scheduler.framework.resources import (
    PODS,
    Amounts,
    add,
    amounts,
    pod_requests,
    scoring_requests,
    subtract,
)

# (protocol, address, port)
HostPort = tuple[str, str, int]


class NodeInfo:
    """A node with its pods; kept by :class:`~dra_scheduler.framework.cache.Cache`.

    ``requested`` is the sum of the pods' requests, ``comparable`` the same with the defaults that scoring uses.
    ``generation`` is another number after every change.
    """

    __slots__ = (
        "_needs", "allocatable", "anti_affine", "comparable", "generation", "name", "node", "pods", "ports",
        "requested",
    )  # fmt: skip

    def __init__(self, name: str) -> None:
        self.name = name
        self.node: Node | None = None
        self.allocatable: Amounts = {}
        self.pods: dict[str, Pod] = {}
        self.requested: Amounts = {}
        self.comparable: Amounts = {}
        self.ports: dict[HostPort, int] = {}
        # Those that keep other pods away.
        self.anti_affine: dict[str, Pod] = {}
        self.generation = 0
        self._needs: dict[str, tuple[Amounts, Amounts]] = {}

    def set_node(self, node: Node) -> None:
        """The node itself, new or changed."""
        self.node = node
        self.allocatable = amounts(node.status.allocatable)

    @property
    def pods_allowed(self) -> int:
        """How many pods the node takes."""
        return self.allocatable.get(PODS, 0)

    def add_pod(self, pod: Pod) -> None:
        """Count the pod in."""
        uid = pod.metadata.uid
        counted = as_resized(pod) if pod.status.container_statuses else pod
        needs, comparable = pod_requests(counted), scoring_requests(counted)
        self.pods[uid] = pod
        self._needs[uid] = needs, comparable
        add(self.requested, needs)
        add(self.comparable, comparable)
        for port in host_ports(pod):
            self.ports[port] = self.ports.get(port, 0) + 1
        if keeps_others_away(pod):
            self.anti_affine[uid] = pod

    def remove_pod(self, uid: str) -> None:
        """Count the pod out."""
        pod = self.pods.pop(uid, None)
        if pod is None:
            return
        needs, comparable = self._needs.pop(uid)
        subtract(self.requested, needs)
        subtract(self.comparable, comparable)
        for port in host_ports(pod):
            left = self.ports[port] - 1
            if left:
                self.ports[port] = left
            else:
                del self.ports[port]
        self.anti_affine.pop(uid, None)

    def copy(self) -> "NodeInfo":
        """An independent copy, for asking what would be if."""
        other = NodeInfo(self.name)
        other.node, other.allocatable, other.generation = self.node, self.allocatable, self.generation
        other.pods, other._needs = dict(self.pods), dict(self._needs)
        other.requested, other.comparable = dict(self.requested), dict(self.comparable)
        other.ports, other.anti_affine = dict(self.ports), dict(self.anti_affine)
        return other


def host_ports(pod: Pod) -> list[HostPort]:
    """The ports of the node that the pod's containers listen on; sidecars count, other init containers don't."""
    return [
        (port.protocol or "TCP", port.host_ip or "0.0.0.0", port.host_port)
        for container in (
            *pod.spec.containers,
            *(c for c in pod.spec.init_containers if c.restart_policy == "Always"),
        )
        for port in container.ports
        if port.host_port
    ]


def keeps_others_away(pod: Pod) -> bool:
    """Whether the pod has required anti-affinity."""
    affinity = pod.spec.affinity
    return (
        affinity is not None
        and affinity.pod_anti_affinity is not None
        and bool(affinity.pod_anti_affinity.required_during_scheduling_ignored_during_execution)
    )
