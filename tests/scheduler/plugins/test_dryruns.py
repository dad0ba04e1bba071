"""Preemption caches its results for nodes, and decides as it would without the cache."""

import random
from typing import Any

import pytest
from dra_scheduler.plan.simulation import Simulation
from dra_scheduler.plugins.defaultpreemption import DefaultPreemption, DryRuns
from dra_shared.api.resources import PODS
from dra_shared.jsontypes import JsonObject

from tests.scheduler.objects import claim_json, class_json, node_json, pod_json, slice_json
from tests.scheduler.plan.worlds import put

_Fates = dict[str, str]


def _full(nodes: int) -> Simulation:
    """Return nodes that are full of pods of low priority, each of which may be preempted."""
    world = Simulation(seed=1)
    for index in range(nodes):
        put(world, node_json(f"n{index}"))
        for number in range(2):
            put(world, _pod(f"low-{index}-{number}", "2", nodeName=f"n{index}"))
    return world


def _pod(name: str, cpu: str, priority: int = 0, **more: Any) -> JsonObject:
    return pod_json(name, requests={"cpu": cpu}, container={"image": "x"}, priority=priority, **more)


def test_preemption_is_not_simulated_again_on_unchanged_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    victims = DefaultPreemption._victims

    def count_call(self: DefaultPreemption, state: object, pod: object, name: str, budgets: object) -> object:
        tried.append(name)
        return victims(self, state, pod, name, budgets)  # type: ignore[arg-type]  # passed on as they came

    monkeypatch.setattr(DefaultPreemption, "_victims", count_call)
    world = _full(20)
    for index in range(6):
        put(world, _pod(f"high-{index}", "2", priority=10))
        world.settle()
    assert all((pod := world.pod(f"default/high-{i}")) and pod.spec.node_name for i in range(6))
    # All nodes twice (with and without other pods nominated), and then those that changed.
    assert len(tried) < 3 * 20


@pytest.mark.parametrize("seed", range(8))
def test_cached_preemption_simulations_do_not_change_decisions(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = _random_fates(seed)
    monkeypatch.setattr(DryRuns, "get", lambda self, name: None)
    assert _random_fates(seed) == kept


def _random_fates(seed: int) -> _Fates:
    rng = random.Random(seed)
    world = Simulation(seed=1)
    put(world, class_json())
    for index in range(rng.randint(3, 6)):
        put(world, node_json(f"n{index}"), slice_json(f"n{index}", rng.randint(1, 2)))
    for index in range(25):
        claims: dict[str, str] = {}
        if rng.random() < 0.4:
            put(world, claim_json(f"p{index}"))
            claims = {"gpu": f"p{index}"}
        pod = _pod(f"p{index}", rng.choice(("1", "2", "3")), rng.choice((0, 0, 5, 10)), claims=claims)
        put(world, pod)
        if rng.random() < 0.7:
            world.settle()
    world.settle()
    return {pod.metadata.name: pod.spec.node_name for pod in world.client.objects(PODS)}
