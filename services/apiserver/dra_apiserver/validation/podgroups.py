"""PodGroup and Workload: validated by what upstream's types declare, in the order of their fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dra_shared.names import dns_label, dns_subdomain

from dra_apiserver.errors import (
    FieldError,
    Verbatim,
    duplicate,
    forbidden_field,
    invalid,
    required,
    too_many,
)
from dra_apiserver.strategy.objectmeta import IMMUTABLE
from dra_apiserver.validation.podupdate import same

JsonObject = dict[str, Any]
_TEMPLATES = 8
_CLAIMS = 4
_HIGHEST_PRIORITY = 1_000_000_000
# What of a pod group is decided when it is made.
_DECIDED = ("podGroupTemplateRef", "schedulingPolicy", "resourceClaims", "disruptionMode", "priorityClassName",
            "priority")  # fmt: skip


def check_pod_group(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """The spec of a pod group, of which little may change."""
    spec, before = obj.get("spec") or {}, (old or {}).get("spec") or {}
    if old is not None:
        changed = [field for field in _DECIDED if not same(spec.get(field), before.get(field))]
        return [invalid(f"spec.{field}", Verbatim("null"), IMMUTABLE) for field in changed]
    errors: list[FieldError] = []
    reference = spec.get("podGroupTemplateRef")
    if reference is not None:
        path = "spec.podGroupTemplateRef"
        errors += _check_union(reference, ("workload",), path)
        workload = reference.get("workload")
        if workload is not None:
            path = f"{path}.workload"
            errors += _check_name(workload.get("workloadName"), dns_subdomain, f"{path}.workloadName")
            name = workload.get("podGroupTemplateName")
            errors += _check_name(name, dns_label, f"{path}.podGroupTemplateName")
    return errors + _check_group(spec, "spec")


def check_workload(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """The templates of a workload, which never change; who controls it may be added."""
    spec = obj.get("spec") or {}
    if old is not None:
        before = old.get("spec") or {}
        errors = []
        owner = before.get("controllerRef")
        if owner is not None and not same(spec.get("controllerRef"), owner):
            errors.append(invalid("spec.controllerRef", Verbatim("null"), IMMUTABLE))
        if not same(spec.get("podGroupTemplates"), before.get("podGroupTemplates")):
            errors.append(invalid("spec.podGroupTemplates", Verbatim("null"), IMMUTABLE))
        return errors
    errors = []
    owner = spec.get("controllerRef")
    if owner is not None:
        if owner.get("apiGroup"):
            errors += _check_name(owner["apiGroup"], dns_subdomain, "spec.controllerRef.apiGroup")
        for field in ("kind", "name"):
            if not owner.get(field):
                errors.append(required(f"spec.controllerRef.{field}"))
    templates = spec.get("podGroupTemplates") or []
    path = "spec.podGroupTemplates"
    if not templates:
        return [*errors, required(path)]
    if len(templates) > _TEMPLATES:
        return [*errors, too_many(path, len(templates), _TEMPLATES)]
    errors += _check_unique(templates, path)
    for index, template in enumerate(templates):
        at = f"{path}[{index}]"
        errors += _check_name(template.get("name"), dns_label, f"{at}.name")
        errors += _check_group(template, at)
    return errors


def _check_group(spec: JsonObject, path: str) -> list[FieldError]:
    policy = spec.get("schedulingPolicy") or {}
    errors = _check_union(policy, ("basic", "gang"), f"{path}.schedulingPolicy")
    if policy.get("gang") is not None:
        errors += _check_gang(policy["gang"].get("minCount") or 0, f"{path}.schedulingPolicy.gang.minCount")
    # TopologyAwareWorkloadScheduling is off.
    if spec.get("schedulingConstraints") is not None:
        errors.append(forbidden_field(f"{path}.schedulingConstraints", ""))
    claims = spec.get("resourceClaims") or []
    if len(claims) > _CLAIMS:
        errors.append(too_many(f"{path}.resourceClaims", len(claims), _CLAIMS))
    else:
        errors += _check_claims(claims, f"{path}.resourceClaims")
    if spec.get("priorityClassName"):
        errors += _check_name(spec["priorityClassName"], dns_subdomain, f"{path}.priorityClassName")
    priority = spec.get("priority")
    if priority is not None and priority > _HIGHEST_PRIORITY:
        text = f"must be less than or equal to {_HIGHEST_PRIORITY}"
        errors.append(invalid(f"{path}.priority", priority, text))
    return errors


def _check_gang(count: int, path: str) -> list[FieldError]:
    if not count:
        return [required(path)]
    return [] if count >= 1 else [invalid(path, count, "must be greater than or equal to 1")]


def _check_claims(claims: list[JsonObject], path: str) -> list[FieldError]:
    errors = _check_unique(claims, path)
    for index, claim in enumerate(claims):
        at = f"{path}[{index}]"
        members = ("resourceClaimName", "resourceClaimTemplateName")
        errors += _check_union(claim, members, at)
        errors += _check_name(claim.get("name"), dns_label, f"{at}.name")
        for field in members:
            if claim.get(field) is not None:
                errors += _check_texts(claim[field], dns_subdomain(claim[field], True), f"{at}.{field}")
    return errors


def _check_unique(items: Iterable[JsonObject], path: str) -> list[FieldError]:
    errors = []
    seen: set[str] = set()
    for index, item in enumerate(items):
        name = item.get("name", "")
        if name in seen:
            errors.append(duplicate(f"{path}[{index}]", {"name": name}))
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


def _check_name(name: str | None, rule: Callable[[str], list[str]], path: str) -> list[FieldError]:
    return _check_texts(name, rule(name), path) if name else [required(path)]


def _check_texts(value: str, texts: list[str], path: str) -> list[FieldError]:
    return [invalid(path, value, text) for text in texts]
