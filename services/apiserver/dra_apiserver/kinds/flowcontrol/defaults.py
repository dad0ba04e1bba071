"""Defaults of flow schemas and priority levels (upstream's `pkg/apis/flowcontrol/v1/defaults.go`)."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject


def flow_schema(obj: JsonObject, _version: str, _now: str) -> None:
    spec = obj.setdefault("spec", {})
    if not spec.get("matchingPrecedence"):
        spec["matchingPrecedence"] = 1000


def priority_level(obj: JsonObject, _version: str, _now: str) -> None:
    limited = (obj.get("spec") or {}).get("limited")
    if limited is not None:
        limited.setdefault("nominalConcurrencyShares", 30)
        limited.setdefault("lendablePercent", 0)
        queuing = (limited.get("limitResponse") or {}).get("queuing")
        if queuing is not None:
            for name, value in (("queues", 64), ("handSize", 8), ("queueLengthLimit", 50)):
                if not queuing.get(name):
                    queuing[name] = value
