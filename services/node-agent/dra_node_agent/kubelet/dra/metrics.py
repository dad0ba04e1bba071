"""The DRA manager's metrics, under the kubelet's names (pkg/kubelet/metrics)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dra_shared.clock import Clock
from prometheus_client import Counter, Histogram
from prometheus_client.core import REGISTRY, GaugeMetricFamily
from prometheus_client.registry import Collector

_BUCKETS = (0.1, 0.5, 1, 2, 3, 5, 10, 30, 60)

OPERATIONS = Histogram(
    "dra_operations_duration_seconds",
    "Latency histogram in seconds for the duration of handling all ResourceClaims referenced by a pod.",
    ("operation_name", "is_error"),
    buckets=_BUCKETS,
)
CALLS = Histogram(
    "dra_grpc_operations_duration_seconds",
    "Duration in seconds of the DRA gRPC operations",
    ("driver_name", "method_name", "grpc_status_code"),
    buckets=_BUCKETS,
)
PREPARE_SKIPS = Counter(
    "dra_node_prepare_skips",
    "Number of NodePrepareResources calls that were skipped because all allocated devices of the driver skip them.",
    ("driver",),
)
UNPREPARE_SKIPS = Counter(
    "dra_node_unprepare_skips",
    "Number of NodeUnprepareResources calls that were skipped because all allocated devices of the driver skip them.",
    ("driver",),
)


@contextmanager
def observe_duration(operation: str, clock: Clock) -> Iterator[None]:
    """Measure how long an operation on a pod's claims takes."""
    started = clock.monotonic()
    failed = "true"
    try:
        yield
        failed = "false"
    finally:
        OPERATIONS.labels(operation, failed).observe(clock.monotonic() - started)


class ClaimsInUse(Collector):
    """``dra_resource_claims_in_use`` by driver, summed over the nodes of the process."""

    def __init__(self) -> None:
        self._sources: list[Callable[[], dict[str, int]]] = []

    def add(self, source: Callable[[], dict[str, int]]) -> None:
        """Count the claims of one more node."""
        self._sources.append(source)

    def remove(self, source: Callable[[], dict[str, int]]) -> None:
        """Stop counting the claims of a node."""
        self._sources.remove(source)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = GaugeMetricFamily(
            "dra_resource_claims_in_use",
            "The number of ResourceClaims that are currently in use on the node, by driver name (driver_name label"
            " value) and across all drivers (special value <any> for driver_name).",
            labels=("driver_name",),
        )
        total: dict[str, int] = {}
        for source in list(self._sources):
            for driver, count in source().items():
                total[driver] = total.get(driver, 0) + count
        for driver, count in total.items():
            family.add_metric((driver,), count)
        yield family


CLAIMS_IN_USE = ClaimsInUse()
REGISTRY.register(CLAIMS_IN_USE)
