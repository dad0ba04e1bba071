"""Differences between the allocators of several Kubernetes versions."""

from dataclasses import replace
from typing import Any

import pytest
from dra_scheduler.allocator import AllocatedState, AllocationError, Features, PoolDevice
from dra_scheduler.allocator.features import Implementation
from dra_scheduler.allocator.programs import CelProgram
from dra_scheduler.allocator.state import DeviceID
from dra_shared.api.resource import Device
from dra_shared.features import FeatureGates
from dra_shared.version import V1_34, V1_35, V1_36, V1_37, Version
from msgspec import convert

from tests.scheduler.allocator.worlds import DRIVERS, World, claim_of, exactly, selector, slice_of
from tests.support.cases import each_case

_BOTH = pytest.mark.parametrize("version", [V1_35, V1_36], ids=str)


def _devices(version: Version, world: World) -> list[str] | None:
    world.features = replace(Features.all(), kubernetes=version, list_type_attributes=version >= V1_36)
    results = world.allocator().allocate(world.node, world.claims)
    if results is None:
        return None
    return [result.device for allocation in results for result in allocation.devices.results]


def _shared_device(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "allowMultipleAllocations": True, "capacity": {"memory": {"value": "10"}}, **fields}


def _part(count: int) -> dict[str, Any]:
    return exactly(count=count, capacity={"requests": {"memory": "4"}})


@_BOTH
def test_a_request_gets_a_shared_device_at_most_once_since_1_36(version: Version) -> None:
    world = World(slices=[slice_of("s", [_shared_device("a")])], claims=[claim_of([_part(2)])])
    assert _devices(version, world) == (["a", "a"] if version < V1_36 else None)
    world = World(slices=[slice_of("s", [_shared_device("a")])], claims=[claim_of([_part(3)])])
    assert _devices(version, world) is None


@_BOTH
def test_slices_and_pools_are_sorted_by_name_since_1_36(version: Version) -> None:
    slices = [
        slice_of("z", [{"name": "z0"}], pool={"name": "q", "resourceSliceCount": 2}),
        slice_of("y", [{"name": "y0"}], pool={"name": "q", "resourceSliceCount": 2}),
        slice_of("x", [{"name": "x0"}], pool={"name": "p"}),
    ]
    expected = ["z0", "y0", "x0"] if version < V1_36 else ["x0", "y0", "z0"]
    assert _devices(version, World(slices=slices, claims=[claim_of([exactly(count=3)])])) == expected


def test_the_stable_allocator_of_1_37_reads_counter_sets_of_other_nodes() -> None:
    pool = {"resourceSliceCount": 2}
    counters = slice_of("s", [], nodeName="n1", sharedCounters=_COUNTERS, pool=pool)
    every = claim_of([exactly(allocationMode="All")])
    for implementation, seen in ((Implementation.STABLE, True), (Implementation.INCUBATING, False)):
        features = replace(_bare(V1_37, implementation), partitionable_devices=True)
        world = World(features=features, slices=[counters], claims=[every])
        if seen:
            with pytest.raises(AllocationError, match="is currently being updated"):
                world.allocator().allocate(world.node, world.claims)
        else:
            assert world.allocator().allocate(world.node, world.claims) is None


@_BOTH
def test_shares_in_use_consume_counters_since_1_36(version: Version) -> None:
    consumes = [{"counterSet": "cs", "counters": {"c": {"value": "1"}}}]
    pool = {"resourceSliceCount": 2}
    slices = [
        slice_of(
            "counters", [], sharedCounters=[{"name": "cs", "counters": {"c": {"value": "1"}}}], pool=pool
        ),
        slice_of(
            "devices",
            [_shared_device("a", consumesCounters=consumes), {"name": "b", "consumesCounters": consumes}],
            pool=pool,
        ),
    ]
    state = AllocatedState()
    state.hold_devices("default/other", [(DeviceID(DRIVERS[0], "p", "a"), "share", {"memory": 10 * 10**9})])
    world = World(slices=slices, claims=[claim_of([exactly()])], state=state)
    assert _devices(version, world) == (["b"] if version < V1_36 else None)


def test_features_contain_the_version_of_their_gates() -> None:
    gates = FeatureGates(V1_35, DRAConsumableCapacity=True)
    assert Features.from_gates(gates, gates.version).starts_over
    assert not Features.from_gates(FeatureGates(V1_36)).starts_over


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (V1_34, Implementation.EXPERIMENTAL),
        (V1_35, Implementation.INCUBATING),
        (V1_36, Implementation.INCUBATING),
        (V1_37, Implementation.INCUBATING),
    ],
    ids=str,
)
def test_the_default_gates_select_the_allocator_of_the_version(
    version: Version, expected: Implementation
) -> None:
    assert Features.from_gates(FeatureGates(version), version).implementation is expected


