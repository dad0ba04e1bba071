"""Defaults of secrets, namespaces, nodes and limit ranges (upstream's `pkg/apis/core/v1/defaults.go`)."""

from __future__ import annotations

import base64

from dra_shared.jsontypes import JsonObject


def secret(obj: JsonObject, _version: str, _now: str) -> None:
    obj.setdefault("type", "Opaque")
    # Plain text is write-only: it is stored and returned as data.
    plain = obj.pop("stringData", None)
    if plain:
        data = obj.setdefault("data", {})
        data.update((key, base64.b64encode(value.encode()).decode()) for key, value in plain.items())


def namespace(obj: JsonObject, _version: str, _now: str) -> None:
    obj.setdefault("status", {}).setdefault("phase", "Active")
    metadata = obj.setdefault("metadata", {})
    if metadata.get("name"):
        metadata.setdefault("labels", {})["kubernetes.io/metadata.name"] = metadata["name"]


def node(obj: JsonObject, _version: str, _now: str) -> None:
    spec = obj.get("spec") or {}
    # The single range is the first of the list. Each is set from the other.
    if spec.get("podCIDR") and not spec.get("podCIDRs"):
        spec["podCIDRs"] = [spec["podCIDR"]]
    elif spec.get("podCIDRs") and not spec.get("podCIDR"):
        spec["podCIDR"] = spec["podCIDRs"][0]
    status = obj.get("status") or {}
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])


def limit_range(obj: JsonObject, _version: str, _now: str) -> None:
    for item in (obj.get("spec") or {}).get("limits") or ():
        if item.get("type") != "Container":
            continue
        defaults = item.setdefault("default", {})
        for name, value in (item.get("max") or {}).items():
            defaults.setdefault(name, value)
        requests = item.setdefault("defaultRequest", {})
        for source in (defaults, item.get("min") or {}):
            for name, value in source.items():
                requests.setdefault(name, value)
        for name in ("default", "defaultRequest"):
            if not item[name]:
                del item[name]
