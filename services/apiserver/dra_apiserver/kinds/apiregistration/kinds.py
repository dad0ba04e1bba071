"""The kinds of apiregistration.k8s.io (`kube-aggregator/pkg/registry`)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.builtin import STATUS_ALONE, builtin
from dra_apiserver.common.cells import UNKNOWN
from dra_apiserver.common.objectcells import age, name, part
from dra_apiserver.common.printing import printer
from dra_apiserver.kindkit.behaviour import Validation, Writes


def _set_default_port(obj: JsonObject, _version: str, _now: str) -> None:
    service = (obj.get("spec") or {}).get("service")
    if service is not None:
        service.setdefault("port", 443)


def _api_service_cells(obj: JsonObject, now: datetime) -> list[Any]:
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


KINDS = (
    builtin(
        "apiregistration.k8s.io",
        "apiservices",
        default=_set_default_port,
        printer=printer("Name|Service|Available|Age", _api_service_cells),
        validation=Validation(core_metadata=False),
        writes=Writes(allow_unconditional_update=False, reset_fields={"status": STATUS_ALONE}),
    ),
)
