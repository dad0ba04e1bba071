"""Preemption: who has to go, and what is reported and stored of it."""

from typing import Any

import pytest
from prometheus_client import REGISTRY

from tests.scheduler.objects import claim_json, class_json, node_json, pod_json, slice_json
from tests.scheduler.running import condition, events, node_of, nominated, quiet, running
from tests.support.fakeapi import FakeApi, Json
from tests.support.waiting import until


def _placed(name: str, node: str, priority: int = 0, cpu: str = "3", started: str = "", **more: Any) -> Json:
    pod = pod_json(name, requests={"cpu": cpu}, priority=priority, nodeName=node, **more)
    if started:
        pod["status"]["startTime"] = started
    return pod


def _budget(allowed: int, **labels: str) -> Json:
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}},
        "status": {"disruptionsAllowed": allowed},
    }


async def _survivors(*objects: Json, **high: Any) -> list[str]:
    """The pods that are left once ``high`` has made room for itself."""
    api = FakeApi(*objects)
    async with running(api) as (_, clock):
        api.add(pod_json("high", **{"requests": {"cpu": "3"}, "priority": 100, **high}))
        await until(lambda: nominated(api, "high"))
        await quiet(api)
        await clock.advance(2)
        await until(lambda: node_of(api, "high"))
    return [pod["metadata"]["name"] for pod in api.of("pods") if pod["metadata"]["name"] != "high"]


async def test_budgets_come_before_priorities() -> None:
    nodes = node_json("a"), node_json("b")
    guarded = _placed("guarded", "a", 1, labels={"app": "x"})
    assert await _survivors(*nodes, guarded, _placed("dearer", "b", 2)) == ["dearer"]
    assert await _survivors(*nodes, guarded, _placed("dearer", "b", 2), _budget(0, app="x")) == ["guarded"]
    assert await _survivors(*nodes, guarded, _placed("dearer", "b", 2), _budget(1, app="x")) == ["dearer"]


async def test_of_one_node_the_guarded_are_spared_if_that_is_possible() -> None:
    pods = _placed("guarded", "a", 1, "2", labels={"app": "x"}), _placed("dearer", "a", 2, "2")
    room = {"requests": {"cpu": "2"}}
    assert await _survivors(node_json("a"), *pods, **room) == ["dearer"]
    assert await _survivors(node_json("a"), *pods, _budget(0, app="x"), **room) == ["guarded"]


async def test_what_started_last_goes_first() -> None:
    pods = (
        _placed("old", "a", started="2026-01-01T00:00:00Z"),
        _placed("young", "b", started="2026-01-02T00:00:00Z"),
    )
    assert await _survivors(node_json("a"), node_json("b"), *pods) == ["old"]


@pytest.mark.parametrize("of", ["itself", "the other"])
async def test_who_is_kept_away_by_anti_affinity_makes_room_too(of: str) -> None:
    away = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
            ]
        }
    }
    high: Json = {"labels": {"app": "x"}, "requests": {"cpu": "1"}}
    other: Json = {"labels": {"app": "x"}}
    (high if of == "itself" else other)["affinity"] = away
    pods = _placed("rival", "a", cpu="1", **other), _placed("bystander", "a", cpu="1")
    left = await _survivors(node_json("a"), *pods, **high)
    assert left == ["bystander"]


async def test_who_is_kept_away_by_spreading_makes_room_too() -> None:
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }
    left = await _survivors(
        node_json("a"),
        node_json("b", unschedulable=True),
        _placed("rival", "a", cpu="1", labels={"app": "x"}),
        labels={"app": "x"},
        requests={"cpu": "1"},
        topologySpreadConstraints=[{**spread, "nodeTaintsPolicy": "Ignore"}],
    )
    assert left == []


