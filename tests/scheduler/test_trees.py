"""Composite pod groups: all groups of a tree are tried at once, and either enough of them get nodes or none does."""

from typing import Any

import pytest
from dra_scheduler.framework.cache import Cache
from dra_shared.api.codec import convert
from dra_shared.api.resources import NODES, PODS
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_37
from prometheus_client import REGISTRY

from tests.scheduler.objects import DRIVER, claim_json, class_json, pod_json, slice_json
from tests.scheduler.objects import node_json as small_node_json
from tests.scheduler.running import condition, node_of, nominations, quiet, run_scheduler
from tests.support.fakeapi import FakeApi
from tests.support.waiting import until

GATES = FeatureGates(V1_37, GenericWorkload=True, CompositePodGroup=True, DRAWorkloadResourceClaims=True)
SHORT = "minCount (2) cannot be satisfied: 1 scheduled, 0 remaining"
_PROFILE = "default-scheduler"
NO_VICTIMS = "pod group preemption: No preemption victims found for incoming preemptor"
ROOT = f"pod group is unschedulable, 0/1 placements are available, first placement status: {SHORT}"


def node_json(name: str, cpu: str = "4") -> JsonObject:
    node = small_node_json(name)
    node["status"]["allocatable"] |= {"cpu": cpu, "pods": "100"}
    return node


def _composite(name: str, minimum: int = 0, parent: str | None = None) -> JsonObject:
    policy: JsonObject = {"gang": {"minGroupCount": minimum}} if minimum else {"basic": {}}
    spec: JsonObject = {"schedulingPolicy": policy}
    if parent:
        spec["parentCompositePodGroupName"] = parent
    return {
        "kind": "CompositePodGroup",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": spec,
    }


def _group(name: str, parent: str | None = "root", minimum: int = 0, **spec: Any) -> JsonObject:
    policy: JsonObject = {"gang": {"minCount": minimum}} if minimum else {"basic": {}}
    if parent:
        spec["parentCompositePodGroupName"] = parent
    return {
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"schedulingPolicy": policy, **spec},
    }


def _pod(name: str, group: str, cpu: str = "1", **more: Any) -> JsonObject:
    return pod_json(name, requests={"cpu": cpu}, schedulingGroup={"podGroupName": group}, **more)


def _verdict(api: FakeApi, group: str) -> tuple[str, str, str]:
    (found,) = api.get("podgroups", "default", group)["status"]["conditions"]
    assert found["type"] == "PodGroupInitiallyScheduled"
    return found["status"], found["reason"], found.get("message", "")


def _nodes(api: FakeApi, *names: str) -> list[str | None]:
    return [node_of(api, name) for name in names]


async def test_enough_groups_of_a_gang_are_scheduled_and_the_others_wait() -> None:
    api = FakeApi(node_json("a"), _composite("root", 2), *(_group(f"g{n}", minimum=2) for n in range(3)))
    async with run_scheduler(api, gates=GATES):
        for number in range(3):
            api.add(_pod(f"p{number}", f"g{number}", cpu="30" if number == 1 else "0.5"))
            api.add(_pod(f"q{number}", f"g{number}", cpu="0.5"))
        await until(lambda: node_of(api, "p2") and condition(api, "p1"))
        await quiet(api)
    assert _nodes(api, "p0", "q0", "p1", "q1", "p2", "q2") == ["a", "a", None, None, "a", "a"]
    assert _verdict(api, "g0") == _verdict(api, "g2") == ("True", "Scheduled", "")
    assert _verdict(api, "g1") == ("False", "Unschedulable", SHORT)
    assert condition(api, "q1")["message"] == f"pod group is unschedulable, {SHORT}"
    assert condition(api, "p1")["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")


async def test_no_group_is_scheduled_if_too_few_fit() -> None:
    """Pods of a group that would fit get the reason of the parent group, and nothing stays assumed."""
    api = FakeApi(node_json("a"), _composite("root", 2), _group("one"), _group("two", minimum=1))
    async with run_scheduler(api, gates=GATES) as (scheduler, clock):
        api.add(_pod("p", "one"))
        api.add(_pod("q", "two", cpu="30"))
        await until(lambda: condition(api, "p") and condition(api, "q"))
        await quiet(api)
        assert _nodes(api, "p", "q") == [None, None]
        assert condition(api, "p")["message"] == ROOT
        assert _verdict(api, "one") == ("False", "Unschedulable", f"{ROOT}, {NO_VICTIMS}")
        own = f"minCount (1) cannot be satisfied: 0 scheduled, 0 remaining, {NO_VICTIMS}"
        assert _verdict(api, "two") == ("False", "Unschedulable", own)
        assert not scheduler.cache.count_assumed
        api.add(node_json("b", cpu="40"))
        await clock.advance(2)
        await until(lambda: node_of(api, "p") and node_of(api, "q"))


