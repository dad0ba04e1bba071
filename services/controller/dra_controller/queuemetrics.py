"""The ``workqueue_*`` metrics of the controllers' queues, with the names of component-base.

Mirrors component-base's metrics/prometheus/workqueue/metrics.go.
"""

from collections.abc import Iterable
from typing import Any

from dra_shared.client.workqueue import WorkQueue
from prometheus_client import CollectorRegistry, Counter, Histogram, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector


def measure_queue(registry: CollectorRegistry, name: str, queue: WorkQueue[Any]) -> None:
    """Report the traffic of a queue. Its name is the label ``name``."""
    registry.register(_QueueMetrics(name, queue))


class _QueueMetrics(Collector):
    def __init__(self, name: str, queue: WorkQueue[Any]) -> None:
        self._name = name
        self._queue = queue
        buckets = [10.0**exponent for exponent in range(-8, 2)]
        self._metrics = (
            Counter("workqueue_adds", "Keys added", ["name"], registry=None),
            Counter("workqueue_retries", "Keys that are retried after a failure", ["name"], registry=None),
            Histogram(
                "workqueue_queue_duration_seconds",
                "Seconds for which a key waits for a worker",
                ["name"],
                registry=None,
                buckets=buckets,
            ),
            Histogram(
                "workqueue_work_duration_seconds",
                "Seconds for which a worker processes a key",
                ["name"],
                registry=None,
                buckets=buckets,
            ),
        )
        adds, retries, waits, work = self._metrics
        self.on_add = adds.labels(name).inc
        self.on_retry = retries.labels(name).inc
        self.on_get = waits.labels(name).observe
        self.on_done = work.labels(name).observe
        queue.observer = self

    def describe(self) -> Iterable[Metric]:
        # Every queue has a series of the same metrics, so none may claim their names.
        return ()

    def collect(self) -> Iterable[Metric]:
        depth = GaugeMetricFamily("workqueue_depth", "Keys that wait for a worker", labels=["name"])
        depth.add_metric([self._name], len(self._queue))
        yield depth
        running = self._queue.running_times()
        unfinished = GaugeMetricFamily(
            "workqueue_unfinished_work_seconds",
            "Seconds since workers began with their current keys, summed over the workers",
            labels=["name"],
        )
        unfinished.add_metric([self._name], sum(running))
        yield unfinished
        longest = GaugeMetricFamily(
            "workqueue_longest_running_processor_seconds",
            "Seconds since the slowest worker began with its current key",
            labels=["name"],
        )
        longest.add_metric([self._name], max(running, default=0.0))
        yield longest
        for metric in self._metrics:
            yield from metric.collect()
