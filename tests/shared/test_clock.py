import asyncio
import time

import pytest
from dra_shared.clock import SPEED, FakeClock, SystemClock, parse_rfc3339, rfc3339, rfc3339_micro, wait_for


async def test_fake_clock_wakes_sleepers_in_order() -> None:
    clock = FakeClock()
    woken: list[str] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(name)

    tasks = [asyncio.create_task(sleeper(name, s)) for name, s in (("late", 3), ("early", 1))]
    await clock.advance(2)
    assert woken == ["early"]
    await clock.advance(1)
    assert woken == ["early", "late"]
    await asyncio.gather(*tasks)


async def test_advancing_a_fake_clock_changes_wall_clock_and_monotonic_time() -> None:
    clock = FakeClock()
    before = clock.now()
    await clock.advance(90)
    assert clock.monotonic() == 90
    assert (clock.now() - before).total_seconds() == 90


def test_times_are_unchanged_after_formatting_and_parsing_rfc_3339() -> None:
    moment = parse_rfc3339("2026-02-03T04:05:06.789Z")
    assert rfc3339(moment) == "2026-02-03T04:05:06Z"
    assert rfc3339_micro(moment) == "2026-02-03T04:05:06.789000Z"
    assert parse_rfc3339("2026-02-03T05:05:06.789+01:00") == moment


def test_a_time_without_a_zone_is_rejected() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        parse_rfc3339("2026-02-03T04:05:06")


async def test_waiting_ends_with_the_result_or_the_timeout() -> None:
    clock, event = FakeClock(), asyncio.Event()
    late = asyncio.ensure_future(wait_for(event.wait(), 5.0, clock))
    waiting = asyncio.ensure_future(wait_for(event.wait(), None, clock))
    await asyncio.sleep(0)
    await clock.advance(5.0)
    await late
    assert not waiting.done()
    event.set()
    await waiting
    await wait_for(event.wait(), 5.0, clock)


async def test_an_accelerated_clock_shows_the_same_time_in_all_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    since = time.time() - 100
    monkeypatch.setenv(SPEED, f"10@{since}")
    clock, other = SystemClock(), SystemClock()
    assert clock.now().timestamp() - since >= 1000
    assert abs((other.now() - clock.now()).total_seconds()) < 60
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    await clock.sleep(0.5)
    assert slept == [0.05]
    assert SystemClock("").now().timestamp() < clock.now().timestamp()
