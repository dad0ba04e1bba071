"""Encode JSON values to CBOR, with the options of apimachinery's encoding mode (``internal/modes/encode.go``).

Texts and keys are byte strings, floats are as short as their value allows, containers have a definite length.
Byte fields, which JSON has as base64 text, get the tag for base64. Members keep their order, while upstream
shuffles them in responses.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable
from typing import Any, Final

#: The tag of "self-described CBOR", which encloses every item that upstream's encoder makes.
SELF_DESCRIBED: Final = b"\xd9\xd9\xf7"
_UNSIGNED, _NEGATIVE, _BYTES, _ARRAY, _MAP = 0x00, 0x20, 0x40, 0x80, 0xA0
# The tag "expected later encoding" of RFC 8949, for base64.
_AS_BASE64: Final = b"\xd6"
_FALSE, _TRUE, _NULL = b"\xf4", b"\xf5", b"\xf6"
_FLOATS: Final = (("e", b"\xf9"), ("f", b"\xfa"), ("d", b"\xfb"))
_EVENT: Final = SELF_DESCRIBED + b"\xa2\x44type"

Add = Callable[[bytes], None]


def encode(value: Any) -> bytes:
    """Encode a JSON value, with the self-described tag.

    Members of type ``bytes`` are those that JSON has as base64 text.

    Raises:
        RecursionError: it is too deep.
    """
    parts = [SELF_DESCRIBED]
    _write(value, parts.append)
    return b"".join(parts)


def event(kind: str, shown: bytes) -> bytes:
    """Return a watch event for an encoded object, one item of a sequence (RFC 8742)."""
    name = kind.encode()
    return b"".join((_EVENT, _head(_BYTES, len(name)), name, b"\x46object", shown))


def _write(value: Any, add: Add) -> None:
    kind = type(value)
    if kind is str:
        data = value.encode()
        size = len(data)
        add((_SHORT[size] if size < 256 else _head(_BYTES, size)) + data)
    elif kind is dict:
        add(_head(_MAP, len(value)))
        for key, member in value.items():
            add(_key(key))
            _write(member, add)
    elif kind is list:
        add(_head(_ARRAY, len(value)))
        for item in value:
            _write(item, add)
    elif value is None:
        add(_NULL)
    elif kind is bool:
        add(_TRUE if value else _FALSE)
    elif kind is int:
        add(_head(_UNSIGNED, value) if value >= 0 else _head(_NEGATIVE, -1 - value))
    elif kind is float:
        add(_float(value))
    elif kind is bytes:
        add(_AS_BASE64 + _head(_BYTES, len(value)) + value)
    else:
        raise TypeError(f"{kind.__name__} is no JSON value")


def _head(major: int, argument: int) -> bytes:
    """Return the first bytes of an item: its major type, and its value or length."""
    if argument < 24:
        return bytes((major | argument,))
    if argument < 1 << 8:
        return bytes((major | 24, argument))
    if argument < 1 << 16:
        return struct.pack(">BH", major | 25, argument)
    if argument < 1 << 32:
        return struct.pack(">BI", major | 26, argument)
    return struct.pack(">BQ", major | 27, argument)


_SHORT: Final = tuple(_head(_BYTES, size) for size in range(256))


@functools.lru_cache(maxsize=4096)
def _key(key: str) -> bytes:
    data = key.encode()
    return _head(_BYTES, len(data)) + data


def _float(value: float) -> bytes:
    for form, head in _FLOATS:
        try:
            packed = struct.pack(f">{form}", value)
        except OverflowError:
            continue
        if struct.unpack(f">{form}", packed)[0] == value:
            return head + packed
    raise ValueError(f"{value} is no JSON number")
