"""Build claims from templates (upstream's ``pkg/controller/resourceclaim/controller.go``)."""

from dra_shared.api.meta import ObjectMeta, OwnerReference
from dra_shared.api.resource import ResourceClaim, ResourceClaimTemplate
from dra_shared.claims import POD_CLAIM_ANNOTATION

# The API server appends five random characters to a name of at most 63. Upstream also leaves room for a
# hyphen.
_MAX_BASE = 57


def generated_base(owner: str, entry: str) -> str:
    """Return the ``generateName`` of a claim for ``owner``'s entry. Long names are shortened in proportion."""
    base = f"{owner}-{entry}-"
    if len(base) <= _MAX_BASE:
        return base
    return f"{owner[: len(owner) * _MAX_BASE // len(base)]}-{entry[: len(entry) * _MAX_BASE // len(base)]}"


def claim_from_template(template: ResourceClaimTemplate, owner: OwnerReference, entry: str) -> ResourceClaim:
    """Return the claim for the entry ``entry`` of ``owner``, ready to be created."""
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
