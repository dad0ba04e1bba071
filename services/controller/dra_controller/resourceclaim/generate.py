"""What a template may ask for, and what metrics say of claims made from one.

Mirrors ``handleClaim`` in pkg/controller/resourceclaim/controller.go.
"""

from dra_shared.api.resource import ResourceClaim, ResourceClaimTemplate
from dra_shared.features import FeatureGates


class TemplateError(Exception):
    """No claim can be made from the template as things are."""


def check_features(template: ResourceClaimTemplate, features: FeatureGates) -> None:
    """Make sure that the template asks for nothing that is switched off.

    Raises:
        TemplateError: it does.
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
    """The value of the metrics' ``admin_access`` label."""
    if claim is None:
        return "false"
    requests = claim.spec.devices.requests
    return str(any(r.exactly is not None and bool(r.exactly.admin_access) for r in requests)).lower()
