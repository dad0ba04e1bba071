"""The claim controller's metrics, under kube-controller-manager's names.

Mirrors pkg/controller/resourceclaim/metrics/metrics.go.
"""

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator

from dra_shared.api.resource import ResourceClaim
from dra_shared.claims import EXTENDED_RESOURCE_ANNOTATION, POD_CLAIM_ANNOTATION
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from dra_controller.resourceclaim.generate import admin_access_label


class ClaimMetrics:
    """Counts creations; the number of claims is taken from the informer when it is asked for."""

    def __init__(self, registry: CollectorRegistry, claims: Callable[[], Iterable[ResourceClaim]]) -> None:
        self._creates = Counter(
            "resourceclaim_controller_creates_total",
            "ResourceClaim creation requests, by their outcome and whether they ask for admin access",
            ["status", "admin_access"],
            registry=registry,
        )
        registry.register(_Claims(claims))

    def created(self, claim: ResourceClaim, *, success: bool) -> None:
        """A creation was tried."""
        self._creates.labels("success" if success else "failure", admin_access_label(claim)).inc()


class _Claims(Collector):
    def __init__(self, claims: Callable[[], Iterable[ResourceClaim]]) -> None:
        self._claims = claims

    def describe(self) -> Iterable[GaugeMetricFamily]:
        return [_family()]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        tally = Tally(
            (str(c.status.allocation is not None).lower(), admin_access_label(c), _source(c))
            for c in self._claims()
        )
        family = _family()
        for labels, number in sorted(tally.items()):
            family.add_metric(labels, number)
        yield family


def _family() -> GaugeMetricFamily:
    return GaugeMetricFamily(
        "resourceclaim_controller_resource_claims",
        "ResourceClaims, by whether they are allocated, whether they ask for admin access, and where they come from",
        labels=["allocated", "admin_access", "source"],
    )


def _source(claim: ResourceClaim) -> str:
    annotations = claim.metadata.annotations
    if annotations.get(EXTENDED_RESOURCE_ANNOTATION) == "true":
        return "extended_resource"
    return "resource_claim_template" if POD_CLAIM_ANNOTATION in annotations else ""
