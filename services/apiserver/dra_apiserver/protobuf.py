"""Encode objects in Kubernetes' protobuf encoding, byte for byte like upstream's generated code.

A message's fields are sorted by number. Go writes every non-pointer field even if it is empty, but pointers,
lists and maps only if they are set (``generated.pb.go`` of ``k8s.io/api``, from gogo/protobuf). An object has
an envelope (``runtime.Unknown``) after four magic bytes (``apimachinery/pkg/runtime/serializer/protobuf``).
"""

from __future__ import annotations

import base64
import functools
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import orjson
from dra_shared import durations
from dra_shared.api.schema import protobuf_document, schema_document
from dra_shared.jsontext import dumps
from dra_shared.jsontypes import JsonObject

Write = Callable[[Any], bytes]
"""Encodes a value: the value alone, or a field with tag and length."""

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"
# The type of schemas in custom resource definitions. Its variants (OrArray, OrBool, ...) have their own
# encoders below.
_SCHEMA: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
_MAGIC: Final = b"k8s\x00"
# runtime.Unknown's contentEncoding and contentType, which are never set.
_UNKNOWN_END: Final = b"\x1a\x00\x22\x00"
_VARINT, _FIXED64, _BYTES = 0, 1, 2
_WORD: Final = (1 << 64) - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    """Return an encoded object with its envelope, given its message's bytes."""
    meta = b"\x0a" + _add_length(api_version.encode()) + b"\x12" + _add_length(kind.encode())
    return b"".join((_MAGIC, b"\x0a", _add_length(meta), b"\x12", _length(len(raw)), raw, _UNKNOWN_END))


def encode_list(metadata: JsonObject, items: list[bytes]) -> bytes:
    """Return a list's message, given those of its items."""
    head = _add_length(message(f"{META}.ListMeta", metadata))
    return b"".join((b"\x0a", head, *(b"\x12" + _add_length(item) for item in items)))


def event(kind: str, shown: bytes) -> bytes:
    """Return a watch event about an encoded object, in a frame that begins with its length."""
    body = b"\x0a" + _add_length(kind.encode()) + b"\x12" + _add_length(b"\x0a" + _add_length(shown))
    return len(body).to_bytes(4, "big") + body


def status(document: JsonObject) -> bytes:
    """Return an encoded Status with its envelope."""
    return envelope("v1", "Status", message(f"{META}.Status", document))


def is_known(name: str) -> bool:
    """True if there is a message of that name, such as ``io.k8s.api.core.v1.Pod``, that can be encoded."""
    package, _, short = name.rpartition(".")
    return short in layouts().get(package, {}) and short in _definitions(package)


def message(name: str, obj: JsonObject) -> bytes:
    """Encode an object, which must have its stored form: typed, defaulted, with canonical quantities."""
    return _message(name).write(obj)


class _Message:
    """The encoder of one message."""

    def __init__(self, name: str) -> None:
        package, _, short = name.rpartition(".")
        # A message without fields is in no table.
        layout = layouts()[package].get(short) or {}
        properties = _properties(package, short)
        self._fields: dict[str, tuple[int, Write]] = {}
        self._inlined: list[tuple[int, Write]] = []
        self._empty: list[bytes] = []
        for position, number in enumerate(sorted(layout, key=int)):
            json_name, kind = layout[number]
            tag = _tag(int(number), kind)
            if not json_name:
                self._inlined.append((position, _writer(tag, kind)))
                self._empty.append(b"")
                continue
            _, flags = (properties.get(json_name) or {}).get("x-go") or ("", "")
            self._fields[json_name] = position, _writer(tag, kind)
            self._empty.append(b"" if "*" in flags else _empty(tag, kind))

    def write(self, obj: JsonObject) -> bytes:
        """Return the message's bytes."""
        parts = self._empty.copy()
        fields = self._fields
        for name, value in obj.items():
            if name in fields and value is not None:
                position, write = fields[name]
                parts[position] = write(value)
        for position, write in self._inlined:
            parts[position] = write(obj)
        return b"".join(parts)


@functools.cache
def _message(name: str) -> _Message:
    return _Message(name)


@functools.cache
def layouts() -> dict[str, dict[str, dict[str, list[Any]]]]:
    document: dict[str, dict[str, dict[str, list[Any]]]] = orjson.loads(protobuf_document())
    return document


@functools.cache
def _definitions(package: str) -> dict[str, dict[str, Any]]:
    document = schema_document(package)
    found: dict[str, dict[str, Any]] = orjson.loads(document) if document is not None else {}
    return found


@functools.cache
def _properties(package: str, short: str) -> Mapping[str, Any]:
    """Return the members of a type by JSON name. The members of an inlined type belong to the types that contain it."""
    found = _definitions(package)
    if short in found:
        return found[short].get("properties") or {}
    within = (
        name
        for name, layout in layouts()[package].items()
        if any(not json_name and kind == f"{package}.{short}" for json_name, kind in layout.values())
    )
    return {member: spec for name in within for member, spec in _properties(package, name).items()}


def _tag(number: int, kind: Any) -> bytes:
    wire = {"int": _VARINT, "bool": _VARINT, "double": _FIXED64}
    inner = kind[1] if isinstance(kind, list) and kind[0] == "list" else kind
    return _varint(number << 3 | (wire.get(inner, _BYTES) if isinstance(inner, str) else _BYTES))


def _empty(tag: bytes, kind: Any) -> bytes:
    """Return Go's encoding of an empty field that is not a pointer."""
    if isinstance(kind, list) or kind == "bytes":
        return b""
    if kind in ("int", "bool"):
        return tag + b"\x00"
    if kind == "double":
        return tag + bytes(8)
    if kind in _EMPTY:
        return tag + _add_length(_EMPTY[kind])
    return tag + _add_length(_message(kind).write({}))


