"""Validate the claims of a pod, and their use by its containers."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common import names
from dra_apiserver.common.goshapes import Shape, show
from dra_apiserver.errors import ErrorType, FieldError, duplicate, invalid, missing_field

_CLAIM: Shape = [
    ("Name", "name", None, ""),
    ("ResourceClaimName", "resourceClaimName", None, "null"),
    ("ResourceClaimTemplateName", "resourceClaimTemplateName", None, "null"),
]


def check_pod_claims(claims: Sequence[JsonObject], path: str) -> list[FieldError]:
    """Validate the claims: each has a unique name, and either a claim or a template."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        at = f"{path}[{index}]"
        name = claim.get("name", "")
        if not name:
            errors.append(missing_field(f"{at}.name"))
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
    """Validate a container's claims: each is one of the pod's, and no request occurs twice."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    ordered: list[str] = []
    listed = f": {', '.join(sorted(known))}" if known else " which is empty"
    for index, claim in enumerate(claims):
        at = f"{path}[{index}]"
        name, request = claim.get("name", ""), claim.get("request", "")
        if not name:
            errors.append(missing_field(at))
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
                # One error for each request of this claim that was named before. "0" is the character after
                # "/".
                below = bisect_left(ordered, f"{name}0") - bisect_left(ordered, f"{name}/")
                errors += [duplicate(at, name)] * below
            if key not in seen:
                seen.add(key)
                insort(ordered, key)
        if name not in known:
            text = f"must be one of the names in pod.spec.resourceClaims{listed}"
            errors.append(FieldError(ErrorType.NOT_FOUND, at, name, text))
    return errors


def check_claim_statuses(
    statuses: Sequence[JsonObject], claims: Sequence[JsonObject], path: str
) -> list[FieldError]:
    """Validate the claims that were created for a pod: each belongs to an entry of its spec."""
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
            errors += names.subdomain(status["resourceClaimName"], f"{path}[{index}].resourceClaimName")
    return errors


def check_extended_resources(status: JsonObject, spec: JsonObject, path: str) -> list[FieldError]:
    """Validate the claim that the scheduler created for a pod's extended resources, and its request mappings."""
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    known = {container.get("name", ""): container.get("resources") or {} for container in containers}
    errors: list[FieldError] = []
    mappings = status.get("requestMappings") or ()
    if not mappings:
        errors.append(missing_field(f"{path}.requestMappings", "at least one request mapping is required"))
    seen: set[tuple[str, ...]] = set()
    for index, mapping in enumerate(mappings):
        at = f"{path}.requestMappings[{index}]"
        values = {name: mapping.get(name, "") for name in ("containerName", "resourceName", "requestName")}
        resources = known.get(values["containerName"])
        if resources is None:
            text = "must match the name of an entry in spec.initContainers.name or spec.containers.name"
            errors.append(invalid(f"{at}.containerName", values["containerName"], text))
        elif values["resourceName"] not in (resources.get("requests") or {}):
            text = (
                "must match the extended resource name of an entry in spec.initContainers.resources.requests "
                "or spec.containers.resources.requests"
            )
            errors.append(invalid(f"{at}.resourceName", values["resourceName"], text))
        # Upstream's path omits the mapping.
        errors += names.label(values["requestName"], f"{path}.requestName")
        if tuple(values.values()) in seen:
            errors += [duplicate(f"{at}.{name}", value) for name, value in values.items()]
        seen.add(tuple(values.values()))
    name = status.get("resourceClaimName", "")
    at = f"{path}.resourceClaimName"
    return errors + (names.subdomain(name, at) if name else [missing_field(at)])
