"""The metrics of the claim controller, with the names of kube-controller-manager.

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

_HELP = "ResourceClaim creation requests, by their outcome and whether they ask for admin access"
_CLAIMS_HELP = "ResourceClaims, by whether they are allocated, by admin access, and by where they come from"
_CLAIMS_LABELS = ("allocated", "admin_access", "source")


class ClaimMetrics:
    """Counts creations. The number of claims is read from the informer when it is asked for."""

    def __init__(
        self,
        registry: CollectorRegistry,
        claims: Callable[[], Iterable[ResourceClaim]],
        kubernetes: Version = DEFAULT,
    ) -> None:
        self._with_owner = kubernetes >= V1_37
        self._creates = _creates(registry, with_owner=self._with_owner)
        registry.register(_Claims(claims, with_owner=self._with_owner))

    def count_creation(self, claim: ResourceClaim, *, success: bool) -> None:
        """Count an attempt to create a claim."""
        labels = ["success" if success else "failure", admin_access_label(claim)]
        if self._with_owner:
            owner = controller_of(claim)
            group = owner.api_version.rpartition("/")[0] if owner is not None else ""
            labels += [group, owner.kind if owner is not None else ""]
        self._creates.labels(*labels).inc()


def _creates(registry: CollectorRegistry, *, with_owner: bool) -> Counter:
    if with_owner:
        return Counter(CLAIM_CREATES, CLAIM_CREATES_HELP, CLAIM_CREATES_LABELS, registry=registry)
    name = "resourceclaim_controller_creates_total"
    return Counter(name, _HELP, ("status", "admin_access"), registry=registry)


class _Claims(Collector):
    def __init__(self, claims: Callable[[], Iterable[ResourceClaim]], *, with_owner: bool) -> None:
        self._claims = claims
        self._with_owner = with_owner

    def describe(self) -> Iterable[GaugeMetricFamily]:
        return [_family(with_owner=self._with_owner)]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        tally = Tally(
            (str(c.status.allocation is not None).lower(), admin_access_label(c), _source(c))
            for c in self._claims()
        )
        family = _family(with_owner=self._with_owner)
        for labels, number in sorted(tally.items()):
            family.add_metric(labels, number)
        yield family


def _family(*, with_owner: bool) -> GaugeMetricFamily:
    if with_owner:
        return GaugeMetricFamily(
            "dynamic_resource_allocation_resource_claims", _CLAIMS_HELP, labels=_CLAIMS_LABELS
        )
    return GaugeMetricFamily("resourceclaim_controller_resource_claims", _CLAIMS_HELP, labels=_CLAIMS_LABELS)


def _source(claim: ResourceClaim) -> str:
    annotations = claim.metadata.annotations
    if annotations.get(EXTENDED_RESOURCE_ANNOTATION) == "true":
        return "extended_resource"
    return "resource_claim_template" if POD_CLAIM_ANNOTATION in annotations else ""
