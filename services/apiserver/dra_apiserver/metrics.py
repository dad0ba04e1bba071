"""The server's metrics with upstream's names, in Prometheus' text format.

Requests only update dictionaries. The text is generated when it is requested.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import Protocol

# apiserver/pkg/endpoints/metrics: requestLatencies' buckets, in seconds.
_BUCKETS = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60,
)  # fmt: skip

Labels = tuple[str, ...]
Sample = tuple[Labels, float]


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _labels(names: Labels, values: Labels, extra: str = "") -> str:
    parts = [f'{name}="{_escape(value)}"' for name, value in zip(names, values, strict=True)]
    if extra:
        parts.append(extra)
    return f"{{{','.join(parts)}}}" if parts else ""


class Counter:
    """A counter for each combination of labels."""

    def __init__(self, name: str, help: str, names: Labels) -> None:
        self.name = name
        self.help = help
        self.names = names
        self.values: dict[Labels, float] = {}

    def add(self, labels: Labels, amount: float = 1) -> None:
        """Add to the counter of these labels."""
        self.values[labels] = self.values.get(labels, 0) + amount

    def lines(self) -> Iterable[str]:
        """Return the lines in Prometheus' format."""
        yield f"# HELP {self.name} {self.help}"
        yield f"# TYPE {self.name} counter"
        for labels, value in self.values.items():
            yield f"{self.name}{_labels(self.names, labels)} {value:g}"


class Histogram:
    """Durations in seconds for each combination of labels."""

    def __init__(self, name: str, help: str, names: Labels) -> None:
        self.name = name
        self.help = help
        self.names = names
        self._values: dict[Labels, tuple[list[int], list[float]]] = {}

    def observe(self, labels: Labels, seconds: float) -> None:
        """Add a duration."""
        found = self._values.get(labels)
        if found is None:
            found = self._values[labels] = ([0] * (len(_BUCKETS) + 1), [0.0])
        found[0][bisect_left(_BUCKETS, seconds)] += 1
        found[1][0] += seconds

    def lines(self) -> Iterable[str]:
        """Return the lines in Prometheus' format."""
        yield f"# HELP {self.name} {self.help}"
        yield f"# TYPE {self.name} histogram"
        for labels, (counts, total) in self._values.items():
            running = 0
            for bound, count in zip((*_BUCKETS, "+Inf"), counts, strict=True):
                running += count
                limit = bound if isinstance(bound, str) else f"{bound:g}"
                edge = f'le="{limit}"'
                yield f"{self.name}_bucket{_labels(self.names, labels, edge)} {running}"
            yield f"{self.name}_sum{_labels(self.names, labels)} {total[0]:g}"
            yield f"{self.name}_count{_labels(self.names, labels)} {running}"


class Gauge:
    """Numbers that are read whenever the metrics are requested."""

    def __init__(self, name: str, help: str, names: Labels, read: Callable[[], Iterable[Sample]]) -> None:
        self.name = name
        self.help = help
        self.names = names
        self._read = read

    def lines(self) -> Iterable[str]:
        """Return the lines in Prometheus' format."""
        yield f"# HELP {self.name} {self.help}"
        yield f"# TYPE {self.name} gauge"
        for labels, value in self._read():
            yield f"{self.name}{_labels(self.names, labels)} {value:.10g}"


class _Shown(Protocol):
    def lines(self) -> Iterable[str]: ...


class Metrics:
    """All metrics of /metrics."""

    def __init__(self) -> None:
        self.requests = Counter(
            "apiserver_request_total",
            "Requests by verb, dry run, resource and response code.",
            ("verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component", "code"),
        )
        self.durations = Histogram(
            "apiserver_request_duration_seconds",
            "How long requests took, watches left out.",
            ("verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component"),
        )
        self.watch_events = Counter(
            "apiserver_watch_events_total", "Events sent to watchers.", ("group", "version", "resource")
        )
        self._gauges: list[Gauge] = []

    def gauge(self, name: str, help: str, names: Labels, read: Callable[[], Iterable[Sample]]) -> None:
        """Add a gauge."""
        self._gauges.append(Gauge(name, help, names, read))

    def render(self) -> bytes:
        """Return all metrics in Prometheus' format."""
        lines: list[str] = []
        shown: list[_Shown] = [self.requests, self.durations, self.watch_events, *self._gauges]
        for metric in shown:
            lines.extend(metric.lines())
        return ("\n".join(lines) + "\n").encode()
