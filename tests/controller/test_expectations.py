from dra_controller.expectations import Expectations
from dra_shared.api.meta import ObjectMeta
from dra_shared.api.pod import Pod
from dra_shared.clock import FakeClock


def _pod(uid: str, *, deleted: bool = False) -> Pod:
    return Pod(metadata=ObjectMeta(name=uid, uid=uid, deletion_timestamp="now" if deleted else None))


def test_expectations_are_met_when_the_created_pod_is_observed() -> None:
    expectations = Expectations(FakeClock())
    expectations.expect_creation("owner", _pod("a"))
    assert not expectations.is_satisfied("owner")
    assert expectations.is_satisfied("another")
    expectations.note_seen(_pod("a"))
    assert expectations.is_satisfied("owner")


def test_expectations_are_met_if_the_watch_event_arrives_before_the_response() -> None:
    expectations = Expectations(FakeClock())
    expectations.note_seen(_pod("a"))
    expectations.expect_creation("owner", _pod("a"))
    assert expectations.is_satisfied("owner")


def test_expectations_are_met_when_the_deletion_of_the_pod_is_observed() -> None:
    expectations = Expectations(FakeClock())
    expectations.note_seen(_pod("a"))
    expectations.expect_deletion("owner", _pod("a"))
    expectations.note_seen(_pod("a"))
    assert not expectations.is_satisfied("owner")
    expectations.note_seen(_pod("a", deleted=True))
    assert expectations.is_satisfied("owner")


async def test_expectations_expire_without_an_event() -> None:
    clock = FakeClock()
    expectations = Expectations(clock)
    expectations.expect_creation("owner", _pod("a"))
    await clock.advance(301)
    assert expectations.is_satisfied("owner")


async def test_expectations_of_a_write_with_unknown_outcome_expire_soon() -> None:
    clock = FakeClock()
    expectations = Expectations(clock)
    expectations.expect_unknown("owner")
    assert not expectations.is_satisfied("owner")
    await clock.advance(3)
    assert expectations.is_satisfied("owner")
