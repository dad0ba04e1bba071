"""Columns of disruption budgets (upstream's `pkg/printers/internalversion`)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.objectcells import age, name, part


def disruption_budget(obj: JsonObject, now: datetime) -> list[Any]:
    spec = part(obj, "spec")
    bounds = [
        str(spec[key]) if spec.get(key) is not None else "N/A" for key in ("minAvailable", "maxUnavailable")
    ]
    return [name(obj), *bounds, part(obj, "status").get("disruptionsAllowed", 0), age(obj, now)]
