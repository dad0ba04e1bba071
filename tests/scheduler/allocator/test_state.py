"""The devices, shares and counters that count as in use."""

from typing import Any

from dra_scheduler.allocator import AllocatedState, DeviceID
from dra_shared.api.codec import convert
from dra_shared.api.resource import ResourceClaim
from dra_shared.api.resources import RESOURCE_CLAIMS

DEVICE = DeviceID("a.example.com", "p", "d")


def _claim(name: str = "c", **result: Any) -> ResourceClaim:
    results = [{"request": "r", "driver": "a.example.com", "pool": "p", "device": "d", **result}]
    status = {"allocation": {"devices": {"results": results}}}
    return convert(RESOURCE_CLAIMS, {"metadata": {"name": name, "namespace": "ns"}, "status": status})


def test_a_claim_holds_its_devices_until_it_is_deleted() -> None:
    state = AllocatedState()
    claim = _claim()

    state.add(claim)
    state.add(claim)
    assert state.in_use(DEVICE)
    assert state.owner(DEVICE) == ("ns/c",)

    state.remove(claim)
    state.remove(claim)
    assert not state.in_use(DEVICE)
    assert state.owner(DEVICE) == ()


def test_a_deallocated_claim_holds_no_devices() -> None:
    state = AllocatedState()
    state.add(_claim())
    state.add(convert(RESOURCE_CLAIMS, {"metadata": {"name": "c", "namespace": "ns"}}))

    assert not state.in_use(DEVICE)


def test_a_claim_with_admin_access_holds_no_devices() -> None:
    state = AllocatedState()
    state.add(_claim(adminAccess=True))

    assert not state.in_use(DEVICE)
    assert state.version == 0


def test_consumed_capacity_of_shares_adds_up() -> None:
    state = AllocatedState()
    first, second = (
        _claim(f"c{i}", shareID=f"share-{i}", consumedCapacity={"memory": f"{i + 1}Gi"}) for i in range(2)
    )
    state.add(first)
    state.add(second)

    assert DEVICE not in state.dedicated
    assert state.consumed[DEVICE] == {"memory": 3 * 2**30 * 10**9}
    assert state.owner(DEVICE) == ("ns/c0", "ns/c1")

    state.remove(first)
    assert state.consumed[DEVICE] == {"memory": 2 * 2**30 * 10**9}
    state.remove(second)
    assert state.consumed == {}
    assert not state.in_use(DEVICE)


def test_a_share_counts_as_the_whole_device_if_the_feature_is_disabled() -> None:
    state = AllocatedState(consumable_capacity=False)
    state.add(_claim(shareID="share", consumedCapacity={"memory": "1"}))

    assert DEVICE in state.dedicated
    assert state.consumed == {}


def test_a_device_that_two_claims_hold_is_free_after_both_are_deleted() -> None:
    state = AllocatedState()
    state.add(_claim("c0"))
    state.add(_claim("c1"))
    state.remove(_claim("c0"))

    assert state.owner(DEVICE) == ("ns/c1",)
    state.remove(_claim("c1"))
    assert not state.in_use(DEVICE)


def test_each_pool_has_its_own_change_counter() -> None:
    state = AllocatedState()
    state.add(_claim(pool="p"))
    before = state.pool_version(("a.example.com", "p"))
    state.add(_claim("other", pool="q"))

    assert state.pool_version(("a.example.com", "p")) == before
    assert state.pool_version(("a.example.com", "q")) > before


def test_a_copy_of_the_state_is_independent() -> None:
    state = AllocatedState()
    state.add(_claim(shareID="share", consumedCapacity={"memory": "1"}))
    copy = state.copy()
    copy.remove(_claim())
    copy.add(_claim("new"))

    assert state.owner(DEVICE) == ("ns/c",)
    assert state.consumed == {DEVICE: {"memory": 10**9}}
    assert copy.owner(DEVICE) == ("ns/new",)
