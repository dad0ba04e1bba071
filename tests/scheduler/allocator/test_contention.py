"""Allocations of several claims never conflict."""

from dra_scheduler.allocator import AllocatedState, Features, Snapshot
from dra_scheduler.allocator.contention import contender
from dra_shared.api.codec import convert
from dra_shared.api.resource import ResourceSlice
from dra_shared.api.resources import RESOURCE_SLICES
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_37

from tests.scheduler.objects import DRIVER, allocated_claim, piece


def _state(**claims: tuple[str, JsonObject]) -> AllocatedState:
    """Return for each claim its device and the other fields of its result."""
    state = AllocatedState()
    for name, (device, result) in claims.items():
        state.add(allocated_claim(name, device, **result))
    return state


def _share(number: int, bandwidth: str) -> JsonObject:
    return {"shareID": f"share-{number}", "consumedCapacity": {"bandwidth": bandwidth}}


def _contender(slices: list[ResourceSlice], state: AllocatedState, *regarded: str) -> str | None:
    snapshot = Snapshot(Features.all(), slices)
    return contender(snapshot, state, "default/mine", counts=lambda key: key.split("/")[1] in regarded)


def _part(name: str, **spec: object) -> ResourceSlice:
    """Return one of the two slices of a pool."""
    pool = {"name": "node-1", "generation": 1, "resourceSliceCount": 2}
    body = {"driver": DRIVER, "nodeName": "node-1", "pool": pool, **spec}
    return convert(RESOURCE_SLICES, {"kind": "ResourceSlice", "metadata": {"name": name}, "spec": body})


def test_a_device_is_allocated_to_one_claim_only() -> None:
    slices = [piece("node-1", 2)]
    state = _state(mine=("gpu-0", {}), first=("gpu-0", {}), other=("gpu-1", {}))
    assert _contender(slices, state, "first", "other") == "default/first"
    assert _contender(slices, state, "other") is None


def test_a_claim_with_admin_access_leaves_the_device_free() -> None:
    state = _state(mine=("gpu-0", {}), first=("gpu-0", {"adminAccess": True}))
    assert _contender([piece("node-1", 1)], state, "first") is None


def test_shares_are_allocated_while_capacity_is_left() -> None:
    slices = [
        piece("node-1", 1, allowMultipleAllocations=True, capacity={"bandwidth": {"value": "10G"}}),
    ]
    state = _state(mine=("gpu-0", _share(1, "4G")), first=("gpu-0", _share(2, "6000M")))
    assert _contender(slices, state, "first") is None
    state.add(allocated_claim("second", "gpu-0", **_share(3, "1")))
    assert _contender(slices, state, "first") is None
    assert _contender(slices, state, "first", "second") == "default/second"


def test_a_device_is_not_allocated_both_shared_and_whole() -> None:
    slices = [piece("node-1", 1, allowMultipleAllocations=True, capacity={"bandwidth": {"value": "10G"}})]
    state = _state(mine=("gpu-0", _share(1, "1")), first=("gpu-0", {}))
    assert _contender(slices, state, "first") == "default/first"


def test_partitions_are_allocated_while_counters_are_left() -> None:
    def mig(name: str, memory: str, counter_set: str = "gpu") -> JsonObject:
        counters = {"memory": {"value": memory}}
        return {"name": name, "consumesCounters": [{"counterSet": counter_set, "counters": counters}]}

    sets = [{"name": name, "counters": {"memory": {"value": "40Gi"}}} for name in ("gpu", "second")]
    devices = [
        mig("gpu-0", "40Gi"),
        mig("half-0", "20Gi"),
        mig("half-1", "20Gi"),
        mig("gpu-1", "40Gi", "second"),
    ]
    slices = [_part("counters", sharedCounters=sets), _part("devices", devices=devices)]
    state = _state(mine=("half-0", {}), first=("half-1", {}), other=("gpu-1", {}))
    assert _contender(slices, state, "first", "other") is None
    state.add(allocated_claim("whole", "gpu-0"))
    assert _contender(slices, state, "first", "other") is None
    assert _contender(slices, state, "whole") == "default/whole"


def test_an_allocated_device_stays_in_use_after_its_slice_was_deleted() -> None:
    state = _state(mine=("gone", {}), first=("gone", {}))
    assert _contender([], state, "first") == "default/first"


def test_devices_on_one_counter_set_need_a_common_compatibility_group() -> None:
    def device(name: str, *groups: str) -> JsonObject:
        consumed = {"counterSet": "gpu", "counters": {"memory": {"value": "1"}}}
        return {"name": name, "consumesCounters": [{**consumed, "compatibilityGroups": list(groups)}]}

    devices = [device("mig-0", "mig"), device("mig-1", "mig", "any"), device("vgpu", "vgpu"), device("plain")]
    counters = [{"name": "gpu", "counters": {"memory": {"value": "9"}}}]
    slices = [_part("counters", sharedCounters=counters), _part("devices", devices=devices)]

    def rival(mine: str) -> str | None:
        features = Features.from_gates(
            FeatureGates(V1_37, DRAPartitionableDevices=True, DRADeviceCompatibilityGroups=True)
        )
        state = _state(mine=(mine, {}), first=("mig-0", {}))
        return contender(Snapshot(features, slices), state, "default/mine", counts=lambda _: True)

    assert [rival(name) for name in ("mig-1", "vgpu", "plain")] == [None, "default/first", "default/first"]
