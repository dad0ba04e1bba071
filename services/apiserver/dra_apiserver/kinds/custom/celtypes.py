"""Convert structural schemas and their values to CEL types and values (``apiserver/pkg/cel/common``)."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

from dra_shared.cel import EvaluationError
from dra_shared.cel import types as t
from dra_shared.cel.library.times import string_to_duration, string_to_timestamp
from dra_shared.cel.types import Type

Schema = Mapping[str, Any]
Structs = dict[str, dict[str, Type]]

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch
_NAME = re.compile(r"[A-Za-z0-9_./-]+").fullmatch
_KEYWORDS = frozenset(
    {
        "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
        "let", "loop", "package", "namespace", "return", "var", "void", "while",
    }
)  # fmt: skip
_FORMATS = {"byte": t.BYTES, "duration": t.DURATION, "date": t.TIMESTAMP, "date-time": t.TIMESTAMP}
_TEXT: Schema = {"type": "string"}
METADATA: Schema = {"type": "object", "properties": {"name": _TEXT, "generateName": _TEXT}}


def escape_name(name: str) -> str | None:
    """Return a property's name as an identifier; None if it cannot be one, so that rules cannot use it."""
    if name in _KEYWORDS:
        return f"__{name}__"
    if not _NAME(name) or name[0].isdigit():
        return None
    made = name.replace("__", "__underscores__")
    for mark, word in ((".", "__dot__"), ("-", "__dash__"), ("/", "__slash__")):
        made = made.replace(mark, word)
    return made if _IDENTIFIER(made) else None


def add_root_fields(schema: Schema) -> Schema:
    """Return the schema of a whole object, which also has apiVersion, kind and metadata for rules."""
    properties = {
        "apiVersion": _TEXT,
        "kind": _TEXT,
        **(schema.get("properties") or {}),
        "metadata": METADATA,
    }
    return {**schema, "type": "object", "properties": properties}


def declare(schema: Schema, name: str, structs: Structs) -> Type | None:
    """Return the type of the schema's values, and add those of its objects to `structs`; None if it has no type."""
    if schema.get("x-kubernetes-int-or-string"):
        return t.DYN
    kind = schema.get("type")
    if kind == "array":
        item = declare(schema.get("items") or {}, f"{name}.@idx", structs)
        return None if item is None else t.list_of(item)
    if kind == "object":
        return _object(schema, name, structs)
    if kind == "string":
        return _FORMATS.get(schema.get("format", ""), t.STRING)
    return {"boolean": t.BOOL, "number": t.DOUBLE, "integer": t.INT}.get(kind or "")


def _object(schema: Schema, name: str, structs: Structs) -> Type | None:
    extra = schema.get("additionalProperties")
    if isinstance(extra, Mapping):
        value = declare(extra, f"{name}.@elem", structs)
        return None if value is None else t.map_of(t.STRING, value)
    properties = dict(schema.get("properties") or {})
    if schema.get("x-kubernetes-embedded-resource"):
        properties = dict(add_root_fields(schema)["properties"])
    members: dict[str, Type] = {}
    for key, below in properties.items():
        identifier, found = escape_name(key), declare(below, f"{name}.{key}", structs)
        if identifier is not None and found is not None:
            members[identifier] = found
    structs[name] = members
    return Type(t.Kind.STRUCT, name)


def value_of(schema: Schema, value: Any) -> Any:
    """Convert a value to the schema's type: times become times, properties get their identifiers."""
    if value is None or schema.get("x-kubernetes-int-or-string"):
        return value
    kind = schema.get("type")
    if kind == "array" and isinstance(value, list):
        items = schema.get("items") or {}
        return [value_of(items, one) for one in value]
    if kind == "object" and isinstance(value, dict):
        extra = schema.get("additionalProperties")
        if isinstance(extra, Mapping):
            return {key: value_of(extra, one) for key, one in value.items()}
        properties = schema.get("properties") or {}
        if schema.get("x-kubernetes-embedded-resource"):
            properties = add_root_fields(schema)["properties"]
        return {
            identifier: value_of(properties[key], one)
            for key, one in value.items()
            if key in properties and (identifier := escape_name(key)) is not None
        }
    if kind == "number" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind == "integer" and isinstance(value, float):
        return int(value)
    return _text_value(schema, value) if kind == "string" and isinstance(value, str) else value


def _text_value(schema: Schema, value: str) -> Any:
    try:
        match schema.get("format"):
            case "byte":
                return base64.b64decode(value, validate=True)
            case "duration":
                return string_to_duration(value)
            case "date":
                return string_to_timestamp(f"{value}T00:00:00Z")
            case "date-time":
                return string_to_timestamp(value)
    except (EvaluationError, binascii.Error, ValueError):
        # The check of the format reports it.
        return value
    return value
