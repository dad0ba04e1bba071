"""Format bad values like Go: upstream prints whole structs with the Go names of their internal types.

Each table lists a struct's fields in Go's order: the Go name, the API's name and the content of the field. A
nested table is a struct, `[table]` a list of structs, `None` a value whose Go format equals its JSON.
"""

from __future__ import annotations

import json
from typing import Any

from dra_apiserver.errors import Verbatim

# Go prints the zero value of an absent field: null for pointers, lists and maps.
_ZERO: dict[str, Any] = {"": "", "0": 0, "false": False, "null": None}

Shape = list[tuple[str, str, Any, str]]
"""Fields: Go name, API name, shape of the value, its zero value."""

MAP = "map"
"""The shape of a map, which Go's encoder sorts."""
_NODE_REQUIREMENT: Shape = [
    ("Key", "key", None, ""),
    ("Operator", "operator", None, ""),
    ("Values", "values", None, "null"),
]
NODE_SELECTOR_TERM: Shape = [
    ("MatchExpressions", "matchExpressions", [_NODE_REQUIREMENT], "null"),
    ("MatchFields", "matchFields", [_NODE_REQUIREMENT], "null"),
]


def show(value: Any, shape: Any = None) -> Verbatim:
    """Return `value` for an error message: a struct of `shape`, or a list of them for `[shape]`."""
    text = json.dumps(_apply_shape(value, shape), separators=(",", ":"), ensure_ascii=False)
    return Verbatim(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def _apply_shape(value: Any, shape: Any) -> Any:
    if shape is MAP and isinstance(value, dict):
        return dict(sorted(value.items()))
    if shape is None or shape is MAP or value is None:
        return value
    if isinstance(value, list):
        return [_apply_shape(item, shape[0]) for item in value]
    fields: dict[str, Any] = {}
    for go_name, name, inner, zero in shape:
        if zero == "inline":
            fields.update(_object_meta(value.get(name) or {}))
            continue
        found = value.get(name)
        if found == {} and zero == "null" and isinstance(inner, list) and isinstance(inner[0], tuple):
            fields[go_name] = _apply_shape({}, inner)
        elif found == {} and zero == "null" and (inner is None or inner is MAP):
            fields[go_name] = {}
        elif found is None or found == {}:
            fields[go_name] = _apply_shape({}, inner) if zero == "struct" else _ZERO[zero]
        else:
            fields[go_name] = _apply_shape(found, inner)
    return fields


_META_ORDER = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
)


def _object_meta(meta: dict[str, Any]) -> dict[str, Any]:
    return {name: _apply_shape(meta[name], MAP) for name in _META_ORDER if meta.get(name)}
