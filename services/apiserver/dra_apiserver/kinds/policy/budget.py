"""Validation of disruption budgets and their status (upstream's `pkg/apis/policy/validation`)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.conditions import check_conditions
from dra_apiserver.common.counts import check_count_or_percent, check_counts
from dra_apiserver.common.generic import GenericStrategy
from dra_apiserver.common.labelselectors import check_label_selector
from dra_apiserver.common.objectcells import age, name, part
from dra_apiserver.errors import FieldError, invalid, not_supported
from dra_apiserver.kindkit.strategy import Context


def disruption_budget_cells(obj: JsonObject, now: datetime) -> list[Any]:
    spec = part(obj, "spec")
    bounds = [
        str(spec[key]) if spec.get(key) is not None else "N/A" for key in ("minAvailable", "maxUnavailable")
    ]
    return [name(obj), *bounds, part(obj, "status").get("disruptionsAllowed", 0), age(obj, now)]


_EVICTION_POLICIES = ("AlwaysAllow", "IfHealthyBudget")


def check_disruption_budget(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Validate a disruption budget: at most one of the two bounds, each a number or a percentage."""
    spec = obj.get("spec") or {}
    errors: list[FieldError] = []
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        text = "minAvailable and maxUnavailable cannot be both set"
        errors.append(invalid("spec", spec, text))
    for field in ("minAvailable", "maxUnavailable"):
        if spec.get(field) is not None:
            errors += check_count_or_percent(spec[field], f"spec.{field}")
    errors += check_label_selector(spec.get("selector"), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in _EVICTION_POLICIES:
        errors.append(not_supported("spec.unhealthyPodEvictionPolicy", policy, _EVICTION_POLICIES))
    return errors


class BudgetStatusStrategy(GenericStrategy):
    """The strategy of a budget's status."""

    def validate_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate metadata, then the counts and conditions."""
        errors = super().validate_update(obj, old, ctx)
        status = obj.get("status") or {}
        errors += check_conditions(status.get("conditions"), "status.conditions", ctx.features.version)
        counts = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
        return errors + check_counts(status, counts, "status")
