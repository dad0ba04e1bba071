"""Validation of events (upstream's `pkg/apis/core/validation/events.go`)."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject

from dra_apiserver.errors import (
    FieldError,
    invalid,
)


def check_event(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Validate an event: it must be in the namespace of its object."""
    namespace = (obj.get("metadata") or {}).get("namespace", "")
    about = (obj.get("involvedObject") or {}).get("namespace", "")
    good = about == namespace if about else namespace in ("", "default", "kube-system")
    if good:
        return []
    return [invalid("involvedObject.namespace", about, "does not match event.namespace")]
