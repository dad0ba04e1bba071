"""Decode objects in Kubernetes' protobuf encoding to JSON values.

Go clients with generated types send their requests in protobuf.
"""

import base64
import functools
import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import orjson
from dra_shared.api.schema import protobuf_document
from dra_shared.clock import rfc3339, rfc3339_micro

MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SIGN = 1 << 63
_MOST_WHOLE = 1e21
_SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
_MOST_NESTED = 100


class ProtobufError(ValueError):
    """The bytes are not such a message."""


@functools.cache
def _layouts() -> dict[str, dict[str, dict[str, list[Any]]]]:
    document: dict[str, dict[str, dict[str, list[Any]]]] = orjson.loads(protobuf_document())
    return document


def envelope(data: bytes) -> tuple[str, str, bytes]:
    """Return apiVersion, kind and the object's own bytes.

    Raises:
        ProtobufError: the bytes do not start with an envelope.
    """
    if not data.startswith(MAGIC):
        raise ProtobufError(
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
        )
    api_version = kind = ""
    raw = b""
    for number, value in _fields(data[len(MAGIC) :]):
        if number == 1 and isinstance(value, bytes):
            for inner, text in _fields(value):
                if inner == 1:
                    api_version = _text(text)
                elif inner == 2:
                    kind = _text(text)
        elif number == 2 and isinstance(value, bytes):
            raw = value
    return api_version, kind, raw


def read_message(name: str, data: bytes) -> dict[str, Any]:
    """Decode the message ``name`` (``io.k8s.api.core.v1.Pod``) to a JSON object.

    Raises:
        ProtobufError: malformed, or a type without protobuf form.
    """
    return _message(name, data, 0)


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise ProtobufError("unexpected EOF")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        wire = key & 7
        if wire == _VARINT:
            value, position = _varint(data, position)
            yield key >> 3, value
            continue
        size = {_FIXED64: 8, _FIXED32: 4}.get(wire)
        if wire == _BYTES:
            size, position = _varint(data, position)
        if size is None:
            raise ProtobufError(f"illegal wireType {wire}")
        if position + size > len(data):
            raise ProtobufError("unexpected EOF")
        yield key >> 3, data[position : position + size]
        position += size


def _message(name: str, data: bytes, depth: int) -> dict[str, Any]:
    package, _, short = name.rpartition(".")
    layout = _layouts().get(package, {}).get(short)
    if layout is None:
        if not data:
            return {}
        raise ProtobufError(f"no message {name} is known")
    if depth > _MOST_NESTED:
        raise ProtobufError("too deep")
    made: dict[str, Any] = {}
    for number, raw in _fields(data):
        member = layout.get(str(number))
        if member is None:
            continue
        json_name, kind = member
        if isinstance(kind, list):
            _add(made, json_name, kind, raw, depth)
            continue
        value = _value(kind, raw, depth)
        if json_name:
            made[json_name] = value
        else:
            made.update(value)
    return made


def _add(made: dict[str, Any], name: str, kind: list[Any], raw: int | bytes, depth: int) -> None:
    """Add one item to a list, or one entry to a map."""
    if kind[0] == "list":
        items = made.setdefault(name, [])
        if kind[1] == "int" and isinstance(raw, bytes):
            position = 0
            while position < len(raw):
                number, position = _varint(raw, position)
                items.append(_to_signed(number))
        else:
            items.append(_value(kind[1], raw, depth))
        return
    key: str = ""
    value: Any = None
    for tag, part in _fields(_bytes(raw)):
        if tag == 1:
            key = _text(part)
        elif tag == 2:
            value = _value(kind[1], part, depth)
    made.setdefault(name, {})[key] = _value(kind[1], b"", depth) if value is None else value


def _bytes(raw: int | bytes) -> bytes:
    if isinstance(raw, bytes):
        return raw
    raise ProtobufError("wrong wireType")


def _text(raw: int | bytes) -> str:
    try:
        return _bytes(raw).decode()
    except UnicodeDecodeError as error:
        raise ProtobufError("string field contains invalid UTF-8") from error


def _to_signed(value: int) -> int:
    return value - (1 << 64) if value & _SIGN else value


