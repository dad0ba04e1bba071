"""The features that a template may use, and the label in metrics for claims from a template.

Mirrors ``handleClaim`` in pkg/controller/resourceclaim/controller.go.
"""

from dra_shared.api.resource import ResourceClaim, ResourceClaimTemplate
from dra_shared.features import FeatureGates


class TemplateError(Exception):
    """No claim can be created from the template at present."""


def check_features(template: ResourceClaimTemplate, features: FeatureGates) -> None:
    """Check that the template uses no feature that is switched off.

    Raises:
        TemplateError: it uses a disabled feature.
    """
    requests = template.spec.spec.devices.requests
    if not features.enabled("DRAAdminAccess") and any(
        request.exactly is not None and request.exactly.admin_access for request in requests
    ):
        raise TemplateError("admin access is requested, but the feature is disabled")
    if not features.enabled("DRAPrioritizedList") and any(request.first_available for request in requests):
        raise TemplateError(
            "template includes a prioritized list of subrequests, but the feature is disabled"
        )


def admin_access_label(claim: ResourceClaim | None) -> str:
    """Return the value of the label ``admin_access`` of metrics."""
    if claim is None:
        return "false"
    requests = claim.spec.devices.requests
    return str(any(r.exactly is not None and bool(r.exactly.admin_access) for r in requests)).lower()
