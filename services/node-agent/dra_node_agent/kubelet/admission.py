"""Admission of a pod that was bound to a node by the scheduler or by hand (pkg/kubelet/lifecycle/predicate.go)."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping

from dra_shared.api.container import Container
from dra_shared.api.node import Node
from dra_shared.api.pod import Pod
from dra_shared.quantity import Quantity

from dra_node_agent.kubelet import claimamounts
from dra_node_agent.kubelet.claimamounts import milli
from dra_node_agent.kubelet.devicemanager.types import DeviceError

Allocate = Callable[[Pod, Container], Awaitable[None]]
"""Allocates a container's devices. Raises DeviceError."""


# The reason to reject a pod that selects other nodes.
NODE_AFFINITY = "NodeAffinity"


class Rejected(Exception):
    """The node rejects the pod, which then fails with ``reason``."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


async def admit_allocated(pod: Pod, allocate: Allocate) -> None:
    """Allocate the devices of the pod's containers, init containers first (topology manager's scope container).

    Raises: Rejected: devices for a container are not available.
    """
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        try:
            await allocate(pod, container)
        except DeviceError as error:
            raise Rejected(
                "UnexpectedAdmissionError", f"Allocate failed due to {error}, which is unexpected"
            ) from error


def admit(pod: Pod, node: Node, others: Iterable[Pod], *, claims: bool = False) -> None:
    """Check that the pod fits with ``others``, the active pods of the node.

    ``claims``: also count node resources that the pods' claims use.

    Raises:
        Rejected: the pod does not fit.
    """
    for name, value in pod.spec.node_selector.items():
        if node.metadata.labels.get(name) != value:
            raise Rejected(
                NODE_AFFINITY,
                "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
            )
    used: Counter[str] = Counter()
    count = 1
    for other in others:
        used.update(milli_requests(other, claims=claims))
        count += 1
    allocatable = node.status.allocatable
    if "pods" in allocatable and count > int(allocatable["pods"]):
        limit = allocatable["pods"]
        raise Rejected(
            "OutOfpods",
            f"Node didn't have enough resource: pods, requested: 1, used: {count - 1}, capacity: {limit}",
        )
    for name, wanted in milli_requests(pod, claims=claims).items():
        # Skip extended resources that claims provide, because the scheduler has checked them.
        if name not in ("cpu", "memory", "ephemeral-storage") or not wanted:
            continue
        capacity = Quantity.parse(allocatable.get(name, "0")).milli_value()
        if used[name] + wanted > capacity:
            unit = 1 if name == "cpu" else 1000
            raise Rejected(
                f"OutOf{name}",
                f"Node didn't have enough resource: {name}, requested: {wanted // unit},"
                f" used: {used[name] // unit}, capacity: {capacity // unit}",
            )


def milli_requests(pod: Pod, *, claims: bool = False) -> Mapping[str, int]:
    """Return the pod's requests in thousandths: the maximum of the sum of containers and of each step of its start.

    ``claims``: include the node resources of its claims.
    """
    total: Counter[str] = Counter()
    for container in pod.spec.containers:
        total.update(milli(container.resources.requests))
    sidecars: Counter[str] = Counter()
    peak: Counter[str] = Counter()
    for container in pod.spec.init_containers:
        requests = milli(container.resources.requests)
        if container.restart_policy == "Always":
            sidecars.update(requests)
        else:
            peak = peak | (sidecars + requests)
    total = (total + sidecars) | peak
    if claims:
        total.update(claimamounts.of_pod(pod))
    if pod.spec.resources is not None:
        total = Counter({**total, **milli(pod.spec.resources.requests)})
    return total + milli(pod.spec.overhead)
