"""Validation of runtime classes (upstream's `pkg/apis/node/validation`)."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject
from dra_shared.names import dns_label

from dra_apiserver.errors import FieldError, invalid, missing_field


def check_runtime_class(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Validate a runtime class: its handler is immutable, and a label."""
    handler = obj.get("handler") or ""
    if old is not None and handler != (old.get("handler") or ""):
        return [invalid("handler", handler, "field is immutable")]
    return (
        [missing_field("handler")]
        if not handler
        else [invalid("handler", handler, text) for text in dns_label(handler)]
    )
