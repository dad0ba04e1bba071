"""The Swagger document in protocol buffers, the only form in which kubectl reads it.

The messages are those of gnostic's ``openapi.v2``; each is a table here of field names with number and kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dra_shared.jsontext import dumps

_VARINT, _BYTES = 0, 2

Json = Any
Encoder = Callable[[int, Json], bytes]


def encode(document: Mapping[str, Json]) -> bytes:
    """A Swagger document as ``openapi.v2.Document``."""
    return _fields(document, _DOCUMENT)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _message(number: int, body: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(body)) + body


def _text(number: int, value: Json) -> bytes:
    return _message(number, str(value).encode()) if value != "" else b""


def _texts(number: int, values: Json) -> bytes:
    return b"".join(_message(number, str(value).encode()) for value in values)


def _flag(number: int, value: Json) -> bytes:
    return _varint(number << 3 | _VARINT) + b"\x01" if value else b""


def _any(value: Json) -> bytes:
    """``Any``: the value as YAML, of which JSON is a part."""
    return _message(2, dumps(value))


def _anything(number: int, value: Json) -> bytes:
    return _message(number, _any(value))


def _each(encoder: Encoder) -> Encoder:
    return lambda number, values: b"".join(encoder(number, value) for value in values)


def _named(number: int, entries: Iterable[tuple[str, bytes]]) -> bytes:
    return b"".join(_message(number, _text(1, name) + _message(2, body)) for name, body in entries)


def _fields(value: Mapping[str, Json], table: Mapping[str, tuple[int, Encoder]], extension: int = 0) -> bytes:
    out = [encoder(number, value[name]) for name, (number, encoder) in table.items() if name in value]
    if extension:
        out.append(_named(extension, ((name, _any(value[name])) for name in value if name.startswith("x-"))))
    return b"".join(out)


def _schema(value: Mapping[str, Json]) -> bytes:
    return _fields(value, _SCHEMA, extension=31)


def _a_schema(number: int, value: Json) -> bytes:
    return _message(number, _schema(value))


def _schemas_by_name(number: int, value: Json) -> bytes:
    return _message(number, _named(1, ((name, _schema(schema)) for name, schema in value.items())))


def _more_properties(number: int, value: Json) -> bytes:
    return _message(number, _flag(2, value) if isinstance(value, bool) else _a_schema(1, value))


def _types(number: int, value: Json) -> bytes:
    return _message(number, _texts(1, [value] if isinstance(value, str) else value))


def _items(number: int, value: Json) -> bytes:
    return _message(number, _a_schema(1, value))


def _parameter(number: int, value: Json) -> bytes:
    if value.get("in") == "body":
        return _message(number, _message(1, _message(1, _fields(value, _BODY_PARAMETER))))
    kind, table = (4, _PATH_PARAMETER) if value.get("in") == "path" else (3, _QUERY_PARAMETER)
    return _message(number, _message(1, _message(2, _message(kind, _fields(value, table)))))


def _responses(number: int, value: Json) -> bytes:
    answers = ((code, _message(1, _fields(answer, _RESPONSE))) for code, answer in value.items())
    return _message(number, _named(1, answers))


def _operation(number: int, value: Json) -> bytes:
    return _message(number, _fields(value, _OPERATION, extension=13))


def _paths(number: int, value: Json) -> bytes:
    return _message(number, _named(2, ((path, _fields(item, _PATH)) for path, item in value.items())))


def _info(number: int, value: Json) -> bytes:
    return _message(number, _fields(value, {"title": (1, _text), "version": (2, _text)}))


_SCHEMA: Mapping[str, tuple[int, Encoder]] = {
    "$ref": (1, _text),
    "format": (2, _text),
    "title": (3, _text),
    "description": (4, _text),
    "default": (5, _anything),
    "pattern": (13, _text),
    "uniqueItems": (16, _flag),
    "required": (19, _texts),
    "enum": (20, _each(_anything)),
    "additionalProperties": (21, _more_properties),
    "type": (22, _types),
    "items": (23, _items),
    "allOf": (24, _each(_a_schema)),
    "properties": (25, _schemas_by_name),
}
_BODY_PARAMETER: Mapping[str, tuple[int, Encoder]] = {
    "description": (1, _text),
    "name": (2, _text),
    "in": (3, _text),
    "required": (4, _flag),
    "schema": (5, _a_schema),
}
_QUERY_PARAMETER: Mapping[str, tuple[int, Encoder]] = {
    "required": (1, _flag),
    "in": (2, _text),
    "description": (3, _text),
    "name": (4, _text),
    "type": (6, _text),
    "uniqueItems": (20, _flag),
}
_PATH_PARAMETER: Mapping[str, tuple[int, Encoder]] = {
    "required": (1, _flag),
    "in": (2, _text),
    "description": (3, _text),
    "name": (4, _text),
    "type": (5, _text),
    "uniqueItems": (19, _flag),
}
_RESPONSE: Mapping[str, tuple[int, Encoder]] = {
    "description": (1, _text),
    "schema": (2, lambda number, value: _message(number, _a_schema(1, value))),
}
_OPERATION: Mapping[str, tuple[int, Encoder]] = {
    "description": (3, _text),
    "operationId": (5, _text),
    "produces": (6, _texts),
    "consumes": (7, _texts),
    "parameters": (8, _each(_parameter)),
    "responses": (9, _responses),
}
_PATH: Mapping[str, tuple[int, Encoder]] = {
    "get": (2, _operation),
    "put": (3, _operation),
    "post": (4, _operation),
    "delete": (5, _operation),
    "options": (6, _operation),
    "head": (7, _operation),
    "patch": (8, _operation),
    "parameters": (9, _each(_parameter)),
}
_DOCUMENT: Mapping[str, tuple[int, Encoder]] = {
    "swagger": (1, _text),
    "info": (2, _info),
    "paths": (8, _paths),
    "definitions": (9, _schemas_by_name),
}
