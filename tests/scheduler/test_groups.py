"""Pods of a group, which are tried together, until 1.36; ``test_trees`` covers 1.37 and later."""

from typing import Any

import pytest
from dra_scheduler.placement import Placement
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_36, V1_37
from prometheus_client import REGISTRY

from tests.scheduler.objects import claim_json, class_json, node_json, pod_json, slice_json
from tests.scheduler.running import (
    condition,
    events,
    node_of,
    nominated_node,
    nominations,
    quiet,
    run_scheduler,
)
from tests.support.fakeapi import FakeApi
from tests.support.waiting import until

GATES = FeatureGates(V1_36, GangScheduling=True, GenericWorkload=True, DRAWorkloadResourceClaims=True)
TOO_FEW = (
    "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled, "
    "one or more plugins asked to wait and no plugin rejected pod"
)


def _group(minimum: int = 0) -> JsonObject:
    policy: JsonObject = {"gang": {"minCount": minimum}} if minimum else {"basic": {}}
    return {
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default", "uid": "uid-g"},
        "spec": {"schedulingPolicy": policy},
    }


def _member(name: str, cpu: str = "3", **more: Any) -> JsonObject:
    return pod_json(name, requests={"cpu": cpu}, schedulingGroup={"podGroupName": "g"}, **more)


def _group_condition(api: FakeApi) -> tuple[str, str, str]:
    (found,) = api.get("podgroups", "default", "g")["status"]["conditions"]
    return found["status"], found["reason"], found.get("message", "")


