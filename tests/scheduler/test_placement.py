"""Choosing a node: filtering, caching and scoring."""

import random
from typing import Any

import pytest
from dra_scheduler.framework.cache import Cache
from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.runtime import Framework
from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import SKIP, Status, error, unschedulable
from dra_scheduler.placement import AttemptError, Placement, Unschedulable, feasible_nodes_wanted
from dra_shared.api.pod import Pod
from dra_shared.clock import FakeClock

from tests.scheduler.objects import node, pod
from tests.support.cases import each_case


class _Judge:
    """A plugin that returns the status in ``verdicts``, scores a node by its number, and counts its calls."""

    name = "Judge"

    def __init__(self, signature: Any = ()) -> None:
        self.signature = signature
        self.asked: list[str] = []
        self.verdicts: dict[str, Status] = {}
        self.broken = False
        self.rates = True

    def sign(self, pod: Pod) -> Any:
        return self.signature

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        self.asked.append(node.name)
        if self.broken:
            raise ZeroDivisionError
        return self.verdicts.get(node.name)

    def pre_score(self, state: CycleState, pod: Pod) -> Status | None:
        return None if self.rates else SKIP

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return int(node.name.removeprefix("n"))


def _placement(judge: _Judge, nodes: int) -> tuple[Placement, Cache]:
    cache = Cache()
    for i in range(nodes):
        cache.set_node(node(f"n{i}"))
    return Placement(Framework([judge]), cache, FakeClock(), random.Random(1)), cache


async def _choose(placement: Placement, name: str = "p") -> str:
    return await placement.choose(placement.begin(pod(name)))


async def test_nodes_are_scored_again_if_other_plugins_score() -> None:
    judge = _Judge()
    judge.rates = False
    placement, _ = _placement(judge, 5)
    await _choose(placement)
    judge.rates = True
    assert await _choose(placement) == "n4"
    judge.rates = False
    await _choose(placement)


async def test_the_node_with_the_highest_score_is_chosen() -> None:
    judge = _Judge()
    placement, _ = _placement(judge, 5)
    assert await _choose(placement) == "n4"
    judge.verdicts["n4"] = unschedulable("full")


async def test_only_changed_nodes_are_filtered_again_for_equal_pods() -> None:
    judge = _Judge()
    placement, cache = _placement(judge, 5)
    await _choose(placement)
    assert sorted(judge.asked) == [f"n{i}" for i in range(5)]
    judge.asked.clear()
    assert await _choose(placement, "q") == "n4"
    assert judge.asked == []
    judge.verdicts["n4"] = unschedulable("full")
    cache.touch("n4")
    assert await _choose(placement, "r") == "n3"
    assert judge.asked == ["n4"]
    cache.remove_node("n3")
    assert await _choose(placement, "s") == "n2"
    cache.touch(None)
    judge.asked.clear()
    await _choose(placement, "t")
    assert len(judge.asked) == 4


async def test_pods_that_differ_share_no_cached_filter_results() -> None:
    judge = _Judge(signature=None)
    placement, _ = _placement(judge, 3)
    await _choose(placement)
    await _choose(placement)
    assert len(judge.asked) == 6


async def test_every_rejected_node_has_its_reason() -> None:
    judge = _Judge()
    judge.verdicts = {f"n{i}": unschedulable("full" if i else "broken") for i in range(3)}
    placement, _ = _placement(judge, 3)
    with pytest.raises(Unschedulable) as failure:
        await _choose(placement)
    assert str(failure.value) == "0/3 nodes are available: 1 broken, 2 full."
    assert failure.value.diagnosis.plugins == {"Judge"}


async def test_an_error_of_a_plugin_ends_the_attempt() -> None:
    judge = _Judge()
    judge.verdicts["n0"] = error("no such key: thing")
    placement, _ = _placement(judge, 1)
    with pytest.raises(AttemptError, match='running "Judge" filter plugin: no such key: thing'):
        await _choose(placement)
    del judge.verdicts["n0"]
    assert await _choose(placement) == "n0"


async def test_an_attempt_without_nodes_reports_no_nodes() -> None:
    placement, _ = _placement(_Judge(), 0)
    with pytest.raises(Unschedulable, match="no nodes available to schedule pods"):
        await _choose(placement)


async def test_filtering_stops_at_enough_nodes_and_the_next_pod_starts_after_them() -> None:
    judge = _Judge(signature=None)
    placement, _ = _placement(judge, 250)
    await _choose(placement)
    first = set(judge.asked)
    assert len(first) == feasible_nodes_wanted(250) == 120
    judge.asked.clear()
    await _choose(placement)
    assert not first & set(judge.asked)


@each_case(("nodes", "wanted"), [(10, 10), (99, 99), (100, 100), (500, 230), (5000, 500), (10000, 500)])
def test_number_of_feasible_nodes_to_find_follows_upstream(nodes: int, wanted: int) -> None:
    assert feasible_nodes_wanted(nodes) == wanted


async def test_the_nominated_node_is_chosen_even_if_others_score_higher() -> None:
    judge = _Judge()
    placement, cache = _placement(judge, 5)
    mine = pod("p")
    cache.nominations.set(mine, "n1")
    assert await placement.choose(placement.begin(mine)) == "n1"
    assert judge.asked == ["n1"]
    judge.verdicts["n1"] = unschedulable("still full")
    assert await placement.choose(placement.begin(mine)) == "n4"


async def test_filters_run_with_and_without_nominated_pods() -> None:
    class Crowd(_Judge):
        def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
            self.asked.append(f"{node.name} with {len(node.pods)}")
            return unschedulable("full") if node.pods else None

    judge = Crowd()
    placement, cache = _placement(judge, 2)
    cache.nominations.set(pod("vip", priority=10), "n1")
    assert await _choose(placement) == "n0"
    assert await placement.choose(placement.begin(pod("boss", priority=11))) == "n1"
    cache.nominations.delete("uid-vip")
    assert await _choose(placement) == "n1"


async def test_a_node_stays_available_to_later_pods_after_a_plugin_raised() -> None:
    judge = _Judge()
    placement, _ = _placement(judge, 2)
    judge.broken = True
    with pytest.raises(ZeroDivisionError):
        await _choose(placement)
    judge.broken = False
    assert await _choose(placement, "q") == "n1"
    assert sorted(judge.asked) == ["n0", "n0", "n1"]
