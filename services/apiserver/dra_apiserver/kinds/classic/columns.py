"""Columns of classic kinds (`pkg/printers/internalversion` of Kubernetes 1.30)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.objectcells import age, name, part


def resource_class(obj: JsonObject, now: datetime) -> list[Any]:
    """Return the cells of a ResourceClass: its driver."""
    driver = obj.get("driverName") or part(obj, "spec").get("driverName", "")
    return [name(obj), driver, age(obj, now)]


def resource_claim(obj: JsonObject, now: datetime) -> list[Any]:
    """Return the cells of a claim: its class and its state."""
    spec, status = part(obj, "spec"), part(obj, "status")
    if part(obj, "metadata").get("deletionTimestamp"):
        states = ["deleted"]
    else:
        states = ["pending"] if status.get("allocation") is None else ["allocated"]
    if status.get("reservedFor"):
        states.append("reserved")
    return [
        name(obj),
        spec.get("resourceClassName", ""),
        spec.get("allocationMode", ""),
        ",".join(states),
        age(obj, now),
    ]


def resource_claim_template(obj: JsonObject, now: datetime) -> list[Any]:
    """Return the cells of a claim template: its claims' class."""
    spec = part(part(obj, "spec"), "spec")
    return [name(obj), spec.get("resourceClassName", ""), spec.get("allocationMode", ""), age(obj, now)]


def pod_scheduling_context(obj: JsonObject, now: datetime) -> list[Any]:
    """Return the cells of a pod's scheduling context: the selected node."""
    return [name(obj), part(obj, "spec").get("selectedNode", ""), age(obj, now)]
