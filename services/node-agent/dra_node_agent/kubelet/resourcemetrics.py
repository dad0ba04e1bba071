"""The metrics of ``/metrics/resource``: the usage of nodes, pods and containers (pkg/kubelet/metrics/collectors).

Metrics servers compute the usage in ``kubectl top`` from them.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from dra_node_agent.runtime.base import Consumption, ContainerRecord, Runtime, RuntimeFailure

_POD = ("pod", "namespace")
_CONTAINER = ("container", *_POD)
_NOTHING = Consumption()


@dataclass(frozen=True)
class Sample:
    """The consumption of a node and its running containers up to a time."""

    at: datetime
    node: Consumption
    containers: Sequence[tuple[ContainerRecord, Consumption]]


class NodeMeter:
    """Measures one node. Its CPU time includes removed containers, so that it never decreases."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = asyncio.Lock()
        self._gone = 0.0
        self._last: dict[str, float] = {}

    async def measure(self) -> Sample | None:
        """Return the node's consumption up to now, or None if the runtime does not answer."""
        async with self._lock:
            try:
                usage = await self._runtime.usage()
            except RuntimeFailure:
                return None
            current = {record.id: used.cpu_seconds for record, used in usage.containers}
            self._gone += sum(used for name, used in self._last.items() if name not in current)
            self._last = current
        node = sum((used for _, used in usage.containers), usage.system + Consumption(self._gone))
        return Sample(usage.at, node, usage.containers)


def render(samples: Sequence[Sample | None]) -> bytes:
    """Render the samples in Prometheus' text format. Nodes of one process are summed, because they have no label."""
    registry = CollectorRegistry()
    registry.register(_Collected(list(_families(samples))))
    return generate_latest(registry)


class _Collected(Collector):
    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _families(samples: Sequence[Sample | None]) -> Iterator[Metric]:
    answered = [sample for sample in samples if sample is not None]
    containers = [
        ((record.name, record.pod, record.namespace), record, used, sample.at)
        for sample in answered
        for record, used in sample.containers
    ]
    if answered:
        node = sum((sample.node for sample in answered), _NOTHING)
        yield from _usage_families("node", (), [((), node, answered[-1].at)])
    yield from _usage_families(
        "container", _CONTAINER, [(labels, used, at) for labels, _, used, at in containers]
    )
    started = GaugeMetricFamily(
        "container_start_time_seconds",
        "[STABLE] Start time of the container since unix epoch in seconds",
        labels=_CONTAINER,
    )
    for labels, record, _, _ in containers:
        if record.started_at is not None:
            started.add_metric(labels, record.started_at.timestamp())
    yield started
    pods: dict[tuple[str, ...], Consumption] = defaultdict(Consumption)
    times: dict[tuple[str, ...], datetime] = {}
    for labels, _, used, at in containers:
        pods[labels[1:]] += used
        times[labels[1:]] = at
    yield from _usage_families("pod", _POD, [(labels, used, times[labels]) for labels, used in pods.items()])
    failed = float(len(answered) != len(samples))
    text = "1 if there was an error while getting container metrics, 0 otherwise"
    yield GaugeMetricFamily("resource_scrape_error", f"[STABLE] {text}", failed)
    yield GaugeMetricFamily("scrape_error", f"[ALPHA] (Deprecated since 1.29.0) {text}", failed)


def _usage_families(
    what: str,
    names: Sequence[str],
    found: Sequence[tuple[tuple[str, ...], Consumption, datetime]],
) -> Iterator[Metric]:
    cpu = CounterMetricFamily(
        f"{what}_cpu_usage_seconds_total",
        f"[STABLE] Cumulative cpu time consumed by the {what} in core-seconds",
        labels=names,
    )
    memory = GaugeMetricFamily(
        f"{what}_memory_working_set_bytes",
        f"[STABLE] Current working set of the {what} in bytes",
        labels=names,
    )
    for labels, used, at in found:
        cpu.add_metric(labels, used.cpu_seconds, timestamp=at.timestamp())
        memory.add_metric(labels, used.working_set, timestamp=at.timestamp())
    yield cpu
    yield memory
