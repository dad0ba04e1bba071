"""Check that the defaults in a definition's schema are valid values of it (pkg/apiserver/schema/defaulting)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from dra_apiserver.errors import FieldError, invalid
from dra_apiserver.kinds.custom.rules import check_rules
from dra_apiserver.kinds.custom.validation import check_value

Schema = Mapping[str, Any]


def check_defaults(schema: Schema, path: str) -> Iterator[FieldError]:
    """Yield the errors of every default, except those of metadata. There are none below additionalProperties."""
    value, at = schema.get("default"), f"{path}.default"
    if value is not None:
        if _has_unknown(schema, value):
            yield invalid(at, value, "must not have unknown fields")
        errors = check_value(schema, value, "")
        if not errors and isinstance(value, dict):
            errors = check_rules(schema, value, None)
        # The value is validated as if it stood alone.
        yield from (replace(error, field=f"{at}{error.field}") for error in errors)
    if isinstance(schema.get("items"), Mapping):
        yield from check_defaults(schema["items"], f"{path}.items")
    for name, below in (schema.get("properties") or {}).items():
        yield from check_defaults(below, f"{path}.properties[{name}]")


def _has_unknown(schema: Schema, value: Any) -> bool:
    """True if a part of the value would be pruned."""
    if isinstance(value, list):
        items = schema.get("items")
        return isinstance(items, Mapping) and any(_has_unknown(items, one) for one in value)
    if not isinstance(value, dict):
        return False
    properties, extra = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, one in value.items():
        if name in properties:
            below = properties[name]
        elif isinstance(extra, Mapping):
            below = extra
        elif extra is True or schema.get("x-kubernetes-preserve-unknown-fields"):
            continue
        else:
            return True
        if _has_unknown(below, one):
            return True
    return False
