"""Columns of priority classes and pod groups (upstream's `pkg/printers/internalversion`)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.cells import NONE
from dra_apiserver.common.objectcells import age, name, part

# The condition has another name since 1.37.
_SCHEDULED = ("PodGroupScheduled", "PodGroupInitiallyScheduled")


def pod_group(obj: JsonObject, now: datetime) -> list[Any]:
    """Return the cells of a PodGroup. Its status is the reason of its condition."""
    spec = part(obj, "spec")
    policy = next((kind.capitalize() for kind in part(spec, "schedulingPolicy")), NONE)
    reference = part(spec, "workloadRef") or part(part(spec, "podGroupTemplateRef"), "workload")
    workload = reference.get("workloadName") or NONE
    reasons = [
        condition.get("reason", "")
        for condition in part(obj, "status").get("conditions") or ()
        if condition.get("type") in _SCHEDULED
    ]
    return [name(obj), policy, workload, reasons[0] if reasons else "Pending", age(obj, now)]


def priority_class(obj: JsonObject, now: datetime) -> list[Any]:
    policy = obj.get("preemptionPolicy", "")
    return [name(obj), obj.get("value", 0), bool(obj.get("globalDefault")), age(obj, now), policy]
