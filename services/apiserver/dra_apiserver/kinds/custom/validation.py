"""Validate a custom resource against the schema of its definition."""

import json
import re
from collections.abc import Mapping
from typing import Any

from dra_apiserver.errors import ErrorType, FieldError, Verbatim, invalid, not_supported, quote
from dra_apiserver.kinds.custom.correlation import ABSENT, correlate
from dra_apiserver.kinds.custom.formats import has_format
from dra_apiserver.kinds.custom.listtypes import validate_list_types

Schema = Mapping[str, Any]

_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
}


def validate_custom(
    schema: Schema, obj: Mapping[str, Any], old: Mapping[str, Any] | None = None
) -> list[FieldError]:
    """Return the errors of ``obj``, with upstream's types and fields, in the order of its fields.

    Parts that are unchanged from ``old``, the replaced object, are not validated again, because they may be
    older than the schema.
    """
    before: Mapping[str, Any] = old or {}
    properties = schema.get("properties") or {}
    errors = [
        FieldError(ErrorType.REQUIRED, name) for name in schema.get("required") or () if name not in obj
    ]
    for name, value in obj.items():
        if name not in ("apiVersion", "kind", "metadata") and name in properties:
            errors += check_value(properties[name], value, name, before.get(name, ABSENT))
    duplicates = validate_list_types(schema, obj)
    # As upstream, an object that already had duplicates may have others.
    if duplicates and not (old is not None and validate_list_types(schema, old)):
        errors += duplicates
    return errors


_LARGEST_COUNT = (1 << 31) - 1


def check_count(obj: Mapping[str, Any], path: str) -> list[FieldError]:
    """Check the number of replicas at ``path``, which a Scale must be able to show."""
    where = f".{path}"
    value: Any = obj
    for key in path.split("."):
        if not isinstance(value, Mapping):
            text = f"{where} accessor error: {_go_text(value)} is of the type {_go_type(value)}, "
            return [invalid(where, 0, text + "expected map[string]interface{}")]
        value = value.get(key)
        if value is None:
            return []
    if not isinstance(value, int) or isinstance(value, bool):
        text = f"{where} accessor error: {_go_text(value)} is of the type {_go_type(value)}, expected int64"
        return [invalid(where, 0, text)]
    if value < 0:
        return [invalid(where, value, "should be a non-negative integer")]
    if value > _LARGEST_COUNT:
        return [invalid(where, value, f"should be less than or equal to {_LARGEST_COUNT}")]
    return []


def _go_type(value: Any) -> str:
    kinds = {bool: "bool", int: "int64", float: "float64", str: "string", list: "[]interface {}"}
    return kinds.get(type(value), "map[string]interface {}")


def _go_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{' '.join(map(_go_text, value))}]"
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{_go_text(one)}' for key, one in sorted(value.items()))}]"
    return str(value)


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    found = {dict: "object", list: "array", str: "string", int: "integer"}.get(type(value))
    return found or "number"


def _fits(kind: str, value: Any) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES.get(kind, object))


