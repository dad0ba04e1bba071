"""Devices whose node operations are skipped: their claims are for nodes that declare DRAOptionalNodeOperations."""

from typing import Any

import pytest
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_37

from tests.scheduler.objects import DRIVER, claim_json, class_json, node_json, pod_json
from tests.scheduler.running import condition, node_of, quiet, run_scheduler
from tests.support.fakeapi import FakeApi
from tests.support.waiting import until

FEATURE = "DRAOptionalNodeOperations"
GATES = FeatureGates(
    V1_37, DRAOptionalNodeOperations=True, GenericWorkload=True, DRAWorkloadResourceClaims=True
)


def _node(name: str, *features: str) -> JsonObject:
    node = node_json(name, labels={"node": name})
    node["status"]["declaredFeatures"] = list(features)
    return node


def _slice() -> JsonObject:
    return {
        "kind": "ResourceSlice",
        "metadata": {"name": "everywhere"},
        "spec": {
            "driver": DRIVER,
            "allNodes": True,
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "d"}],
            "skipNodeOperations": ["*"],
        },
    }


def _pod(name: str, node: str, **more: Any) -> JsonObject:
    return pod_json(name, claims={"gpu": "c"}, nodeSelector={"node": node}, **more)


def _cluster(*more: JsonObject) -> FakeApi:
    return FakeApi(_node("new", FEATURE), _node("old"), class_json(), _slice(), claim_json("c"), *more)


async def test_an_allocated_claim_excludes_nodes_that_do_not_skip_operations() -> None:
    """The devices of the claim are reachable from those nodes."""
    api = _cluster()
    async with run_scheduler(api, gates=GATES):
        api.add(_pod("first", "new"))
        await until(lambda: node_of(api, "first"))
        await quiet(api)
        results = api.get("resourceclaims", "default", "c")["status"]["allocation"]["devices"]["results"]
        assert results[0]["skipNodeOperations"] == ["*"]
        api.add(_pod("second", "old"))
        api.add(_pod("third", "new"))
        await until(lambda: condition(api, "second") and node_of(api, "third"))
    assert "1 resourceclaim not available on the node" in condition(api, "second")["message"]
    assert node_of(api, "second") is None


@pytest.mark.parametrize("other", ["new", "old"])
async def test_a_claim_that_is_being_allocated_for_a_group_excludes_such_nodes_too(other: str) -> None:
    """Follows upstream's podgroup-unschedulable-on-unsupported-node."""
    group = {
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default", "uid": "uid-g"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }
    api = _cluster(group)
    member = {"schedulingGroup": {"podGroupName": "g"}}
    async with run_scheduler(api, gates=GATES) as (_, clock):
        api.add(_pod("second", other, **member))
        api.add(_pod("first", "new", **member))
        await quiet(api)
        await clock.advance(2)
        await quiet(api)
    assert (node_of(api, "first"), node_of(api, "second")) == (
        ("new", "new") if other == "new" else (None, None)
    )
