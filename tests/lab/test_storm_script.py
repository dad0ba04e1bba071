"""The script of a storm depends only on its seed, and is never longer than the storm."""

import orjson
from dra_lab.faults.script import script
from dra_shared.faults.cases import read
from dra_shared.faults.catalog import KINDS
from dra_shared.faults.places import SERVICES

from tests.support.cases import each_case

_NODES = ("node-0", "node-1", "node-2")


def test_equal_seeds_give_the_same_script_of_a_storm() -> None:
    assert script(7, 60, _NODES) == script(7, 60, _NODES) != script(8, 60, _NODES)


@each_case("seed", range(20))
def test_faults_end_with_the_storm_and_pods_are_deleted_once(seed: int) -> None:
    steps = script(seed, 120, _NODES)
    assert [step.at for step in steps] == sorted(step.at for step in steps)
    alive: set[str] = set()
    for step in steps:
        assert 0 <= step.at < 120
        match step.action:
            case "create":
                alive.add(step.arguments["pod"])
            case "delete":
                alive.remove(step.arguments["pod"])
            case _:
                assert step.at + step.arguments.get("seconds", 0) <= 120.01
    assert len(alive) <= 18


@each_case("seed", range(20))
def test_each_fault_of_a_script_is_valid(seed: int) -> None:
    for step in script(seed, 120, _NODES):
        if step.action in KINDS:
            order = read(orjson.dumps({"fault": step.action, **step.arguments}))
            assert (order.kind.name, order.seconds) == (step.action, step.arguments.get("seconds", 0))


def test_every_fault_and_service_is_drawn_in_a_few_seeds() -> None:
    steps = [step for seed in range(20) for step in script(seed, 120, _NODES)]
    assert {step.action for step in steps} == {*KINDS, "create", "delete"}
    assert {step.arguments["service"] for step in steps if step.action == "kill"} == set(SERVICES)


def test_faults_are_injected_into_existing_nodes() -> None:
    """Once, nodes of a fleet or of two groups were never chosen: the script only named node-0."""
    steps = script(7, 120, ("h100-0", "h100-1"))
    assert {step.arguments["node"] for step in steps if "node" in step.arguments} == {"h100-0", "h100-1"}