async def test_failing_groups_of_a_three_level_tree_release_their_resources() -> None:
    """Follows upstream's TestCPGHierarchicalScheduling."""
    parts = [
        _composite("root", 2),
        *(_composite(f"sub{n}", 0 if n == 2 else 2, parent="root") for n in (1, 2, 3)),
        *(_group(f"g{n}", "sub1", minimum=3) for n in (1, 2, 3)),
        _group("g4", "sub2"),
        _group("g5", "sub2", minimum=3),
        *(_group(f"g{n}", "sub3", minimum=3) for n in (6, 7)),
    ]
    api = FakeApi(node_json("a", cpu="12"), *parts)
    fails = {3, 6, 7}
    async with run_scheduler(api, gates=GATES):
        for group in range(1, 8):
            for number in range(3):
                api.add(_pod(f"p{group}{number}", f"g{group}", cpu="100" if group in (3, 7) else "1"))
        await until(lambda: node_of(api, "p52") and condition(api, "p72"))
        await quiet(api)
    for group in range(1, 8):
        node = None if group in fails else "a"
        assert _nodes(api, *(f"p{group}{n}" for n in range(3))) == [node] * 3
        assert _verdict(api, f"g{group}")[0] == ("False" if group in fails else "True")


async def test_pods_wait_until_the_tree_is_complete() -> None:
    waiting = 'waiting for composite pod group "root" tree to meet quorum'
    api = FakeApi(node_json("a"), _group("g0", minimum=1), _group("g1", minimum=1))
    async with run_scheduler(api, gates=GATES) as (scheduler, _):
        api.add(_pod("p0", "g0"))
        await quiet(api)
        entry = scheduler.queue.get("uid-p0")
        assert entry is not None
        assert (entry.gated, entry.message) == (True, waiting)
        api.add(_composite("root", 2))
        await quiet(api)
        assert (entry.gated, entry.message) == (True, waiting)
        api.add(_pod("p1", "g1"))
        await until(lambda: node_of(api, "p0") and node_of(api, "p1"))


async def test_claims_of_all_groups_are_allocated_or_none() -> None:
    """Devices for a group that fits stay free until the whole tree fits."""
    claims = [claim_json(f"c{n}") for n in range(4)]
    groups = [_composite("root", 2), _group("g0", minimum=2), _group("g1", minimum=2)]
    api = FakeApi(node_json("a"), class_json(), slice_json("a", 3), *claims, *groups)
    async with run_scheduler(api, gates=GATES) as (scheduler, clock):
        for number in range(4):
            api.add(_pod(f"p{number}", f"g{number // 2}", cpu="0.5", claims={"gpu": f"c{number}"}))
        await until(lambda: condition(api, "p3"))
        await quiet(api)
        assert _verdict(api, "g1") == ("False", "Unschedulable", f"{SHORT}, {NO_VICTIMS}")
        assert not any(api.get("resourceclaims", "default", f"c{n}").get("status") for n in range(4))
        assert not scheduler.manager.claims.in_flight
        api.add(slice_json("a", 4))
        await clock.advance(2)
        await until(lambda: all(_nodes(api, "p0", "p1", "p2", "p3")))
    devices = [
        api.get("resourceclaims", "default", f"c{n}")["status"]["allocation"]["devices"]["results"][0][
            "device"
        ]
        for n in range(4)
    ]
    assert sorted(devices) == ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]


