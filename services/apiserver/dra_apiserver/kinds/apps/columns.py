"""Columns of workloads (upstream's `pkg/printers/internalversion`)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.cells import NONE, labels_text, selector_text
from dra_apiserver.common.objectcells import age, name, part
from dra_apiserver.kinds.pods.columns import containers


def replication_controller(obj: JsonObject, now: datetime) -> list[Any]:
    spec, status = part(obj, "spec"), part(obj, "status")
    counts = [spec.get("replicas", 0), status.get("replicas", 0), status.get("readyReplicas", 0)]
    return [
        name(obj),
        *counts,
        age(obj, now),
        *containers(part(spec, "template")),
        labels_text(spec.get("selector")),
    ]


def replica_set(obj: JsonObject, now: datetime) -> list[Any]:
    spec, status = part(obj, "spec"), part(obj, "status")
    counts = [spec.get("replicas", 0), status.get("replicas", 0), status.get("readyReplicas", 0)]
    return [
        name(obj),
        *counts,
        age(obj, now),
        *containers(part(spec, "template")),
        selector_text(spec.get("selector")),
    ]


def deployment(obj: JsonObject, now: datetime) -> list[Any]:
    spec, status = part(obj, "spec"), part(obj, "status")
    return [
        name(obj),
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age(obj, now),
        *containers(part(spec, "template")),
        selector_text(spec.get("selector")),
    ]


def stateful_set(obj: JsonObject, now: datetime) -> list[Any]:
    spec, status = part(obj, "spec"), part(obj, "status")
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}"
    return [name(obj), ready, age(obj, now), *containers(part(spec, "template"))]


def daemon_set(obj: JsonObject, now: datetime) -> list[Any]:
    spec, status = part(obj, "spec"), part(obj, "status")
    template = part(spec, "template")
    counters = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    return [
        name(obj),
        *(status.get(counter, 0) for counter in counters),
        labels_text(part(template, "spec").get("nodeSelector")),
        age(obj, now),
        *containers(template),
        selector_text(spec.get("selector")),
    ]


def controller_revision(obj: JsonObject, now: datetime) -> list[Any]:
    owner: JsonObject = next(
        (one for one in part(obj, "metadata").get("ownerReferences") or () if one.get("controller")), {}
    )
    controller = NONE
    if owner:
        group = owner.get("apiVersion", "").rpartition("/")[0]
        kind = str(owner.get("kind", "")).lower()
        controller = f"{kind}.{group}/{owner.get('name', '')}" if group else f"{kind}/{owner.get('name', '')}"
    return [name(obj), controller, obj.get("revision", 0), age(obj, now)]
