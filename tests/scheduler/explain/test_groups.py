"""What explanations say of the group that a pod belongs to."""

from dra_scheduler.explain.report import PodReport
from dra_scheduler.explain.text import render
from dra_shared.features import FeatureGates
from dra_shared.version import V1_36

from tests.scheduler.objects import node_json, pod_json
from tests.scheduler.running import condition, node_of, quiet, running
from tests.support.fakeapi import FakeApi, Json
from tests.support.waiting import eventually

GATES = FeatureGates(V1_36, GangScheduling=True, GenericWorkload=True)
GANG: Json = {
    "kind": "PodGroup",
    "metadata": {"name": "g", "namespace": "default", "uid": "uid-g"},
    "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
}


async def _report(*pods: str, wait_for: str, about: str) -> PodReport:
    """``pods`` of 3 CPUs each in a gang of 2, the most important first, on one node of 4."""
    api = FakeApi(node_json("a"), GANG)
    async with running(api, gates=GATES) as (scheduler, _):
        for rank, name in enumerate(pods):
            group = {"podGroupName": "g"}
            api.add(pod_json(name, requests={"cpu": "3"}, priority=-rank, schedulingGroup=group))
        if wait_for:
            await eventually(lambda: condition(api, wait_for) or node_of(api, wait_for))
        await quiet(api)
        report = scheduler.explainer.pod("default", about)
    assert report is not None
    return report


async def test_a_pod_that_would_fit_alone_waits_for_its_gang() -> None:
    report = await _report("p", "q", wait_for="q", about="p")
    assert any(node.fits for node in report.nodes)
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
    assert "  it has to wait until at least 2 pods of default/g can have nodes together\n" in text


async def test_a_pod_whose_gang_is_not_complete() -> None:
    report = await _report("p", wait_for="", about="p")
    assert report.state == "pending: gated"
    assert report.message == "waiting for minCount pods from a gang to appear in scheduling queue"
    assert "  group default/g: 1 pods, 0 with nodes, at least 2 together or none\n" in render(report)
