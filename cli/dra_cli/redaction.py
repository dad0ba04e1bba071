"""Secrets without their values: who reads a bug report sees their names, types and keys, and when they changed."""

from typing import Any

from dra_shared.jsontypes import JsonObject

_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_HIDDEN = (".data", ".stringData", f".metadata.annotations.{_APPLIED}")


def redacted(secret: JsonObject) -> JsonObject:
    """The Secret with empty values. What `kubectl apply` notes of it has them too, and is left out."""
    made = {**secret}
    if "data" in made:
        made["data"] = dict.fromkeys(made["data"] or {}, "")
    meta = made.get("metadata") or {}
    if _APPLIED in (meta.get("annotations") or {}):
        kept = {name: text for name, text in meta["annotations"].items() if name != _APPLIED}
        made["metadata"] = {**meta, "annotations": kept}
    return made


def redacted_change(change: JsonObject) -> JsonObject:
    """A change of a Secret, as `/history` has it, with neither old nor new values."""
    made = {**change}
    if "object" in made:
        made["object"] = redacted(made["object"])
    if "changes" in made:
        made["changes"] = [_field(one) for one in made["changes"]]
    return made


def _field(field: JsonObject) -> JsonObject:
    path = field["path"]
    if not path.startswith(_HIDDEN) and path != ".metadata.annotations":
        return field
    return {name: value if name == "path" else _emptied(value) for name, value in field.items()}


def _emptied(value: Any) -> Any:
    return {name: _emptied(part) for name, part in value.items()} if isinstance(value, dict) else ""
