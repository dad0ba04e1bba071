"""Parts of the DynamicResources plugin (scheduler_plugin_units)."""

import random

import msgspec
import pytest
from dra_scheduler.allocator import Features
from dra_scheduler.dra.claimtracker import ClaimTracker
from dra_scheduler.dra.manager import DRAManager
from dra_scheduler.dra.podgroups import PodGroups
from dra_scheduler.framework.events import Action, Event, Kind
from dra_scheduler.framework.plugin import default_normalize
from dra_scheduler.plugins.dynamicresources.extended import requests_and_mappings
from dra_scheduler.plugins.dynamicresources.nodeallocatable import (
    NeedsUnknown,
    check_pod_level,
    claim_statuses,
)
from dra_scheduler.plugins.dynamicresources.plugin import DynamicResources
from dra_scheduler.plugins.dynamicresources.score import TooFewAllocations, compute_score
from dra_shared.api.codec import to_builtins
from dra_shared.api.resource import AllocationResult
from dra_shared.api.resources import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from dra_shared.client.events import Recorder
from dra_shared.clock import FakeClock
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_36

from tests.conformance.plain import decode, without_nulls
from tests.support.fakeapi import FakeApi
from tests.support.reference import load_vectors

_CASES = load_vectors("scheduler_plugin_units.json.gz")


def _of(*tests: str) -> pytest.MarkDecorator:
    """Parametrize a test by the cases of those upstream tests."""
    cases = [case for case in _CASES if case["test"] in tests]
    return pytest.mark.parametrize("case", cases, ids=[case["name"] for case in cases])


def _allocation(value: JsonObject) -> AllocationResult:
    return msgspec.convert(without_nulls(value), AllocationResult)


def test_every_upstream_test_is_run() -> None:
    known = {
        "TestBuildNodeAllocatableDRAInfo",
        "TestGatherAllocatedState",
        "TestIsSchedulableAfterClaimChange",
        "TestIsSchedulableAfterPodChange",
        "TestNormalizeScore",
        "TestValidatePodLevelRequestsCoverDRA",
        "Test_computesScore",
        "Test_createRequestsAndMappings_mappings",
        "Test_createRequestsAndMappings_requests",
    }
    assert {case["test"] for case in _CASES} == known


@_of("TestBuildNodeAllocatableDRAInfo")
def test_node_allocatable_statuses_agree_with_upstream(case: JsonObject) -> None:
    inputs = case["input"]
    pod = decode(PODS, inputs["pod"])
    claims = {claim["metadata"]["uid"]: decode(RESOURCE_CLAIMS, claim) for claim in inputs["claims"]}
    # In these cases containers call claims by the claims' own names.
    allocations = [
        (claims[entry["claim"]["uid"]], _allocation(entry["allocation"]), entry["claim"]["name"])
        for entry in inputs["allocations"] or ()
    ]
    slices = [decode(RESOURCE_SLICES, piece) for piece in inputs["resourceSlices"]]
    if case["actual"]["statuses"] is None:
        with pytest.raises(NeedsUnknown) as failure:
            claim_statuses(pod, allocations, slices, since_1_37=False)
        # The real one was given an object reference without a namespace.
        assert str(failure.value).replace("test-ns", "") == case["actual"]["error"]
        return
    statuses = claim_statuses(pod, allocations, slices, since_1_37=False)
    assert [to_builtins(status) for status in statuses] == [
        {**status, "containers": tuple(status["containers"])} if "containers" in status else status
        for status in case["actual"]["statuses"]
    ]


