"""The allocator, compared with the real one in upstream's own cases and in random worlds."""

import json
from typing import Any

import pytest
from dra_recordings.alloc import agrees, answer

from tests.support.cases import each_case
from tests.support.reference import REFERENCE, load_vectors

_CASES = load_vectors("allocator.json.gz")
_WORLDS = load_vectors("random-alloc.jsonl.gz")
_BATCH = 100


def _name(case: dict[str, Any]) -> str:
    return f"{case['suite']}/{case['name']}"


def _implementation(case: dict[str, Any]) -> str:
    """Return the newer one of the two allocators that search pools in order, if the older one lacks a feature."""
    return "incubating" if case["actual"]["incubating"]["supported"] else "experimental"


def _expected_answer(case: dict[str, Any]) -> dict[str, Any]:
    return dict(case["actual"][_implementation(case)])


def _answer(case: dict[str, Any], **more: str) -> dict[str, Any]:
    return answer({**case, "implementation": _implementation(case), **more})


@each_case("case", _CASES, ids=_name)
def test_allocation_agrees_with_upstream(case: dict[str, Any]) -> None:
    ours, theirs = _answer(case), _expected_answer(case)

    assert agrees(ours, theirs), f"ours: {ours}\ntheirs: {theirs}"


# The results of upstream's cases that differ since 1.37.
_LIMIT = "claim claim-0, request {}: adding {} devices exceeds the claim limit of 32, with {} already accounted for"
_ON_DEVICE = "class class-a: selector #0 on device driver-a/pool-1/device-1: CEL runtime error"
_ERRORS_SINCE_1_37 = {
    "all-devices-invalid-CEL": _LIMIT.format("req-0", 500, 0),
    "too-many-devices-single-request": _LIMIT.format("req-0", 500, 0),
    "too-many-devices-total": _LIMIT.format("req-1", 1, 32),
    "consumable-capacity-multi-allocatable-device-allocation-mode-all-in-use-insufficient": "",
    "list-attributes-disabled-distinct-constraint-with-lists": "",
    "list-attributes-disabled-match-constraint-with-lists": "",
    "list-attributes-distinct-constaint-with-empty-or-unknown-type": (
        f"{_ON_DEVICE}: attribute driverVersion: unsupported attribute value"
    ),
    "list-attributes-match-constaint-with-empty-or-unknown-type": (
        f"{_ON_DEVICE}: attribute stringAttribute: unsupported attribute value"
    ),
    "with-distinct-constraints-unknown-type-attribute": (
        f"{_ON_DEVICE}: attribute boolAttribute: unsupported attribute value"
    ),
}
_FOR_ALL_SINCE_1_37 = (
    "prioritized-list-class-config",
    "prioritized-list-device-config",
    "with-class-device-config",
)


def _since_1_37(case: dict[str, Any]) -> dict[str, Any]:
    expected = json.loads(json.dumps(_expected_answer(case)))
    if case["name"] in _ERRORS_SINCE_1_37:
        return {"allocated": False, "results": None, "error": _ERRORS_SINCE_1_37[case["name"]]}
    if case["name"] in _FOR_ALL_SINCE_1_37:
        for result in expected["results"]:
            for config in result["devices"]["config"]:
                assert config.pop("requests")
    return dict(expected)


def test_allocations_agree_with_upstream_in_1_37() -> None:
    differing = {
        case["name"]: (ours, theirs)
        for case in _CASES
        if not agrees(ours := _answer(case, kubernetesVersion="1.37"), theirs := _since_1_37(case))
    }

    assert differing == {}


def _new_cases() -> list[dict[str, Any]]:
    path = REFERENCE / "reference/kubernetes-1.37/allocator-new-since-1.36.2.json"
    found: list[dict[str, Any]] = json.loads(path.read_text())["cases"] if path.exists() else []
    return found


@pytest.mark.parametrize("case", _new_cases(), ids=_name)
def test_allocation_agrees_with_new_upstream_cases_of_1_37(case: dict[str, Any]) -> None:
    wanted = case["expect"]["results"]
    theirs = {"allocated": bool(wanted), "results": [result["allocation"] for result in wanted]}

    assert agrees(answer({**case, "kubernetesVersion": "1.37"}), theirs)
    # Before 1.37, the results of these two cases had other configurations.
    changed = {"claim-config-covering-all-requests-is-cleared", "with-claim-config-for-two-requests"}
    assert agrees(answer(case), theirs) == (case["name"] not in changed)


@each_case("start", range(0, len(_WORLDS), _BATCH))
def test_allocations_in_random_worlds_agree_with_upstream(start: int) -> None:
    differing = {
        world["in"]["name"]: (ours, world["out"])
        for world in _WORLDS[start : start + _BATCH]
        if not agrees(ours := answer(world["in"]), world["out"])
    }

    assert differing == {}


def test_comparison_fails_when_the_allocation_differs_from_upstreams() -> None:
    world = next(world for world in _WORLDS if world["out"]["allocated"] and world["in"]["claims"])
    changed = {**world["out"], "results": world["out"]["results"][:-1]}

    assert agrees(world["out"], world["out"])
    assert not agrees(changed, world["out"])
    assert not agrees({"allocated": False, "results": None, "error": "no"}, world["out"])
