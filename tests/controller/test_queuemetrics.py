"""Metrics of the work queues."""

from dra_controller.queuemetrics import measure_queue
from dra_shared.client.workqueue import WorkQueue
from dra_shared.clock import FakeClock
from prometheus_client import CollectorRegistry


async def test_each_work_queue_has_its_own_metric_series() -> None:
    clock, registry = FakeClock(), CollectorRegistry()
    first: WorkQueue[str] = WorkQueue(clock)
    second: WorkQueue[str] = WorkQueue(clock)
    measure_queue(registry, "first", first)
    measure_queue(registry, "second", second)
    first.add("a")
    first.add("b")
    await clock.advance(2)
    first.done(await first.get())
    first.add_rate_limited("a")

    def value(name: str, queue: str) -> float | None:
        return registry.get_sample_value(name, {"name": queue})

    assert value("workqueue_depth", "first") == 1
    assert value("workqueue_adds_total", "first") == 2
    assert value("workqueue_retries_total", "first") == 1
    assert value("workqueue_queue_duration_seconds_sum", "first") == 2
    assert value("workqueue_work_duration_seconds_count", "first") == 1
    assert value("workqueue_adds_total", "second") == 0
    assert value("workqueue_depth", "second") == 0


async def test_the_duration_of_unfinished_work_is_a_metric() -> None:
    clock, registry = FakeClock(), CollectorRegistry()
    queue: WorkQueue[str] = WorkQueue(clock)
    measure_queue(registry, "q", queue)
    for key in ("a", "b"):
        queue.add(key)
    first = await queue.get()
    await clock.advance(5)
    await queue.get()
    await clock.advance(2)

    def value(name: str) -> float | None:
        return registry.get_sample_value(name, {"name": "q"})

    assert value("workqueue_unfinished_work_seconds") == 9
    assert value("workqueue_longest_running_processor_seconds") == 7
    queue.done(first)
    assert value("workqueue_unfinished_work_seconds") == 2
