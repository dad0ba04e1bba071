"""Columns of autoscalers and scales (upstream's `pkg/printers/internalversion`)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.cells import NONE, UNKNOWN, UNSET
from dra_apiserver.common.objectcells import age, name, part, quantity_text

_SHOWN_METRICS = 2
_METRICS = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}


def _metric(metric: JsonObject, found: JsonObject) -> str:
    """Format the current and target value of one metric."""
    kind = metric.get("type", "")
    if kind not in _METRICS:
        return "<unknown type>"
    source, current = part(metric, _METRICS[kind]), part(part(found, _METRICS[kind]), "current")
    target = part(source, "target")

    def amount(of: JsonObject, field: str) -> str:
        return UNKNOWN if of.get(field) is None else quantity_text(of[field])

    if kind in ("External", "Object"):
        if target.get("averageValue") is not None:
            return f"{amount(current, 'averageValue')}/{amount(target, 'averageValue')} (avg)"
        return f"{amount(current, 'value')}/{amount(target, 'value')}"
    if kind == "Pods":
        return f"{amount(current, 'averageValue')}/{amount(target, 'averageValue')}"
    if target.get("averageValue") is not None:
        now, wanted = amount(current, "averageValue"), amount(target, "averageValue")
    else:
        share, goal = current.get("averageUtilization"), target.get("averageUtilization")
        now = UNKNOWN if share is None else f"{share}%"
        wanted = "<auto>" if goal is None else f"{goal}%"
    return f"{source.get('name', '')}: {now}/{wanted}"


def _processor(target: JsonObject) -> JsonObject:
    return {"type": "Resource", "resource": {"name": "cpu", **target}}


def _metrics(metrics: Sequence[JsonObject], found: Sequence[JsonObject]) -> str:
    if not metrics:
        return NONE
    texts = [
        _metric(one, found[index] if index < len(found) else {})
        for index, one in enumerate(metrics[:_SHOWN_METRICS])
    ]
    more = len(metrics) - _SHOWN_METRICS
    return ", ".join(texts) + (f" + {more} more..." if more > 0 else "")


def autoscaler(obj: JsonObject, now: datetime) -> list[Any]:
    spec, status = part(obj, "spec"), part(obj, "status")
    target = part(spec, "scaleTargetRef")
    reference = f"{target.get('kind', '')}/{target.get('name', '')}"
    least = str(spec["minReplicas"]) if spec.get("minReplicas") is not None else UNSET
    metrics, found = spec.get("metrics") or [], status.get("currentMetrics") or []
    if spec.get("targetCPUUtilizationPercentage") is not None:
        # autoscaling/v1 has only one metric.
        goal, share = spec["targetCPUUtilizationPercentage"], status.get("currentCPUUtilizationPercentage")
        metrics = [_processor({"target": {"averageUtilization": goal}}), *metrics]
        found = [_processor({"current": {"averageUtilization": share}}), *found]
    targets = _metrics(metrics, found)
    counts = [least, spec.get("maxReplicas", 0), status.get("currentReplicas", 0)]
    return [name(obj), reference, targets, *counts, age(obj, now)]


def scale(obj: JsonObject, now: datetime) -> list[Any]:
    """Return the cells of a Scale."""
    counts = [part(obj, "spec").get("replicas", 0), part(obj, "status").get("replicas", 0)]
    return [name(obj), *counts, age(obj, now)]