async def test_a_claim_is_shared_within_a_group_and_not_with_another() -> None:
    """Each group has its own attempt, in which claims of another group count as being allocated."""
    entry = {"name": "gpu", "resourceClaimName": "c"}
    groups = [_composite("root"), _group("g0", resourceClaims=[entry]), _group("g1", resourceClaims=[entry])]
    api = FakeApi(node_json("a"), class_json(), slice_json("a", 1), claim_json("c"), *groups)
    async with run_scheduler(api, gates=GATES) as (_, clock):
        for name, group in (("p0", "g0"), ("p1", "g0"), ("q", "g1")):
            api.add(_pod(name, group, claims={"gpu": "c"}))
        await until(lambda: condition(api, "q"))
        text = "resource claim default/c is in the process of being allocated"
        assert text in condition(api, "q")["message"]
        await clock.advance(2)
        await until(lambda: all(_nodes(api, "p0", "p1", "q")))
    reserved = api.get("resourceclaims", "default", "c")["status"]["reservedFor"]
    assert [(r["resource"], r["name"]) for r in reserved] == [("podgroups", "g0"), ("podgroups", "g1")]


async def test_an_error_for_one_pod_fails_the_whole_tree_of_groups() -> None:
    broken = {"selectors": [{"cel": {"expression": 'device.attributes["missing"].thing'}}]}
    claim = claim_json("c", request=broken)
    groups = [_composite("root"), _group("g0"), _group("g1")]
    api = FakeApi(node_json("a"), class_json(), slice_json("a", 1), claim, *groups)
    async with run_scheduler(api, gates=GATES) as (scheduler, _):
        api.add(_pod("good", "g0"))
        api.add(_pod("bad", "g1", claims={"gpu": "c"}))
        await until(lambda: condition(api, "good") and condition(api, "bad"))
        await quiet(api)
        begins = (
            "composite pod group evaluation failed due to child error: "
            'failed to schedule other pod from a pod group: running "DynamicResources" filter plugin: '
        )
        for name, group in (("good", "g0"), ("bad", "g1")):
            assert condition(api, name)["reason"] == "SchedulerError"
            assert condition(api, name)["message"].startswith(begins)
            assert _verdict(api, group)[:2] == ("False", "SchedulerError")
        assert not scheduler.cache.count_assumed


@pytest.mark.parametrize(
    ("one", "other", "policy", "problem"),
    [
        ({"priority": 1}, {}, False, "priority as the pod group's priority, got 1 and 0"),
        (
            {"preemptionPolicy": "Never"},
            {},
            False,
            "preemption policy, got Never and PreemptLowerPriority",
        ),
        (
            {"preemptionPolicy": "Never"},
            {},
            True,
            "preemption policy as the pod group's preemption policy, got Never and PreemptLowerPriority",
        ),
    ],
)
async def test_pods_of_one_group_with_different_settings_are_an_error(
    one: JsonObject, other: JsonObject, policy: bool, problem: str
) -> None:
    gates = FeatureGates(V1_37, GenericWorkload=True, CompositePodGroup=True, PodGroupPreemptionPolicy=policy)
    api = FakeApi(node_json("a"), _group("g", None, 2))
    async with run_scheduler(api, gates=gates):
        api.add(_pod("p", "g", **one))
        api.add(_pod("q", "g", **other))
        await until(lambda: condition(api, "p") and condition(api, "q"))
        await quiet(api)
    message = f"all pods in a single pod group should have the same {problem}"
    for name in ("p", "q"):
        assert (condition(api, name)["reason"], condition(api, name)["message"]) == (
            "SchedulerError",
            message,
        )
    assert _verdict(api, "g") == ("False", "SchedulerError", message)


async def test_a_gang_is_retried_when_its_min_count_is_lowered() -> None:
    api = FakeApi(node_json("a"), _group("g", None, 2))
    async with run_scheduler(api, gates=GATES):
        api.add(_pod("p", "g"))
        await quiet(api)
        assert node_of(api, "p") is None
        api.add(_group("g", None, 1))
        await until(lambda: node_of(api, "p"))


def _low(name: str, node: str, cpu: str = "3", **more: Any) -> JsonObject:
    return pod_json(name, requests={"cpu": cpu}, nodeName=node, **more)


def _preempted_pods(api: FakeApi) -> list[str]:
    return [call.name for call in api.calls if (call.verb, call.resource) == ("delete", "pods")]