@_of("TestGatherAllocatedState")
def test_allocated_state_agrees_with_upstream(case: JsonObject) -> None:
    inputs = case["input"]
    tracker = ClaimTracker(consumable_capacity=inputs["DRAConsumableCapacity"])
    for number, obj in enumerate(inputs.get("allocatedClaims") or ()):
        obj["metadata"]["name"] += f"-{number}"  # several claims have the same name there
        tracker.set_claim(decode(RESOURCE_CLAIMS, obj))
    for number, obj in enumerate(inputs.get("inFlightClaims") or ()):
        obj["metadata"]["uid"] = f"in-flight-{number}"
        tracker.signal_pending(decode(RESOURCE_CLAIMS, obj))
    state, expected = tracker.state, case["actual"]["state"]
    assert sorted(map(str, state.dedicated)) == sorted(expected["devices"] or ())
    shares = [
        f"{result.driver}/{result.pool}/{result.device}/{result.share_id}"
        for claim in (*tracker, *tracker.in_flight)
        if claim.status.allocation is not None
        for result in claim.status.allocation.devices.results
        if result.share_id is not None
    ]
    if inputs["DRAConsumableCapacity"]:
        assert sorted(shares) == sorted(expected["sharedDeviceIDs"] or ())
        assert set(map(str, state.shared)) == {share.rpartition("/")[0] for share in shares}
    else:
        assert not state.shared
    consumed = {
        str(device): {name: str(value // 10**9) for name, value in totals.items()}
        for device, totals in state.consumed.items()
    }
    assert consumed == (expected["aggregatedCapacity"] or {})


def _plugin(claims: list[JsonObject]) -> tuple[DynamicResources, DRAManager]:
    gates = FeatureGates(V1_36)
    manager = DRAManager(Features.from_gates(gates, V1_36))
    for claim in claims:
        manager.claims.set_claim(decode(RESOURCE_CLAIMS, claim))
    client, clock = FakeApi().client(), FakeClock()
    plugin = DynamicResources(
        gates,
        manager,
        client,
        pod_groups=PodGroups(),
        recorder=Recorder(client, "test", clock=clock, rng=random.Random(1)),
        clock=clock,
    )
    return plugin, manager


@_of("TestIsSchedulableAfterClaimChange")
def test_hint_after_claim_change_agrees_with_upstream(case: JsonObject) -> None:
    inputs = case["input"]
    objects = [inputs["oldObj"], inputs["newObj"]]
    if any(isinstance(obj, dict) and "goType" in obj for obj in objects):
        pytest.skip("objects of another type than the event's can't get here: handlers are typed")
    plugin, manager = _plugin(inputs["claims"])
    old, new = (decode(RESOURCE_CLAIMS, obj) if obj else None for obj in objects)
    interest = next(i for i in plugin.events_to_register() if i.kind is Kind.RESOURCE_CLAIM)
    if new is None:
        # The plugin does not register for deletions of claims.
        assert not interest.action & Action.DELETE
        assert case["actual"]["hint"] == "QueueSkip" or case["actual"]["error"] != "<nil>"
        return
    manager.claims.set_claim(new)
    event = Event(Kind.RESOURCE_CLAIM, Action.ADD if old is None else Action.OTHER, old, new)
    pod = decode(PODS, inputs["pod"])
    worth = plugin.schedulable_after_claim_change(pod, event)
    assert worth == (case["actual"]["hint"] == "Queue")
    # The hint would have rejected the events that the queue's index leaves out.
    keys = interest.keys(event) if interest.keys is not None else None
    if worth and keys is not None:
        assert set(keys) & set(plugin.index_keys(pod))


@_of("TestIsSchedulableAfterPodChange")
def test_hint_after_pod_change_agrees_with_upstream(case: JsonObject) -> None:
    inputs = case["input"]
    if isinstance(inputs["newObj"], dict) and "goType" in inputs["newObj"]:
        pytest.skip("objects of another type than the event's can't get here: handlers are typed")
    plugin, _ = _plugin([*inputs["claims"], *inputs["objects"]])
    pod, new = decode(PODS, inputs["pod"]), decode(PODS, inputs["newObj"])
    if pod.metadata.uid != new.metadata.uid:
        pytest.skip("the queue gives TargetPod events only to the pod that they are about")
    event = Event(Kind.TARGET_POD, Action.POD_CLAIMS, None, new)
    assert plugin.schedulable_after_pod_change(pod, event) == (case["actual"]["hint"] == "Queue")


@_of("TestNormalizeScore")
def test_normalized_scores_agree_with_upstream(case: JsonObject) -> None:
    scores = {entry["Name"]: entry["Score"] for entry in case["input"]["scores"] or ()}
    expected = {entry["Name"]: entry["Score"] for entry in case["actual"]["scores"] or ()}
    assert default_normalize(scores) == expected


@_of("TestValidatePodLevelRequestsCoverDRA")
def test_pod_level_requests_are_checked_as_upstream(case: JsonObject) -> None:
    status = check_pod_level(decode(PODS, case["input"]["pod"]))
    expected = case["actual"]["status"]
    assert (status.code.value if status is not None else "Success") == expected["code"]
    if status is not None:
        assert list(status.reasons) == expected["reasons"]


@_of("Test_computesScore")
def test_node_scores_agree_with_upstream(case: JsonObject) -> None:
    claims = [decode(RESOURCE_CLAIMS, claim) for claim in case["input"]["claims"]]
    allocations = [_allocation(value) for value in case["input"]["allocationResults"] or ()]
    if case["actual"]["error"] != "<nil>":
        with pytest.raises(TooFewAllocations) as failure:
            compute_score(claims, allocations)
        assert str(failure.value) == case["actual"]["error"]
    else:
        assert compute_score(claims, allocations) == case["actual"]["score"]


@_of("Test_createRequestsAndMappings_mappings", "Test_createRequestsAndMappings_requests")
def test_requests_for_extended_resources_agree_with_upstream(case: JsonObject) -> None:
    inputs = case["input"]
    classes = inputs["deviceClassForResource"] or {}
    requests, mappings = requests_and_mappings(
        decode(PODS, inputs["pod"]), inputs["extendedResources"] or (), classes.get
    )
    assert [to_builtins(request) for request in requests] == (case["actual"]["deviceRequests"] or [])
    assert [to_builtins(mapping) for mapping in mappings] == (case["actual"]["requestMappings"] or [])
