"""Test delays that double."""

from dra_shared.backoff import Backoff


def test_restart_delays_double_and_are_forgotten() -> None:
    backoff = Backoff()
    assert backoff.remaining_delay("c", 0, 0) == 0
    delays = []
    now = 0.0
    for _ in range(7):
        backoff.next("c", now, now)
        delays.append(backoff.delay("c"))
        now += 1
    assert delays == [10, 20, 40, 80, 160, 300, 300]
    assert backoff.remaining_delay("c", now, now + 100) == 200
    assert backoff.remaining_delay("c", now + 601, now + 601) == 0


def test_an_attempt_within_the_delay_waits() -> None:
    backoff = Backoff(1, 900)
    assert backoff.remaining_since_update("c", 5) == 0
    backoff.next("c", 5, 5)
    backoff.next("c", 6, 6)
    assert backoff.remaining_since_update("c", 6.5) == 1.5
    backoff.collect(6 + 1800)
    assert backoff.delay("c") == 2
    backoff.collect(7 + 1800)
    assert backoff.delay("c") == 0
