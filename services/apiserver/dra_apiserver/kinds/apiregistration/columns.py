"""Columns of API services (upstream's `kube-aggregator` registry)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.cells import (
    UNKNOWN,
)
from dra_apiserver.common.objectcells import age, name, part


def api_service(obj: JsonObject, now: datetime) -> list[Any]:
    target = part(part(obj, "spec"), "service")
    place = f"{target.get('namespace', '')}/{target.get('name', '')}" if target else "Local"
    found: JsonObject | None = next(
        (one for one in part(obj, "status").get("conditions") or () if one.get("type") == "Available"), None
    )
    available = UNKNOWN
    if found is not None:
        available = str(found.get("status", ""))
        if available != "True":
            available += f" ({found.get('reason', '')})"
    return [name(obj), place, available, age(obj, now)]
