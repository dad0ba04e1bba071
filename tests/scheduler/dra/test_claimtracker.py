"""The layers of claim tracking: claims being allocated (in flight), assumed, and observed by the informer."""

from collections.abc import Iterable

import msgspec
import pytest
from dra_scheduler.allocator import DeviceID
from dra_scheduler.dra.claimtracker import (
    ClaimNotFound,
    ClaimOutdated,
    ClaimTracker,
    Pool,
)
from dra_shared.jsontypes import JsonObject

from tests.scheduler.objects import DRIVER, allocated_claim, claim


def _used_devices(tracker: ClaimTracker) -> set[str]:
    return {device.device for device in tracker.state.dedicated}


def test_allocated_claims_that_the_informer_observed_hold_their_devices() -> None:
    tracker = ClaimTracker()
    tracker.set_claim(allocated_claim("c", "gpu-0"))
    assert _used_devices(tracker) == {"gpu-0"}
    assert tracker.state.owner(DeviceID(DRIVER, "node-1", "gpu-0")) == ("default/c",)
    tracker.set_claim(claim("c"))
    assert not _used_devices(tracker)
    tracker.set_claim(allocated_claim("c", "gpu-1"))
    tracker.delete_claim(allocated_claim("c", "gpu-1"))
    assert not _used_devices(tracker)
    assert len(tracker) == 0


def test_assumed_claim_takes_precedence_until_the_informer_observes_its_version() -> None:
    tracker = ClaimTracker()
    tracker.set_claim(allocated_claim("c", version="1"))
    tracker.assume(allocated_claim("c", "gpu-0", version="3"))
    assert _used_devices(tracker) == {"gpu-0"}
    tracker.set_claim(allocated_claim("c", version="2"))
    assert _used_devices(tracker) == {"gpu-0"}
    newest = tracker.get("default", "c")
    assert newest is not None
    assert newest.metadata.resource_version == "3"
    tracker.set_claim(allocated_claim("c", "gpu-1", version="4"))
    assert _used_devices(tracker) == {"gpu-1"}
    assert not tracker.assumed_claims


def test_only_newer_versions_of_observed_claims_are_assumed() -> None:
    tracker = ClaimTracker()
    with pytest.raises(ClaimNotFound):
        tracker.assume(allocated_claim("c", "gpu-0"))
    tracker.set_claim(allocated_claim("c", version="5"))
    with pytest.raises(ClaimOutdated):
        tracker.assume(allocated_claim("c", "gpu-0", version="4"))
    other = allocated_claim("c", "gpu-0", version="9")
    meta = msgspec.structs.replace(other.metadata, uid="another")
    with pytest.raises(ClaimOutdated):
        tracker.assume(msgspec.structs.replace(other, metadata=meta))
    assert not _used_devices(tracker)


def test_restore_returns_to_the_state_of_the_informer() -> None:
    tracker = ClaimTracker()
    tracker.set_claim(allocated_claim("c", version="1"))
    tracker.assume(allocated_claim("c", "gpu-0", version="2"))
    tracker.restore("default/c")
    assert not _used_devices(tracker)


def test_in_flight_claim_holds_devices_until_the_last_pod_unreserves_it() -> None:
    tracker = ClaimTracker()
    tracker.set_claim(claim("c"))
    planned = allocated_claim("c", "gpu-0")
    tracker.signal_pending(planned)
    tracker.signal_pending(planned)
    assert _used_devices(tracker) == {"gpu-0"}
    assert tracker.pending_allocation("uid-claim-c") == planned.status.allocation
    assert not tracker.remove_pending("uid-claim-c", stored=False)
    assert _used_devices(tracker) == {"gpu-0"}
    assert tracker.remove_pending("uid-claim-c", stored=False)
    assert not _used_devices(tracker)
    assert not tracker.remove_pending("uid-claim-c", stored=False)


def test_an_allocation_that_is_in_flight_and_already_stored_counts_once() -> None:
    tracker = ClaimTracker()
    tracker.set_claim(claim("c"))
    share: JsonObject = {"shareID": "s", "consumedCapacity": {"memory": "2"}}
    planned = allocated_claim("c", "gpu-0", version="2", **share)
    device = DeviceID(DRIVER, "node-1", "gpu-0")
    tracker.signal_pending(planned)
    before = dict(tracker.state.consumed[device])
    tracker.assume(planned)
    assert tracker.state.consumed[device] == before
    assert tracker.remove_pending("uid-claim-c", stored=True)
    assert tracker.state.consumed[device] == before
    tracker.set_claim(planned)
    assert tracker.state.consumed[device] == before


def test_pools_are_reported_when_devices_are_allocated_or_released() -> None:
    reported: list[set[Pool]] = []

    def on_use(pools: Iterable[Pool]) -> None:
        reported.append(set(pools))

    tracker = ClaimTracker(on_use=on_use)
    tracker.set_claim(claim("c"))
    assert reported == []
    tracker.signal_pending(allocated_claim("c", "gpu-0"))
    tracker.set_claim(allocated_claim("c", "gpu-0", version="2"))
    tracker.remove_pending("uid-claim-c", stored=True)
    assert reported == [{(DRIVER, "node-1")}]
    tracker.set_claim(allocated_claim("c", "gpu-0", version="3", pool="node-2"))
    tracker.delete_claim(allocated_claim("c"))
    assert reported[1:] == [{(DRIVER, "node-1"), (DRIVER, "node-2")}, {(DRIVER, "node-2")}]


def test_callbacks_are_notified_of_changes_of_the_claim_that_they_watch() -> None:
    tracker = ClaimTracker()
    woken: list[str] = []
    stop = tracker.watch("default/c", lambda: woken.append("c"))
    tracker.set_claim(claim("c"))
    tracker.set_claim(claim("d"))
    assert woken == ["c"]
    stop()
    tracker.set_claim(allocated_claim("c", "gpu-0"))
    assert woken == ["c"]
