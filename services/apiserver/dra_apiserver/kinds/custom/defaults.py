"""Defaults of CustomResourceDefinitions (`apiextensions/v1/defaults.go`)."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject


def custom_resource_definition(obj: JsonObject, _version: str, _now: str) -> None:
    spec = obj.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind") or ""
    if kind:
        names.setdefault("singular", kind.lower())
        names.setdefault("listKind", kind + "List")
    conversion = spec.setdefault("conversion", {})
    conversion.setdefault("strategy", "None")
    service = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service")
    if service is not None:
        service.setdefault("port", 443)
    for version in spec.get("versions") or ():
        if version.get("served") is None:
            version["served"] = False
