"""The node resources of a pod's claims, as the scheduler writes them to the pod's status.

``status.nodeAllocatableResourceClaimStatuses`` of the gate DRANodeAllocatableResources (component-helpers'
resource package). Amounts are in thousandths.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from dra_shared.api.pod import NodeAllocatableResourceClaimStatus, Pod
from dra_shared.quantity import Quantity


def milli(amounts: Mapping[str, str]) -> Counter[str]:
    """Convert quantities to thousandths by name."""
    return Counter({name: Quantity.parse(value).milli_value() for name, value in amounts.items()})


def of_pod(pod: Pod) -> Counter[str]:
    """Return the amounts of the pod's claims: the mapped amount once, overhead for the pod and each container."""
    total: Counter[str] = Counter()
    for status in pod.status.node_allocatable_resource_claim_statuses:
        total.update(_mapped_amounts(status))
        total.update(_overhead(status, len(status.containers)))
    return total


def of_container(pod: Pod, container: str) -> Counter[str]:
    """Return the amounts of the container's claims. Claims that it shares with other containers count in full."""
    total: Counter[str] = Counter()
    for status in _of(pod, container):
        total.update(_mapped_amounts(status))
        total.update(_overhead(status, 1))
    return total


def memory_share(pod: Pod, container: str) -> int:
    """Return the container's part of its claims' memory in bytes (getEffectiveContainerMemoryRequest)."""
    total = 0
    for status in _of(pod, container):
        users = len(status.containers)
        total += sum(_bytes(mapped.quantity) // users for mapped in status.mapping if mapped.name == "memory")
        for overhead in status.overhead:
            if overhead.name == "memory":
                total += _bytes(overhead.per_pod) // users + _bytes(overhead.per_container)
    return total


def _of(pod: Pod, container: str) -> Iterator[NodeAllocatableResourceClaimStatus]:
    for status in pod.status.node_allocatable_resource_claim_statuses:
        if container in status.containers:
            yield status


def _mapped_amounts(status: NodeAllocatableResourceClaimStatus) -> Counter[str]:
    """Return the mapped amounts: ``resources`` in Kubernetes 1.36, ``mapping`` in later versions."""
    total = milli(status.resources)
    for mapped in status.mapping:
        total[mapped.name] += Quantity.parse(mapped.quantity).milli_value()
    return total


def _overhead(status: NodeAllocatableResourceClaimStatus, users: int) -> Counter[str]:
    total: Counter[str] = Counter()
    for overhead in status.overhead:
        total[overhead.name] += Quantity.parse(overhead.per_pod or "0").milli_value()
        total[overhead.name] += Quantity.parse(overhead.per_container or "0").milli_value() * users
    return total


def _bytes(quantity: str | None) -> int:
    return Quantity.parse(quantity or "0").value()
