"""Columns of nodes, events, namespaces, secrets, config maps and quotas (upstream's `pkg/printers/internalversion`)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dra_shared.durations import since
from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.cells import NONE, UNKNOWN
from dra_apiserver.common.objectcells import age, name, part

_ROLE = "node-role.kubernetes.io/"


def node(obj: JsonObject, now: datetime) -> list[Any]:
    metadata, spec, status = part(obj, "metadata"), part(obj, "spec"), part(obj, "status")
    ready: JsonObject | None = next(
        (one for one in status.get("conditions") or () if one.get("type") == "Ready"), None
    )
    state = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    if spec.get("unschedulable"):
        state += ",SchedulingDisabled"
    labels = metadata.get("labels") or {}
    roles = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE)} | {
        labels.get("kubernetes.io/role")
    }
    addresses = {one.get("type"): one.get("address") for one in reversed(status.get("addresses") or ())}
    info = part(status, "nodeInfo")
    return [
        name(obj),
        state,
        ",".join(sorted(role for role in roles if role)) or NONE,
        age(obj, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP") or NONE,
        addresses.get("ExternalIP") or NONE,
        info.get("osImage") or UNKNOWN,
        _kernel(info),
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _kernel(info: JsonObject) -> str:
    version, architecture = info.get("kernelVersion") or UNKNOWN, info.get("architecture")
    return f"{version} ({architecture})" if architecture else version


def event(obj: JsonObject, now: datetime) -> list[Any]:
    """Return the cells of an Event of the core group."""
    series = part(obj, "series")
    first = obj.get("firstTimestamp") or obj.get("eventTime")
    last = obj.get("lastTimestamp")
    count = obj.get("count") or 0
    if series:
        last, count = series.get("lastObservedTime"), series.get("count", 0)
    elif count == 0:
        count = 1
    about = part(obj, "involvedObject")
    subject = str(about.get("kind", "")).lower() + (f"/{about['name']}" if about.get("name") else "")
    return [
        since(last or first, now),
        obj.get("type", ""),
        obj.get("reason", ""),
        subject,
        about.get("fieldPath", ""),
        _event_source(obj),
        str(obj.get("message", "")).strip(),
        since(first, now),
        count,
        name(obj),
    ]


def _event_source(obj: JsonObject) -> str:
    source = part(obj, "source")
    component = source.get("component") or obj.get("reportingComponent") or ""
    host = source.get("host") or obj.get("reportingInstance") or ""
    return f"{component}, {host}" if host else str(component)


def grouped_event(obj: JsonObject, now: datetime) -> list[Any]:
    """Return the cells of an Event of events.k8s.io: the same object with other field names."""
    return event(
        {
            **obj,
            "involvedObject": obj.get("regarding"),
            "source": obj.get("deprecatedSource"),
            "message": obj.get("note", ""),
            "firstTimestamp": obj.get("deprecatedFirstTimestamp"),
            "lastTimestamp": obj.get("deprecatedLastTimestamp"),
            "count": obj.get("deprecatedCount"),
            "reportingComponent": obj.get("reportingController"),
        },
        now,
    )


def namespace(obj: JsonObject, now: datetime) -> list[Any]:
    return [name(obj), part(obj, "status").get("phase", ""), age(obj, now)]


def secret(obj: JsonObject, now: datetime) -> list[Any]:
    return [name(obj), obj.get("type", ""), len(obj.get("data") or ()), age(obj, now)]


def config_map(obj: JsonObject, now: datetime) -> list[Any]:
    return [name(obj), len(obj.get("data") or ()) + len(obj.get("binaryData") or ()), age(obj, now)]


def component_status(obj: JsonObject, now: datetime) -> list[Any]:
    healthy: JsonObject = next(
        (one for one in obj.get("conditions") or () if one.get("type") == "Healthy"), {}
    )
    state = {"True": "Healthy", "False": "Unhealthy"}.get(healthy.get("status", ""), "Unknown")
    return [name(obj), state, healthy.get("message", ""), healthy.get("error", "")]


def resource_quota(obj: JsonObject, now: datetime) -> list[Any]:
    status = part(obj, "status")
    hard, used = part(status, "hard"), part(status, "used")
    requests: list[str] = []
    limits: list[str] = []
    for key in sorted(hard):
        target = limits if key.startswith("limits") else requests
        target.append(f"{key}: {used.get(key, '0')}/{hard[key]}")
    return [name(obj), ", ".join(requests), ", ".join(limits), age(obj, now)]


def service_account(obj: JsonObject, now: datetime) -> list[Any]:
    """Return the cells of a ServiceAccount until 1.34, which showed the number of its secrets."""
    return [name(obj), len(obj.get("secrets") or ()), age(obj, now)]
