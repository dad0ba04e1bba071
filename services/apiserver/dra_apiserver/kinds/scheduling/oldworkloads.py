"""Validate Workloads of v1alpha1 (``pkg/apis/scheduling/validation`` of 1.35), whose types declare no rules."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject
from dra_shared.names import dns_label, dns_subdomain, path_segment

from dra_apiserver.common.goshapes import show
from dra_apiserver.common.objectmeta import IMMUTABLE
from dra_apiserver.errors import FieldError, duplicate, invalid, missing_field, too_many

_MOST_GROUPS = 8
_POLICIES = ("basic", "gang")


def check_old_workload(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Validate the spec of a workload."""
    spec, before = obj.get("spec") or {}, (old or {}).get("spec") or {}
    errors = _check_owner(spec.get("controllerRef"))
    groups, path = spec.get("podGroups") or [], "spec.podGroups"
    if not groups:
        errors.append(missing_field(path, "must have at least one item"))
    elif len(groups) > _MOST_GROUPS:
        errors.append(too_many(path, len(groups), _MOST_GROUPS))
    else:
        names: set[str] = set()
        for index, group in enumerate(groups):
            errors += _check_group(group, names, f"{path}[{index}]")
    if old is None:
        return errors
    # Upstream's error paths lack `spec` here.
    owner = spec.get("controllerRef")
    if before.get("controllerRef") is not None and owner != before["controllerRef"]:
        errors.append(invalid("controllerRef", show(owner), IMMUTABLE))
    if groups != (before.get("podGroups") or []):
        errors.append(invalid("podGroups", show(groups), IMMUTABLE))
    return errors


def _check_owner(owner: JsonObject | None) -> list[FieldError]:
    if owner is None:
        return []
    group, path = owner.get("apiGroup") or "", "spec.controllerRef"
    errors = [invalid(f"{path}.apiGroup", group, text) for text in dns_subdomain(group)] if group else []
    for field in ("kind", "name"):
        value, at = owner.get(field) or "", f"{path}.{field}"
        errors += [invalid(at, value, text) for text in path_segment(value)] if value else [missing_field(at)]
    return errors


def _check_group(group: JsonObject, names: set[str], path: str) -> list[FieldError]:
    name = group.get("name") or ""
    errors = [invalid(f"{path}.name", name, text) for text in dns_label(name)]
    if name in names:
        errors.append(duplicate(f"{path}.name", name))
    names.add(name)
    policy, at = group.get("policy") or {}, f"{path}.policy"
    given = [f"`{kind}`" for kind in _POLICIES if policy.get(kind) is not None]
    wanted = "exactly one of `basic`, `gang` is required"
    if not given:
        errors.append(missing_field(at, wanted))
    elif len(given) > 1:
        errors.append(invalid(at, f"{{{', '.join(given)}}}", f"{wanted}, but multiple fields are set"))
    elif (gang := policy.get("gang")) is not None and (count := gang.get("minCount") or 0) <= 0:
        errors.append(invalid(f"{at}.gang.minCount", count, "must be greater than zero"))
    return errors