_IMPLEMENTATIONS = pytest.mark.parametrize(
    ("version", "implementation", "knows"),
    [
        (V1_34, Implementation.INCUBATING, False),
        (V1_35, Implementation.STABLE, False),
        (V1_35, Implementation.INCUBATING, False),
        (V1_35, Implementation.EXPERIMENTAL, True),
        (V1_36, Implementation.STABLE, False),
        (V1_36, Implementation.INCUBATING, True),
        (V1_37, Implementation.STABLE, False),
    ],
    ids=str,
)


def _bare(version: Version, implementation: Implementation) -> Features:
    return Features(kubernetes=version, implementation=implementation)


@_IMPLEMENTATIONS
def test_allocators_before_consumable_capacity_ignore_shares(
    version: Version, implementation: Implementation, knows: bool
) -> None:
    features = _bare(version, implementation)
    shared = PoolDevice(slice_of("s", []), convert(_shared_device("a"), Device))
    program = CelProgram("device.allowMultipleAllocations == true", features)
    assert program.verdict(shared) is knows
    capacity = claim_of([_part(1)])
    world = World(features=features, slices=[slice_of("s", [_shared_device("a")])], claims=[capacity])
    if knows:
        with pytest.raises(AllocationError, match="DRAConsumableCapacity feature is disabled"):
            world.allocator().allocate(world.node, world.claims)
    else:
        assert world.allocator().allocate(world.node, world.claims)


