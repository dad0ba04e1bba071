"""Columns of eviction requests and evictions (upstream's `pkg/printers/internalversion`)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dra_shared.durations import human_duration, moment, since
from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.cells import NONE, UNKNOWN, UNSET
from dra_apiserver.common.objectcells import age, name, part

_PROCESSED = ("Canceled", "Interrupted", "Completed")


def eviction_request(obj: JsonObject, now: datetime) -> list[Any]:
    """Return the cells of an EvictionRequest."""
    spec = part(obj, "spec")
    return [*_target(obj), spec.get("requester", ""), spec.get("intent", ""), age(obj, now)]


def eviction(obj: JsonObject, now: datetime) -> list[Any]:
    """Return the cells of an Eviction: among others, the responder that is active or was the last one."""
    status = part(obj, "status")
    targets = status.get("targetResponders") or []
    processed = [one for one in targets if one.get("state") in _PROCESSED]
    active = [one for one in targets if one.get("state") == "Active"]
    last = (active or processed or [None])[-1]
    shown = UNSET if last is None else last.get("name", "")
    count = f"{shown} ({len(processed) + len(active)}/{len(targets)})"
    progress = [UNSET, UNKNOWN, UNSET, UNSET]
    for responder in status.get("responders") or ():
        if last is not None and responder.get("name") == last.get("name"):
            progress = _progress(responder, last.get("state", ""), now)
            break
    requesters = _requesters(status.get("requesters") or [])
    return [*_target(obj), count, *progress[:2], requesters, age(obj, now), *progress[2:]]


def _target(obj: JsonObject) -> list[Any]:
    """Return the cells that both kinds begin with: name, target and status."""
    pod = part(part(obj, "spec"), "target").get("pod")
    target = [UNSET, UNSET] if pod is None else [pod.get("name", ""), "Pod"]
    return [name(obj), *target, _status(part(obj, "status"))]


def _status(status: JsonObject) -> str:
    found = {one.get("type"): one for one in reversed(status.get("conditions") or [])}
    for kind in ("TargetEvicted", "Failed"):
        condition = found.get(kind) or {}
        if condition.get("status") == "True":
            return f"{kind} ({condition.get('reason', '')})"
    return "Progressing" if (status.get("observedGeneration") or 0) > 0 else "Pending"


def _progress(responder: JsonObject, state: str, now: datetime) -> list[str]:
    """Return the state of a responder, when it expects to finish, its last heartbeat and its message."""
    shown, finish = state, UNKNOWN
    if state == "Active" and responder.get("startTime"):
        shown = f"Started ({since(responder['startTime'], now)} ago)"
        expected = moment(responder.get("expectedCompletionTime"))
        if expected is not None and expected > now:
            finish = f"in {human_duration((expected - now).total_seconds())}"
        elif expected is not None:
            finish = f"{since(responder['expectedCompletionTime'], now)} ago"
    if state in _PROCESSED:
        finish = "-"
    if state == "Completed" and responder.get("completionTime"):
        shown = f"{state} ({since(responder['completionTime'], now)} ago)"
    heartbeat = responder.get("heartbeatTime")
    message = (responder.get("message") or "").strip()
    return [shown, finish, f"{since(heartbeat, now)} ago" if heartbeat else UNSET, message or UNSET]


def _requesters(requesters: list[JsonObject]) -> str:
    names = sorted(one.get("name", "") for one in requesters if one.get("intent") != "Withdrawn")
    if not names:
        return "<withdrawn>" if requesters else NONE
    return f"{names[0]} + {len(names) - 1} more..." if len(names) > 1 else names[0] or UNSET
