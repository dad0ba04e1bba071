"""Defaults of custom resources, from their definition's schema (``apiextensions-apiserver``'s ``defaulting``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]
_OWN = frozenset({"apiVersion", "kind", "metadata"})


def default_custom(schema: Schema, obj: dict[str, Any]) -> None:
    """Set the defaults of the schema in place, and remove nulls where these are not allowed."""
    _members(schema, obj, skipped=_OWN)


def _default_children(schema: Schema, value: Any) -> None:
    if isinstance(value, dict):
        _members(schema, value)
    elif isinstance(value, list):
        items = schema.get("items")
        if isinstance(items, Mapping):
            for index, one in enumerate(value):
                if one is None and "default" in items and not items.get("nullable"):
                    value[index] = _copy(items["default"])
                _default_children(items, value[index])


def _members(schema: Schema, value: dict[str, Any], skipped: frozenset[str] = frozenset()) -> None:
    properties = schema.get("properties") or {}
    extra = schema.get("additionalProperties")
    for name, below in properties.items():
        if name not in skipped and "default" in below and _unset(value, name, below):
            value[name] = _copy(below["default"])
    for name in list(value):
        below = properties.get(name, extra)
        if name in skipped or not isinstance(below, Mapping):
            continue
        if value[name] is None and not below.get("nullable"):
            if below.get("x-kubernetes-preserve-unknown-fields") and "type" not in below:
                continue
            del value[name]
        else:
            _default_children(below, value[name])


def _unset(value: dict[str, Any], name: str, schema: Schema) -> bool:
    return name not in value or (value[name] is None and not schema.get("nullable"))


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(one) for key, one in value.items()}
    return [_copy(one) for one in value] if isinstance(value, list) else value
