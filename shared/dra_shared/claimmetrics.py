"""The metric in which all components count the claims that they create, since Kubernetes 1.37.

Mirrors resourceclaim/metrics/metrics.go of k8s.io/dynamic-resource-allocation.
"""

CLAIM_CREATES = "dynamic_resource_allocation_resourceclaim_creates_total"
CLAIM_CREATES_HELP = (
    "ResourceClaim creation requests, by their outcome, admin access and what the claims are for"
)
CLAIM_CREATES_LABELS = ("status", "admin_access", "owner_api_group", "owner_api_kind")
