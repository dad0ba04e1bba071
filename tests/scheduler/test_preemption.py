"""Preemption: the choice of victims, and the events, conditions and nominations that it writes."""

from typing import Any

import pytest
from dra_shared.jsontypes import JsonObject
from prometheus_client import REGISTRY

from tests.scheduler.objects import claim_json, class_json, node_json, pod_json, slice_json
from tests.scheduler.running import condition, events, node_of, nominated_node, quiet, run_scheduler
from tests.support.fakeapi import FakeApi
from tests.support.waiting import until


def _scheduled_pod(
    name: str, node: str, priority: int = 0, cpu: str = "3", started: str = "", **more: Any
) -> JsonObject:
    pod = pod_json(name, requests={"cpu": cpu}, priority=priority, nodeName=node, **more)
    if started:
        pod["status"]["startTime"] = started
    return pod


def _budget(allowed: int, **labels: str) -> JsonObject:
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}},
        "status": {"disruptionsAllowed": allowed},
    }


async def _survivors(*objects: JsonObject, **high: Any) -> list[str]:
    """Return the pods that are left after ``high`` has preempted others."""
    api = FakeApi(*objects)
    async with run_scheduler(api) as (_, clock):
        api.add(pod_json("high", **{"requests": {"cpu": "3"}, "priority": 100, **high}))
        await until(lambda: nominated_node(api, "high"))
        await quiet(api)
        await clock.advance(2)
        await until(lambda: node_of(api, "high"))
    return [pod["metadata"]["name"] for pod in api.of("pods") if pod["metadata"]["name"] != "high"]


async def test_fewer_budget_violations_count_more_than_lower_priorities() -> None:
    nodes = node_json("a"), node_json("b")
    guarded = _scheduled_pod("guarded", "a", 1, labels={"app": "x"})
    assert await _survivors(*nodes, guarded, _scheduled_pod("dearer", "b", 2)) == ["dearer"]
    assert await _survivors(*nodes, guarded, _scheduled_pod("dearer", "b", 2), _budget(0, app="x")) == [
        "guarded"
    ]
    assert await _survivors(*nodes, guarded, _scheduled_pod("dearer", "b", 2), _budget(1, app="x")) == [
        "dearer"
    ]


async def test_pods_with_a_disruption_budget_are_reprieved_first() -> None:
    pods = _scheduled_pod("guarded", "a", 1, "2", labels={"app": "x"}), _scheduled_pod("dearer", "a", 2, "2")
    room = {"requests": {"cpu": "2"}}
    assert await _survivors(node_json("a"), *pods, **room) == ["dearer"]
    assert await _survivors(node_json("a"), *pods, _budget(0, app="x"), **room) == ["guarded"]


async def test_the_pod_that_started_last_is_preempted() -> None:
    pods = (
        _scheduled_pod("old", "a", started="2026-01-01T00:00:00Z"),
        _scheduled_pod("young", "b", started="2026-01-02T00:00:00Z"),
    )
    assert await _survivors(node_json("a"), node_json("b"), *pods) == ["old"]


@pytest.mark.parametrize("of", ["itself", "the other"])
async def test_preemption_removes_pods_that_conflict_by_anti_affinity(of: str) -> None:
    away = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
            ]
        }
    }
    high: JsonObject = {"labels": {"app": "x"}, "requests": {"cpu": "1"}}
    other: JsonObject = {"labels": {"app": "x"}}
    (high if of == "itself" else other)["affinity"] = away
    pods = _scheduled_pod("rival", "a", cpu="1", **other), _scheduled_pod("bystander", "a", cpu="1")
    left = await _survivors(node_json("a"), *pods, **high)
    assert left == ["bystander"]


async def test_preemption_removes_pods_that_violate_topology_spreading() -> None:
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }
    left = await _survivors(
        node_json("a"),
        node_json("b", unschedulable=True),
        _scheduled_pod("rival", "a", cpu="1", labels={"app": "x"}),
        labels={"app": "x"},
        requests={"cpu": "1"},
        topologySpreadConstraints=[{**spread, "nodeTaintsPolicy": "Ignore"}],
    )
    assert left == []


