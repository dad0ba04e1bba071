"""Validate the node resources that claims of a pod use, as recorded in the pod's status."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dra_shared.jsontypes import JsonObject
from dra_shared.quantity import Quantity
from dra_shared.version import V1_37, Version

from dra_apiserver.errors import FieldError, duplicate, invalid, json_value, missing_field

_ZERO = Quantity.parse("0")


def check_node_allocatable(
    statuses: Sequence[JsonObject], claims: Sequence[JsonObject], path: str, kubernetes: Version
) -> list[FieldError]:
    """Validate the entries, one for each claim.

    ``claims`` are those that the pod names and those that were created for it.
    """
    errors: list[FieldError] = []
    known = {claim.get("resourceClaimName") for claim in claims}
    for index, status in enumerate(statuses):
        at = f"{path}[{index}]"
        name = status.get("resourceClaimName", "")
        if not name:
            errors.append(missing_field(f"{at}.resourceClaimName", "must not be empty"))
        if name not in known:
            errors.append(invalid(f"{at}.resourceClaimName", name, "no mapping found in pod reference"))
        errors += _check_parts(status, at) if kubernetes >= V1_37 else _check_resources(status, at)
    return errors


def _check_resources(status: JsonObject, path: str) -> list[FieldError]:
    missing = [field for field in ("containers", "resources") if not status.get(field)]
    errors = [missing_field(f"{path}.{field}", "must not be empty") for field in missing]
    for resource, amount in (status.get("resources") or {}).items():
        where = f"{path}.resources[{resource}]"
        errors += _check_name(resource, where) + _check_amount(amount, where)
    return errors


def _check_parts(status: JsonObject, path: str) -> list[FieldError]:
    """Check the containers of an entry.

    An entry may list no containers, because a pod may have a claim that no container uses.
    """
    errors: list[FieldError] = []
    for part, amounts in (("mapping", ("quantity",)), ("overhead", ("perPod", "perContainer"))):
        errors += _check_part(status.get(part) or (), f"{path}.{part}", amounts)
    return errors


def _check_part(entries: Iterable[JsonObject], path: str, amounts: Sequence[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        at, name = f"{path}[{index}]", entry.get("name", "")
        if not name:
            errors.append(missing_field(f"{at}.name"))
        else:
            errors += _check_name(name, f"{at}.name")
        if name in seen:
            errors.append(duplicate(at, name))
        seen.add(name)
        for field in amounts:
            if entry.get(field) is not None:
                errors += _check_amount(entry[field], f"{at}.{field}")
            elif field == "quantity":
                errors.append(missing_field(f"{at}.{field}"))
    return errors


def _check_name(resource: str, path: str) -> list[FieldError]:
    if "/" not in resource or "kubernetes.io/" in resource:
        return []
    return [invalid(path, json_value(resource), "must be a node allocatable resource name")]


def _check_amount(amount: Any, path: str) -> list[FieldError]:
    if Quantity.parse(str(amount)) < _ZERO:
        return [invalid(path, str(amount), "must be non-negative")]
    return []
