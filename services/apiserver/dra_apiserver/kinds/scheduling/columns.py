"""Columns of priority classes and pod groups (upstream's `pkg/printers/internalversion`)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.cells import NONE
from dra_apiserver.common.objectcells import age, name, part

# The condition has another name since 1.37.
_SCHEDULED = ("PodGroupScheduled", "PodGroupInitiallyScheduled")
_DISRUPTION = "DisruptionTarget"


def pod_group(obj: JsonObject, now: datetime) -> list[Any]:
    """Return the cells of a PodGroup. The status column of a disrupted group shows the reason."""
    found = {one.get("type"): one for one in part(obj, "status").get("conditions") or ()}
    status = "Pending"
    for kind in _SCHEDULED:
        if kind in found:
            status = "Scheduled" if found[kind].get("status") == "True" else "Unschedulable"
    if _DISRUPTION in found:
        status = found[_DISRUPTION].get("reason", "")
    *cells, created = composite_pod_group(obj, now)
    return [*cells, status, created]


def composite_pod_group(obj: JsonObject, now: datetime) -> list[Any]:
    """Return the cells of a CompositePodGroup."""
    spec = part(obj, "spec")
    policy = "Basic" if part(spec, "schedulingPolicy").get("gang") is None else "Gang"
    reference = part(spec, "workloadRef") or part(part(spec, "podGroupTemplateRef"), "workload")
    return [name(obj), policy, reference.get("workloadName") or NONE, age(obj, now)]


def priority_class(obj: JsonObject, now: datetime) -> list[Any]:
    policy = obj.get("preemptionPolicy", "")
    return [name(obj), obj.get("value", 0), bool(obj.get("globalDefault")), age(obj, now), policy]