async def test_reasons_why_preemption_does_not_help_are_reported_for_each_node() -> None:
    nodes = node_json("a"), node_json("b"), node_json("c", unschedulable=True)
    peers = _scheduled_pod("peer-a", "a", 10), _scheduled_pod("peer-b", "b", 10)
    api = FakeApi(*nodes, *peers, _scheduled_pod("low", "a", cpu="1"))
    async with run_scheduler(api):
        api.add(pod_json("big", requests={"cpu": "2"}, priority=10))
        await until(lambda: condition(api, "big"))
        assert condition(api, "big")["message"].partition("preemption: ")[2] == (
            "0/3 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming pod, "
            "1 Preemption is not helpful for scheduling."
        )


def _with_middle_nominated(*pods: JsonObject) -> FakeApi:
    middle = pod_json("middle", requests={"cpu": "3"}, priority=10, schedulingGates=[{"name": "later"}])
    middle["status"] = {"nominatedNodeName": "a"}
    return FakeApi(node_json("a"), middle, *pods)


async def test_preemption_clears_nominations_of_lower_priority() -> None:
    api = _with_middle_nominated(_scheduled_pod("low", "a"))
    async with run_scheduler(api):
        api.add(pod_json("high", requests={"cpu": "3"}, priority=100))
        await until(lambda: nominated_node(api, "high") == "a")
        assert not nominated_node(api, "middle")


