"""Compute a domain's status from its cliques and daemons' pods (cmd/compute-domain-controller/cdstatus.go). Pure."""

from collections.abc import Collection, Iterable

from dra_shared.api.pod import Pod

from dra_node_agent.drivers.nvidia.computedomain.api import (
    CLIQUE_LABEL,
    NOT_READY,
    READY,
    ComputeDomain,
    ComputeDomainClique,
    ComputeDomainNode,
    ComputeDomainStatus,
    DaemonInfo,
)


def status_of(
    domain: ComputeDomain, cliques: Iterable[ComputeDomainClique], pods: Iterable[Pod]
) -> ComputeDomainStatus:
    """Return the desired status of the domain.

    Args:
        cliques: the cliques of the domain, which list its nodes that have a fabric. pods: the pods of its
        daemons, from which its nodes without a fabric are derived.
    """
    nodes = [_from_daemon(daemon) for clique in cliques for daemon in clique.daemons]
    nodes += [
        _from_pod(pod) for pod in pods if _is_without_fabric(pod) and pod.spec.node_name and pod.status.pod_ip
    ]
    # Keep the list in its current order if nothing changed.
    if {node.name: node for node in nodes} == {node.name: node for node in domain.status.nodes}:
        nodes = list(domain.status.nodes)
    enough = len(nodes) >= domain.spec.num_nodes
    ready = enough and all(node.status != NOT_READY for node in nodes)
    return ComputeDomainStatus(status=READY if ready else NOT_READY, nodes=tuple(nodes))


def without_stale(clique: ComputeDomainClique, nodes: Collection[str]) -> tuple[DaemonInfo, ...]:
    """Return the clique's daemons except those on nodes that no longer have a pod of the domain."""
    return tuple(daemon for daemon in clique.daemons if daemon.node_name in nodes)


def is_ready(pod: Pod) -> bool:
    """True if the pod is running and ready."""
    return pod.status.phase == "Running" and any(
        condition.type == "Ready" and condition.status == "True" for condition in pod.status.conditions
    )


def _from_daemon(daemon: DaemonInfo) -> ComputeDomainNode:
    return ComputeDomainNode(
        name=daemon.node_name,
        ip_address=daemon.ip_address,
        clique_id=daemon.clique_id,
        index=daemon.index,
        status=daemon.status,
    )


def _from_pod(pod: Pod) -> ComputeDomainNode:
    return ComputeDomainNode(
        name=pod.spec.node_name,
        ip_address=pod.status.pod_ip,
        clique_id="",
        index=-1,
        status=READY if is_ready(pod) else NOT_READY,
    )


def _is_without_fabric(pod: Pod) -> bool:
    """True if the daemon has labelled its pod as being on a node without a fabric."""
    return pod.metadata.labels.get(CLIQUE_LABEL) == ""
