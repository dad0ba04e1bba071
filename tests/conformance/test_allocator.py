"""The allocator against the real one: upstream's own cases, and random worlds."""

from typing import Any

import pytest
from dra_scheduler.allocator.conformance import agrees, answer

from tests.support.reference import load_vectors

_CASES = load_vectors("allocator.json.gz")
_WORLDS = load_vectors("random-alloc.jsonl.gz")
_BATCH = 100


def _name(case: dict[str, Any]) -> str:
    return f"{case['suite']}/{case['name']}"


def _expected(case: dict[str, Any]) -> dict[str, Any]:
    """The incubating allocator's answer or, where it lacks a feature, the experimental one's."""
    actual: dict[str, Any] = case["actual"]
    incubating: dict[str, Any] = actual["incubating"]
    return incubating if incubating["supported"] else dict(actual["experimental"])


@pytest.mark.parametrize("case", _CASES, ids=_name)
def test_upstream_case(case: dict[str, Any]) -> None:
    ours, theirs = answer(case), _expected(case)

    assert agrees(ours, theirs), f"ours: {ours}\ntheirs: {theirs}"


@pytest.mark.parametrize("start", range(0, len(_WORLDS), _BATCH))
def test_random_worlds(start: int) -> None:
    differing = {
        world["in"]["name"]: (ours, world["out"])
        for world in _WORLDS[start : start + _BATCH]
        if not agrees(ours := answer(world["in"]), world["out"])
    }

    assert differing == {}


def test_a_different_answer_is_noticed() -> None:
    world = next(world for world in _WORLDS if world["out"]["allocated"] and world["in"]["claims"])
    changed = {**world["out"], "results": world["out"]["results"][:-1]}

    assert agrees(world["out"], world["out"])
    assert not agrees(changed, world["out"])
    assert not agrees({"allocated": False, "results": None, "error": "no"}, world["out"])
