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
    """A node with its pods, maintained by :class:`~dra_scheduler.framework.cache.Cache`.

    ``requested`` is the sum of the pods' requests, ``comparable`` is the same sum, with default requests for
    containers that have none, for scoring. ``generation`` changes with every change.
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
        # Pods with required anti-affinity.
        self.anti_affine: dict[str, Pod] = {}
        self.generation = 0
        self._needs: dict[str, tuple[Amounts, Amounts]] = {}

    def set_node(self, node: Node) -> None:
        """Set the Node object."""
        self.node = node
        self.allocatable = amounts(node.status.allocatable)

    @property
    def pods_allowed(self) -> int:
        """The maximum number of pods on the node."""
        return self.allocatable.get(PODS, 0)

    def add_pod(self, pod: Pod) -> None:
        """Add the pod and its requests."""
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
        """Remove the pod and its requests."""
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
        """Return an independent copy, for simulating changes."""
        other = NodeInfo(self.name)
        other.node, other.allocatable, other.generation = self.node, self.allocatable, self.generation
        other.pods, other._needs = dict(self.pods), dict(self._needs)
        other.requested, other.comparable = dict(self.requested), dict(self.comparable)
        other.ports, other.anti_affine = dict(self.ports), dict(self.anti_affine)
        return other


def host_ports(pod: Pod) -> list[HostPort]:
    """Return the host ports of the pod's containers and sidecars. Other init containers do not count."""
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
    """True if the pod has required anti-affinity."""
    affinity = pod.spec.affinity
    return (
        affinity is not None
        and affinity.pod_anti_affinity is not None
        and bool(affinity.pod_anti_affinity.required_during_scheduling_ignored_during_execution)
    )
