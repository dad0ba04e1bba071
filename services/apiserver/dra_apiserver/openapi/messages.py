"""Encode gnostic's messages as protocol buffers: fields with their number and value.

A table has the names of a message's fields with number and kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dra_shared.jsontext import dumps

VARINT, BYTES = 0, 2

Json = Any
Encoder = Callable[[int, Json], bytes]
Table = Mapping[str, tuple[int, Encoder]]


def varint(number: int) -> bytes:
    """Encode a number as a varint."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def message(number: int, body: bytes) -> bytes:
    """Encode a field that is a message."""
    return varint(number << 3 | BYTES) + varint(len(body)) + body


def text(number: int, value: Json) -> bytes:
    """Encode a text field. An empty one is omitted."""
    return message(number, str(value).encode()) if value != "" else b""


def texts(number: int, values: Json) -> bytes:
    """Encode a repeated text field."""
    return b"".join(message(number, str(value).encode()) for value in values)


def flag(number: int, value: Json) -> bytes:
    """Encode a boolean field. False is omitted."""
    return varint(number << 3 | VARINT) + b"\x01" if value else b""


def any_body(value: Json) -> bytes:
    """Encode ``Any``: the value as YAML, which includes JSON."""
    return message(2, dumps(value))


def anything(number: int, value: Json) -> bytes:
    """Encode a field that is an ``Any``."""
    return message(number, any_body(value))


def each(encoder: Encoder) -> Encoder:
    """Return an encoder of a repeated field that encodes each item with `encoder`."""
    return lambda number, values: b"".join(encoder(number, value) for value in values)


def encode_named(number: int, entries: Iterable[tuple[str, bytes]]) -> bytes:
    """Encode a map as a list of names and values."""
    return b"".join(message(number, text(1, name) + message(2, body)) for name, body in entries)


def fields(value: Mapping[str, Json], table: Table, extension: int = 0) -> bytes:
    """Encode a message: the fields in `table`, and those that start with ``x-`` under `extension`."""
    out = [encoder(number, value[name]) for name, (number, encoder) in table.items() if name in value]
    if extension:
        out.append(
            encode_named(
                extension, ((name, any_body(value[name])) for name in value if name.startswith("x-"))
            )
        )
    return b"".join(out)
