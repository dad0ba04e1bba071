"""Checks a custom resource against the schema of its definition."""

import re
from collections.abc import Mapping
from typing import Any

from dra_apiserver.errors import ErrorType, FieldError

Schema = Mapping[str, Any]

_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
}


def validate_custom(schema: Schema, obj: Mapping[str, Any]) -> list[FieldError]:
    """The errors of ``obj``, with upstream's types and fields, in the order of its fields."""
    properties = schema.get("properties") or {}
    errors = [
        FieldError(ErrorType.REQUIRED, name) for name in schema.get("required") or () if name not in obj
    ]
    for name, value in obj.items():
        if name not in ("apiVersion", "kind", "metadata") and name in properties:
            errors += _check(properties[name], value, name)
    return errors


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


def _check(schema: Schema, value: Any, path: str) -> list[FieldError]:
    if value is None and schema.get("nullable"):
        return []
    if schema.get("x-kubernetes-int-or-string"):
        kinds = ("integer", "string")
        if _type_of(value) not in kinds:
            return [_wrong_type(path, value, "integer,string")]
    kind = schema.get("type")
    if kind and not _fits(kind, value):
        return [_wrong_type(path, value, kind)]
    errors: list[FieldError] = []
    allowed = schema.get("enum")
    if allowed is not None and value not in allowed:
        listed = ", ".join(f'"{one}"' for one in sorted(map(str, allowed)))
        errors.append(FieldError(ErrorType.NOT_SUPPORTED, path, value, f"supported values: {listed}"))
    if isinstance(value, str):
        errors += _check_text(schema, value, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        errors += _check_number(schema, value, path)
    elif isinstance(value, list):
        errors += _check_list(schema, value, path)
    elif isinstance(value, dict):
        errors += _check_object(schema, value, path)
    return errors


def _wrong_type(path: str, value: Any, kind: str) -> FieldError:
    found = _type_of(value)
    text = f'{path} in body must be of type {kind}: "{found}"'
    return FieldError(ErrorType.TYPE_INVALID, path, found, text)


def _invalid(path: str, value: Any, text: str) -> FieldError:
    return FieldError(ErrorType.INVALID, path, value, f"{path} in body {text}")


def _check_text(schema: Schema, value: str, path: str) -> list[FieldError]:
    errors = []
    if "maxLength" in schema and len(value) > schema["maxLength"]:
        limit = schema["maxLength"]
        errors.append(FieldError(ErrorType.TOO_LONG, path, value, f"may not be more than {limit} bytes"))
    if "minLength" in schema and len(value) < schema["minLength"]:
        errors.append(_invalid(path, value, f"should be at least {schema['minLength']} chars long"))
    pattern = schema.get("pattern")
    if pattern is not None and not _matches(pattern, value):
        errors.append(_invalid(path, value, f"should match '{pattern}'"))
    return errors


def _matches(pattern: str, value: str) -> bool:
    # Go's syntax, linear in time: a client chose the pattern.
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


def _check_list(schema: Schema, value: list[Any], path: str) -> list[FieldError]:
    errors = []
    if "maxItems" in schema and len(value) > schema["maxItems"]:
        text = f"must have at most {schema['maxItems']} items"
        errors.append(FieldError(ErrorType.TOO_MANY, path, len(value), text))
    if "minItems" in schema and len(value) < schema["minItems"]:
        errors.append(_invalid(path, len(value), f"should have at least {schema['minItems']} items"))
    items = schema.get("items")
    if isinstance(items, Mapping):
        for index, one in enumerate(value):
            errors += _check(items, one, f"{path}[{index}]")
    return errors + _duplicates(schema, value, path)


def _duplicates(schema: Schema, value: list[Any], path: str) -> list[FieldError]:
    kind = schema.get("x-kubernetes-list-type")
    if kind not in ("set", "map"):
        return []
    keys, seen, errors = schema.get("x-kubernetes-list-map-keys") or (), [], []
    for index, one in enumerate(value):
        mark = {key: one.get(key) for key in keys} if kind == "map" and isinstance(one, dict) else one
        if mark in seen:
            errors.append(FieldError(ErrorType.DUPLICATE, f"{path}[{index}]", mark, ""))
        seen.append(mark)
    return errors


def _check_object(schema: Schema, value: Mapping[str, Any], path: str) -> list[FieldError]:
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
    for name, one in value.items():
        if name in properties:
            errors += _check(properties[name], one, f"{path}.{name}")
        elif isinstance(extra, Mapping):
            errors += _check(extra, one, f"{path}.{name}" if _plain(name) else f"{path}[{name}]")
    return errors


def _plain(name: str) -> bool:
    return re.fullmatch(r"[A-Za-z_][\w-]*", name) is not None
