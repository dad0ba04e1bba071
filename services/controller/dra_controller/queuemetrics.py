"""The ``workqueue_*`` metrics of the controllers' queues, with the names of component-base.

Mirrors component-base's metrics/prometheus/workqueue/metrics.go.
"""

from bisect import bisect_left
from collections.abc import Iterable
from typing import Any

from dra_shared.client.workqueue import WorkQueue
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

_BUCKETS = [10.0**exponent for exponent in range(-8, 2)]
_BOUNDS = [
    floatToGoString(bound)  # type: ignore[no-untyped-call]  # the library has no types for it
    for bound in (*_BUCKETS, float("inf"))
]
_LABELS = ["name"]


def measure_queue(registry: CollectorRegistry, name: str, queue: WorkQueue[Any]) -> None:
    """Report the traffic of a queue. Its name is the label ``name``."""
    registry.register(_QueueMetrics(name, queue))


class _Durations:
    """A histogram. Those of the client library take several times as long to create and to observe."""

    __slots__ = ("_counts", "_sum")

    def __init__(self) -> None:
        self._counts = [0] * len(_BOUNDS)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(_BUCKETS, seconds)] += 1
        self._sum += seconds

    def family(self, metric: str, text: str, name: str) -> Metric:
        total = 0
        buckets = []
        for bound, count in zip(_BOUNDS, self._counts, strict=True):
            total += count
            buckets.append((bound, total))
        made = HistogramMetricFamily(metric, text, labels=_LABELS)
        made.add_metric([name], buckets, self._sum)
        return made


class _QueueMetrics(Collector):
    def __init__(self, name: str, queue: WorkQueue[Any]) -> None:
        self._name = name
        self._queue = queue
        self._adds = 0
        self._retries = 0
        self._waits = _Durations()
        self._work = _Durations()
        self.on_get = self._waits.observe
        self.on_done = self._work.observe
        queue.observer = self

    def on_add(self) -> None:
        self._adds += 1

    def on_retry(self) -> None:
        self._retries += 1

    def describe(self) -> Iterable[Metric]:
        # Every queue has a series of the same metrics, so none may claim their names.
        return ()

    def collect(self) -> Iterable[Metric]:
        running = self._queue.running_times()
        yield self._gauge("workqueue_depth", "Keys that wait for a worker", len(self._queue))
        yield self._gauge(
            "workqueue_unfinished_work_seconds",
            "Seconds since workers began with their current keys, summed over the workers",
            sum(running),
        )
        yield self._gauge(
            "workqueue_longest_running_processor_seconds",
            "Seconds since the slowest worker began with its current key",
            max(running, default=0.0),
        )
        yield self._counter("workqueue_adds", "Keys added", self._adds)
        yield self._counter("workqueue_retries", "Keys that are retried after a failure", self._retries)
        yield self._waits.family(
            "workqueue_queue_duration_seconds", "Seconds for which a key waits for a worker", self._name
        )
        yield self._work.family(
            "workqueue_work_duration_seconds", "Seconds for which a worker processes a key", self._name
        )

    def _gauge(self, metric: str, text: str, value: float) -> Metric:
        made = GaugeMetricFamily(metric, text, labels=_LABELS)
        made.add_metric([self._name], value)
        return made

    def _counter(self, metric: str, text: str, value: float) -> Metric:
        made = CounterMetricFamily(metric, text, labels=_LABELS)
        made.add_metric([self._name], value)
        return made
