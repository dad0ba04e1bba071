"""Validation of a quota's status (upstream's `ValidateResourceQuotaStatusUpdate`)."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject

from dra_apiserver.errors import FieldError
from dra_apiserver.kinds.core.resourcequota import check_amounts


def check_quota_status(obj: JsonObject, old: JsonObject) -> list[FieldError]:
    """Validate the limits and the usage."""
    status = obj.get("status") or {}
    return [
        error for field in ("hard", "used") for error in check_amounts(status.get(field), f"status.{field}")
    ]
