"""The claims of a pod, and which of them its containers use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dra_apiserver.errors import ErrorType, FieldError, duplicate, invalid, required
from dra_apiserver.validation import names
from dra_apiserver.validation.gojson import Shape, show

JsonObject = dict[str, Any]
_CLAIM: Shape = [
    ("Name", "name", None, ""),
    ("ResourceClaimName", "resourceClaimName", None, "null"),
    ("ResourceClaimTemplateName", "resourceClaimTemplateName", None, "null"),
]


def check_pod_claims(claims: Sequence[JsonObject], path: str) -> list[FieldError]:
    """Each with a name of its own, from a claim or from a template."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        at = f"{path}[{index}]"
        name = claim.get("name", "")
        if not name:
            errors.append(required(f"{at}.name"))
        elif name in seen:
            errors.append(duplicate(f"{at}.name", name))
        else:
            errors += names.label(name, f"{at}.name")
            seen.add(name)
        direct, template = claim.get("resourceClaimName"), claim.get("resourceClaimTemplateName")
        if direct is not None and template is not None:
            text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            errors.append(invalid(at, show(claim, _CLAIM), text))
        if direct is None and template is None:
            text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            errors.append(invalid(at, show(claim, _CLAIM), text))
        if direct is not None:
            errors += names.subdomain(direct, f"{at}.resourceClaimName")
        if template is not None:
            errors += names.subdomain(template, f"{at}.resourceClaimTemplateName")
    return errors


def check_used_claims(claims: Sequence[JsonObject], known: set[str], path: str) -> list[FieldError]:
    """A container's claims: each one of the pod's, and no request twice."""
    errors: list[FieldError] = []
    seen: list[str] = []
    for index, claim in enumerate(claims):
        at = f"{path}[{index}]"
        name, request = claim.get("name", ""), claim.get("request", "")
        if not name:
            errors.append(required(at))
            continue
        if name in seen:
            errors.append(duplicate(at, name))
        else:
            key = f"{name}/{request}" if request else name
            if request:
                errors += names.label(request, f"{at}.request")
            if key in seen:
                errors.append(duplicate(at, key))
            elif not request:
                errors += [duplicate(at, name) for other in set(seen) if other.startswith(f"{name}/")]
            seen.append(key)
        if name not in known:
            listed = f": {', '.join(sorted(known))}" if known else " which is empty"
            text = f"must be one of the names in pod.spec.resourceClaims{listed}"
            errors.append(FieldError(ErrorType.NOT_FOUND, at, name, text))
    return errors


def check_claim_statuses(
    statuses: Sequence[JsonObject], claims: Sequence[JsonObject], path: str
) -> list[FieldError]:
    """Which claims were made for a pod: each for an entry of its spec."""
    errors: list[FieldError] = []
    known = {claim.get("name", "") for claim in claims}
    seen: set[str] = set()
    for index, status in enumerate(statuses):
        at = f"{path}[{index}].name"
        name = status.get("name", "")
        if name not in known:
            errors.append(invalid(at, name, "must match the name of an entry in `spec.resourceClaims`"))
        if name in seen:
            errors.append(duplicate(at, name))
        seen.add(name)
        if status.get("resourceClaimName") is not None:
            errors += names.subdomain(status["resourceClaimName"], at)
    return errors
