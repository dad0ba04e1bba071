"""A claim made from a template.

Mirrors ``handleClaim`` in pkg/controller/resourceclaim/controller.go.
"""

from dra_shared.api.meta import ObjectMeta, OwnerReference
from dra_shared.api.resource import ResourceClaim, ResourceClaimTemplate
from dra_shared.claims import POD_CLAIM_ANNOTATION
from dra_shared.features import FeatureGates

# The API server appends five random characters, and a name has at most 63; upstream leaves room for a hyphen too.
_MAX_BASE = 57


class TemplateError(Exception):
    """No claim can be made from the template as things are."""


def generated_base(owner: str, entry: str) -> str:
    """The ``generateName`` of a claim for ``owner``'s entry: both names shortened in proportion if too long."""
    base = f"{owner}-{entry}-"
    if len(base) <= _MAX_BASE:
        return base
    return f"{owner[: len(owner) * _MAX_BASE // len(base)]}-{entry[: len(entry) * _MAX_BASE // len(base)]}"


def claim_from_template(template: ResourceClaimTemplate, owner: OwnerReference, entry: str) -> ResourceClaim:
    """The claim for the entry ``entry`` of ``owner``, ready to be created."""
    meta = template.spec.metadata
    return ResourceClaim(
        metadata=ObjectMeta(
            generate_name=generated_base(owner.name, entry),
            owner_references=(owner,),
            annotations={**meta.annotations, POD_CLAIM_ANNOTATION: entry},
            labels=meta.labels,
        ),
        spec=template.spec.spec,
    )


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
