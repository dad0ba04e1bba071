"""Remove the values of Secrets from a bug report. Names, types, keys and times of changes remain."""

from typing import Any

from dra_shared.jsontypes import JsonObject

_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_HIDDEN = (".data", ".stringData", f".metadata.annotations.{_APPLIED}")


def redact(secret: JsonObject) -> JsonObject:
    """Return the Secret with empty values, and without the annotation in which `kubectl apply` stores them."""
    made = {**secret}
    if "data" in made:
        made["data"] = dict.fromkeys(made["data"] or {}, "")
    meta = made.get("metadata") or {}
    if _APPLIED in (meta.get("annotations") or {}):
        kept = {name: text for name, text in meta["annotations"].items() if name != _APPLIED}
        made["metadata"] = {**meta, "annotations": kept}
    return made


def redact_change(change: JsonObject) -> JsonObject:
    """Return a change of a Secret, as in `/history`, without old and new values."""
    made = {**change}
    if "object" in made:
        made["object"] = redact(made["object"])
    if "changes" in made:
        made["changes"] = [_field(one) for one in made["changes"]]
    return made


def _field(field: JsonObject) -> JsonObject:
    path = field["path"]
    if not path.startswith(_HIDDEN) and path != ".metadata.annotations":
        return field
    return {name: value if name == "path" else _empty(value) for name, value in field.items()}


def _empty(value: Any) -> Any:
    return {name: _empty(part) for name, part in value.items()} if isinstance(value, dict) else ""
