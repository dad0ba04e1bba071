"""What changed in the allocator between versions of Kubernetes."""

from dataclasses import replace
from typing import Any

import pytest
from dra_scheduler.allocator import AllocatedState, Features
from dra_scheduler.allocator.state import DeviceID
from dra_shared.features import FeatureGates
from dra_shared.version import V1_35, V1_36, Version

from tests.scheduler.allocator.worlds import DRIVERS, World, claim_of, exactly, slice_of

_BOTH = pytest.mark.parametrize("version", [V1_35, V1_36], ids=str)


def _devices(version: Version, world: World) -> list[str] | None:
    world.features = replace(Features.all(), kubernetes=version)
    results = world.allocator().allocate(world.node, world.claims)
    if results is None:
        return None
    return [result.device for allocation in results for result in allocation.devices.results]


def _shared(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "allowMultipleAllocations": True, "capacity": {"memory": {"value": "10"}}, **fields}


def _part(count: int) -> dict[str, Any]:
    return exactly(count=count, capacity={"requests": {"memory": "4"}})


@_BOTH
def test_one_request_gets_a_shared_device_once_since_1_36(version: Version) -> None:
    world = World(slices=[slice_of("s", [_shared("a")])], claims=[claim_of([_part(2)])])
    assert _devices(version, world) == (["a", "a"] if version < V1_36 else None)
    world = World(slices=[slice_of("s", [_shared("a")])], claims=[claim_of([_part(3)])])
    assert _devices(version, world) is None


@_BOTH
def test_slices_and_pools_come_by_name_since_1_36(version: Version) -> None:
    slices = [
        slice_of("z", [{"name": "z0"}], pool={"name": "q", "resourceSliceCount": 2}),
        slice_of("y", [{"name": "y0"}], pool={"name": "q", "resourceSliceCount": 2}),
        slice_of("x", [{"name": "x0"}], pool={"name": "p"}),
    ]
    expected = ["z0", "y0", "x0"] if version < V1_36 else ["x0", "y0", "z0"]
    assert _devices(version, World(slices=slices, claims=[claim_of([exactly(count=3)])])) == expected


@_BOTH
def test_shares_in_use_use_up_counters_since_1_36(version: Version) -> None:
    consumes = [{"counterSet": "cs", "counters": {"c": {"value": "1"}}}]
    pool = {"resourceSliceCount": 2}
    slices = [
        slice_of(
            "counters", [], sharedCounters=[{"name": "cs", "counters": {"c": {"value": "1"}}}], pool=pool
        ),
        slice_of(
            "devices",
            [_shared("a", consumesCounters=consumes), {"name": "b", "consumesCounters": consumes}],
            pool=pool,
        ),
    ]
    state = AllocatedState()
    state.hold_devices("default/other", [(DeviceID(DRIVERS[0], "p", "a"), "share", {"memory": 10 * 10**9})])
    world = World(slices=slices, claims=[claim_of([exactly()])], state=state)
    assert _devices(version, world) == (["b"] if version < V1_36 else None)


def test_features_know_their_version() -> None:
    gates = FeatureGates(V1_35, DRAConsumableCapacity=True)
    assert Features.from_gates(gates, gates.version).starts_over
    assert not Features.from_gates(FeatureGates(V1_36)).starts_over