async def test_nominations_of_lower_priority_are_kept_on_a_node_without_victims() -> None:
    low = _scheduled_pod("low", "a")
    low["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    api = _with_middle_nominated(low)
    async with run_scheduler(api):
        api.add(pod_json("high", requests={"cpu": "3"}, priority=100))
        await until(lambda: nominated_node(api, "high") == "a")
        assert nominated_node(api, "middle") == "a"


async def test_the_event_names_the_preemptor() -> None:
    api = FakeApi(node_json("a"), _scheduled_pod("low", "a"))
    async with run_scheduler(api):
        api.add(pod_json("high", requests={"cpu": "3"}, priority=100))
        await until(lambda: any(call.body["reason"] == "Preempted" for call in api.writes("events")))
    (reported,) = [call.body for call in api.writes("events") if call.body["reason"] == "Preempted"]
    assert reported["note"] == "Preempted by pod uid-high on node a"
    assert reported["regarding"]["name"] == "low"


async def test_a_victim_that_waits_in_prebind_is_requeued_instead_of_deleted() -> None:
    """The victim waits for its device, whose binding condition is never set."""
    ready = {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}
    slice_ = slice_json("a", 1)
    slice_["spec"]["devices"][0].update(ready)
    api = FakeApi(node_json("a"), class_json(), slice_, claim_json("c"))
    async with run_scheduler(api):
        api.add(pod_json("low", claims={"gpu": "c"}, requests={"cpu": "3"}))
        await until(lambda: api.get("resourceclaims", "default", "c")["status"].get("allocation"))
        await quiet(api)
        api.add(pod_json("high", requests={"cpu": "3"}, priority=100))
        await until(lambda: nominated_node(api, "high") or node_of(api, "high"))
        await until(lambda: any(call.body["reason"] == "Preempted" for call in api.writes("events")))
        await until(lambda: condition(api, "low"))
        assert condition(api, "low")["message"] == (
            'running PreBind plugin "DynamicResources": preempted by DefaultPreemption'
        )
        assert condition(api, "low")["reason"] == "SchedulerError"
        assert not api.get("resourceclaims", "default", "c")["status"].get("reservedFor")
        (note,) = [call.body["note"] for call in api.writes("events") if call.body["reason"] == "Preempted"]
        assert note.endswith("on node a (in kube-scheduler memory).")


async def test_resources_of_a_pod_that_is_deleted_during_prebind_are_free_at_once() -> None:
    """The pod waited for its device, whose binding condition is never set."""
    slice_ = slice_json("a", 1)
    slice_["spec"]["devices"][0].update({"bindingConditions": ["ready"], "bindingFailureConditions": ["no"]})
    api = FakeApi(node_json("a"), class_json(), slice_, claim_json("c"))
    async with run_scheduler(api) as (scheduler, _):
        api.add(pod_json("p", claims={"gpu": "c"}, requests={"cpu": "3"}))
        await until(lambda: api.get("resourceclaims", "default", "c")["status"].get("allocation"))
        api.add(pod_json("q", requests={"cpu": "3"}))
        await until(lambda: condition(api, "q"))
        api.remove("pods", "default", "p")
        await until(lambda: node_of(api, "q") == "a")
        await quiet(api)
        assert scheduler.cache.count_assumed == 0


async def test_a_pod_is_not_retried_while_its_victims_terminate() -> None:
    """If the pod were retried after the end of only the first victim, it would preempt more pods."""
    api = FakeApi(node_json("a"), *(_scheduled_pod(name, "a", cpu="1") for name in ("one", "two", "three")))
    async with run_scheduler(api) as (_, clock):
        api.add(pod_json("high", requests={"cpu": "4"}, priority=100))
        await until(lambda: nominated_node(api, "high") == "a")
        await quiet(api)
        await clock.advance(2)
        await until(lambda: node_of(api, "high") == "a")
    reported = [
        call.body["regarding"]["name"] for call in api.writes("events") if call.body["reason"] == "Preempted"
    ]
    assert sorted(reported) == ["one", "three", "two"]
    assert sum("FailedScheduling" in text for text in events(api, "high")) == 1


async def test_the_pod_is_retried_if_a_victim_could_not_be_deleted() -> None:
    refusals = [(500, "InternalError", "no")]
    api = FakeApi(node_json("a"), _scheduled_pod("low", "a"))
    api.refuse = lambda call: refusals.pop() if call.verb == "delete" and refusals else None
    async with run_scheduler(api) as (_, clock):
        api.add(pod_json("high", requests={"cpu": "3"}, priority=100))
        await until(lambda: condition(api, "high"))
        await clock.advance(5)
        await until(lambda: node_of(api, "high") == "a")
    assert condition(api, "high")["reason"] == "Unschedulable"


async def test_the_first_of_the_pods_that_have_not_started_is_preempted() -> None:
    """Upstream uses the current time as their start time, and so spares the last one."""
    pods = [_scheduled_pod(name, "a", cpu="1") for name in ("first", "second", "third", "fourth")]
    assert await _survivors(node_json("a"), *pods, requests={"cpu": "1"}) == ["fourth", "second", "third"]


async def test_a_new_condition_is_appended_to_existing_ones() -> None:
    low = _scheduled_pod("low", "a")
    low["status"]["conditions"] = [{"type": "PodScheduled", "status": "True"}]
    api = FakeApi(node_json("a"), low)
    async with run_scheduler(api):
        api.add(pod_json("high", requests={"cpu": "3"}, priority=100))
        await until(lambda: not api.has("pods", "default", "low"))
    (patch,) = [
        call.body["status"] for call in api.writes("pods") if call.name == "low" and call.verb == "patch"
    ]
    assert patch["$setElementOrder/conditions"] == [{"type": "PodScheduled"}, {"type": "DisruptionTarget"}]


async def test_an_error_is_the_only_preemption_message_if_no_node_has_victims() -> None:
    broken = {"selectors": [{"cel": {"expression": 'device.attributes["missing"].thing'}}]}
    api = FakeApi(
        node_json("a"),
        class_json(),
        slice_json("a", 1),
        claim_json("c", request=broken),
        _scheduled_pod("low", "a"),
    )
    async with run_scheduler(api) as (scheduler, _):
        api.add(pod_json("high", requests={"cpu": "3"}, priority=100, claims={"gpu": "c"}))
        await until(lambda: condition(api, "high"))
        # The pod waits for a change, as if there had been no error.
        assert scheduler.queue.count_by_place()["unschedulable"] == 1
    assert condition(api, "high")["reason"] == "Unschedulable"
    assert condition(api, "high")["message"].startswith(
        "0/1 nodes are available: 1 Insufficient cpu. "
        'preemption: running "DynamicResources" filter plugin: claim default/c: selector #0'
    )


async def test_attempts_and_victims_are_counted() -> None:
    def read_counts() -> list[float]:
        names = (
            "scheduler_preemption_attempts_total",
            "scheduler_preemption_victims_count",
            "scheduler_preemption_victims_sum",
        )
        return [REGISTRY.get_sample_value(name) or 0 for name in names]

    before = read_counts()
    lows = (_scheduled_pod(name, "a", cpu="2") for name in ("one", "two"))
    await _survivors(node_json("a"), *lows)
    assert [new - old for new, old in zip(read_counts(), before, strict=True)] == [1, 1, 2]
