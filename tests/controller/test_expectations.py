from dra_controller.expectations import Expectations
from dra_shared.api.meta import ObjectMeta
from dra_shared.api.pod import Pod
from dra_shared.clock import FakeClock


def _pod(uid: str, *, deleted: bool = False) -> Pod:
    return Pod(metadata=ObjectMeta(name=uid, uid=uid, deletion_timestamp="now" if deleted else None))


def test_what_was_created_has_to_be_seen() -> None:
    expectations = Expectations(FakeClock())
    expectations.expect_creation("owner", _pod("a"))
    assert not expectations.is_satisfied("owner")
    assert expectations.is_satisfied("another")
    expectations.note_seen(_pod("a"))
    assert expectations.is_satisfied("owner")


def test_the_event_may_be_faster_than_the_answer() -> None:
    expectations = Expectations(FakeClock())
    expectations.note_seen(_pod("a"))
    expectations.expect_creation("owner", _pod("a"))
    assert expectations.is_satisfied("owner")


def test_what_was_deleted_has_to_be_seen_leaving() -> None:
    expectations = Expectations(FakeClock())
    expectations.note_seen(_pod("a"))
    expectations.expect_deletion("owner", _pod("a"))
    expectations.note_seen(_pod("a"))
    assert not expectations.is_satisfied("owner")
    expectations.note_seen(_pod("a", deleted=True))
    assert expectations.is_satisfied("owner")


async def test_an_event_that_never_comes_is_given_up() -> None:
    clock = FakeClock()
    expectations = Expectations(clock)
    expectations.expect_creation("owner", _pod("a"))
    await clock.advance(301)
    assert expectations.is_satisfied("owner")


async def test_a_write_with_an_unknown_outcome_waits_a_moment() -> None:
    clock = FakeClock()
    expectations = Expectations(clock)
    expectations.expect_unknown("owner")
    assert not expectations.is_satisfied("owner")
    await clock.advance(3)
    assert expectations.is_satisfied("owner")
