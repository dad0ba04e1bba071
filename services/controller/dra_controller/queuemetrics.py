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
    """A histogram. The client library's histograms take several times as long to create and to observe."""

    __slots__ = ("_counts", "_sum")

    def __init__(self) -> None:
        self._counts = [0] * len(_BOUNDS)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(_BUCKETS, seconds)] += 1
        self._sum += seconds

    def add_to(self, metric: HistogramMetricFamily, name: str) -> Metric:
        """Add the buckets and the sum to the metric, as the series of the queue ``name``."""
        total = 0
        buckets = []
        for bound, count in zip(_BOUNDS, self._counts, strict=True):
            total += count
            buckets.append((bound, total))
        metric.add_metric([name], buckets, self._sum)
        return metric


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
        # Return no names: the queues' collectors share metric names, which the registry would reject as
        # duplicates.
        return ()

    def collect(self) -> Iterable[Metric]:
        running = self._queue.running_times()
        yield self._add(
            GaugeMetricFamily("workqueue_depth", "Keys that wait for a worker", labels=_LABELS),
            len(self._queue),
        )
        yield self._add(
            GaugeMetricFamily(
                "workqueue_unfinished_work_seconds",
                "Seconds since workers began with their current keys, summed over the workers",
                labels=_LABELS,
            ),
            sum(running),
        )
        yield self._add(
            GaugeMetricFamily(
                "workqueue_longest_running_processor_seconds",
                "Seconds since the slowest worker began with its current key",
                labels=_LABELS,
            ),
            max(running, default=0.0),
        )
        yield self._add(CounterMetricFamily("workqueue_adds", "Keys added", labels=_LABELS), self._adds)
        yield self._add(
            CounterMetricFamily("workqueue_retries", "Keys that are retried after a failure", labels=_LABELS),
            self._retries,
        )
        yield self._waits.add_to(
            HistogramMetricFamily(
                "workqueue_queue_duration_seconds",
                "Seconds for which a key waits for a worker",
                labels=_LABELS,
            ),
            self._name,
        )
        yield self._work.add_to(
            HistogramMetricFamily(
                "workqueue_work_duration_seconds",
                "Seconds for which a worker processes a key",
                labels=_LABELS,
            ),
            self._name,
        )

    def _add(self, metric: GaugeMetricFamily | CounterMetricFamily, value: float) -> Metric:
        metric.add_metric([self._name], value)
        return metric
