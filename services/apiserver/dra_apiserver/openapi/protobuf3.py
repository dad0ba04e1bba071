"""Documents of OpenAPI v3 in protocol buffers: the messages are those of gnostic's ``openapi.v3``."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from dra_apiserver.openapi.messages import (
    VARINT,
    Encoder,
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
    varint,
)

_DOUBLE = 1


def encode(document: Mapping[str, Json]) -> bytes:
    """Encode a document as ``openapi.v3.Document``."""
    return fields(document, _DOCUMENT)


def _count(number: int, value: Json) -> bytes:
    return varint(number << 3 | VARINT) + varint(value) if value else b""


def _double(number: int, value: Json) -> bytes:
    return varint(number << 3 | _DOUBLE) + struct.pack("<d", value) if value else b""


def _default(number: int, value: Json) -> bytes:
    """Encode ``DefaultType``, which is empty for values that are not scalars."""
    if isinstance(value, bool):
        return message(number, varint(2 << 3 | VARINT) + varint(value))
    if isinstance(value, int | float):
        return message(number, varint(1 << 3 | _DOUBLE) + struct.pack("<d", value))
    return message(number, message(3, value.encode()) if isinstance(value, str) else b"")


def _schema_or_reference(value: Mapping[str, Json]) -> bytes:
    if "$ref" in value:
        return message(2, text(1, value["$ref"]))
    return message(1, fields(value, _SCHEMA, extension=36))


def _schema(number: int, value: Json) -> bytes:
    return message(number, _schema_or_reference(value))


def _bare_schema(number: int, value: Json) -> bytes:
    return message(number, fields(value, _SCHEMA, extension=36))


def _items(number: int, value: Json) -> bytes:
    return message(number, _schema(1, value))


def _schemas(number: int, value: Json) -> bytes:
    return message(
        number, encode_named(1, ((name, _schema_or_reference(one)) for name, one in value.items()))
    )


def _more_properties(number: int, value: Json) -> bytes:
    if isinstance(value, bool):
        return message(number, varint(2 << 3 | VARINT) + varint(value))
    return message(number, _schema(1, value))


def _contents(number: int, value: Json) -> bytes:
    return message(
        number,
        encode_named(1, ((name, fields(one, {"schema": (1, _schema)})) for name, one in value.items())),
    )


def _one_of_two(table: Table) -> Encoder:
    """Return an encoder of a message in a oneof that may also be a reference."""
    return lambda number, value: message(number, message(1, fields(value, table)))


def _responses(number: int, value: Json) -> bytes:
    return message(
        number, encode_named(2, ((code, message(1, fields(one, _RESPONSE))) for code, one in value.items()))
    )


def _operation(number: int, value: Json) -> bytes:
    return message(number, fields(value, _OPERATION, extension=13))


def _paths(number: int, value: Json) -> bytes:
    return message(number, encode_named(1, ((path, fields(item, _PATH)) for path, item in value.items())))


_SCHEMA: Table = {
    "nullable": (1, flag),
    "readOnly": (3, flag),
    "writeOnly": (4, flag),
    "example": (7, anything),
    "deprecated": (8, flag),
    "title": (9, text),
    "multipleOf": (10, _double),
    "maximum": (11, _double),
    "exclusiveMaximum": (12, flag),
    "minimum": (13, _double),
    "exclusiveMinimum": (14, flag),
    "maxLength": (15, _count),
    "minLength": (16, _count),
    "pattern": (17, text),
    "maxItems": (18, _count),
    "minItems": (19, _count),
    "uniqueItems": (20, flag),
    "maxProperties": (21, _count),
    "minProperties": (22, _count),
    "required": (23, texts),
    "enum": (24, each(anything)),
    "type": (25, text),
    "allOf": (26, each(_schema)),
    "oneOf": (27, each(_schema)),
    "anyOf": (28, each(_schema)),
    "not": (29, _bare_schema),
    "items": (30, _items),
    "properties": (31, _schemas),
    "additionalProperties": (32, _more_properties),
    "default": (33, _default),
    "description": (34, text),
    "format": (35, text),
}
_PARAMETER: Table = {
    "name": (1, text),
    "in": (2, text),
    "description": (3, text),
    "required": (4, flag),
    "schema": (10, _schema),
}
_BODY: Table = {"description": (1, text), "content": (2, _contents), "required": (3, flag)}
_RESPONSE: Table = {"description": (1, text), "content": (3, _contents)}
_OPERATION: Table = {
    "tags": (1, texts),
    "summary": (2, text),
    "description": (3, text),
    "operationId": (5, text),
    "parameters": (6, each(_one_of_two(_PARAMETER))),
    "requestBody": (7, _one_of_two(_BODY)),
    "responses": (8, _responses),
    "deprecated": (10, flag),
}
_PATH: Table = {
    "get": (4, _operation),
    "put": (5, _operation),
    "post": (6, _operation),
    "delete": (7, _operation),
    "options": (8, _operation),
    "head": (9, _operation),
    "patch": (10, _operation),
    "parameters": (13, each(_one_of_two(_PARAMETER))),
}
_DOCUMENT: Table = {
    "openapi": (1, text),
    "info": (
        2,
        lambda number, value: message(number, fields(value, {"title": (1, text), "version": (6, text)})),
    ),
    "paths": (4, _paths),
    "components": (5, lambda number, value: message(number, fields(value, {"schemas": (1, _schemas)}))),
}
