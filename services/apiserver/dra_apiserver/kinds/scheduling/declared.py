"""Validate PodGroup, CompositePodGroup and Workload by the declared rules of each version's types."""

from __future__ import annotations

import functools

from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_37, Version

from dra_apiserver.common.conditions import check_conditions
from dra_apiserver.common.declarative.rules import ENFORCED, DeclaredRules
from dra_apiserver.common.gates import GatedFields, drop_disabled
from dra_apiserver.errors import FieldError, invalid
from dra_apiserver.kindkit.strategy import Context

TOPOLOGY = "TopologyAwareWorkloadScheduling"
PREEMPTION = "WorkloadAwarePreemption"
CLAIMS = "DRAWorkloadResourceClaims"
_COMPOSITE = "CompositePodGroup"
_POLICY = "PodGroupPreemptionPolicy"
_TEMPLATES = ("podGroupTemplates", "compositePodGroupTemplates")


def is_newer_form(kubernetes: Version) -> bool:
    """True if the version has the pod group kinds in the form of 1.37 or later."""
    return kubernetes >= V1_37


@functools.lru_cache(maxsize=64)
def _rules(type_name: str, gates: FeatureGates) -> DeclaredRules:
    return DeclaredRules(f"io.k8s.api.scheduling.{type_name}", ENFORCED, gates)


def check_declared(obj: JsonObject, old: JsonObject | None, ctx: Context) -> list[FieldError]:
    """Return the errors of the rules that the type of the request's version declares."""
    return _rules(f"{ctx.version}.{ctx.kind.kind}", ctx.features).validate(obj, old)


def check_group_status(obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
    """Validate the conditions, then that each claim belongs to an entry of the spec, then the declared rules."""
    status = obj.get("status") or {}
    errors = check_conditions(status.get("conditions"), "status.conditions", ctx.features.version)
    known = {claim.get("name", "") for claim in (obj.get("spec") or {}).get("resourceClaims") or ()}
    for index, claim in enumerate(status.get("resourceClaimStatuses") or ()):
        if claim.get("name", "") not in known:
            text = "must match the name of an entry in `spec.resourceClaims`"
            at = f"status.resourceClaimStatuses[{index}].name"
            errors.append(invalid(at, claim.get("name", ""), text))
    return errors + check_declared(obj, old, ctx)


def _fields(at: str) -> tuple[GatedFields, ...]:
    """Return the gated fields of a group, or of a template of groups, at the path."""
    return (
        GatedFields((TOPOLOGY,), (f"{at}schedulingConstraints",)),
        GatedFields((CLAIMS,), (f"{at}resourceClaims",)),
        GatedFields((_COMPOSITE,), (f"{at}parentCompositePodGroupName", f"{at}compositePodGroupTemplates")),
        GatedFields((_POLICY,), (f"{at}preemptionPolicy",)),
    )


_SPEC, _TEMPLATE = _fields("spec."), _fields("")


def complete_group(obj: JsonObject, old: JsonObject | None, ctx: Context) -> None:
    """Drop disabled fields that the old object did not use, and default the disruption mode to `Single`."""
    drop_disabled(_SPEC, obj, old, ctx.features)
    spec = obj.setdefault("spec", {})
    spec.setdefault("disruptionMode", {"single": {}})
    if ctx.features.enabled(_POLICY):
        spec.setdefault("preemptionPolicy", "PreemptLowerPriority")


def complete_workload(obj: JsonObject, old: JsonObject | None, ctx: Context) -> None:
    """Do the same for a workload's templates, each compared with the old one at its position."""
    drop_disabled(_SPEC, obj, old, ctx.features)
    _complete_templates(obj.get("spec") or {}, (old or {}).get("spec") or {}, ctx)


def _complete_templates(parent: JsonObject, before: JsonObject, ctx: Context) -> None:
    for field in _TEMPLATES:
        earlier = before.get(field) or []
        for index, template in enumerate(parent.get(field) or ()):
            old = earlier[index] if index < len(earlier) else None
            drop_disabled(_TEMPLATE, template, old, ctx.features)
            template.setdefault("disruptionMode", {"single": {}})
            _complete_templates(template, old or {}, ctx)
