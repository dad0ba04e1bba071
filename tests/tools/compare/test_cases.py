"""The random cases that are compared with real Kubernetes packages."""

import json
import re
from typing import Any

import pytest
from dra_recordings.alloc import answer as allocate
from dra_recordings.cel import answer as evaluate
from dra_shared.version import DEFAULT, V1_34, V1_37, VERSIONS, Version, release

from tools.compare import preparations, taints
from tools.compare.expressions import draw_expression
from tools.compare.upstream import SOURCE
from tools.compare.worlds import draw_world
from tools.compare.writes import answer as write
from tools.compare.writes import draw_write

_SEEDS = [str(number) for number in range(60)]


def test_equal_seeds_give_equal_random_cases() -> None:
    assert draw_world("7", V1_37) == draw_world("7", V1_37)
    assert draw_expression("7", V1_37) == draw_expression("7", V1_37)


@pytest.mark.parametrize("kubernetes", VERSIONS)
def test_random_allocations_often_succeed_and_often_fail(kubernetes: Version) -> None:
    worlds = [{**draw_world(seed, kubernetes), "kubernetesVersion": str(kubernetes)} for seed in _SEEDS]

    allocated = sum(allocate(world)["allocated"] for world in worlds)

    assert 5 < allocated < 40


@pytest.mark.parametrize("kubernetes", VERSIONS)
def test_most_random_cel_expressions_compile(kubernetes: Version) -> None:
    cases = [{**draw_expression(seed, kubernetes), "kubernetesVersion": str(kubernetes)} for seed in _SEEDS]

    compiled = sum("compileError" not in evaluate(case) for case in cases)

    assert compiled > 30


def test_random_worlds_of_1_37_contain_every_field_that_its_allocator_reads() -> None:
    text = json.dumps([draw_world(str(number), V1_37) for number in range(200)])
    for field in (
        "adminAccess",
        "allowMultipleAllocations",
        "bindingConditions",
        "bindsToNode",
        "compatibilityGroups",
        "consumesCounters",
        "derivedAttributes",
        "distinctAttribute",
        "firstAvailable",
        "nodeSelector",
        "perDeviceNodeSelection",
        "sharedCounters",
        "skipNodeOperations",
        "strings",
        "tolerations",
        "validRange",
        "validValues",
    ):
        assert f'"{field}"' in text


def test_random_worlds_of_1_34_contain_no_field_of_later_releases() -> None:
    text = json.dumps([draw_world(str(number), V1_34) for number in range(200)])
    for field in ("compatibilityGroups", "derivedAttributes", "skipNodeOperations", "strings"):
        assert f'"{field}"' not in text


@pytest.mark.parametrize("kubernetes", VERSIONS)
def test_random_writes_are_often_allowed_and_often_rejected(kubernetes: Version) -> None:
    cases = [draw_write(seed, kubernetes) for seed in _SEEDS]

    # A stored object that cannot be decoded makes no case. Programs refuse it.
    answers = [
        write({**case, "kubernetesVersion": str(kubernetes)})
        for case in cases
        if case["operation"] == "create"
    ]

    allowed = sum(answer.get("server", {}).get("allowed", False) for answer in answers)
    assert len(answers) / 10 < allowed < len(answers) * 0.9
    assert sum("oracleError" in answer for answer in answers) < len(answers) / 2


def test_random_writes_cover_every_kind_and_operation() -> None:
    cases = [draw_write(str(number), V1_37) for number in range(300)]

    assert {case["object"]["kind"] for case in cases} == {
        "DeviceClass",
        "DeviceTaintRule",
        "ResourceClaim",
        "ResourceClaimTemplate",
        "ResourcePoolStatusRequest",
        "ResourceSlice",
    }
    assert {case["operation"] for case in cases} == {"create", "update", "statusUpdate"}
    assert {case["object"]["apiVersion"] for case in cases} == {
        f"resource.k8s.io/{version}" for version in ("v1", "v1beta2", "v1beta1", "v1alpha3")
    }


@pytest.mark.parametrize("kubernetes", VERSIONS)
def test_random_event_histories_have_devices_with_and_without_taints_of_rules(kubernetes: Version) -> None:
    cases = [
        {**taints.draw_history(seed, kubernetes), "kubernetesVersion": str(kubernetes)} for seed in _SEEDS
    ]

    last = [taints.answer(case)["steps"][-1] for case in cases]

    devices = [device for step in last for listed in step["slices"].values() for device in listed]
    tainted = sum(bool(device["taints"]) for device in devices)
    assert len(devices) / 10 < tainted < len(devices) * 0.9


def test_random_claim_preparations_often_succeed_and_often_fail() -> None:
    cases = [{**preparations.draw_node(seed, V1_37), "kubernetesVersion": "1.37"} for seed in _SEEDS[:20]]

    steps = [step for case in cases for step in preparations.answer(case)["steps"]]

    failed = sum("error" in step for step in steps)
    assert len(steps) / 10 < failed < len(steps) * 0.7
    assert sum(bool(step["calls"]) for step in steps) > len(steps) / 10


def test_the_comparison_ignores_the_order_of_taints() -> None:
    first, second = {"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoExecute"}

    def step(*found: dict[str, str]) -> dict[str, Any]:
        return {"steps": [{"calls": [], "slices": {"s": [{"name": "d", "taints": list(found)}]}}]}

    assert taints.agrees(step(first, second), step(second, first))
    assert not taints.agrees(step(first, second), step(first))


@pytest.mark.parametrize("kubernetes", VERSIONS)
def test_comparison_programs_are_built_from_the_release_that_a_version_follows(kubernetes: Version) -> None:
    name = "go.mod" if kubernetes == DEFAULT else f"releases/{kubernetes}.mod"

    pinned = re.search(r"k8s.io/dynamic-resource-allocation v0\.(\S+)", (SOURCE / name).read_text())

    assert pinned is not None
    assert f"1.{pinned[1]}" == release(kubernetes).patch
