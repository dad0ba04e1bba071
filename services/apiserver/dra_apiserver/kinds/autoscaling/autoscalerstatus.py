"""Validation of an autoscaler's status (upstream's `ValidateHorizontalPodAutoscalerStatusUpdate`)."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.counts import check_counts
from dra_apiserver.errors import FieldError


def check_autoscaler_status(obj: JsonObject, old: JsonObject) -> list[FieldError]:
    """Validate the current and desired number of replicas."""
    return check_counts(obj.get("status") or {}, ("currentReplicas", "desiredReplicas"), "status")