async def test_a_gang_preempts_once_for_all_its_pods() -> None:
    """Kubernetes/kubernetes#139980: only the needed victims are deleted, at once, and all pods are nominated."""
    before = _preemptions()
    nodes = [node_json("a"), node_json("b"), node_json("c")]
    lows = [_low("one", "a"), _low("two", "b"), _low("other", "c", cpu="1", labels={"x": "y"})]
    api = FakeApi(*nodes, *lows, _group("g", None, 3, priority=10))
    async with run_scheduler(api, gates=GATES) as (_, clock):
        for number in range(3):
            api.add(_pod(f"p{number}", "g", cpu="3", priority=10))
        await until(lambda: len(_preempted_pods(api)) == 2)
        await quiet(api)
        assert sorted(_preempted_pods(api)) == ["one", "two"]
        found = "pod group preemption: found a placement for podgroup, preempting 2 victims"
        first = api.writes("podgroups")[0].body["status"]["conditions"][0]["message"]
        assert first == f"minCount (3) cannot be satisfied: 1 scheduled, 1 remaining, {found}"
        assert {nominations(api, f"p{n}")[0] for n in range(3)} == {"a", "b", "c"}
        notes = [
            note for note in (call.body["note"] for call in api.writes("events")) if "Preempted by" in note
        ]
        assert notes == ["Preempted by podgroup uid-g on node cluster"] * 2
        await clock.advance(2)
        await until(lambda: all(_nodes(api, "p0", "p1", "p2")))
        await quiet(api)
        assert _verdict(api, "g") == ("True", "Scheduled", "")
    assert [new - old for new, old in zip(_preemptions(), before, strict=True)] == [1, 1, 2, 1]


def _preemptions() -> list[float]:
    duration = "scheduler_preemption_evaluation_duration_seconds_count"
    found = [
        REGISTRY.get_sample_value("scheduler_workload_preemption_attempts_total", {"result": "Success"}),
        REGISTRY.get_sample_value("scheduler_workload_preemption_victims_count"),
        REGISTRY.get_sample_value("scheduler_workload_preemption_victims_sum"),
        REGISTRY.get_sample_value(duration, {"preemptor": "podgroup", "result": "Success"}),
    ]
    return [value or 0 for value in found]


@pytest.mark.parametrize(
    ("policy", "priority", "problem"),
    [
        ("Never", 10, "not eligible due to preemptionPolicy=Never."),
        ("PreemptLowerPriority", 10, "minCount (2) cannot be satisfied: 1 scheduled, 0 remaining"),
        ("PreemptLowerPriority", 0, "No preemption victims found for incoming preemptor"),
    ],
)
async def test_a_gang_that_would_not_fit_preempts_no_pods(policy: str, priority: int, problem: str) -> None:
    api = FakeApi(node_json("a"), _low("one", "a"), _group("g", None, 2, priority=priority))
    async with run_scheduler(api, gates=GATES) as (scheduler, _):
        for number in range(2):
            api.add(_pod(f"p{number}", "g", cpu="3", priority=priority, preemptionPolicy=policy))
        await until(lambda: condition(api, "p0"))
        await quiet(api)
        assert _verdict(api, "g")[2].endswith(f"pod group preemption: {problem}")
        assert _preempted_pods(api) == []
        assert scheduler.cache.place_of("uid-one") == "a"
        assert not scheduler.cache.count_assumed


async def test_devices_of_victims_are_not_free_before_the_victims_are_deleted() -> None:
    """A gang that only lacks devices preempts no pod, because a victim's claim holds its devices until it is gone."""
    claims = [claim_json(name) for name in ("c0", "c1", "held")]
    claims[2]["status"] = {
        "allocation": {
            "devices": {"results": [{"request": "gpu", "driver": DRIVER, "pool": "a", "device": "gpu-0"}]}
        },
        "reservedFor": [{"resource": "pods", "name": "low", "uid": "uid-low"}],
    }
    low = _low("low", "a", cpu="1", claims={"gpu": "held"})
    api = FakeApi(
        node_json("a"), class_json(), slice_json("a", 2), *claims, low, _group("g", None, 2, priority=10)
    )
    async with run_scheduler(api, gates=GATES):
        for number in range(2):
            api.add(_pod(f"p{number}", "g", priority=10, claims={"gpu": f"c{number}"}))
        await until(lambda: condition(api, "p0") and condition(api, "p1"))
        await quiet(api)
    assert _verdict(api, "g")[2] == f"{SHORT}, pod group preemption: {SHORT}"
    assert _preempted_pods(api) == []


