"""The Priority admission plugin (upstream's `plugin/pkg/admission/priority`)."""

from __future__ import annotations

from typing import Any

import orjson
from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.classes import PODS, name_of
from dra_apiserver.errors import GroupResource, StatusError, forbidden_error
from dra_apiserver.kindkit.strategy import Context

_LOWER = "PreemptLowerPriority"


def default_class(ctx: Context) -> JsonObject | None:
    """Return the class of pods that name none; of several, the one with the lowest value."""
    marked = [
        data
        for data in ctx.listing("scheduling.k8s.io", "priorityclasses", "")
        if b'"globalDefault":true' in data
    ]
    return min(map(orjson.loads, marked), key=lambda found: found.get("value", 0), default=None)


def priority(obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str) -> None:
    """Set a pod's priority from its class, and allow only one default class (the Priority plugin).

    Raises:
        StatusError: 403, the class does not exist, the pod has another number, or another class is the
            default.
    """
    if obj is None:
        return
    place = (ctx.kind.group, ctx.kind.plural)
    if place == ("scheduling.k8s.io", "priorityclasses") and obj.get("globalDefault"):
        found = default_class(ctx)
        if found is not None and name_of(found) != name_of(obj):
            text = f"PriorityClass {name_of(found)} is already marked as default. Only one default can exist"
            raise forbidden_error(GroupResource(*place), name_of(obj), text)
    if place != ("", "pods") or ctx.subresource:
        return
    spec = obj.setdefault("spec", {})
    if old is not None:
        for field in ("priority", "preemptionPolicy"):
            if spec.get(field) is None and (old.get("spec") or {}).get(field) is not None:
                spec[field] = old["spec"][field]
    elif operation == "CREATE":
        _set_priority(obj, spec, ctx)


def _set_priority(pod: JsonObject, spec: JsonObject, ctx: Context) -> None:
    name = spec.get("priorityClassName") or ""
    if name:
        found = ctx.lookup("scheduling.k8s.io", "priorityclasses", "", name)
        if found is None:
            raise forbidden_error(PODS, name_of(pod), f"no PriorityClass with name {name} was found")
    else:
        found = default_class(ctx)
        if found is not None:
            spec["priorityClassName"] = name_of(found)
    value, policy = 0, _LOWER
    if found is not None:
        value, policy = found.get("value", 0), found.get("preemptionPolicy") or _LOWER
    if spec.get("priority") not in {None, value}:
        raise _mismatch(pod, "integer value of priority", spec["priority"], value)
    spec["priority"] = value
    if spec.get("preemptionPolicy") not in {None, policy}:
        raise _mismatch(pod, "string value of PreemptionPolicy", spec["preemptionPolicy"], policy)
    spec["preemptionPolicy"] = policy


def _mismatch(pod: JsonObject, what: str, given: Any, computed: Any) -> StatusError:
    text = (
        f"the {what} ({given}) must not be provided in pod spec; "
        f"priority admission controller computed {computed} from the given PriorityClass name"
    )
    return forbidden_error(PODS, name_of(pod), text)
