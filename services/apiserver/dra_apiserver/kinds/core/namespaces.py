"""Validate the status of namespaces, and finish their deletion (upstream's `pkg/registry/core/namespace`)."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject

from dra_apiserver.errors import FieldError, invalid, json_value


def check_namespace_status(obj: JsonObject, old: JsonObject) -> list[FieldError]:
    """Check that the phase agrees with the deletion timestamp."""
    deleted = obj["metadata"].get("deletionTimestamp") is not None
    wanted = "Terminating" if deleted else "Active"
    phase = (obj.get("status") or {}).get("phase", "")
    if phase == wanted:
        return []
    text = f"may only be '{wanted}' if `deletionTimestamp` is {'not ' if deleted else ''}empty"
    return [invalid("status.Phase", json_value(phase), text)]


def terminate(namespace: JsonObject) -> None:
    """Mark a namespace when its deletion begins (the registry's `Delete`)."""
    namespace.setdefault("status", {})["phase"] = "Terminating"


def is_finalized(namespace: JsonObject) -> bool:
    """True if its content was deleted: `spec.finalizers` is empty (`ShouldDeleteNamespaceDuringUpdate`)."""
    return not (namespace.get("spec") or {}).get("finalizers")


UNDELETABLE = dict.fromkeys(("default", "kube-public", "kube-system"), "this namespace may not be deleted")
"""The message of the NamespaceLifecycle plugin for the deletion of a system namespace."""
