"""The claim controller's metrics by version."""

import pytest
from dra_controller.resourceclaim.metrics import ClaimMetrics
from dra_shared.api.meta import ObjectMeta, OwnerReference
from dra_shared.api.resource import ResourceClaim
from dra_shared.version import V1_36, V1_37, Version
from prometheus_client import CollectorRegistry

_NEW = "dynamic_resource_allocation"
_OLD = "resourceclaim_controller"


def _claim(api_version: str, kind: str) -> ResourceClaim:
    owner = OwnerReference(api_version=api_version, kind=kind, name="o", uid="u", controller=True)
    return ResourceClaim(metadata=ObjectMeta(name="c", namespace="ns", owner_references=(owner,)))


@pytest.mark.parametrize(
    ("kubernetes", "name", "labels"),
    [
        (V1_36, f"{_OLD}_creates_total", [{}, {}]),
        (
            V1_37,
            f"{_NEW}_resourceclaim_creates_total",
            [
                {"owner_api_group": "", "owner_api_kind": "Pod"},
                {"owner_api_group": "scheduling.k8s.io", "owner_api_kind": "PodGroup"},
            ],
        ),
    ],
)
def test_metrics_count_claims_that_the_controller_creates(
    kubernetes: Version, name: str, labels: list[dict[str, str]]
) -> None:
    registry = CollectorRegistry()
    metrics = ClaimMetrics(registry, list, kubernetes)
    metrics.count_creation(_claim("v1", "Pod"), success=True)
    metrics.count_creation(_claim("scheduling.k8s.io/v1beta1", "PodGroup"), success=True)
    found = [
        registry.get_sample_value(name, {"status": "success", "admin_access": "false", **one})
        for one in labels
    ]
    assert found == ([2, 2] if kubernetes is V1_36 else [1, 1])


@pytest.mark.parametrize(("kubernetes", "prefix"), [(V1_36, _OLD), (V1_37, _NEW)])
def test_metrics_count_existing_claims(kubernetes: Version, prefix: str) -> None:
    registry = CollectorRegistry()
    ClaimMetrics(registry, lambda: [_claim("v1", "Pod")], kubernetes)
    labels = {"allocated": "false", "admin_access": "false", "source": ""}
    assert registry.get_sample_value(f"{prefix}_resource_claims", labels) == 1