@_IMPLEMENTATIONS
def test_older_allocators_do_not_put_binding_conditions_last(
    version: Version, implementation: Implementation, knows: bool
) -> None:
    conditions = {"bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]}
    slices = [
        slice_of("a", [{"name": "a"}, {"name": "b", **conditions}], pool={"name": "p"}),
        slice_of("z", [{"name": "z"}], pool={"name": "q"}),
    ]
    world = World(features=_bare(version, implementation), slices=slices, claims=[claim_of([exactly()])])
    allocated = world.allocator().allocate(world.node, world.claims)
    assert allocated is not None
    assert [one.device for one in allocated[0].devices.results] == ["z" if knows else "a"]


@pytest.mark.parametrize(
    ("version", "implementation", "found"),
    [
        (V1_34, Implementation.STABLE, True),
        (V1_35, Implementation.STABLE, True),
        (V1_35, Implementation.INCUBATING, False),
        (V1_36, Implementation.STABLE, False),
    ],
    ids=str,
)
def test_slices_with_both_counters_and_devices_are_used_or_skipped_by_version(
    version: Version, implementation: Implementation, found: bool
) -> None:
    mixed = slice_of("s", [{"name": "a"}], sharedCounters=_COUNTERS)
    features = _bare(version, implementation)
    world = World(features=features, slices=[mixed], claims=[claim_of([exactly()])])
    assert bool(world.allocator().allocate(world.node, world.claims)) is found


def _alternative(name: str, selector_text: str = "", **fields: Any) -> dict[str, Any]:
    selectors = selector(selector_text) if selector_text else []
    return {"name": name, "deviceClassName": "any", "selectors": selectors, **fields}


_ALL: dict[str, Any] = {"allocationMode": "All"}


@each_case("version", [V1_34, V1_35, V1_36, V1_37], ids=str)
@each_case(
    ("first", "until_1_35"),
    [
        # The first request lacks only the device that the second one got.
        (_alternative("x", "a=1", allocationMode="ExactCount", count=1), ["r0/y a"]),
        # The search looks for the second device of the first request, which only exists if the selector
        # accepts it.
        (_alternative("x", "a=1", allocationMode="ExactCount", count=2), None),
        # The second request gets the devices that the first one selects.
        (_alternative("x", "a=2", **_ALL), None),
    ],
)
def test_an_alternative_for_all_devices_gave_the_result_of_the_first_until_1_35(
    version: Version, first: dict[str, Any], until_1_35: list[str] | None
) -> None:
    devices = [{"name": name, "attributes": {"a": {"string": "0"}}} for name in ("a", "b", "c")]
    request = {"name": "r0", "firstAvailable": [first, _alternative("y", **_ALL)]}
    world = World(slices=[slice_of("s", devices)], claims=[claim_of([request])])
    world.features = replace(Features.all(), kubernetes=version, list_type_attributes=version >= V1_36)
    allocated = world.allocator().allocate(world.node, world.claims)
    found = [f"{one.request} {one.device}" for one in allocated[0].devices.results] if allocated else None
    assert found == (until_1_35 if version < V1_36 else ["r0/y a", "r0/y b", "r0/y c"])


def test_an_alternative_for_all_devices_got_the_count_of_the_first_until_1_35() -> None:
    values = {"a": "0", "b": "1", "c": "1"}
    devices = [{"name": name, "attributes": {"a": {"string": value}}} for name, value in values.items()]
    first = _alternative("x", "a=1", allocationMode="ExactCount", count=3)
    request = {"name": "r0", "firstAvailable": [first, _alternative("y", **_ALL)]}
    world = World(slices=[slice_of("s", devices)], claims=[claim_of([request])])
    world.features = replace(Features.all(), kubernetes=V1_35, list_type_attributes=False)
    (allocated,) = world.allocator().allocate(world.node, world.claims) or ()
    found = [f"{one.request} {one.device}" for one in allocated.devices.results]
    assert found == ["r0/y a", "r0/x b", "r0/x c"]


_COUNTERS = [{"name": "cs", "counters": {"c": {"value": "1"}}}]
_CONSUMES = [{"counterSet": "cs", "counters": {"c": {"value": "1"}}}]


@pytest.mark.parametrize("version", [V1_34, V1_35], ids=str)
def test_slices_of_other_nodes_made_a_pool_incomplete_in_1_34(version: Version) -> None:
    here, there = (
        slice_of(name, [{"name": name}], nodeName=name, pool={"resourceSliceCount": 2})
        for name in ("n0", "n1")
    )
    every = claim_of([exactly(allocationMode="All")])
    world = World(slices=[here, there], claims=[every])
    if version < V1_35:
        with pytest.raises(AllocationError, match="is currently being updated"):
            _devices(version, world)
    else:
        assert _devices(version, world) == ["n0"]
    # One by one, devices of a pool that lacks slices could be taken.
    incomplete = World(slices=[here], claims=[claim_of([exactly()])])
    assert _devices(version, incomplete) == (["n0"] if version < V1_35 else None)


@pytest.mark.parametrize("version", [V1_34, V1_35], ids=str)
def test_an_invalid_pool_ended_a_search_in_1_34(version: Version) -> None:
    world = World(slices=[slice_of("s", [{"name": "a"}, {"name": "a"}])], claims=[claim_of([exactly()])])
    message = (
        "pool p is invalid: duplicate device name a"
        if version < V1_35
        else "invalid resource pools were encountered"
    )
    with pytest.raises(AllocationError, match=message):
        _devices(version, world)


@pytest.mark.parametrize("version", [V1_34, V1_35], ids=str)
def test_devices_consumed_counters_of_their_own_slice_in_1_34(version: Version) -> None:
    devices = [{"name": name, "consumesCounters": _CONSUMES} for name in ("a", "b")]
    mixed = World(slices=[slice_of("s", devices, sharedCounters=_COUNTERS)], claims=[claim_of([exactly()])])
    two = replace(mixed, claims=[claim_of([exactly(count=2)])])
    found = [_devices(version, mixed), _devices(version, two)]
    # In later versions, a slice has either counters or devices, and everything else in it is ignored.
    assert found == ([["a"], None] if version < V1_35 else [None, None])


@pytest.mark.parametrize(("version", "found"), [(V1_34, ["a", "b"]), (V1_35, None)], ids=str)
def test_distinct_constraint_accepted_equal_values_within_a_request_in_1_34(
    version: Version, found: list[str] | None
) -> None:
    devices = [{"name": name, "attributes": {f"{DRIVERS[0]}/numa": {"int": 0}}} for name in ("a", "b")]
    distinct = [{"distinctAttribute": f"{DRIVERS[0]}/numa"}]
    world = World(
        slices=[slice_of("s", devices)], claims=[claim_of([exactly(count=2)], constraints=distinct)]
    )
    assert _devices(version, world) == found


@pytest.mark.parametrize(("version", "found"), [(V1_34, None), (V1_35, ["a"])], ids=str)
def test_taints_of_every_effect_prevented_allocation_in_1_34(
    version: Version, found: list[str] | None
) -> None:
    tainted = {"name": "a", "taints": [{"key": "k", "effect": "None"}]}
    world = World(slices=[slice_of("s", [tainted])], claims=[claim_of([exactly()])])
    assert _devices(version, world) == found


@pytest.mark.parametrize(("version", "found"), [(V1_34, None), (V1_35, ["b"])], ids=str)
def test_capacity_was_read_from_another_device_in_1_34(version: Version, found: list[str] | None) -> None:
    devices = [
        {"name": name, "capacity": {"memory": {"value": value}}} for name, value in (("a", "1"), ("b", "9"))
    ]
    # The first pick of a request was compared with the first device of the slice, which has too little
    # capacity.
    wants = exactly(capacity={"requests": {"memory": "5"}})
    world = World(slices=[slice_of("s", devices)], claims=[claim_of([wants])])
    assert _devices(version, world) == found
