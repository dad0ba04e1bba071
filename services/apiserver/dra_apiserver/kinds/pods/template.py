"""Validate PodTemplate objects (upstream's `ValidatePodTemplate`)."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject

from dra_apiserver.errors import (
    FieldError,
)
from dra_apiserver.kinds.pods.spec import check_template


def check_pod_template(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Validate a PodTemplate object."""
    return check_template(obj.get("template") or {}, "template")
