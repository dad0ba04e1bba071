"""Resolve field paths in a schema, for errors of rules and for selectable fields (cel.ValidFieldPath)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from dra_apiserver.errors import FieldError, duplicate, invalid, missing_field, too_many

Schema = Mapping[str, Any]

_MOST = 8
_TYPES = ("string", "boolean", "integer")
_TOKEN = re.compile(r"'.*?(?<!\\)'|'.*|[.\[\]]|[^.\[\]]+", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)")
_ENDS = "unexpected end of JSON path"
_NOWHERE = "does not refer to a valid field"


class PathError(Exception):
    """A path that cannot be resolved."""


def follow(path: str, schema: Schema, *, quoted: bool = True) -> tuple[list[str], Schema]:
    """Return the names on a path, and the schema at its end.

    Raises:
        PathError: the path is malformed, or a field does not exist.
    """
    tokens, names = iter(_TOKEN.findall(path)), list[str]()
    for token in tokens:
        if token == "." or (token == "[" and quoted):
            name = _after(tokens)
            if token == "[":
                name = _unquote(name)
            schema = _below(schema, name)
            names.append(name)
            if token == "[" and (closed := _after(tokens)) != "]":
                raise PathError(f"expected ] but got {closed}")
        elif token == "[":
            raise PathError("array notation is not allowed")
        else:
            raise PathError(f"expected [ or . but got: {token}")
    return names, schema


def _after(tokens: Iterator[str]) -> str:
    token = next(tokens, None)
    if token is None:
        raise PathError(_ENDS)
    return token


def _unquote(token: str) -> str:
    if len(token) < 2 or not (token.startswith("'") and token.endswith("'")):
        raise PathError(f"expected single quoted string but got {token}")
    return _ESCAPED.sub(_plain, token[1:-1])


def _plain(escaped: re.Match[str]) -> str:
    known = dict(zip("abfnrtv'\\", "\a\b\f\n\r\t\v'\\", strict=True))
    if escaped[1] not in known:
        raise PathError(f"invalid string literal: invalid escape char {escaped[0]}")
    return known[escaped[1]]


def _below(schema: Schema, name: str) -> Schema:
    properties, extra = schema.get("properties"), schema.get("additionalProperties")
    if properties:
        if name not in properties:
            raise PathError(_NOWHERE)
        found: Schema = properties[name]
        return found
    if extra is None:
        raise PathError(_NOWHERE)
    return extra if isinstance(extra, Mapping) else {}


def check_selectable(fields: list[Schema], schema: Schema, path: str) -> Iterator[FieldError]:
    """Yield the errors of selectable fields."""
    seen = set[str]()
    for index, one in enumerate(fields):
        at, json_path = f"{path}[{index}].jsonPath", one.get("jsonPath") or ""
        if not json_path:
            yield missing_field(at)
            continue
        try:
            names, found = follow(json_path, schema, quoted=False)
        except PathError as error:
            yield invalid(at, json_path, f"is an invalid path: {error}")
            continue
        if names[0] == "metadata":
            yield invalid(at, json_path, "must not point to fields in metadata")
        if found.get("type") not in _TYPES:
            text = "must point to a field of type string, boolean or integer. Enum string fields and strings with "
            yield invalid(at, json_path, f"{text}formats are allowed.")
        if ".".join(names) in seen:
            yield duplicate(at, json_path)
        seen.add(".".join(names))
    if len(seen) > _MOST:
        yield too_many(path, len(seen), _MOST)