async def test_a_group_with_all_or_nothing_disruption_is_preempted_as_a_whole() -> None:
    """Its pods on other nodes are preempted with the one in the way."""
    victims = _group("low", None, 1, disruptionMode={"all": {}})
    lows = [_low(name, name, schedulingGroup={"podGroupName": "low"}) for name in ("a", "b")]
    api = FakeApi(node_json("a"), node_json("b"), victims, *lows, _group("g", None, 1, priority=10))
    async with run_scheduler(api, gates=GATES):
        api.add(_pod("p", "g", cpu="3", priority=10))
        await until(lambda: len(_preempted_pods(api)) == 2)
    assert sorted(_preempted_pods(api)) == ["a", "b"]


async def test_a_pod_that_is_deleted_during_an_attempt_is_not_restored() -> None:
    cache = Cache()
    cache.set_node(convert(NODES, node_json("a")))
    for name in ("stays", "goes"):
        cache.set_pod(convert(PODS, _low(name, "a")))
    cache.hide(["uid-stays", "uid-goes", "uid-unknown"])
    assert list(cache.pods()) == []
    cache.set_pod(convert(PODS, _low("stays", "a", labels={"new": "label"})))
    cache.remove_pod("uid-goes")
    assert list(cache.pods()) == []
    cache.reveal(["uid-stays", "uid-goes"])
    (left,) = cache.pods()
    assert left.metadata.labels == {"new": "label"}


@pytest.mark.parametrize("consumer", ["group", "pod", "none"])
async def test_claims_that_keep_a_group_from_fitting_are_deallocated(consumer: str) -> None:
    """They are allocated on another node, and reserved for pods of the group alone."""
    claim = claim_json("c")
    there = {"nodeSelectorTerms": [{"matchFields": [_is_called("b")]}]}
    result = {"request": "gpu", "driver": DRIVER, "pool": "b", "device": "gpu-0"}
    reserved = {
        "group": [{"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "uid-g"}],
        "pod": [{"resource": "pods", "name": "p", "uid": "uid-p"}],
        "none": [],
    }
    claim["status"] = {
        "allocation": {"devices": {"results": [result]}, "nodeSelector": there},
        "reservedFor": reserved[consumer],
    }
    entries = [{"name": "gpu", "resourceClaimName": "c"}] if consumer == "group" else []
    group = _group("g", None, 1, resourceClaims=entries)
    slices = slice_json("a", 1), slice_json("b", 1)
    api = FakeApi(node_json("a"), node_json("b", cpu="1"), class_json(), *slices, claim, group)
    async with run_scheduler(api, gates=GATES) as (_, clock):
        api.add(_pod("p", "g", cpu="3", claims={"gpu": "c"}))
        await until(lambda: condition(api, "p"))
        await quiet(api)
        await clock.advance(2)
        await until(lambda: node_of(api, "p") == "a")
    assert not api.writes("resourceclaims")[0].body["status"]


def _is_called(node: str) -> JsonObject:
    return {"key": "metadata.name", "operator": "In", "values": [node]}


async def test_placements_are_counted_for_topology_aware_groups() -> None:
    """There is one placement, of all nodes, and reasons name it."""
    gates = FeatureGates(V1_37, GenericWorkload=True, TopologyAwareWorkloadScheduling=True)

    def read_counts() -> list[float]:
        made = REGISTRY.get_sample_value("scheduler_generated_placements_total", {"profile": _PROFILE}) or 0
        tried = [
            REGISTRY.get_sample_value(name, {"profile": _PROFILE, "result": result}) or 0
            for result in ("feasible", "infeasible")
            for name in (
                "scheduler_placement_evaluations_total",
                "scheduler_placement_evaluation_duration_seconds_count",
            )
        ]
        return [made, *tried]

    before = read_counts()
    api = FakeApi(node_json("a"), _group("fits", None, 1), _group("big", None, 1))
    async with run_scheduler(api, gates=gates):
        api.add(_pod("p", "fits"))
        api.add(_pod("q", "big", cpu="30"))
        await until(lambda: node_of(api, "p") and condition(api, "q"))
        await quiet(api)
    assert [new - old for new, old in zip(read_counts(), before, strict=True)] == [2, 1, 1, 1, 1]
    tried = "minCount (1) cannot be satisfied: 0 scheduled, 0 remaining"
    text = f"pod group is unschedulable, 0/1 placements are available, reported placement status: {tried}"
    assert _verdict(api, "big")[2] == f"{text}, {NO_VICTIMS}"
