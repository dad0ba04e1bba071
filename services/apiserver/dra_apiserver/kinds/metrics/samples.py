"""Samples of the consumption of nodes and containers, and the usage computed from two of them.

Mirrors metrics-server's `pkg/scraper/client/resource` and `pkg/storage`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from dra_shared.quantity import Format, Quantity

_NODE_CPU, _NODE_MEMORY = "node_cpu_usage_seconds_total", "node_memory_working_set_bytes"
_CPU, _MEMORY = "container_cpu_usage_seconds_total", "container_memory_working_set_bytes"
_STARTED = "container_start_time_seconds"
_NANO = -9
_LARGEST = float(1 << 63)
# The year 9999.
_LATEST = 253402300800.0


@dataclass(slots=True)
class Point:
    """CPU time in core-seconds since the start, and the working set in bytes.

    Times are in seconds since the epoch.
    """

    at: float = 0.0
    cpu: float | None = None
    memory: int | None = None
    started: float | None = None


@dataclass(slots=True)
class Sample:
    """The response of a kubelet: containers by their pod's namespace and name, then by their own name."""

    node: Point = field(default_factory=Point)
    pods: dict[tuple[str, str], dict[str, Point]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Use:
    """CPU in nanocores, over `window` seconds that ended at `at`, and memory in bytes."""

    cpu: int
    memory: int
    at: datetime
    window: float

    def resources(self) -> dict[str, str]:
        """Return the amounts as a resource list."""
        memory = Quantity(self.memory, 0, Format.BINARY_SI)
        return {"cpu": str(Quantity(self.cpu, _NANO)), "memory": str(memory)}


def parse(text: str, received: float) -> Sample:
    """Parse a response of `/metrics/resource`. `received` is the time of values without a timestamp.

    Raises:
        ValueError: it is not in Prometheus' text format.
    """
    from prometheus_client.parser import text_string_to_metric_families

    made = Sample()
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            labels = one.labels
            if one.name in (_NODE_CPU, _NODE_MEMORY):
                point = made.node
            elif one.name in (_CPU, _MEMORY, _STARTED):
                pod = made.pods.setdefault((labels.get("namespace", ""), labels.get("pod", "")), {})
                point = pod.setdefault(labels.get("container", ""), Point())
            else:
                continue
            # The library converts timestamps to seconds.
            at = received if one.timestamp is None else float(one.timestamp)
            if not abs(one.value) < _LARGEST or not 0 <= at < _LATEST:
                # Not a number, or too large for an amount or a time.
                raise ValueError(f"{one.name}: value {one.value} at {at} is out of range")
            if one.name in (_NODE_CPU, _CPU):
                point.cpu = one.value
                point.at = at
            elif one.name == _STARTED:
                point.started = one.value
            else:
                point.memory = int(one.value)
    return made


def node_use(last: Sample, before: Sample) -> Use | None:
    """Return the usage of the node; None if the samples do not suffice."""
    return _use(last.node, before.node)


def pod_use(last: Sample, before: Sample, namespace: str, name: str) -> Mapping[str, Use] | None:
    """Return the usage of each of a pod's containers; None if one of them is unknown."""
    points = last.pods.get((namespace, name))
    if not points:
        return None
    earlier = before.pods.get((namespace, name), {})
    found = {
        container: _use(point, _before(point, earlier.get(container))) for container, point in points.items()
    }
    known = {container: use for container, use in found.items() if use is not None}
    return known if len(known) == len(found) else None


def _before(point: Point, earlier: Point | None) -> Point | None:
    """Return the earlier point to compare with. For a container that has started since then, it is its start."""
    if point.started is not None and (earlier is None or point.started >= earlier.at):
        return Point(point.started, 0.0, 0, point.started)
    return earlier


def _use(last: Point, before: Point | None) -> Use | None:
    if before is None or last.cpu is None or last.memory is None or before.cpu is None:
        return None
    # Times since the epoch have less than a microsecond's precision. A tenth of that would appear as a
    # millicore.
    window = round(last.at - before.at, 6)
    if window <= 0 or last.cpu < before.cpu:
        return None
    nanocores = int((last.cpu - before.cpu) / window * 1e9)
    return Use(nanocores, last.memory, datetime.fromtimestamp(last.at, UTC), window)


def window_text(seconds: float) -> str:
    """Format a window like a duration in Go: `15.024s`, `1m0.5s`, `250ms`."""
    milliseconds = max(round(seconds * 1000), 0)
    if 0 < milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    text = f"{rest / 1000:.3f}".rstrip("0").rstrip(".")
    return f"{minutes}m{text}s" if minutes else f"{text}s"
