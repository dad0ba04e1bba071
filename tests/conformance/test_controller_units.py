"""Upstream's tables for claim references, pool status and quota."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from dra_controller.poolstatus import pool_status
from dra_controller.resourcepoolstatusrequest import is_expired
from dra_shared.api.codec import convert
from dra_shared.api.meta import Object, ObjectMeta
from dra_shared.api.pod import PodResourceClaim
from dra_shared.api.resource import DeviceClass, DeviceClassSpec
from dra_shared.api.resources import (
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_POOL_STATUS_REQUESTS,
    RESOURCE_SLICES,
    Resource,
)
from dra_shared.api.scheduling import PodGroupResourceClaim
from dra_shared.claims import (
    ClaimReferenceError,
    check_for_pod,
    check_for_pod_group,
    claim_name,
    consumer_of,
    is_reserved_for_pod,
    pod_group_claim_name,
)
from dra_shared.clock import parse_rfc3339
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.quota import ClassNames, claim_usage, is_claim_resource
from dra_shared.version import V1_36

from tests.support.cases import each_case
from tests.support.reference import load_vectors

_RESOURCES: dict[str, Resource[Any]] = {
    resource.kind: resource
    for resource in (PODS, POD_GROUPS, RESOURCE_CLAIMS, RESOURCE_POOL_STATUS_REQUESTS, RESOURCE_SLICES)
}


def _cases(test: str) -> list[Any]:
    cases = [case for case in load_vectors("misc_units.json.gz") if case["test"] == test]
    return [pytest.param(case["table"], id=case["name"]) for case in cases]


def _decode(obj: JsonObject) -> Any:
    return convert(_RESOURCES[obj["kind"]], _without_nulls(obj))


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _error(table: JsonObject) -> str | None:
    expected = table.get("expectedError")
    error = expected["error"] if isinstance(expected, dict) else expected
    assert error is None or isinstance(error, str)
    return error or None


@pytest.mark.parametrize("table", _cases("TestName"))
def test_the_claim_name_found_for_a_pod_agrees_with_upstream(table: JsonObject) -> None:
    entry = msgspec.convert(table["podClaim"], PodResourceClaim)
    if _error(table):
        with pytest.raises(ClaimReferenceError) as raised:
            claim_name(_decode(table["pod"]), entry)
        assert str(raised.value) == _error(table)
    else:
        assert claim_name(_decode(table["pod"]), entry) == (table.get("expectedName"), table["expectedCheck"])


@pytest.mark.parametrize("table", _cases("TestNameFromPodGroup"))
def test_the_claim_name_found_for_a_pod_group_agrees_with_upstream(table: JsonObject) -> None:
    group = _decode(table["podGroup"])
    entry = msgspec.convert(table["podGroupClaim"], PodGroupResourceClaim)
    if _error(table):
        with pytest.raises(ClaimReferenceError) as raised:
            pod_group_claim_name(group, entry)
        assert str(raised.value) == _error(table)
    else:
        assert pod_group_claim_name(group, entry) == (table.get("expectedName"), table["expectedCheck"])


@each_case("table", _cases("TestResourceClaimIsFor"))
def test_the_check_of_a_claims_owner_agrees_with_upstream(table: JsonObject) -> None:
    claim = _decode(table["claim"])

    def check() -> None:
        owner = _decode(table["pod"])
        if table["pod"]["kind"] == "PodGroup":
            check_for_pod_group(owner, claim)
        else:
            check_for_pod(owner, claim, pod_groups=table["acceptPodGroup"])

    if _error(table):
        with pytest.raises(ClaimReferenceError) as raised:
            check()
        assert str(raised.value) == _error(table)
    else:
        check()


@each_case("table", _cases("TestIsReservedForPod"))
def test_the_check_if_a_claim_is_reserved_for_a_pod_agrees_with_upstream(table: JsonObject) -> None:
    pod, claim = _decode(table["pod"]), _decode(table["claim"])
    assert is_reserved_for_pod(pod, claim, pod_groups=table["acceptPodGroup"]) == table["expectedResult"]


@each_case("table", _cases("TestBindTo"))
def test_consumer_of_a_claim_agrees_with_upstream(table: JsonObject) -> None:
    group = _decode(table["podGroup"]) if table.get("podGroup") else None
    entry = msgspec.convert(table["podClaim"], PodResourceClaim)
    if _error(table):
        with pytest.raises(ClaimReferenceError) as raised:
            consumer_of(_decode(table["pod"]), group, entry)
        assert str(raised.value) == _error(table)
    else:
        consumer = consumer_of(_decode(table["pod"]), group, entry)
        expected = {"apiGroup": "", **table["expected"]}
        assert (consumer.api_group, consumer.resource, consumer.name, consumer.uid) == (
            expected["apiGroup"],
            expected["resource"],
            expected["name"],
            expected["uid"],
        )


@each_case("table", _cases("TestCalculatePoolStatus"))
def test_pool_status_agrees_with_upstream(table: JsonObject) -> None:
    slices = [_decode(obj) for obj in table["slices"]]
    claims = [_decode(obj) for obj in table["claims"]]
    now, gates = parse_rfc3339("2026-01-01T00:00:00Z"), FeatureGates(V1_36)
    status = pool_status(_decode(table["request"]), slices, claims, (), now, gates)
    assert len(status.pools) == table["expectedPools"]
    if not table["expectedTruncated"]:
        assert sum(pool.total_devices or 0 for pool in status.pools) == table["expectedTotal"]
        assert status.pool_count == table["expectedPools"]
    else:
        assert status.pool_count == table["expectedPoolCount"]
    assert sum(pool.allocated_devices or 0 for pool in status.pools) == table["expectedAlloc"]
    incomplete = [pool for pool in status.pools if pool.validation_error]
    assert len(incomplete) == table["expectedIncomplete"]
    if table["checkNodeName"]:
        assert status.pools[0].node_name == table.get("expectedNodeName")


@pytest.mark.parametrize("table", _cases("TestShouldDeleteRequest"))
def test_expiry_of_resource_pool_status_requests_agrees_with_upstream(table: JsonObject) -> None:
    # The table was written at 15:38:53 on that day; its times are relative to that.
    now = parse_rfc3339("2026-11-20T15:38:53Z") + timedelta(minutes=1)
    request: Object = _decode(table["request"])
    assert is_expired(request, now) == table["expectedDelete"]  # type: ignore[arg-type]  # read by its kind


_GPU_CLASS = DeviceClass(
    metadata=ObjectMeta(name="gpu"), spec=DeviceClassSpec(extended_resource_name="example.com/gpu")
)


@each_case("table", _cases("TestResourceClaimEvaluatorUsage"))
def test_quota_usage_agrees_with_upstream(table: JsonObject) -> None:
    if "evaluator" in table:
        pytest.skip("the evaluator's pods and classes come from Go functions")
    usage = claim_usage(_decode(table["claim"]), ClassNames(()), {})
    assert {name: str(amount) for name, amount in usage.items()} == table["usage"]


@pytest.mark.parametrize("table", _cases("TestResourceClaimEvaluatorMatchingResources"))
def test_quota_resources_agree_with_upstream(table: JsonObject) -> None:
    classes = ClassNames([_GPU_CLASS])
    assert [name for name in table["items"] if is_claim_resource(name, classes)] == table["want"]
