"""Claims that the pods of a group share while they are being allocated."""

from typing import Any

import pytest
from dra_shared.features import FeatureGates
from dra_shared.version import V1_36, V1_37, Version

from tests.scheduler.objects import claim_json, class_json, node_json, pod_json, slice_json
from tests.scheduler.running import condition, node_of, quiet, running
from tests.support.fakeapi import Call, FakeApi, Json
from tests.support.waiting import eventually

_GANGS = {"GangScheduling": True}


def _gates(version: Version) -> FeatureGates:
    gang = _GANGS if version < V1_37 else {}
    return FeatureGates(version, GenericWorkload=True, DRAWorkloadResourceClaims=True, **gang)


def _group() -> Json:
    return {
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default", "uid": "uid-g"},
        "spec": {"schedulingPolicy": {"basic": {}}},
    }


def _member(name: str, **more: Any) -> Json:
    return pod_json(name, claims={"gpu": "c"}, schedulingGroup={"podGroupName": "g"}, **more)


def _cluster(*more: Json) -> FakeApi:
    nodes = (node_json(name, labels={"node": name}) for name in ("a", "b"))
    return FakeApi(*nodes, class_json(), slice_json("a", 1), claim_json("c"), _group(), *more)


@pytest.mark.parametrize("version", [V1_36, V1_37], ids=str)
async def test_members_go_where_the_device_is_that_is_being_allocated(version: Version) -> None:
    """Kubernetes/kubernetes#140089, in every version: before, the second one got as far as PreBind."""
    api = _cluster(_member("first", priority=1), _member("second", nodeSelector={"node": "b"}))
    async with running(api, gates=_gates(version)) as (_, clock):
        await quiet(api)
        await clock.advance(0.1)  # the claim's writes that conflicted
        await quiet(api)
    assert node_of(api, "first") == "a"
    assert node_of(api, "second") is None
    assert "1 resourceclaim not available on the node" in condition(api, "second")["message"]


@pytest.mark.parametrize(("version", "left"), [(V1_36, 0), (V1_37, 1)], ids=str)
async def test_a_member_that_fails_gives_back_its_own_share_alone(version: Version, left: int) -> None:
    """Kubernetes/kubernetes#139418: until 1.36 PreBind and Unreserve both do."""
    api = _cluster()
    async with running(api, gates=_gates(version)) as (scheduler, _):
        claims = scheduler.manager.claims
        seen: list[int] = []

        def refuse(call: Call) -> tuple[int, str, str] | None:
            if (call.resource, call.subresource) != ("resourceclaims", "status") or seen:
                return None
            # Another member shares the claim, and will for long.
            (claim,) = claims.in_flight
            claims.signal_pending(claim)
            seen.append(1)
            return 500, "InternalError", "not now"

        api.refuse = refuse
        api.add(_member("first"))
        await eventually(lambda: condition(api, "first"))
        await quiet(api)
        assert len(claims.in_flight) == left
