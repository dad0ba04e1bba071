"""The part of an explanation about the group that a pod belongs to."""

import itertools
from types import SimpleNamespace
from typing import Any

import pytest
from dra_scheduler.config import SchedulerConfig
from dra_scheduler.explain.report import PodReport
from dra_scheduler.explain.text import render
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_36, V1_37, Version

from tests.scheduler.explain.worlds import devices, driver_class, explain, simulation, text_of
from tests.scheduler.objects import DRIVER, claim_json, class_json, node_json, pod_json
from tests.scheduler.running import condition, node_of, quiet, run_scheduler
from tests.support.fakeapi import FakeApi
from tests.support.waiting import until

GATES = FeatureGates(V1_36, GangScheduling=True, GenericWorkload=True)
GANG: JsonObject = {
    "kind": "PodGroup",
    "metadata": {"name": "g", "namespace": "default", "uid": "uid-g"},
    "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
}


async def _report(*pods: str, wait_for: str, about: str) -> PodReport:
    """Explain ``pods`` of 3 CPUs each in a gang of 2, highest priority first, on one node of 4 CPUs."""
    api = FakeApi(node_json("a"), GANG)
    async with run_scheduler(api, gates=GATES) as (scheduler, _):
        for rank, name in enumerate(pods):
            group = {"podGroupName": "g"}
            api.add(pod_json(name, requests={"cpu": "3"}, priority=-rank, schedulingGroup=group))
        if wait_for:
            await until(lambda: condition(api, wait_for) or node_of(api, wait_for))
        await quiet(api)
        report = scheduler.explainer.pod("default", about)
    assert report is not None
    return report


async def test_a_pod_that_would_fit_alone_waits_for_its_gang() -> None:
    report = await _report("p", "q", wait_for="q", about="p")
    [node] = report.nodes
    assert not node.fits
    assert node.objections == {
        "GangScheduling": ("minCount (2) cannot be satisfied: 1 scheduled, 0 remaining",)
    }
    assert report.group is not None
    assert (report.group.group, report.group.min_count, report.group.placed) == ("default/g", 2, 0)
    (other,) = report.group.members
    assert other.pod == "default/q"
    assert other.message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert report.change is not None
    assert report.change.kind == "gang"
    text = render(report)
    assert "  group default/g: 2 pods, 0 with nodes, at least 2 together or none\n" in text
    assert "    default/q: unschedulable, 0/1 nodes are available: 1 Insufficient cpu." in text
    assert "    tried together now: 1 of 2 pods that wait would get nodes\n      default/p: a\n" in text
    assert "      default/q: 0/1 nodes are available: 1 Insufficient cpu.\n" in text
    assert "  it has to wait until at least 2 pods of default/g can have nodes together\n" in text


async def test_a_pod_of_an_incomplete_gang_waits_for_the_other_members() -> None:
    report = await _report("p", wait_for="", about="p")
    assert report.state == "pending: gated"
    assert report.message == "waiting for minCount pods from a gang to appear in scheduling queue"
    assert "  group default/g: 1 pod, 0 with nodes, at least 2 together or none\n" in render(report)


_CLAIM = claim_json("one")