async def test_why_preemption_does_not_help_is_reported_node_by_node() -> None:
    nodes = node_json("a"), node_json("b"), node_json("c", unschedulable=True)
    peers = _placed("peer-a", "a", 10), _placed("peer-b", "b", 10)
    api = FakeApi(*nodes, *peers, _placed("low", "a", cpu="1"))
    async with running(api):
        api.add(pod_json("big", requests={"cpu": "2"}, priority=10))
        await until(lambda: condition(api, "big"))
        assert condition(api, "big")["message"].partition("preemption: ")[2] == (
            "0/3 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming pod, "
            "1 Preemption is not helpful for scheduling."
        )


def _with_middle_nominated(*pods: Json) -> FakeApi:
    middle = pod_json("middle", requests={"cpu": "3"}, priority=10, schedulingGates=[{"name": "later"}])
    middle["status"] = {"nominatedNodeName": "a"}
    return FakeApi(node_json("a"), middle, *pods)


async def test_lower_nominations_end() -> None:
    api = _with_middle_nominated(_placed("low", "a"))
    async with running(api):
        api.add(pod_json("high", requests={"cpu": "3"}, priority=100))
        await until(lambda: nominated(api, "high") == "a")
        assert not nominated(api, "middle")


async def test_lower_nominations_stay_where_no_victim_is_left() -> None:
    low = _placed("low", "a")
    low["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    api = _with_middle_nominated(low)
    async with running(api):
        api.add(pod_json("high", requests={"cpu": "3"}, priority=100))
        await until(lambda: nominated(api, "high") == "a")
        assert nominated(api, "middle") == "a"


async def test_the_event_names_the_preemptor() -> None:
    api = FakeApi(node_json("a"), _placed("low", "a"))
    async with running(api):
        api.add(pod_json("high", requests={"cpu": "3"}, priority=100))
        await until(lambda: any(call.body["reason"] == "Preempted" for call in api.writes("events")))
    (reported,) = [call.body for call in api.writes("events") if call.body["reason"] == "Preempted"]
    assert reported["note"] == "Preempted by pod uid-high on node a"
    assert reported["regarding"]["name"] == "low"


async def test_a_pod_that_is_being_prepared_is_put_back_instead_of_deleted() -> None:
    """It waits for its device, whose binding condition is never set."""
    ready = {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}
    slice_ = slice_json("a", 1)
    slice_["spec"]["devices"][0].update(ready)
    api = FakeApi(node_json("a"), class_json(), slice_, claim_json("c"))
    async with running(api):
        api.add(pod_json("low", claims={"gpu": "c"}, requests={"cpu": "3"}))
        await until(lambda: api.get("resourceclaims", "default", "c")["status"].get("allocation"))
        await quiet(api)
        api.add(pod_json("high", requests={"cpu": "3"}, priority=100))
        await until(lambda: nominated(api, "high") or node_of(api, "high"))
        await until(lambda: any(call.body["reason"] == "Preempted" for call in api.writes("events")))
        await until(lambda: condition(api, "low"))
        assert condition(api, "low")["message"] == (
            'running PreBind plugin "DynamicResources": preempted by DefaultPreemption'
        )
        assert condition(api, "low")["reason"] == "SchedulerError"
        assert not api.get("resourceclaims", "default", "c")["status"].get("reservedFor")
        (note,) = [call.body["note"] for call in api.writes("events") if call.body["reason"] == "Preempted"]
        assert note.endswith("on node a (in kube-scheduler memory).")


async def test_the_room_of_a_pod_that_is_deleted_while_it_is_prepared_is_free_at_once() -> None:
    """It waited for its device, whose binding condition is never set."""
    slice_ = slice_json("a", 1)
    slice_["spec"]["devices"][0].update({"bindingConditions": ["ready"], "bindingFailureConditions": ["no"]})
    api = FakeApi(node_json("a"), class_json(), slice_, claim_json("c"))
    async with running(api) as (scheduler, _):
        api.add(pod_json("p", claims={"gpu": "c"}, requests={"cpu": "3"}))
        await until(lambda: api.get("resourceclaims", "default", "c")["status"].get("allocation"))
        api.add(pod_json("q", requests={"cpu": "3"}))
        await until(lambda: condition(api, "q"))
        api.remove("pods", "default", "p")
        await until(lambda: node_of(api, "q") == "a")
        await quiet(api)
        assert scheduler.cache.count_assumed == 0


async def test_a_pod_is_not_tried_again_while_others_go_for_it() -> None:
    """The end of the first victim alone would have it look for victims once more."""
    api = FakeApi(node_json("a"), *(_placed(name, "a", cpu="1") for name in ("one", "two", "three")))
    async with running(api) as (_, clock):
        api.add(pod_json("high", requests={"cpu": "4"}, priority=100))
        await until(lambda: nominated(api, "high") == "a")
        await quiet(api)
        await clock.advance(2)
        await until(lambda: node_of(api, "high") == "a")
    reported = [
        call.body["regarding"]["name"] for call in api.writes("events") if call.body["reason"] == "Preempted"
    ]
    assert sorted(reported) == ["one", "three", "two"]
    assert sum("FailedScheduling" in text for text in events(api, "high")) == 1


async def test_when_a_victim_could_not_be_deleted_the_pod_is_tried_again() -> None:
    refusals = [(500, "InternalError", "no")]
    api = FakeApi(node_json("a"), _placed("low", "a"))
    api.refuse = lambda call: refusals.pop() if call.verb == "delete" and refusals else None
    async with running(api) as (_, clock):
        api.add(pod_json("high", requests={"cpu": "3"}, priority=100))
        await until(lambda: condition(api, "high"))
        await clock.advance(5)
        await until(lambda: node_of(api, "high") == "a")
    assert condition(api, "high")["reason"] == "Unschedulable"


async def test_of_pods_that_have_not_started_the_first_goes() -> None:
    """Upstream compares them by the time at which it looks at them, and so spares the last."""
    pods = [_placed(name, "a", cpu="1") for name in ("first", "second", "third", "fourth")]
    assert await _survivors(node_json("a"), *pods, requests={"cpu": "1"}) == ["fourth", "second", "third"]


async def test_a_new_condition_comes_behind_those_that_there_are() -> None:
    low = _placed("low", "a")
    low["status"]["conditions"] = [{"type": "PodScheduled", "status": "True"}]
    api = FakeApi(node_json("a"), low)
    async with running(api):
        api.add(pod_json("high", requests={"cpu": "3"}, priority=100))
        await until(lambda: not api.has("pods", "default", "low"))
    (patch,) = [
        call.body["status"] for call in api.writes("pods") if call.name == "low" and call.verb == "patch"
    ]
    assert patch["$setElementOrder/conditions"] == [{"type": "PodScheduled"}, {"type": "DisruptionTarget"}]


async def test_an_error_without_a_victim_anywhere_is_all_that_is_reported_of_preemption() -> None:
    broken = {"selectors": [{"cel": {"expression": 'device.attributes["missing"].thing'}}]}
    api = FakeApi(
        node_json("a"),
        class_json(),
        slice_json("a", 1),
        claim_json("c", request=broken),
        _placed("low", "a"),
    )
    async with running(api) as (scheduler, _):
        api.add(pod_json("high", requests={"cpu": "3"}, priority=100, claims={"gpu": "c"}))
        await until(lambda: condition(api, "high"))
        # It waits for something to change, as if there had been no error.
        assert scheduler.queue.count_by_place()["unschedulable"] == 1
    assert condition(api, "high")["reason"] == "Unschedulable"
    assert condition(api, "high")["message"].startswith(
        "0/1 nodes are available: 1 Insufficient cpu. "
        'preemption: running "DynamicResources" filter plugin: claim default/c: selector #0'
    )


async def test_attempts_and_victims_are_counted() -> None:
    def counted() -> list[float]:
        names = (
            "scheduler_preemption_attempts_total",
            "scheduler_preemption_victims_count",
            "scheduler_preemption_victims_sum",
        )
        return [REGISTRY.get_sample_value(name) or 0 for name in names]

    before = counted()
    lows = (_placed(name, "a", cpu="2") for name in ("one", "two"))
    await _survivors(node_json("a"), *lows)
    assert [new - old for new, old in zip(counted(), before, strict=True)] == [1, 1, 2]
