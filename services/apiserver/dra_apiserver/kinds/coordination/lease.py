"""Validation of leases (upstream's `pkg/apis/coordination/validation`)."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject

from dra_apiserver.errors import (
    FieldError,
    invalid,
)


def check_lease(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Validate a lease: its duration must be positive."""
    spec = obj.get("spec") or {}
    errors = []
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        errors.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    if transitions is not None and transitions < 0:
        text = "must be greater than or equal to 0"
        errors.append(invalid("spec.leaseTransitions", transitions, text))
    return errors
