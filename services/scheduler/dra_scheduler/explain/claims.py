"""The claims of a pod, and the section about them in an explanation."""

from collections.abc import Iterable, Iterator, Sequence

from dra_shared.api.node import Node
from dra_shared.api.pod import Pod
from dra_shared.api.resource import ResourceClaim
from dra_shared.claims import ClaimReferenceError, claim_name
from dra_shared.nodeselector import matches

from dra_scheduler.dra.manager import DRAManager
from dra_scheduler.explain.nodes import devices_of
from dra_scheduler.explain.obstacles import Obstacle, selector_text
from dra_scheduler.explain.report import ClaimReport
from dra_scheduler.framework.nodeinfo import NodeInfo


def claims_of(manager: DRAManager, pod: Pod) -> list[ResourceClaim]:
    """Return the pod's existing claims. The claim for extended resources is last."""
    found = []
    for entry in pod.spec.resource_claims:
        try:
            name, _ = claim_name(pod, entry)
        except ClaimReferenceError:
            continue
        claim = None if name is None else manager.claims.get(pod.metadata.namespace, name)
        if claim is not None:
            found.append(claim)
    extended = manager.claims.for_extended_resources(pod.metadata.uid)
    return [*found, extended] if extended is not None else found


def claim_report(manager: DRAManager, claim: ResourceClaim) -> ClaimReport:
    """Return a claim's report, including devices that are allocated but not stored yet."""
    pending = manager.claims.pending_allocation(claim.metadata.uid)
    return ClaimReport(
        claim=claim.key,
        devices=devices_of(claim.status.allocation or pending),
        reserved_for=tuple(f"{ref.resource}/{ref.name}" for ref in claim.status.reserved_for),
        in_flight=pending is not None,
    )


def allocated_elsewhere(manager: DRAManager, pod: Pod, node: NodeInfo) -> list[Obstacle]:
    """Return the pod's claims whose node selectors exclude the node."""
    found = []
    for claim in claims_of(manager, pod):
        allocation = claim.status.allocation or manager.claims.pending_allocation(claim.metadata.uid)
        if allocation is None or allocation.node_selector is None or node.node is None:
            continue
        if not matches(allocation.node_selector, node.node):
            devices = ", ".join(devices_of(allocation))
            where = selector_text(allocation.node_selector)
            found.append(Obstacle(f"claim {claim.key} has {devices}, for nodes with {where} only"))
    return found


def without_node(claims: Iterable[ResourceClaim], nodes: Sequence[Node]) -> Iterator[str]:
    """Yield a message for each claim that is allocated for nodes that do not exist."""
    for claim in claims:
        selector = claim.status.allocation.node_selector if claim.status.allocation is not None else None
        if selector is not None and not any(matches(selector, node) for node in nodes):
            yield f"claim {claim.key} is allocated for nodes with {selector_text(selector)}, and there is none"
