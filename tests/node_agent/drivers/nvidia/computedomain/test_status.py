"""A domain's status from its cliques and pods."""

from dataclasses import dataclass, field

import pytest
from dra_node_agent.drivers.nvidia.computedomain.api import (
    CLIQUE_LABEL,
    NOT_READY,
    READY,
    ComputeDomain,
    ComputeDomainClique,
    ComputeDomainNode,
    ComputeDomainSpec,
    ComputeDomainStatus,
    DaemonInfo,
)
from dra_node_agent.drivers.nvidia.computedomain.daemon import CliqueFull, free_index
from dra_node_agent.drivers.nvidia.computedomain.status import status_of, without_stale
from dra_shared.api.meta import ObjectMeta
from dra_shared.api.pod import Pod, PodCondition, PodSpec, PodStatus
from msgspec.structs import replace

from tests.support.cases import each_case


def daemon(node: str, index: int = 0, status: str = READY) -> DaemonInfo:
    return DaemonInfo(
        node_name=node, ip_address=f"10.0.0.{index}", clique_id="c.1", index=index, status=status
    )


def pod(node: str, clique: str | None, ready: bool = True) -> Pod:
    condition = PodCondition(type="Ready", status="True" if ready else "False")
    return Pod(
        metadata=ObjectMeta(name=node, labels={} if clique is None else {CLIQUE_LABEL: clique}),
        spec=PodSpec(node_name=node),
        status=PodStatus(phase="Running", pod_ip="10.1.0.1", conditions=(condition,)),
    )


@dataclass(frozen=True)
class Case:
    wanted: str
    num_nodes: int = 0
    daemons: tuple[DaemonInfo, ...] = ()
    pods: tuple[Pod, ...] = ()
    nodes: list[tuple[str, int, str]] = field(default_factory=list)


@each_case(
    "case",
    [
        # With numNodes 0 a domain without nodes is ready at once.
        Case(READY),
        Case(NOT_READY, num_nodes=1),
        Case(READY, 1, (daemon("a"),), nodes=[("a", 0, READY)]),
        Case(NOT_READY, 2, (daemon("a"),), nodes=[("a", 0, READY)]),
        Case(READY, 1, (daemon("a"), daemon("b", 1)), nodes=[("a", 0, READY), ("b", 1, READY)]),
        Case(NOT_READY, 1, (daemon("a", 0, NOT_READY),), nodes=[("a", 0, NOT_READY)]),
        # Nodes without a fabric follow from pods that their daemon has labelled so.
        Case(READY, 1, pods=(pod("a", ""),), nodes=[("a", -1, READY)]),
        Case(NOT_READY, 1, pods=(pod("a", "", ready=False),), nodes=[("a", -1, NOT_READY)]),
        Case(NOT_READY, 1, pods=(pod("a", None), pod("b", "c.1"))),
    ],
)
def test_status_is_computed_from_cliques_and_pods(case: Case) -> None:
    domain = ComputeDomain(spec=ComputeDomainSpec(num_nodes=case.num_nodes))
    found = status_of(domain, [ComputeDomainClique(daemons=case.daemons)], case.pods)
    assert found.status == case.wanted
    assert [(node.name, node.index, node.status) for node in found.nodes] == case.nodes


def test_the_order_of_nodes_in_a_domains_status_is_kept() -> None:
    nodes = tuple(
        ComputeDomainNode(
            name=d.node_name, ip_address=d.ip_address, clique_id="c.1", index=d.index, status=READY
        )
        for d in (daemon("b", 1), daemon("a"))
    )
    domain = ComputeDomain(status=ComputeDomainStatus(status=READY, nodes=nodes))
    clique = ComputeDomainClique(daemons=(daemon("a"), daemon("b", 1)))
    assert status_of(domain, [clique], []) == domain.status
    changed = replace(clique, daemons=(daemon("a"),))
    assert [node.name for node in status_of(domain, [changed], []).nodes] == ["a"]


def test_a_daemon_gets_the_lowest_free_index() -> None:
    taken = (daemon("a"), daemon("c", 2))
    assert [free_index((), 1), free_index(taken, 3)] == [0, 1]
    with pytest.raises(CliqueFull, match=r"no available indices within maxNodesPerIMEXDomain \(3\)"):
        free_index((*taken, daemon("b", 1)), 3)


def test_daemons_without_a_pod_are_removed_from_the_clique() -> None:
    clique = ComputeDomainClique(daemons=(daemon("a"), daemon("b", 1)))
    assert without_stale(clique, {"b"}) == (daemon("b", 1),)
