"""Defaults of API services (`apiregistration/v1/defaults.go`)."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject


def api_service(obj: JsonObject, _version: str, _now: str) -> None:
    service = (obj.get("spec") or {}).get("service")
    if service is not None:
        service.setdefault("port", 443)