def _member(name: str, node: str = "", **fields: Any) -> JsonObject:
    selector = {"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}
    return pod_json(name, claims={"gpu": "one"}, schedulingGroup={"podGroupName": "g"}, **selector, **fields)


def _places(report: PodReport) -> list[tuple[str, str]]:
    assert report.group is not None
    return [(place.pod, place.node) for place in report.group.together]


_WORLD: list[JsonObject] = [
    node_json("a"),
    node_json("b"),
    devices("a", {"name": "g0"}),
    devices("b", {"name": "g0"}),
    driver_class("gpu"),
    _CLAIM,
    GANG,
]


@pytest.mark.parametrize("version", [V1_36, V1_37])
@pytest.mark.parametrize("settle", [False, True])
def test_members_that_share_a_claim_and_need_different_nodes_do_not_fit(
    version: Version, settle: bool
) -> None:
    gates = FeatureGates(version, GangScheduling=True, GenericWorkload=True)
    config = SchedulerConfig(gates=gates)
    world = simulation(*_WORLD, _member("p", "a"), _member("q", "b"), config=config, settle=settle)
    p, q = (world.scheduler.explainer.pod("default", name) for name in ("p", "q"))
    assert p is not None
    assert q is not None
    assert p.state == q.state == ("pending: unschedulable" if settle else "pending: active")
    assert not any(node.fits for node in (*p.nodes, *q.nodes))
    assert _places(p) == _places(q) == [("default/p", "a"), ("default/q", "")]
    assert p.group is not None
    assert p.group.together[0].devices == (f"{DRIVER}/a/g0",)
    assert "1 resourceclaim not available on the node" in p.group.together[1].message
    [b] = [node for node in q.nodes if node.node == "b"]
    assert b.saw["DynamicResources"] == (
        f"claim default/one has {DRIVER}/a/g0, for nodes with metadata.name In [a] only",
    )
    # The trial changed no state.
    claims = world.scheduler.manager.claims
    assert not claims.in_flight
    assert not claims.state.dedicated
    assert not world.scheduler.cache.count_assumed
    world.close()


def test_members_that_can_share_a_claim_on_one_node_fit() -> None:
    config = SchedulerConfig(gates=GATES)
    world = simulation(*_WORLD, _member("p", "a"), _member("q", "a"), config=config)
    report = world.scheduler.explainer.pod("default", "q")
    assert report is not None
    assert [node.node for node in report.nodes if node.fits] == ["a"]
    assert _places(report) == [("default/p", "a"), ("default/q", "a")]
    assert report.change is None
    world.close()


def test_releasing_the_claim_of_another_member_is_not_proposed() -> None:
    """There is one device for two members, so the other member's claim is no obstacle that could be removed."""
    claims = [claim_json("first"), claim_json("second")]
    pods = [
        pod_json(name, claims={"gpu": claim}, schedulingGroup={"podGroupName": "g"})
        for name, claim in (("p", "first"), ("q", "second"))
    ]
    world = [node_json("a"), devices("a", {"name": "g0"}), driver_class("gpu"), GANG]
    report = explain("q", *world, *claims, *pods, config=SchedulerConfig(gates=GATES))
    [node] = report.nodes
    assert node.requests[0].devices[0].reasons == ("in use by claim default/first",)
    assert report.change is None


def test_a_group_member_not_examined_within_the_time_limit_is_not_called_unschedulable() -> None:
    config = SchedulerConfig(gates=GATES)
    world = simulation(*_WORLD, _member("p", "a"), _member("q", "b"), config=config)
    explainer = world.scheduler.explainer
    times = itertools.count()
    explainer._clock = SimpleNamespace(monotonic=lambda: next(times) * 0.9)
    report = explainer.pod("default", "p")
    assert report is not None
    assert _places(report)[1:] == [("default/q", "")]
    assert "default/q: not tried, for lack of time" in text_of(report)
    assert not any("GangScheduling" in node.objections for node in report.nodes)
    world.close()


_TREES = SchedulerConfig(gates=FeatureGates(V1_37, GenericWorkload=True, CompositePodGroup=True))


def _tree_world(*cpus: str, groups: int = 2) -> list[JsonObject]:
    """Return groups of one pod each, of which ``groups`` are needed, on one node of 4 CPUs."""
    whole = {
        "kind": "CompositePodGroup",
        "metadata": {"name": "whole", "namespace": "default", "uid": "uid-whole"},
        "spec": {"schedulingPolicy": {"gang": {"minGroupCount": groups}}},
    }
    world = [node_json("a"), whole]
    for number, cpu in enumerate(cpus):
        group = {
            "kind": "PodGroup",
            "metadata": {"name": f"g{number}", "namespace": "default", "uid": f"uid-g{number}"},
            "spec": {
                "schedulingPolicy": {"gang": {"minCount": 1}},
                "parentCompositePodGroupName": "whole",
            },
        }
        world += [
            group,
            pod_json(f"p{number}", requests={"cpu": cpu}, schedulingGroup={"podGroupName": f"g{number}"}),
        ]
    return world


def test_groups_of_a_composite_group_are_tried_together() -> None:
    report = explain("p0", *_tree_world("3", "3"), config=_TREES)
    assert _places(report) == [("default/p0", "a"), ("default/p1", "")]
    [node] = report.nodes
    assert node.objections == {
        "GangScheduling": (
            "composite pod group default/whole: minCount (2) cannot be satisfied: 1 scheduled, 0 remaining",
        )
    }
    assert report.change is not None
    assert report.change.text == (
        "until enough groups of composite pod group default/whole can have nodes together"
    )


def test_groups_of_a_composite_group_fit_if_the_nodes_have_room_for_all_of_them() -> None:
    report = explain("p1", *_tree_world("2", "2"), config=_TREES)
    assert report.nodes[0].fits
    assert _places(report) == [("default/p0", "a"), ("default/p1", "a")]


def test_an_optional_group_of_a_composite_group_is_evaluated_by_itself() -> None:
    report = explain("p1", *_tree_world("3", "3", groups=1), config=_TREES)
    [node] = report.nodes
    assert node.objections == {"NodeResourcesFit": ("Insufficient cpu",)}


def test_members_do_not_share_extended_resources() -> None:
    known = class_json("gpu", extendedResourceName="example.com/gpu")
    pods = [
        pod_json(name, requests={"example.com/gpu": "1"}, schedulingGroup={"podGroupName": "g"})
        for name in ("p", "q")
    ]
    config = SchedulerConfig(gates=FeatureGates(V1_37, GenericWorkload=True))
    report = explain("q", node_json("a"), devices("a", {"name": "g0"}), known, GANG, *pods, config=config)
    [device] = report.nodes[0].requests[0].devices
    assert device.details[0].pods == ("p",)
    assert report.change is None


def test_resources_of_a_nominated_group_member_are_counted_once() -> None:
    members = [
        pod_json(name, requests={"cpu": "2"}, schedulingGroup={"podGroupName": "g"}) for name in ("p", "q")
    ]
    world = simulation(node_json("a"), GANG, *members, config=SchedulerConfig(gates=GATES))
    nominated = world.pod("default/p")
    assert nominated is not None
    world.scheduler.cache.nominations.set(nominated, "a")
    report = world.scheduler.explainer.pod("default", "q")
    assert report is not None
    assert _places(report) == [("default/p", "a"), ("default/q", "a")]
    assert report.nodes[0].fits
    world.close()
