"""Answers to ResourcePoolStatusRequests, in 1.36 and since 1.37."""

from datetime import UTC, datetime
from typing import Any

import pytest
from dra_controller.poolstatus import pool_status
from dra_shared.api.codec import convert
from dra_shared.api.poolstatus import PoolStatus, ResourcePoolStatusRequestStatus
from dra_shared.api.resource import ResourceClaim, ResourceSlice
from dra_shared.api.resources import (
    DEVICE_TAINT_RULES,
    RESOURCE_CLAIMS,
    RESOURCE_POOL_STATUS_REQUESTS,
    RESOURCE_SLICES,
)
from dra_shared.api.taintrule import DeviceTaintRule
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_36, V1_37, Version

DRIVER = "d.example.com"
TYPE = f"{DRIVER}/profile"


def piece(*devices: JsonObject, count: int = 1, **spec: Any) -> ResourceSlice:
    pool = {"name": "p", "generation": 7, "resourceSliceCount": count}
    body = {"driver": DRIVER, "nodeName": "n", "pool": pool, "devices": list(devices), **spec}
    return convert(RESOURCE_SLICES, {"metadata": {"name": "s"}, "spec": body})


def claim(device: str, **result: Any) -> ResourceClaim:
    results = [{"driver": DRIVER, "pool": "p", "device": device, "request": "r", **result}]
    status = {"allocation": {"devices": {"results": results}}}
    return convert(RESOURCE_CLAIMS, {"metadata": {"name": "c", "namespace": "n"}, "status": status})


def rule(effect: str, **selector: str) -> DeviceTaintRule:
    spec: JsonObject = {"taint": {"key": "k", "effect": effect}}
    if selector:
        spec["deviceSelector"] = selector
    return convert(DEVICE_TAINT_RULES, {"metadata": {"name": "r"}, "spec": spec})


def answer(
    *slices: ResourceSlice,
    claims: tuple[ResourceClaim, ...] = (),
    rules: tuple[DeviceTaintRule, ...] = (),
    version: Version = V1_37,
    gate: bool = True,
    **spec: Any,
) -> ResourcePoolStatusRequestStatus:
    request = convert(
        RESOURCE_POOL_STATUS_REQUESTS, {"metadata": {"name": "r"}, "spec": {"driver": DRIVER, **spec}}
    )
    gates = {"DRAResourcePoolStatus": True}
    if version >= V1_37:
        gates["DRAPartitionableDevicesType"] = gate
    features = FeatureGates(version, **gates)
    return pool_status(request, slices, claims, rules, datetime(2026, 1, 1, tzinfo=UTC), features)


def only(status: ResourcePoolStatusRequestStatus) -> PoolStatus:
    (pool,) = status.pools
    return pool


TAINTED = {"name": "c", "taints": [{"key": "k", "effect": "NoSchedule"}]}
NOTED = {"name": "d", "taints": [{"key": "k", "effect": "None"}]}


@pytest.mark.parametrize(
    ("version", "counts"),
    [
        # Two claims share the device a, and a third one has admin access to b.
        (V1_36, (4, 3, 1, 0)),
        (V1_37, (4, 1, 2, 1)),
    ],
)
def test_devices_are_counted_once_and_tainted_ones_are_unavailable_since_1_37(
    version: Version, counts: tuple[int, ...]
) -> None:
    slices = piece({"name": "a"}, {"name": "b"}, TAINTED, NOTED)
    claims = (claim("a"), claim("a"), claim("b", adminAccess=True))
    pool = only(answer(slices, claims=claims, version=version))
    found = (pool.total_devices, pool.allocated_devices, pool.available_devices, pool.unavailable_devices)
    assert found == counts


@pytest.mark.parametrize(
    ("given", "unavailable"),
    [
        (rule("NoExecute", driver=DRIVER), 2),
        (rule("NoSchedule", pool="p", device="a"), 1),
        (rule("NoSchedule", driver="other"), 0),
        (rule("None", driver=DRIVER), 0),
        (rule("NoSchedule"), 0),
    ],
)
def test_devices_that_rules_taint_are_unavailable(given: DeviceTaintRule, unavailable: int) -> None:
    pool = only(answer(piece({"name": "a"}, {"name": "b"}), rules=(given,)))
    assert pool.unavailable_devices == unavailable


def test_an_incomplete_pool_is_reported_with_the_message_of_the_version() -> None:
    text = "pool d.example.com/p is incomplete: observed 1/2 slices at generation 7"
    assert only(answer(piece(count=2), version=V1_36)).validation_error == text
    pool = only(answer(piece(count=2)))
    assert (pool.validation_error, pool.total_devices) == (f"PoolIncomplete: {text}", None)


COUNTERS = piece(sharedCounters=[{"name": "g", "counters": {"m": {"value": "2"}}}])
PARTITION = {
    "name": "a",
    "attributes": {"profile": {"string": "half"}},
    "consumesCounters": [{"counterSet": "g", "counters": {"m": {"value": "1"}}}],
}


def test_partitions_are_summarized_while_their_gate_is_enabled() -> None:
    slices = (COUNTERS, piece(PARTITION, partitionTypeAttribute=TYPE))
    (entry,) = only(answer(*slices)).partition_summary
    assert (entry.attribute, entry.type, entry.total, entry.allocatable) == (TYPE, "half", 1, 1)
    assert only(answer(*slices, gate=False)).partition_summary == ()
    asked = answer(COUNTERS, piece(PARTITION), defaultPartitionTypeAttribute=TYPE)
    assert only(asked).partition_summary == (entry,)


def test_a_failed_summary_keeps_the_counts_and_the_other_summary() -> None:
    shared = {"name": "s", "allowMultipleAllocations": True, "capacity": {"m": {"value": "4"}}}
    use = claim("s", consumedCapacity={"m": "1"})
    status = answer(piece(PARTITION, shared, partitionTypeAttribute=TYPE), claims=(use, use))
    pool = only(status)
    assert (pool.validation_error or "").startswith("PartitionTypeMissing: pool d.example.com/p declares")
    assert (pool.total_devices, pool.allocated_devices, pool.partition_summary) == (2, 1, ())
    assert pool.shareable_summary is not None
    assert [entry.available for entry in pool.shareable_summary.capacity] == ["2"]
    assert status.conditions[0].message == "Calculated status for 1 pools (1 incomplete)"
