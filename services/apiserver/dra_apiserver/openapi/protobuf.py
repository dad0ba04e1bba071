"""The Swagger document in protocol buffers, the only form in which kubectl reads it.

The messages are those of gnostic's ``openapi.v2``; each is a table here of field names with number and kind.
"""

from __future__ import annotations

from collections.abc import Mapping

from dra_apiserver.openapi.messages import (
    Json,
    Table,
    anything,
    each,
    encode_named,
    fields,
    flag,
    message,
    text,
    texts,
)


def encode(document: Mapping[str, Json]) -> bytes:
    """Encode a Swagger document as ``openapi.v2.Document``."""
    return fields(document, _DOCUMENT)


def _schema(value: Mapping[str, Json]) -> bytes:
    return fields(value, _SCHEMA, extension=31)


def _a_schema(number: int, value: Json) -> bytes:
    return message(number, _schema(value))


def _schemas_by_name(number: int, value: Json) -> bytes:
    return message(number, encode_named(1, ((name, _schema(schema)) for name, schema in value.items())))


def _more_properties(number: int, value: Json) -> bytes:
    return message(number, flag(2, value) if isinstance(value, bool) else _a_schema(1, value))


def _types(number: int, value: Json) -> bytes:
    return message(number, texts(1, [value] if isinstance(value, str) else value))


def _items(number: int, value: Json) -> bytes:
    return message(number, _a_schema(1, value))


def _parameter(number: int, value: Json) -> bytes:
    if value.get("in") == "body":
        return message(number, message(1, message(1, fields(value, _BODY_PARAMETER))))
    kind, table = (4, _PATH_PARAMETER) if value.get("in") == "path" else (3, _QUERY_PARAMETER)
    return message(number, message(1, message(2, message(kind, fields(value, table)))))


def _responses(number: int, value: Json) -> bytes:
    answers = ((code, message(1, fields(answer, _RESPONSE))) for code, answer in value.items())
    return message(number, encode_named(1, answers))


def _operation(number: int, value: Json) -> bytes:
    return message(number, fields(value, _OPERATION, extension=13))


def _paths(number: int, value: Json) -> bytes:
    return message(number, encode_named(2, ((path, fields(item, _PATH)) for path, item in value.items())))


def _info(number: int, value: Json) -> bytes:
    return message(number, fields(value, {"title": (1, text), "version": (2, text)}))


_SCHEMA: Table = {
    "$ref": (1, text),
    "format": (2, text),
    "title": (3, text),
    "description": (4, text),
    "default": (5, anything),
    "pattern": (13, text),
    "uniqueItems": (16, flag),
    "required": (19, texts),
    "enum": (20, each(anything)),
    "additionalProperties": (21, _more_properties),
    "type": (22, _types),
    "items": (23, _items),
    "allOf": (24, each(_a_schema)),
    "properties": (25, _schemas_by_name),
}
_BODY_PARAMETER: Table = {
    "description": (1, text),
    "name": (2, text),
    "in": (3, text),
    "required": (4, flag),
    "schema": (5, _a_schema),
}
_QUERY_PARAMETER: Table = {
    "required": (1, flag),
    "in": (2, text),
    "description": (3, text),
    "name": (4, text),
    "type": (6, text),
    "uniqueItems": (20, flag),
}
_PATH_PARAMETER: Table = {
    "required": (1, flag),
    "in": (2, text),
    "description": (3, text),
    "name": (4, text),
    "type": (5, text),
    "uniqueItems": (19, flag),
}
_RESPONSE: Table = {
    "description": (1, text),
    "schema": (2, lambda number, value: message(number, _a_schema(1, value))),
}
_OPERATION: Table = {
    "description": (3, text),
    "operationId": (5, text),
    "produces": (6, texts),
    "consumes": (7, texts),
    "parameters": (8, each(_parameter)),
    "responses": (9, _responses),
}
_PATH: Table = {
    "get": (2, _operation),
    "put": (3, _operation),
    "post": (4, _operation),
    "delete": (5, _operation),
    "options": (6, _operation),
    "head": (7, _operation),
    "patch": (8, _operation),
    "parameters": (9, each(_parameter)),
}
_DOCUMENT: Table = {
    "swagger": (1, text),
    "info": (2, _info),
    "paths": (8, _paths),
    "definitions": (9, _schemas_by_name),
}
