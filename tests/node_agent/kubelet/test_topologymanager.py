"""Merging of topology hints, with the cases of upstream's policy tests."""

import pytest
from dra_node_agent.kubelet.admission import Rejected
from dra_node_agent.kubelet.devicemanager.topologyhints import Hints, TopologyHint
from dra_node_agent.kubelet.topologymanager import TopologyManager
from dra_node_agent.kubelet.topologypolicies import BEST_EFFORT, NONE, RESTRICTED, SINGLE_NUMA_NODE
from dra_shared.api.container import Container
from dra_shared.api.meta import ObjectMeta
from dra_shared.api.pod import Pod, PodSpec

from tests.support.cases import each_case

POD = Pod(metadata=ObjectMeta(uid="uid"), spec=PodSpec(containers=(Container(name="c"),)))


def _hint(*nodes: int, preferred: bool = True) -> TopologyHint:
    return TopologyHint(nodes, preferred)


async def _affinity(policy: str, hints: Hints) -> set[int] | None:
    manager = TopologyManager(policy, (0, 1), lambda _pod, _container: hints)

    async def allocate(_pod: Pod, _container: Container) -> None:
        return

    await manager.admit(POD, allocate)
    nodes = manager.affinity("uid", "c")
    return None if nodes is None else set(nodes)


@each_case(
    ("hints", "nodes"),
    [
        ({}, {0, 1}),
        ({"a": None}, {0, 1}),
        ({"a": [_hint(1), _hint(0, 1, preferred=False)]}, {1}),
        ({"a": [_hint(0), _hint(1)]}, {0}),
        ({"a": [_hint(0), _hint(1)], "b": [_hint(1)]}, {1}),
        ({"a": [_hint(0, 1)], "b": [_hint(1), _hint(0, 1, preferred=False)]}, {0, 1}),
        ({"a": [_hint(0)], "b": [_hint(1)]}, {0, 1}),
        ({"a": []}, {0, 1}),
    ],
)
async def test_the_best_effort_policy_chooses_the_smallest_preferred_set_of_numa_nodes(
    hints: Hints, nodes: set[int]
) -> None:
    assert await _affinity(BEST_EFFORT, hints) == nodes


@pytest.mark.parametrize(
    "hints",
    [{"a": []}, {"a": [_hint(0)], "b": [_hint(1)]}, {"a": [_hint(0, 1, preferred=False)]}],
)
async def test_the_restricted_policy_rejects_hints_that_are_not_preferred(hints: Hints) -> None:
    with pytest.raises(Rejected) as caught:
        await _affinity(RESTRICTED, hints)
    assert caught.value.reason == "TopologyAffinityError"
    assert str(caught.value) == "Resources cannot be allocated with Topology locality"


async def test_the_single_numa_node_policy_accepts_one_numa_node_or_no_preference() -> None:
    assert await _affinity(SINGLE_NUMA_NODE, {"a": [_hint(0), _hint(1), _hint(0, 1, preferred=False)]}) == {0}
    assert await _affinity(SINGLE_NUMA_NODE, {"a": None}) is None
    with pytest.raises(Rejected):
        await _affinity(SINGLE_NUMA_NODE, {"a": [_hint(0, 1)]})


async def test_no_numa_affinity_is_chosen_with_the_policy_none() -> None:
    assert await _affinity(NONE, {"a": [_hint(0)]}) is None
