import asyncio

import pytest
from dra_shared.client.workqueue import Retry, ShutDown, WorkQueue, run_workers
from dra_shared.clock import FakeClock, settle


async def test_a_key_is_queued_once() -> None:
    queue: WorkQueue[str] = WorkQueue(FakeClock())
    queue.add("a")
    queue.add("a")
    assert await queue.get() == "a"
    assert len(queue) == 0


async def test_a_key_added_during_processing_is_queued_again() -> None:
    queue: WorkQueue[str] = WorkQueue(FakeClock())
    queue.add("a")
    key = await queue.get()
    queue.add("a")
    assert len(queue) == 0
    queue.done(key)
    assert len(queue) == 1


async def test_the_retry_delay_of_a_key_doubles_until_it_is_forgotten() -> None:
    clock = FakeClock()
    queue: WorkQueue[str] = WorkQueue(clock)
    for delay in (0.005, 0.01, 0.02):
        queue.add_rate_limited("a")
        await clock.advance(delay * 0.9)
        assert len(queue) == 0
        await clock.advance(delay * 0.2)
        queue.done(await queue.get())
    queue.forget("a")
    queue.add_rate_limited("a")
    await clock.advance(0.006)
    assert len(queue) == 1


async def test_a_key_added_with_two_delays_is_queued_after_the_shorter_one() -> None:
    clock = FakeClock()
    queue: WorkQueue[str] = WorkQueue(clock)
    queue.add_after("a", 10)
    queue.add_after("a", 1)
    await clock.advance(1)
    queue.done(await queue.get())
    await clock.advance(20)
    assert len(queue) == 0


async def test_shut_down_ends_waiting_workers() -> None:
    queue: WorkQueue[str] = WorkQueue(FakeClock())
    waiting = asyncio.create_task(queue.get())
    await settle()
    queue.shut_down()
    with pytest.raises(ShutDown):
        await waiting


async def test_a_failing_key_is_requeued_and_others_continue() -> None:
    clock = FakeClock()
    queue: WorkQueue[str] = WorkQueue(clock)
    done: list[str] = []

    async def reconcile(key: str) -> None:
        if key == "bad" and "bad" not in done:
            done.append("bad")
            raise OSError("not yet")
        done.append(key)

    queue.add("bad")
    queue.add("good")
    workers = asyncio.create_task(run_workers(queue, reconcile))
    await clock.advance(0.01)
    assert done == ["bad", "good", "bad"]
    assert queue.count_requeues("bad") == 0
    queue.shut_down()
    await workers


async def test_a_key_that_fails_too_often_is_dropped_until_it_is_added_again() -> None:
    clock = FakeClock()
    queue: WorkQueue[str] = WorkQueue(clock)
    tries: list[float] = []

    async def reconcile(key: str) -> None:
        tries.append(round(clock.monotonic(), 3))
        raise Retry("not yet")

    workers = asyncio.create_task(run_workers(queue, reconcile, max_retries=2))
    queue.add("bad")
    await clock.advance(100)
    assert tries == [0, 0.005, 0.015]
    assert queue.count_requeues("bad") == 0
    queue.add("bad")
    await clock.advance(100)
    assert tries[3:] == [100, 100.005, 100.015]
    queue.shut_down()
    await workers


class Tally:
    def __init__(self) -> None:
        self.adds, self.retries = 0, 0
        self.waits: list[float] = []
        self.works: list[float] = []

    def on_add(self) -> None:
        self.adds += 1

    def on_retry(self) -> None:
        self.retries += 1

    def on_get(self, waited: float) -> None:
        self.waits.append(waited)

    def on_done(self, worked: float) -> None:
        self.works.append(worked)


async def test_an_observer_is_notified_of_processed_keys_with_queue_and_work_durations() -> None:
    clock = FakeClock()
    queue: WorkQueue[str] = WorkQueue(clock)
    queue.observer = tally = Tally()
    queue.add("a")
    queue.add("a")
    await clock.advance(2)
    key = await queue.get()
    await clock.advance(3)
    queue.add("a")
    await clock.advance(4)
    queue.done(key)
    await clock.advance(5)
    queue.done(await queue.get())
    queue.add_rate_limited("a")
    await clock.advance(1)
    assert (tally.adds, tally.retries) == (3, 1)
    assert tally.waits == [pytest.approx(2), pytest.approx(5)]
    assert tally.works == [pytest.approx(7), pytest.approx(0)]