def _value(kind: Any, raw: int | bytes, depth: int) -> Any:
    if isinstance(kind, list):
        made: dict[str, Any] = {}
        _add(made, "", kind, raw, depth)
        return made[""]
    if kind in ("int", "bool"):
        if isinstance(raw, bytes):
            raise ProtobufError("wrong wireType")
        return raw != 0 if kind == "bool" else _to_signed(raw)
    part = _PARTS.get(kind)
    if part is not None:
        return part(_bytes(raw), depth + 1)
    reader = _READERS.get(kind)
    return reader(_bytes(raw)) if reader is not None else _message(kind, _bytes(raw), depth + 1)


def _double(data: bytes) -> float:
    """Decode a double like Go's JSON: a whole number has no fraction."""
    if len(data) != 8:
        raise ProtobufError("wrong wireType")
    value: float = struct.unpack("<d", data)[0]
    return int(value) if value.is_integer() and abs(value) < _MOST_WHOLE else value


def _numbers(data: bytes) -> dict[int, int | bytes]:
    return dict(_fields(data))


def _moment(data: bytes) -> datetime | None:
    parts = _numbers(data)
    seconds, nanos = parts.get(1, 0), parts.get(2, 0)
    if not data or isinstance(seconds, bytes) or isinstance(nanos, bytes):
        return None
    try:
        return datetime.fromtimestamp(_to_signed(seconds), UTC).replace(microsecond=nanos // 1000)
    except (ValueError, OverflowError, OSError) as error:
        raise ProtobufError("time out of range") from error


def _time(data: bytes) -> str | None:
    moment = _moment(data)
    return None if moment is None else rfc3339(moment)


def _micro_time(data: bytes) -> str | None:
    moment = _moment(data)
    return None if moment is None else rfc3339_micro(moment)


def _quantity(data: bytes) -> str:
    return _text(_numbers(data).get(1, b"")) or "0"


def _either(data: bytes) -> int | str:
    parts = _numbers(data)
    if parts.get(1, 0) == 1:
        return _text(parts.get(3, b""))
    number = parts.get(2, 0)
    return 0 if isinstance(number, bytes) else _to_signed(number)


def _raw(data: bytes) -> Any:
    content = _bytes(_numbers(data).get(1, b""))
    try:
        return orjson.loads(content) if content else None
    except orjson.JSONDecodeError as error:
        raise ProtobufError("embedded JSON is malformed") from error


def _strings(data: bytes) -> list[str]:
    return [_text(value) for number, value in _fields(data) if number == 1]


def _duration(data: bytes) -> str:
    nanos = _numbers(data).get(1, 0)
    return f"{0 if isinstance(nanos, bytes) else _to_signed(nanos) / 1e9:g}s"


def _schema(raw: int | bytes, depth: int) -> dict[str, Any]:
    """Decode a schema to its JSON form. If it replaces another value, its content is not validated further."""
    from dra_apiserver.schema.reader import Reader
    from dra_apiserver.schema.types import Struct, definition

    made, node = _message(_SCHEMA, _bytes(raw), depth), definition(_SCHEMA)
    assert isinstance(node, Struct)
    Reader().read(node, made)
    return made


def _schema_or_schemas(data: bytes, depth: int) -> Any:
    parts = [*_fields(data)]
    several = [_schema(raw, depth) for number, raw in parts if number == 2]
    return several or _first_schema(parts, depth)


def _first_schema(parts: list[tuple[int, int | bytes]], depth: int) -> dict[str, Any] | None:
    return next((_schema(raw, depth) for number, raw in parts if number == 1), None)


def _schema_or_bool(data: bytes, depth: int) -> Any:
    parts = _numbers(data)
    return _schema(parts[2], depth) if 2 in parts else parts.get(1, 0) != 0


def _schema_or_texts(data: bytes, depth: int) -> Any:
    parts = [*_fields(data)]
    texts = [_text(raw) for number, raw in parts if number == 2]
    return texts or _first_schema(parts, depth)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


_READERS = {
    "string": _text,
    "bytes": _base64,
    "double": _double,
    "time": _time,
    "micro": _micro_time,
    "quantity": _quantity,
    "either": _either,
    "raw": _raw,
    "strings": _strings,
    "duration": _duration,
}
# Decoders of union types, which track their depth.
_PARTS = {
    f"{_SCHEMA}OrArray": _schema_or_schemas,
    f"{_SCHEMA}OrBool": _schema_or_bool,
    f"{_SCHEMA}OrStringArray": _schema_or_texts,
}