async def test_each_member_reports_its_own_reason() -> None:
    api = FakeApi(node_json("a"), _group(2))
    async with run_scheduler(api, gates=GATES):
        api.add(_member("fits", priority=1))
        api.add(_member("left"))
        await until(lambda: condition(api, "fits") and condition(api, "left"))
        await quiet(api)
        assert condition(api, "fits")["message"] == TOO_FEW
        assert condition(api, "left")["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
        assert _group_condition(api) == ("False", "Unschedulable", "pod group is unschedulable")


def _attempts(result: str) -> float:
    labels = {"result": result, "profile": "default-scheduler"}
    counted = REGISTRY.get_sample_value("scheduler_podgroup_schedule_attempts_total", labels) or 0
    timed = REGISTRY.get_sample_value("scheduler_podgroup_scheduling_attempt_duration_seconds_count", labels)
    assert counted == (timed or 0)
    return counted


def _decisions() -> float:
    return REGISTRY.get_sample_value("scheduler_podgroup_scheduling_algorithm_duration_seconds_count") or 0


async def test_attempts_are_counted_by_result() -> None:
    before = _attempts("scheduled"), _attempts("unschedulable")
    decided = _decisions()
    api = FakeApi(node_json("a"), _group(2), _member("first"), _member("second"))
    async with run_scheduler(api, gates=GATES):
        await until(lambda: condition(api, "first") and condition(api, "second"))
        await quiet(api)
        failed = _attempts("unschedulable")
        api.add(node_json("b"))
        await until(lambda: node_of(api, "first") and node_of(api, "second"))
        await quiet(api)
    assert (_attempts("scheduled"), failed) == (before[0] + 1, before[1] + 1)
    assert _decisions() == decided + 2


async def test_gangs_need_no_separate_gate_since_1_37() -> None:
    """The condition of a gang has another name since 1.37, and its message has the number of pods that fit."""
    api = FakeApi(node_json("a"), _group(2))
    gates = FeatureGates(V1_37, GenericWorkload=True)
    async with run_scheduler(api, gates=gates):
        api.add(_member("left", cpu="30"))
        api.add(_member("fits"))
        await until(lambda: condition(api, "fits") and condition(api, "left"))
        await quiet(api)
    text = (
        "minCount (2) cannot be satisfied: 1 scheduled, 0 remaining, "
        "pod group preemption: No preemption victims found for incoming preemptor"
    )
    assert condition(api, "fits")["message"] == f"pod group is unschedulable, {text}"
    (found,) = api.get("podgroups", "default", "g")["status"]["conditions"]
    assert (found["type"], found["message"]) == ("PodGroupInitiallyScheduled", text)


async def test_members_of_a_group_without_gang_policy_are_scheduled_one_by_one() -> None:
    api = FakeApi(node_json("a"), _group())
    async with run_scheduler(api, gates=GATES):
        api.add(_member("big", cpu="30"))
        await until(lambda: condition(api, "big"))
        await quiet(api)
        assert _group_condition(api) == ("False", "Unschedulable", "pod group is unschedulable")
        api.add(_member("small"))
        await until(lambda: node_of(api, "small"))
        await quiet(api)
        assert _group_condition(api) == ("True", "Scheduled", "")


async def test_an_error_for_one_member_is_an_error_for_all() -> None:
    broken = {"selectors": [{"cel": {"expression": 'device.attributes["missing"].thing'}}]}
    api = FakeApi(
        node_json("a"), class_json(), slice_json("a", 1), claim_json("c", request=broken), _group(2)
    )
    async with run_scheduler(api, gates=GATES):
        api.add(_member("good", "1", priority=1))
        api.add(_member("bad", "1", claims={"gpu": "c"}))
        await until(lambda: condition(api, "good") and condition(api, "bad"))
        await quiet(api)
        own = condition(api, "bad")["message"]
        assert own.startswith('running "DynamicResources" filter plugin: claim default/c: selector #0')
        message = f"failed to schedule other pod from a pod group: {own}"
        assert condition(api, "good")["message"] == message
        assert condition(api, "good")["reason"] == "SchedulerError"
        assert _group_condition(api) == ("False", "SchedulerError", message)
        assert not node_of(api, "good")


async def test_adding_the_last_member_requeues_all_members() -> None:
    """Members that fit are requeued with the others, without an event about themselves."""
    api = FakeApi(node_json("a"), node_json("b", taints=[{"key": "k", "effect": "NoSchedule"}]), _group(2))
    async with run_scheduler(api, gates=GATES) as (_, clock):
        api.add(_member("fits", priority=1))
        api.add(_member("left"))
        await until(lambda: condition(api, "left"))
        await quiet(api)
        api.add(node_json("b"))
        await clock.advance(2)
        await until(lambda: node_of(api, "fits") and node_of(api, "left"))


async def test_a_gang_with_members_that_lack_a_claim_is_unschedulable() -> None:
    api = FakeApi(node_json("a"), class_json(), slice_json("a", 2), claim_json("c0"), _group(2))
    async with run_scheduler(api, gates=GATES) as (_, clock):
        for number in range(2):
            api.add(_member(f"p{number}", "1", claims={"gpu": f"c{number}"}))
        await quiet(api)
        assert condition(api, "p0")["message"] == TOO_FEW
        assert events(api, "p0") == [f"FailedScheduling: {TOO_FEW}"]
        assert _group_condition(api) == ("False", "Unschedulable", "pod group is unschedulable")
        assert not condition(api, "p1")
        api.add(claim_json("c1"))
        await clock.advance(2)
        await until(lambda: node_of(api, "p0") and node_of(api, "p1"))
        assert not events(api, "p1") or "Scheduled" in events(api, "p1")[0]


async def test_gang_members_that_wait_for_others_report_their_node() -> None:
    api = FakeApi(node_json("a"), _group(2))
    async with run_scheduler(api, gates=GATES):
        for number in range(3):
            api.add(_member(f"p{number}", "1", priority=3 - number))
        await until(lambda: all(node_of(api, f"p{number}") for number in range(3)))
    named = [
        c.name for c in api.writes("pods") if (c.body.get("status") or {}).get("nominatedNodeName") == "a"
    ]
    assert named == ["p0"]


@pytest.mark.parametrize("enough", [True, False])
async def test_members_that_preempt_pods_are_nominated(enough: bool) -> None:
    """Pods on one node must be preempted. If the gang fits then, all of its pods are nominated while they wait."""
    low = pod_json("low", requests={"cpu": "3"}, nodeName="a")
    nodes = [node_json("a"), node_json("b")] if enough else [node_json("a")]
    api = FakeApi(*nodes, low, _group(2))
    async with run_scheduler(api, gates=GATES) as (scheduler, clock):
        for number in range(2):
            api.add(_member(f"p{number}", priority=10))
        await until(lambda: condition(api, "p0") and condition(api, "p1"))
        await quiet(api)
        if enough:
            waiting = "pod group is unschedulable, pod group is waiting for preemption to complete"
            assert sorted(nominations(api, "p0")[:1] + nominations(api, "p1")[:1]) == ["a", "b"]
            first = api.writes("podgroups")[0].body["status"]["conditions"][0]
            assert (first["status"], first["reason"], first["message"]) == ("False", "Unschedulable", waiting)
            await clock.advance(2)
            await until(lambda: node_of(api, "p0") and node_of(api, "p1"))
            await quiet(api)
            assert _group_condition(api) == ("True", "Scheduled", "")
        else:
            assert not nominated_node(api, "p0")
            assert not nominated_node(api, "p1")
            assert _group_condition(api) == ("False", "Unschedulable", "pod group is unschedulable")
            assert not scheduler.cache.count_assumed


async def test_the_member_that_completes_a_gang_is_tried_first() -> None:
    api = FakeApi(
        node_json("a"), class_json(), slice_json("a", 2), claim_json("c0"), claim_json("c1"), _group(2)
    )
    async with run_scheduler(api, gates=GATES):
        for number in range(2):
            api.add(_member(f"p{number}", "1", claims={"gpu": f"c{number}"}))
            await quiet(api)
        await until(lambda: node_of(api, "p0") and node_of(api, "p1"))
    allocation = api.get("resourceclaims", "default", "c1")["status"]["allocation"]
    assert [result["device"] for result in allocation["devices"]["results"]] == ["gpu-0"]


async def test_members_are_retried_after_an_exception_for_one_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api = FakeApi(node_json("a"), _group(2))
    async with run_scheduler(api, gates=GATES) as (scheduler, clock):
        broken = [RuntimeError("a bug")]
        begin = Placement.begin

        def once(*arguments: Any) -> Any:
            if broken:
                raise broken.pop()
            return begin(*arguments)

        monkeypatch.setattr(Placement, "begin", once)
        api.add(_member("p", cpu="1"))
        api.add(_member("q", cpu="1"))
        await until(lambda: condition(api, "p") and condition(api, "q"))
        assert condition(api, "p")["reason"] == "SchedulerError"
        assert not scheduler.queue.count_by_place()["in flight"]
        await clock.advance(2)
        await until(lambda: node_of(api, "p") and node_of(api, "q"))
