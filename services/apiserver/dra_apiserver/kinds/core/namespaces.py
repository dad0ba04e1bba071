"""Namespaces: validation of their status, and their end (upstream's `pkg/registry/core/namespace`)."""

from __future__ import annotations

from typing import Any

from dra_apiserver.errors import FieldError, invalid, json_value

JsonObject = dict[str, Any]


def check_namespace_status(obj: JsonObject, old: JsonObject) -> list[FieldError]:
    """The phase follows from whether the namespace is being deleted."""
    deleted = obj["metadata"].get("deletionTimestamp") is not None
    wanted = "Terminating" if deleted else "Active"
    phase = (obj.get("status") or {}).get("phase", "")
    if phase == wanted:
        return []
    text = f"may only be '{wanted}' if `deletionTimestamp` is {'not ' if deleted else ''}empty"
    return [invalid("status.Phase", json_value(phase), text)]


def terminate(namespace: JsonObject) -> None:
    """Mark a namespace whose deletion begins (the registry's `Delete`)."""
    namespace.setdefault("status", {})["phase"] = "Terminating"


def is_finalized(namespace: JsonObject) -> bool:
    """Whether its content is gone, which `spec.finalizers` show (`ShouldDeleteNamespaceDuringUpdate`)."""
    return not (namespace.get("spec") or {}).get("finalizers")


UNDELETABLE = dict.fromkeys(("default", "kube-public", "kube-system"), "this namespace may not be deleted")
"""What the NamespaceLifecycle plugin says to a delete of a system namespace."""
