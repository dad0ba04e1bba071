"""Defaults of role bindings (upstream's `pkg/apis/rbac/v1/defaults.go`)."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject

_RBAC = "rbac.authorization.k8s.io"


def role_binding(obj: JsonObject, _version: str, _now: str) -> None:
    reference = obj.setdefault("roleRef", {})
    if not reference.get("apiGroup"):
        reference["apiGroup"] = _RBAC
    for subject in obj.get("subjects") or ():
        if subject.get("kind") in ("User", "Group") and not subject.get("apiGroup"):
            subject["apiGroup"] = _RBAC
