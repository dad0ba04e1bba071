"""Claims that the pods of a group share during allocation."""

from typing import Any

import pytest
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_36, V1_37, Version

from tests.scheduler.objects import DRIVER, claim_json, class_json, node_json, pod_json, slice_json
from tests.scheduler.running import condition, node_of, quiet, run_scheduler
from tests.support.fakeapi import Call, FakeApi
from tests.support.waiting import until

_GANGS = {"GangScheduling": True}


def _gates(version: Version) -> FeatureGates:
    gang = _GANGS if version < V1_37 else {}
    return FeatureGates(version, GenericWorkload=True, DRAWorkloadResourceClaims=True, **gang)


def _group(**spec: Any) -> JsonObject:
    return {
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default", "uid": "uid-g"},
        "spec": {"schedulingPolicy": {"basic": {}}, **spec},
    }


def _member(name: str, **more: Any) -> JsonObject:
    return pod_json(name, claims={"gpu": "c"}, schedulingGroup={"podGroupName": "g"}, **more)


def _cluster(*more: JsonObject) -> FakeApi:
    nodes = (node_json(name, labels={"node": name}) for name in ("a", "b"))
    return FakeApi(*nodes, class_json(), slice_json("a", 1), claim_json("c"), _group(), *more)


@pytest.mark.parametrize("version", [V1_36, V1_37], ids=str)
async def test_members_are_scheduled_to_the_node_of_a_device_that_is_being_allocated(
    version: Version,
) -> None:
    """Kubernetes/kubernetes#140089, in every version: before, the second one failed only in PreBind."""
    api = _cluster(_member("first"), _member("second", nodeSelector={"node": "b"}))
    async with run_scheduler(api, gates=_gates(version)) as (_, clock):
        await quiet(api)
        await clock.advance(0.1)  # the claim's writes that conflicted
        await quiet(api)
    assert node_of(api, "first") == "a"
    assert node_of(api, "second") is None
    assert "1 resourceclaim not available on the node" in condition(api, "second")["message"]


@pytest.mark.parametrize(("version", "left"), [(V1_36, 0), (V1_37, 1)], ids=str)
async def test_a_member_that_fails_releases_only_its_own_reservation(version: Version, left: int) -> None:
    """Kubernetes/kubernetes#139418: until 1.36, both PreBind and Unreserve released it."""
    api = _cluster()
    async with run_scheduler(api, gates=_gates(version)) as (scheduler, _):
        claims = scheduler.manager.claims
        seen: list[int] = []

        def refuse(call: Call) -> tuple[int, str, str] | None:
            if (call.resource, call.subresource) != ("resourceclaims", "status") or seen:
                return None
            # Another member shares the claim, and holds it for a long time.
            (claim,) = claims.in_flight
            claims.signal_pending(claim)
            seen.append(1)
            return 500, "InternalError", "not now"

        api.refuse = refuse
        api.add(_member("first"))
        await until(lambda: condition(api, "first"))
        await quiet(api)
        assert len(claims.in_flight) == left


def _reserving_pods(api: FakeApi) -> list[str]:
    status = api.get("resourceclaims", "default", "c")["status"]
    return [one["name"] for one in status.get("reservedFor", [])]


@pytest.mark.parametrize("version", [V1_36, V1_37], ids=str)
@pytest.mark.parametrize("alone", [True, False])
async def test_the_last_unbound_member_releases_the_reservation_of_the_group(
    version: Version, alone: bool
) -> None:
    """Kubernetes/kubernetes#139864: until 1.36 it remained until PostFilter removed it."""
    shared = [{"name": "gpu", "resourceClaimName": "c"}]
    api = _cluster(_group(resourceClaims=shared))

    def refuse(call: Call) -> tuple[int, str, str] | None:
        return (
            (500, "InternalError", "not now") if (call.subresource, call.name) == ("binding", "p") else None
        )

    async with run_scheduler(api, gates=_gates(version)):
        if not alone:
            api.add(_member("first"))
            await until(lambda: node_of(api, "first"))
        api.refuse = refuse
        api.add(_member("p"))
        await until(lambda: condition(api, "p"))
        await quiet(api)
    assert _reserving_pods(api) == (["g"] if version < V1_37 or not alone else [])


async def test_members_that_fail_together_release_the_reservation_of_the_group() -> None:
    """The first of them sees another member with a node, the last one none."""
    device = {"request": "gpu", "driver": DRIVER, "pool": "a", "device": "gpu-0"}
    group = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "uid-g"}
    claim = claim_json("c")
    claim["status"] = {"allocation": {"devices": {"results": [device]}}, "reservedFor": [group]}
    api = _cluster(_group(resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}]), claim)
    api.refuse = lambda call: (500, "InternalError", "not now") if call.subresource == "binding" else None
    async with run_scheduler(api, gates=_gates(V1_37)):
        for name in ("p", "q"):
            api.add(_member(name))
        await until(lambda: condition(api, "p") and condition(api, "q"))
        await quiet(api)
    assert _reserving_pods(api) == []
