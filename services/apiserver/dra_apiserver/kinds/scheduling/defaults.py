"""Defaults of priority classes (upstream's `pkg/apis/scheduling/v1/defaults.go`)."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


def priority_class(obj: Object, _version: str, _now: str) -> None:
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")
