"""Test the summaries of pools: partitions by type, and the capacity of shared devices."""

from typing import Any

import pytest
from dra_shared.api.codec import convert
from dra_shared.api.poolstatus import PartitionTypeStatus
from dra_shared.api.resource import ResourceSlice
from dra_shared.api.resources import RESOURCE_SLICES
from dra_shared.jsontypes import JsonObject
from dra_shared.poolviews import PoolUse, ViewError, partition_summary, shareable_summary
from dra_shared.quantity import Quantity

DRIVER = "gpu.example.com"
PROFILE = f"{DRIVER}/profile"


def piece(devices: list[JsonObject], **spec: Any) -> ResourceSlice:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    body = {"driver": DRIVER, "pool": pool, "devices": devices, **spec}
    return convert(RESOURCE_SLICES, {"metadata": {"name": "s"}, "spec": body})


def counters(**gpus: str) -> ResourceSlice:
    """Return a slice with the memory counters of each GPU."""
    sets = [{"name": gpu, "counters": {"memory": {"value": value}}} for gpu, value in gpus.items()]
    return piece([], sharedCounters=sets)


def partition(
    name: str, profile: str | None, memory: str, gpu: str = "gpu0", key: str = "profile"
) -> JsonObject:
    attributes = {} if profile is None else {key: {"string": profile}}
    consumed = [{"counterSet": gpu, "counters": {"memory": {"value": memory}}}]
    return {"name": name, "attributes": attributes, "consumesCounters": consumed}


def use(*slices: ResourceSlice, in_use: tuple[str, ...] = (), **consumed: str) -> PoolUse:
    amounts = {name: Quantity.parse(text) for name, text in consumed.items()}
    return PoolUse(DRIVER, "p", slices, in_use, amounts)


def partitions(found: tuple[PartitionTypeStatus, ...]) -> list[tuple[str, int | None, int | None]]:
    return [(each.type, each.total, each.allocatable) for each in found]


HALVES = [partition("a", "half", "40Gi"), partition("b", "half", "40Gi"), partition("c", "full", "80Gi")]


@pytest.mark.parametrize(
    ("in_use", "wanted"),
    [
        ((), [("full", 1, 1), ("half", 2, 2)]),
        (("a",), [("full", 1, 0), ("half", 2, 1)]),
        (("c",), [("full", 1, 0), ("half", 2, 0)]),
    ],
)
def test_free_partitions_of_each_type_are_counted_as_if_only_that_type_were_allocated(
    in_use: tuple[str, ...], wanted: list[tuple[str, int, int]]
) -> None:
    pool = use(counters(gpu0="80Gi"), piece(HALVES, partitionTypeAttribute=PROFILE), in_use=in_use)
    assert partitions(partition_summary(pool)) == wanted


def test_the_default_partition_type_attribute_is_used_for_slices_that_name_none() -> None:
    shared, plain = counters(gpu0="80Gi"), piece(HALVES)
    assert partition_summary(use(shared, plain)) == ()
    assert len(partition_summary(use(shared, plain), PROFILE)) == 2
    shaped = [partition("d", "small", "1Gi", key="other.example.com/shape")]
    named = piece(shaped, partitionTypeAttribute="other.example.com/shape")
    pool = use(shared, plain, named)
    assert partitions(partition_summary(pool)) == [("small", 1, 1)]
    assert partitions(partition_summary(pool, PROFILE)) == [("full", 1, 1), ("half", 2, 2), ("small", 1, 1)]


@pytest.mark.parametrize(
    ("slices", "error"),
    [
        (
            [piece(HALVES, partitionTypeAttribute=PROFILE)],
            "PartitionTypeMissing: pool gpu.example.com/p declares partitionTypeAttribute but publishes no"
            " sharedCounters",
        ),
        (
            [counters(gpu0="1Gi"), piece([partition("a", None, "1Gi")], partitionTypeAttribute=PROFILE)],
            'PartitionTypeMissing: device "a" in pool gpu.example.com/p does not carry partition type attribute'
            ' "gpu.example.com/profile"',
        ),
        (
            [
                counters(gpu0="9Gi"),
                piece(
                    [partition("a", "half", "1Gi"), partition("b", "half", "2Gi")],
                    partitionTypeAttribute=PROFILE,
                ),
            ],
            'PartitionCostMismatch: devices of partition type "half" in pool gpu.example.com/p consume different'
            " counters",
        ),
        (
            [
                counters(gpu0="9Gi"),
                piece(
                    [partition(f"d{i}", f"t{i}", "1Gi") for i in range(33)], partitionTypeAttribute=PROFILE
                ),
            ],
            "PartitionSummaryOverCap: pool gpu.example.com/p has 33 partition types, exceeding the maximum of 32",
        ),
    ],
)
def test_partitions_that_cannot_be_counted_are_an_error(slices: list[ResourceSlice], error: str) -> None:
    with pytest.raises(ViewError) as raised:
        partition_summary(use(*slices))
    assert str(raised.value) == error


def test_partitions_whose_equal_counters_are_written_differently_have_the_same_type() -> None:
    same = [partition("a", "half", "1Gi"), partition("b", "half", "1024Mi")]
    pool = use(counters(gpu0="2Gi"), piece(same, partitionTypeAttribute=PROFILE))
    assert partitions(partition_summary(pool)) == [("half", 2, 2)]


def shared_device(name: str, memory: str) -> JsonObject:
    return {"name": name, "allowMultipleAllocations": True, "capacity": {"memory": {"value": memory}}}


def test_capacity_of_shared_devices_is_summed() -> None:
    pool = use(
        piece([shared_device("a", "8Gi"), shared_device("b", "8Gi"), {"name": "whole"}]),
        in_use=("a",),
        memory="3Gi",
    )
    found = shareable_summary(pool)
    assert found is not None
    assert (found.fully_available_devices, found.partially_available_devices) == (1, 1)
    (memory,) = found.capacity
    assert (memory.name, memory.total, memory.consumed, memory.available) == ("memory", "16Gi", "3Gi", "13Gi")
    assert shareable_summary(use(piece([{"name": "whole"}]))) is None


def test_remaining_capacity_is_never_negative() -> None:
    found = shareable_summary(use(piece([shared_device("a", "1Gi")]), memory="2Gi"))
    assert found is not None
    assert [entry.available for entry in found.capacity] == ["0"]


def test_too_many_shared_capacities_are_an_error() -> None:
    capacity = {f"c{i}": {"value": "1"} for i in range(33)}
    device = {"name": "a", "allowMultipleAllocations": True, "capacity": capacity}
    with pytest.raises(ViewError, match=r"ShareableSummaryOverCap: pool .* has 33 shareable capacity keys"):
        shareable_summary(use(piece([device])))