def _writer(tag: bytes, kind: Any) -> Write:
    """Return the encoder of a field that is set, including its tag."""
    if isinstance(kind, list):
        return _list(tag, kind[1]) if kind[0] == "list" else _map(tag, kind[1])
    if kind in _UNPREFIXED:
        plain = _UNPREFIXED[kind]
        return lambda value: tag + plain(value)
    heads = _heads(tag)
    own = _PREFIXED.get(kind)
    found: _Message | None = None

    def write(value: Any) -> bytes:
        nonlocal found
        if own is not None:
            data = own(value)
        else:
            # Looked up on first use, because messages may contain themselves.
            found = found or _message(kind)
            data = found.write(value)
        size = len(data)
        return heads[size] + data if size < 0x80 else tag + _varint(size) + data

    def write_text(value: str) -> bytes:
        data = value.encode()
        size = len(data)
        return heads[size] + data if size < 0x80 else tag + _varint(size) + data

    return write_text if kind == "string" else write


@functools.cache
def _heads(tag: bytes) -> list[bytes]:
    """Return the encoded tag followed by each length that fits in one byte.

    They are precomputed because most fields are short.
    """
    return [tag + size for size in _ONE_BYTE]


def _list(tag: bytes, kind: Any) -> Write:
    write = _writer(tag, kind)
    return lambda value: b"".join([write(item) for item in value])


def _map(tag: bytes, kind: Any) -> Write:
    write_key, write_value = _writer(b"\x0a", "string"), _writer(_tag(2, kind), kind)
    empty = functools.partial(_empty, _tag(2, kind), kind)
    heads = _heads(tag)

    def write(value: Mapping[str, Any]) -> bytes:
        parts = []
        # Go sorts keys by their bytes. In UTF-8, this is the order of code points, as in Python.
        for name in sorted(value):
            item = value[name]
            entry = write_key(name) + (write_value(item) if item is not None else empty())
            size = len(entry)
            parts.append(heads[size] + entry if size < 0x80 else tag + _varint(size) + entry)
        return b"".join(parts)

    return write


def _varint(value: int) -> bytes:
    if 0 <= value < 0x80:
        return _ONE_BYTE[value]
    value &= _WORD
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _length(size: int) -> bytes:
    return _ONE_BYTE[size] if size < 0x80 else _varint(size)


def _add_length(data: bytes) -> bytes:
    size = len(data)
    return (_ONE_BYTE[size] if size < 0x80 else _varint(size)) + data


_ONE_BYTE: Final = [bytes([value]) for value in range(0x80)]


def _seconds(moment: datetime) -> int:
    passed = moment - _EPOCH
    return passed.days * 86400 + passed.seconds


def _time(value: str) -> bytes:
    # Upstream keeps whole seconds here, as in JSON.
    return b"\x08" + _varint(_seconds(datetime.fromisoformat(value))) + b"\x10\x00"


def _micro_time(value: str) -> bytes:
    moment = datetime.fromisoformat(value)
    return b"\x08" + _varint(_seconds(moment)) + b"\x10" + _varint(moment.microsecond * 1000)


def _quantity(value: Any) -> bytes:
    return b"\x0a" + _add_length(str(value).encode())


def _either(value: Any) -> bytes:
    if isinstance(value, str):
        return b"\x08\x01\x10\x00\x1a" + _add_length(value.encode())
    return b"\x08\x00\x10" + _varint(value) + b"\x1a\x00"


def _raw(value: Any) -> bytes:
    return b"" if value is None else b"\x0a" + _add_length(dumps(value))


def _schema(value: JsonObject) -> bytes:
    return _add_length(_message(_SCHEMA).write(value))


def _schema_or_schemas(value: Any) -> bytes:
    if isinstance(value, list):
        return b"".join(b"\x12" + _schema(one) for one in value)
    return b"\x0a" + _schema(value)


def _schema_or_bool(value: Any) -> bytes:
    if isinstance(value, bool):
        return b"\x08\x01" if value else b"\x08\x00"
    return b"\x08\x01\x12" + _schema(value)


def _schema_or_texts(value: Any) -> bytes:
    if isinstance(value, list):
        return b"".join(b"\x12" + _add_length(one.encode()) for one in value)
    return b"\x0a" + _schema(value)


def _strings(value: list[str]) -> bytes:
    return b"".join(b"\x0a" + _add_length(text.encode()) for text in value)


def _duration(value: str) -> bytes:
    return b"\x08" + _varint(durations.parse(value).nanoseconds)


_PREFIXED: Final[Mapping[str, Write]] = {
    "string": str.encode,
    "bytes": base64.b64decode,
    "time": _time,
    "micro": _micro_time,
    "quantity": _quantity,
    "either": _either,
    "raw": _raw,
    "strings": _strings,
    "duration": _duration,
    f"{_SCHEMA}OrArray": _schema_or_schemas,
    f"{_SCHEMA}OrBool": _schema_or_bool,
    f"{_SCHEMA}OrStringArray": _schema_or_texts,
}
_UNPREFIXED: Final[Mapping[str, Write]] = {
    "int": _varint,
    "bool": lambda value: b"\x01" if value else b"\x00",
    "double": lambda value: struct.pack("<d", value),
}
# Encodings of the empty value, for types that have no message in the tables.
_EMPTY: Final[Mapping[str, bytes]] = {
    "string": b"",
    "time": b"",
    "micro": b"",
    "quantity": b"\x0a\x010",
    "either": b"\x08\x00\x10\x00\x1a\x00",
    "raw": b"",
    "strings": b"",
    "duration": b"\x08\x00",
    f"{_SCHEMA}OrStringArray": b"",
}
