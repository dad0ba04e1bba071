"""Validate how a job's pods are scheduled as a group, and the rules that the types of batch declare.

Mirrors ``pkg/apis/batch/validation`` and the checks of component-helpers' ``workloadbuilder`` that a job needs.
"""

from __future__ import annotations

import functools

from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_37

from dra_apiserver.common.declarative.rules import ENFORCED, DeclaredRules, replace_covered
from dra_apiserver.errors import FieldError, Verbatim, invalid
from dra_apiserver.kindkit.strategy import Context

_VARIANT = (
    "the basic/gang policy variant is immutable after creation; only schedulingPolicy.gang.minCount "
    "may be updated"
)


@functools.lru_cache(maxsize=64)
def _rules(kind: str, gates: FeatureGates) -> DeclaredRules:
    return DeclaredRules(f"io.k8s.api.batch.v1.{kind}", ENFORCED, gates)


def with_declared(
    errors: list[FieldError], obj: JsonObject, old: JsonObject | None, ctx: Context
) -> list[FieldError]:
    """Append the errors of declared rules, and drop hand-written ones that are also declared."""
    if ctx.features.version < V1_37:
        return errors
    return replace_covered(errors, _rules(ctx.kind.kind, ctx.features).validate(obj, old))


def check_scheduling(spec: JsonObject, path: str) -> list[FieldError]:
    """Check that a gang is not larger than the job, and that only a gang may be disrupted as a whole."""
    scheduling = spec.get("scheduling")
    if scheduling is None:
        return []
    policy = scheduling.get("schedulingPolicy") or {}
    count = (policy.get("gang") or {}).get("minCount")
    parallelism = spec.get("parallelism")
    parallelism = 1 if parallelism is None else parallelism
    errors = []
    if count is not None and count > parallelism:
        text = f"must not be greater than parallelism ({parallelism})"
        errors.append(invalid(f"{path}.schedulingPolicy.gang.minCount", count, text))
    # A job without a policy has the basic policy.
    is_basic = policy.get("gang") is None or policy.get("basic") is not None
    if is_basic and (scheduling.get("disruptionMode") or {}).get("all") is not None:
        text = "the disruptionMode `all` is not supported with the Basic scheduling policy"
        errors.append(invalid(f"{path}.disruptionMode", "", text))
    return errors


def check_scheduling_update(spec: JsonObject, old: JsonObject, path: str) -> list[FieldError]:
    """Check that an update does not change the kind of scheduling policy."""
    policies = [(one.get("scheduling") or {}).get("schedulingPolicy") for one in (spec, old)]
    new, before = policies
    if new is None or before is None or (new.get("basic") is None) == (before.get("basic") is None):
        return []
    return [invalid(f"{path}.schedulingPolicy", Verbatim("null"), _VARIANT)]
