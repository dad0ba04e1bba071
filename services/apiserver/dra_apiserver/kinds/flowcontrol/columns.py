"""Columns of flow schemas and priority levels (upstream's `pkg/printers/internalversion`)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.cells import NONE
from dra_apiserver.common.objectcells import age, name, part


def flow_schema(obj: JsonObject, now: datetime) -> list[Any]:
    spec = part(obj, "spec")
    conditions = {one.get("type"): one.get("status") for one in part(obj, "status").get("conditions") or ()}
    method = part(spec, "distinguisherMethod").get("type") or NONE
    level = part(spec, "priorityLevelConfiguration").get("name", "")
    return [
        name(obj),
        level,
        spec.get("matchingPrecedence", 0),
        method,
        age(obj, now),
        conditions.get("Dangling", "?"),
    ]


def priority_level(obj: JsonObject, now: datetime) -> list[Any]:
    spec = part(obj, "spec")
    limited = part(spec, "limited")
    queuing = part(part(limited, "limitResponse"), "queuing")
    cells = [limited.get("nominalConcurrencyShares", NONE)]
    cells += [queuing.get(key, NONE) for key in ("queues", "handSize", "queueLengthLimit")]
    return [name(obj), spec.get("type", ""), *cells, age(obj, now)]


def precedence(schema: JsonObject) -> tuple[int, str]:
    """Return the sort key for the order in which requests are matched."""
    spec = schema.get("spec") or {}
    return spec.get("matchingPrecedence", 0), schema["metadata"]["name"]
