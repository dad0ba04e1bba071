"""Validate PodGroup and Workload by the declared rules of upstream's types, in the order of their fields.

A field that an update leaves unchanged is not validated again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.names import dns_label, dns_subdomain, label_key, path_segment

from dra_apiserver.common.conditions import check_conditions
from dra_apiserver.common.objectmeta import IMMUTABLE
from dra_apiserver.errors import (
    FieldError,
    Verbatim,
    duplicate,
    forbidden_field,
    invalid,
    missing_field,
    not_supported,
    too_many,
)
from dra_apiserver.schema import same_members

_PACKAGE = "io.k8s.api.scheduling.v1alpha2"
_GROUP_SPEC, _WORKLOAD_SPEC = f"{_PACKAGE}.PodGroupSpec", f"{_PACKAGE}.WorkloadSpec"
TOPOLOGY = "TopologyAwareWorkloadScheduling"
PREEMPTION = "WorkloadAwarePreemption"
CLAIMS = "DRAWorkloadResourceClaims"
_TEMPLATES = 8
_CLAIMS = 4
_LEVELS = 1
_HIGHEST_PRIORITY = 1_000_000_000
_MODES = ("Pod", "PodGroup")
_CLAIM_MEMBERS = ("resourceClaimName", "resourceClaimTemplateName")


def check_pod_group(obj: JsonObject, old: JsonObject | None, gates: FeatureGates) -> list[FieldError]:
    """Validate the spec of a pod group, which is immutable."""
    spec, before = obj.get("spec") or {}, None if old is None else old.get("spec") or {}
    errors: list[FieldError] = []
    reference = spec.get("podGroupTemplateRef")
    if before is not None and not same_members(_GROUP_SPEC, spec, before, "podGroupTemplateRef"):
        errors.append(_immutable("spec.podGroupTemplateRef"))
    elif before is None and reference is not None:
        errors += _check_reference(reference, "spec.podGroupTemplateRef")
    return errors + _check_group(spec, before, "spec", gates)


def check_pod_group_status(obj: JsonObject, old: JsonObject) -> list[FieldError]:
    """Validate the status of a pod group: its conditions, and that its claims belong to entries of the spec."""
    status = obj.get("status") or {}
    errors = check_conditions(status.get("conditions"), "status.conditions")
    claims, path = status.get("resourceClaimStatuses") or [], "status.resourceClaimStatuses"
    known = {claim.get("name", "") for claim in (obj.get("spec") or {}).get("resourceClaims") or ()}
    for index, claim in enumerate(claims):
        if claim.get("name", "") not in known:
            text = "must match the name of an entry in `spec.resourceClaims`"
            errors.append(invalid(f"{path}[{index}].name", claim.get("name", ""), text))
    before = (old.get("status") or {}).get("resourceClaimStatuses") or []
    if same_members(f"{_PACKAGE}.PodGroupStatus", status, old.get("status"), "resourceClaimStatuses"):
        return errors
    if len(claims) > _CLAIMS:
        return [*errors, too_many(path, len(claims), _CLAIMS)]
    errors += _check_unique(claims, ("name", "resourceClaimName"), path)
    for index, claim in enumerate(claims):
        name = claim.get("resourceClaimName")
        if name is not None and claim not in before:
            errors += _check_long_name(name, f"{path}[{index}].resourceClaimName")
    return errors


def check_workload(obj: JsonObject, old: JsonObject | None, gates: FeatureGates) -> list[FieldError]:
    """Validate the spec of a workload, which is immutable."""
    spec, before = obj.get("spec") or {}, None if old is None else old.get("spec") or {}
    errors: list[FieldError] = []
    owner = spec.get("controllerRef")
    if before is not None and not same_members(_WORKLOAD_SPEC, spec, before, "controllerRef"):
        errors.append(_immutable("spec.controllerRef"))
    elif before is None and owner is not None:
        errors += _check_owner(owner, "spec.controllerRef")
    templates, path = spec.get("podGroupTemplates") or [], "spec.podGroupTemplates"
    if before is not None and same_members(_WORKLOAD_SPEC, spec, before, "podGroupTemplates"):
        return errors
    refused = [] if before is None else [_immutable(path)]
    if len(templates) > _TEMPLATES:
        refused.append(too_many(path, len(templates), _TEMPLATES))
    if not templates:
        refused.append(missing_field(path))
    if refused:
        return errors + refused
    members = ("name", "schedulingPolicy", "schedulingConstraints", "resourceClaims", "disruptionMode",
               "priorityClassName", "priority")  # fmt: skip
    errors += _check_unique(templates, members, path)
    for index, template in enumerate(templates):
        at = f"{path}[{index}]"
        errors += _check_name(template.get("name"), _short_name, f"{at}.name")
        errors += _check_group(template, None, at, gates)
    return errors


def _immutable(path: str) -> FieldError:
    return invalid(path, Verbatim("null"), IMMUTABLE)


def _check_reference(reference: JsonObject, path: str) -> list[FieldError]:
    errors = _check_union(reference, ("workload",), path)
    workload = reference.get("workload")
    if workload is not None:
        at = f"{path}.workload"
        errors += _check_name(workload.get("workloadName"), _long_name, f"{at}.workloadName")
        errors += _check_name(workload.get("podGroupTemplateName"), _short_name, f"{at}.podGroupTemplateName")
    return errors


def _check_owner(owner: JsonObject, path: str) -> list[FieldError]:
    group = owner.get("apiGroup")
    errors = _check_long_name(group, f"{path}.apiGroup") if group else []
    for field in ("kind", "name"):
        errors += _check_name(owner.get(field), path_segment, f"{path}.{field}")
    return errors


@dataclass(frozen=True, slots=True)
class _Change:
    """The fields of a new spec, and for an update those `before`, which must not change."""

    spec: JsonObject
    before: JsonObject | None
    path: str

    def is_unchanged(self, field: str) -> bool:
        """True if the field is unchanged."""
        return self.before is not None and same_members(_GROUP_SPEC, self.spec, self.before, field)

    def check_immutable(self, field: str) -> list[FieldError]:
        """Return the error of a changed field; none for a new spec."""
        return [] if self.before is None else [_immutable(f"{self.path}.{field}")]


def _check_group(
    spec: JsonObject, before: JsonObject | None, path: str, gates: FeatureGates
) -> list[FieldError]:
    """Validate the common fields of a pod group and of a template.

    `before` has the old values, which are immutable.
    """
    change = _Change(spec, before, path)
    errors: list[FieldError] = []
    if not change.is_unchanged("schedulingPolicy"):
        policy = spec.get("schedulingPolicy") or {}
        errors += change.check_immutable("schedulingPolicy") or _check_policy(
            policy, f"{path}.schedulingPolicy"
        )
    errors += _check_topology(change, gates)
    if not change.is_unchanged("resourceClaims"):
        claims = spec.get("resourceClaims") or []
        refused = change.check_immutable("resourceClaims")
        if len(claims) > _CLAIMS:
            refused.append(too_many(f"{path}.resourceClaims", len(claims), _CLAIMS))
        errors += refused or _check_claims(claims, f"{path}.resourceClaims")
    return errors + _check_preemption(change, gates)


def _check_topology(change: _Change, gates: FeatureGates) -> list[FieldError]:
    field = "schedulingConstraints"
    if change.is_unchanged(field):
        return []
    constraints, at = change.spec.get(field), f"{change.path}.{field}"
    if not gates.enabled(TOPOLOGY):
        return [] if constraints is None else [forbidden_field(at, "")]
    return change.check_immutable(field) or (
        [] if constraints is None else _check_constraints(constraints, at)
    )


def _check_preemption(change: _Change, gates: FeatureGates) -> list[FieldError]:
    errors: list[FieldError] = []
    for field, check in _PREEMPTION_CHECKS:
        value, at = change.spec.get(field), f"{change.path}.{field}"
        if change.is_unchanged(field):
            continue
        if not gates.enabled(PREEMPTION):
            # A new spec has dropped the value, which is the default.
            if change.before is not None and value not in (None, ""):
                errors.append(forbidden_field(at, ""))
        elif frozen := change.check_immutable(field):
            errors += frozen
        elif value not in (None, ""):
            errors += check(value, at)
    return errors


def _check_policy(policy: JsonObject, path: str) -> list[FieldError]:
    errors = _check_union(policy, ("basic", "gang"), path)
    if policy.get("gang") is not None:
        count, at = policy["gang"].get("minCount") or 0, f"{path}.gang.minCount"
        if not count:
            errors.append(missing_field(at))
        elif count < 1:
            errors.append(invalid(at, count, "must be greater than or equal to 1"))
    return errors


def _check_constraints(constraints: JsonObject, path: str) -> list[FieldError]:
    levels, at = constraints.get("topology") or [], f"{path}.topology"
    if len(levels) > _LEVELS:
        return [too_many(at, len(levels), _LEVELS)]
    errors: list[FieldError] = []
    for index, level in enumerate(levels):
        errors += _check_name(level.get("key"), label_key, f"{at}[{index}].key")
    return errors


def _check_mode(mode: str, path: str) -> list[FieldError]:
    return [] if mode in _MODES else [not_supported(path, mode, _MODES)]


def _check_priority(priority: int, path: str) -> list[FieldError]:
    if priority <= _HIGHEST_PRIORITY:
        return []
    return [invalid(path, priority, f"must be less than or equal to {_HIGHEST_PRIORITY}")]


def _check_claims(claims: list[JsonObject], path: str) -> list[FieldError]:
    errors = _check_unique(claims, ("name", *_CLAIM_MEMBERS), path)
    for index, claim in enumerate(claims):
        at = f"{path}[{index}]"
        errors += _check_union(claim, _CLAIM_MEMBERS, at)
        errors += _check_name(claim.get("name"), _short_name, f"{at}.name")
        for field in _CLAIM_MEMBERS:
            if claim.get(field) is not None:
                errors += _check_long_name(claim[field], f"{at}.{field}")
    return errors


def _check_unique(items: Sequence[JsonObject], members: tuple[str, ...], path: str) -> list[FieldError]:
    """Return an error for each item whose name occurs before. It shows the item, with its members in Go's order."""
    errors = []
    seen: set[str] = set()
    for index, item in enumerate(items):
        name = item.get("name", "")
        if name in seen:
            shown = {"name": name} | {member: item[member] for member in members if member in item}
            errors.append(duplicate(f"{path}[{index}]", shown))
        seen.add(name)
    return errors


def _check_union(value: JsonObject, members: tuple[str, ...], path: str) -> list[FieldError]:
    given = [f"`{member}`" for member in members if value.get(member) is not None]
    every = ", ".join(f"`{member}`" for member in members)
    if not given:
        return [invalid(path, "", f"must specify one of: {every}")]
    if len(given) > 1:
        return [invalid(path, f"{{{', '.join(given)}}}", f"must specify exactly one of: {every}")]
    return []


def _short_name(name: str) -> list[str]:
    return dns_label(name, bytes_limit=True)


def _long_name(name: str) -> list[str]:
    return dns_subdomain(name, bytes_limit=True)


def _check_long_name(name: str, path: str) -> list[FieldError]:
    return [invalid(path, name, text) for text in _long_name(name)]


def _check_name(name: str | None, rule: Callable[[str], list[str]], path: str) -> list[FieldError]:
    return [invalid(path, name, text) for text in rule(name)] if name else [missing_field(path)]


_PREEMPTION_CHECKS: tuple[tuple[str, Callable[[Any, str], list[FieldError]]], ...] = (
    ("disruptionMode", _check_mode),
    ("priorityClassName", _check_long_name),
    ("priority", _check_priority),
)
