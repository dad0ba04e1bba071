"""The claim controller's metrics, under kube-controller-manager's names.

Mirrors pkg/controller/resourceclaim/metrics/metrics.go, and from Kubernetes 1.37 on resourceclaim/metrics of
k8s.io/dynamic-resource-allocation, which the scheduler has, too.
"""

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator

from dra_shared.api.resource import ResourceClaim
from dra_shared.claimmetrics import CLAIM_CREATES, CLAIM_CREATES_HELP, CLAIM_CREATES_LABELS
from dra_shared.claims import EXTENDED_RESOURCE_ANNOTATION, POD_CLAIM_ANNOTATION, controller_of
from dra_shared.version import DEFAULT, V1_37, Version
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from dra_controller.resourceclaim.generate import admin_access_label

_CLAIMS, _CLAIMS_UNTIL_1_36 = (
    "dynamic_resource_allocation_resource_claims",
    "resourceclaim_controller_resource_claims",
)
_HELP = "ResourceClaim creation requests, by their outcome and whether they ask for admin access"


class ClaimMetrics:
    """Counts creations; the number of claims is taken from the informer when it is asked for."""

    def __init__(
        self,
        registry: CollectorRegistry,
        claims: Callable[[], Iterable[ResourceClaim]],
        kubernetes: Version = DEFAULT,
    ) -> None:
        self._with_owner = kubernetes >= V1_37
        self._creates = Counter(
            CLAIM_CREATES if self._with_owner else "resourceclaim_controller_creates_total",
            CLAIM_CREATES_HELP if self._with_owner else _HELP,
            CLAIM_CREATES_LABELS if self._with_owner else ("status", "admin_access"),
            registry=registry,
        )
        registry.register(_Claims(claims, _CLAIMS if self._with_owner else _CLAIMS_UNTIL_1_36))

    def created(self, claim: ResourceClaim, *, success: bool) -> None:
        """A creation was tried."""
        labels = ["success" if success else "failure", admin_access_label(claim)]
        if self._with_owner:
            owner = controller_of(claim)
            group = owner.api_version.rpartition("/")[0] if owner is not None else ""
            labels += [group, owner.kind if owner is not None else ""]
        self._creates.labels(*labels).inc()


class _Claims(Collector):
    def __init__(self, claims: Callable[[], Iterable[ResourceClaim]], name: str) -> None:
        self._claims = claims
        self._name = name

    def describe(self) -> Iterable[GaugeMetricFamily]:
        return [_family(self._name)]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        tally = Tally(
            (str(c.status.allocation is not None).lower(), admin_access_label(c), _source(c))
            for c in self._claims()
        )
        family = _family(self._name)
        for labels, number in sorted(tally.items()):
            family.add_metric(labels, number)
        yield family


def _family(name: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(
        name,
        "ResourceClaims, by whether they are allocated, whether they ask for admin access, and where they come from",
        labels=["allocated", "admin_access", "source"],
    )


def _source(claim: ResourceClaim) -> str:
    annotations = claim.metadata.annotations
    if annotations.get(EXTENDED_RESOURCE_ANNOTATION) == "true":
        return "extended_resource"
    return "resource_claim_template" if POD_CLAIM_ANNOTATION in annotations else ""
