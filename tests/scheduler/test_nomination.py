"""status.nominatedNodeName: the expected node of a pod, and the node where pods were preempted for it."""

import pytest
from dra_shared.features import FeatureGates

from tests.scheduler.objects import claim_json, class_json, node_json, pod_json, slice_json
from tests.scheduler.running import condition, node_of, nominated_node, quiet, run_scheduler
from tests.support.fakeapi import Call, FakeApi
from tests.support.waiting import until


def _with_claim() -> FakeApi:
    return FakeApi(node_json("a"), class_json(), slice_json("a", 1), claim_json("c"))


def _nominations(api: FakeApi, name: str) -> list[str | None]:
    return [
        call.body["status"]["nominatedNodeName"]
        for call in api.writes("pods")
        if call.name == name and "nominatedNodeName" in call.body.get("status", {})
    ]


async def test_nominated_node_name_is_written_while_binding_has_to_wait_for_claims() -> None:
    api = _with_claim()
    async with run_scheduler(api):
        api.add(pod_json("p", claims={"gpu": "c"}))
        await until(lambda: node_of(api, "p"))
        assert _nominations(api, "p") == ["a"]


async def test_nomination_is_not_written_if_nothing_has_to_be_prepared() -> None:
    api = _with_claim()
    async with run_scheduler(api):
        api.add(pod_json("p"))
        await until(lambda: node_of(api, "p"))
        assert not _nominations(api, "p")


async def test_nomination_is_not_written_without_the_feature() -> None:
    api = _with_claim()
    async with run_scheduler(api, gates=FeatureGates(NominatedNodeNameForExpectation=False)):
        api.add(pod_json("p", claims={"gpu": "c"}))
        await until(lambda: node_of(api, "p"))
        assert not _nominations(api, "p")


async def test_nomination_is_removed_if_the_pod_is_not_bound() -> None:
    api = _with_claim()
    api.refuse = lambda call: (500, "InternalError", "no") if call.subresource == "binding" else None
    async with run_scheduler(api) as (scheduler, _):
        api.add(pod_json("p", claims={"gpu": "c"}))
        await until(lambda: condition(api, "p"))
        await quiet(api)
        assert _nominations(api, "p") == ["a", None]
        assert not nominated_node(api, "p")
        assert not len(scheduler.cache.nominations)


async def test_a_pod_is_bound_even_if_writing_its_nomination_fails() -> None:
    def refuse(call: Call) -> tuple[int, str, str] | None:
        reported = "nominatedNodeName" in call.body.get("status", {})
        return (500, "InternalError", "no") if reported else None

    api = _with_claim()
    api.refuse = refuse
    async with run_scheduler(api):
        api.add(pod_json("p", claims={"gpu": "c"}))
        await until(lambda: node_of(api, "p") == "a")


@pytest.mark.parametrize("how", ["deleted", "cleared"])
async def test_clearing_a_nomination_requeues_pods_of_equal_or_lower_priority(how: str) -> None:
    """Pods that did not fit together with the nominated pod may fit now."""
    waiting = pod_json("first", requests={"cpu": "3"}, priority=10, schedulingGates=[{"name": "later"}])
    waiting["status"] = {"nominatedNodeName": "a"}
    api = FakeApi(node_json("a"), waiting)
    async with run_scheduler(api) as (_, clock):
        api.add(pod_json("low", requests={"cpu": "3"}))
        await until(lambda: condition(api, "low"))
        if how == "deleted":
            api.remove("pods", "default", "first")
        else:
            api.add({**waiting, "status": {}})
        await clock.advance(2)
        await until(lambda: node_of(api, "low") == "a")
