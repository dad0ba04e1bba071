"""Defaults of priority classes (upstream's `pkg/apis/scheduling/v1/defaults.go`)."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject


def priority_class(obj: JsonObject, _version: str, _now: str) -> None:
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")