def check_value(schema: Schema, value: Any, path: str, old: Any = ABSENT) -> list[FieldError]:
    """Return the errors of a value at `path`. A value that equals `old` is not validated again."""
    if old is not ABSENT and old == value:
        return []
    if value is None and schema.get("nullable"):
        return []
    errors: list[FieldError] = []
    if schema.get("x-kubernetes-int-or-string"):
        if _type_of(value) not in ("integer", "string"):
            errors.append(_wrong_type(path, value, "integer,string"))
    elif schema.get("type") and not _fits(schema["type"], value):
        errors.append(_wrong_type(path, value, schema["type"]))
    allowed = schema.get("enum")
    if allowed is not None and value not in allowed:
        listed = [one if isinstance(one, str) else json.dumps(one) for one in allowed]
        errors.append(not_supported(path, Verbatim("null") if value is None else value, listed))
    if errors and not isinstance(value, str):
        return errors
    if isinstance(value, str):
        errors += _check_text(schema, value, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        errors += _check_number(schema, value, path)
    elif isinstance(value, list):
        errors += _check_list(schema, value, path, old)
    elif isinstance(value, dict):
        errors += _check_object(schema, value, path, old)
    return errors


def _wrong_type(path: str, value: Any, kind: str) -> FieldError:
    found = _type_of(value)
    text = f'{path} in body must be of type {kind}: "{found}"'
    return FieldError(ErrorType.TYPE_INVALID, path, found, text)


def _invalid(path: str, value: Any, text: str) -> FieldError:
    return FieldError(ErrorType.INVALID, path, value, f"{path} in body {text}")


def _check_text(schema: Schema, value: str, path: str) -> list[FieldError]:
    """Return the first error of a text, and the error of its format."""
    errors: list[FieldError] = []
    pattern, limit = schema.get("pattern"), schema.get("maxLength")
    if limit is not None and len(value) > limit:
        errors.append(FieldError(ErrorType.TOO_LONG, path, value, f"may not be more than {limit} bytes"))
    elif "minLength" in schema and len(value) < schema["minLength"]:
        errors.append(_invalid(path, value, f"should be at least {schema['minLength']} chars long"))
    elif pattern is not None and not _matches(pattern, value):
        errors.append(_invalid(path, value, f"should match '{pattern}'"))
    form = schema.get("format")
    if form and not has_format(value, form):
        text = f"{path} in body must be of type {form}: {quote(value)}"
        errors.append(FieldError(ErrorType.TYPE_INVALID, path, value, text))
    return errors


def _matches(pattern: str, value: str) -> bool:
    # RE2 takes linear time, because a client chose the pattern.
    import re2

    try:
        return re2.search(pattern, value) is not None
    except re2.error:
        return True


def _check_number(schema: Schema, value: float, path: str) -> list[FieldError]:
    errors = []
    if "maximum" in schema:
        limit, strict = schema["maximum"], bool(schema.get("exclusiveMaximum"))
        if value > limit or (strict and value == limit):
            bound = "less than" if strict else "less than or equal to"
            errors.append(_invalid(path, value, f"should be {bound} {_number(limit)}"))
    if "minimum" in schema:
        limit, strict = schema["minimum"], bool(schema.get("exclusiveMinimum"))
        if value < limit or (strict and value == limit):
            bound = "greater than" if strict else "greater than or equal to"
            errors.append(_invalid(path, value, f"should be {bound} {_number(limit)}"))
    step = schema.get("multipleOf")
    if step and value % step:
        errors.append(_invalid(path, value, f"should be a multiple of {_number(step)}"))
    return errors


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else str(value)


def _check_list(schema: Schema, value: list[Any], path: str, old: Any) -> list[FieldError]:
    errors = []
    if "maxItems" in schema and len(value) > schema["maxItems"]:
        text = f"must have at most {schema['maxItems']} items"
        errors.append(FieldError(ErrorType.TOO_MANY, path, len(value), text))
    if "minItems" in schema and len(value) < schema["minItems"]:
        errors.append(_invalid(path, len(value), f"should have at least {schema['minItems']} items"))
    items = schema.get("items")
    if isinstance(items, Mapping):
        known = correlate(schema, old)
        for index, one in enumerate(value):
            errors += check_value(items, one, f"{path}[{index}]", known(one))
    return errors


def _check_object(schema: Schema, value: Mapping[str, Any], path: str, old: Any) -> list[FieldError]:
    properties = schema.get("properties") or {}
    missing = [name for name in schema.get("required") or () if name not in value]
    errors = [FieldError(ErrorType.REQUIRED, f"{path}.{name}") for name in missing]
    if "maxProperties" in schema and len(value) > schema["maxProperties"]:
        text = f"must have at most {schema['maxProperties']} items"
        errors.append(FieldError(ErrorType.TOO_MANY, path, len(value), text))
    if "minProperties" in schema and len(value) < schema["minProperties"]:
        errors.append(
            _invalid(path, len(value), f"should have at least {schema['minProperties']} properties")
        )
    extra = schema.get("additionalProperties")
    before: Mapping[str, Any] = old if isinstance(old, dict) else {}
    for name, one in value.items():
        if name in properties:
            errors += check_value(properties[name], one, f"{path}.{name}", before.get(name, ABSENT))
        elif isinstance(extra, Mapping):
            at = f"{path}.{name}" if _plain(name) else f"{path}[{name}]"
            errors += check_value(extra, one, at, before.get(name, ABSENT))
    return errors


def _plain(name: str) -> bool:
    return re.fullmatch(r"[A-Za-z_][\w-]*", name) is not None
