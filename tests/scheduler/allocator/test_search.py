"""The shortcuts of the search never change its result."""

import math
from dataclasses import replace

import pytest
from dra_scheduler.allocator import AllocationError, TimeLimit, equivalence, search, views
from dra_shared.version import V1_36, V1_37, Version

from tests.scheduler.allocator.worlds import World, claim_of, exactly, random_world, selector, slice_of
from tests.support.cases import each_case
from tests.support.sampling import sample

_MOST_STEPS = 3_000


class _TooLongError(Exception):
    pass


def _outcome(world: World, *, limit: bool = False) -> object:
    calls = 0

    def check() -> None:
        nonlocal calls
        calls += 1
        if limit and calls * 64 > _MOST_STEPS:
            raise _TooLongError

    try:
        return world.allocator().allocate(world.node, world.claims, check=check)
    except AllocationError as error:
        return str(error), error.only_this_node


def _allocate_without_shortcuts(world: World) -> object:
    """Return the result of the search without any shortcut."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(equivalence.DeviceEquivalence, "current_key", lambda *_: object())
        patch.setattr(search, "_REMEMBER_AFTER", math.inf)
        patch.setattr(search, "_CHECK_FEASIBILITY_AFTER", math.inf)
        patch.setattr(views.Need, "plausible", lambda need, pool, *_: need.selection.candidates(pool))
        return _outcome(world, limit=True)


@pytest.mark.slow
@pytest.mark.parametrize("start", sample(range(0, 1000, 100), 2))
def test_shortcuts_do_not_change_the_result(start: int) -> None:
    compared = 0
    for seed in range(start, start + 100):
        world = random_world(seed)
        try:
            expected = _allocate_without_shortcuts(world)
        except _TooLongError:
            continue
        compared += 1
        for remember_after, check_after in ((-1, math.inf), (math.inf, 1), (-1, 1)):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(search, "_REMEMBER_AFTER", remember_after)
                patch.setattr(search, "_CHECK_FEASIBILITY_AFTER", check_after)
                assert _outcome(world) == expected, f"world {seed}, {remember_after}, {check_after}"

    assert compared > 90


def _leaking_world(shareable: int) -> World:
    """Return a world in which each failed shareable device leaves one counter unit consumed.

    The last device needs two of three units.
    """
    tries = [
        {
            "name": f"d{i}",
            "attributes": {"kind": {"string": "k"}, "shared.example.com/tag": {"string": "x"}},
            "allowMultipleAllocations": True,
            "consumesCounters": [{"counterSet": "set0", "counters": {"units": {"value": "1"}}}],
        }
        for i in range(shareable)
    ]
    last = {
        "name": "e",
        "attributes": {"kind": {"string": "k"}, "shared.example.com/tag": {"string": "y"}},
        "consumesCounters": [{"counterSet": "set0", "counters": {"units": {"value": "2"}}}],
    }
    other = {
        "name": "f",
        "attributes": {"kind": {"string": "z"}, "shared.example.com/tag": {"string": "y"}},
    }
    sets = [{"name": "set0", "counters": {"units": {"value": "3"}}}]
    requests = [exactly("r0", selectors=selector("kind=k")), exactly("r1", selectors=selector("kind=z"))]
    return World(
        slices=[
            slice_of("s0", [], sharedCounters=sets, pool={"resourceSliceCount": 2}),
            slice_of("s1", [*tries, last, other], pool={"resourceSliceCount": 2}),
        ],
        claims=[claim_of(requests, constraints=[{"matchAttribute": "shared.example.com/tag"}])],
    )


# Until 1.36, a failed try leaves the counters of a shareable device consumed.
@each_case("version", [V1_36, V1_37], ids=str)
@each_case("shareable", [0, 1, 2, 3])
def test_all_equal_devices_are_tried_if_a_failed_try_leaves_counters_consumed(
    version: Version, shareable: int
) -> None:
    found = shareable < 2 or version >= V1_37
    world = _leaking_world(shareable)
    world.features = replace(world.features, kubernetes=version)

    outcome = _outcome(world)

    assert (outcome is not None) is found
    assert outcome == _allocate_without_shortcuts(world)


def test_only_one_of_several_equal_devices_is_tried() -> None:
    devices = [{"name": f"d{i:02}", "attributes": {"kind": {"string": "k"}}} for i in range(60)]
    requests = [
        *(exactly(f"r{i}", 4, selectors=selector("kind=k")) for i in range(4)),
        exactly("last", selectors=selector("kind=none")),
    ]
    world = World(slices=[slice_of("s0", devices)], claims=[claim_of(requests)])

    assert _outcome(world, limit=True) is None


def test_allocating_many_claims_does_not_exceed_the_recursion_limit() -> None:
    devices = [{"name": f"d{i:04}"} for i in range(1200)]
    claims = [claim_of([exactly(f"r{i}") for i in range(30)], f"c{n}") for n in range(40)]
    world = World(slices=[slice_of("s0", devices)], claims=claims)

    results = world.allocator().allocate(world.node, claims)

    assert results is not None
    names = [result.device for allocation in results for result in allocation.devices.results]
    assert names == [f"d{i:04}" for i in range(1200)]


def test_an_exception_raised_by_the_cancellation_check_stops_the_search() -> None:
    calls = 0

    def check() -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise TimeLimit

    devices = [{"name": f"d{i:03}"} for i in range(300)]
    claims = [claim_of([exactly(f"r{i}") for i in range(30)], f"c{n}") for n in range(10)]
    world = World(slices=[slice_of("s0", devices)], claims=claims)

    with pytest.raises(TimeLimit, match=r"^filter operation aborted: context deadline exceeded$"):
        world.allocator().allocate(world.node, world.claims, check=check)
