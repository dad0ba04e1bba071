"""Decode CBOR to JSON values, with the options of apimachinery's decoding mode (``internal/modes/decode.go``).

Byte strings and text strings both become texts. Bytes with a base64 tag become base64. Ill-formed bytes are
rejected at once. Items that are not accepted are rejected at the end, because upstream's decoder first checks
that the data is well-formed.
"""

from __future__ import annotations

import base64
import math
import re
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from dra_shared.quoting import go_quote

from dra_apiserver.cbor.errors import CborError, IllFormed

_TYPES: Final = (
    "positive integer",
    "negative integer",
    "byte string",
    "UTF-8 text string",
    "array",
    "map",
    "tag",
    "primitives",
)
_UNSIGNED, _NEGATIVE, _BYTES, _TEXT, _ARRAY, _MAP, _TAG, _PRIMITIVE = range(8)
_SIZES: Final = {24: 1, 25: 2, 26: 4, 27: 8}
_FLOATS: Final = {25: ">e", 26: ">f", 27: ">d"}
_INDEFINITE: Final = 31
_BREAK: Final = 0xFF
_MOST_INT: Final = (1 << 63) - 1
_MOST_ITEMS: Final = {_ARRAY: ("elements 2147483647 for CBOR array", (1 << 31) - 1),
                      _MAP: ("key-value pairs 2097152 for CBOR map", 1 << 21)}  # fmt: skip
_TIME, _EPOCH = 0, 1
_BIGNUMS: Final = (2, 3)
_LATER: Final[dict[int, Callable[[bytes], bytes]]] = {
    21: lambda data: base64.urlsafe_b64encode(data).rstrip(b"="),
    22: base64.b64encode,
    23: lambda data: data.hex().encode(),
}
_RFC3339: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_SIMPLE: Final = {20: False, 21: True, 22: None}
_START: Final = datetime(1970, 1, 1, tzinfo=UTC)


def decode(data: bytes) -> Any:
    """Return the JSON value of one item.

    Raises:
        CborError: the item is not accepted.
        IllFormed: the bytes are not one item.
    """
    if not data:
        raise IllFormed("EOF")
    reader = _Reader(data)
    try:
        value = reader.item(0)
    except IndexError:
        raise IllFormed("unexpected EOF") from None
    except RecursionError:
        raise IllFormed("cbor: exceeded max nested level 10000") from None
    rest = len(data) - reader.position
    if rest:
        raise IllFormed(f"cbor: {rest} bytes of extraneous data starting at index {reader.position}")
    if reader.problem is not None:
        raise reader.problem
    return value


class _Reader:
    """Reads items from ``position`` on. ``problem`` is the error of the first item that is not accepted."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0
        self.problem: CborError | None = None
        self._later: Callable[[bytes], bytes] | None = None

    def item(self, depth: int) -> Any:
        """Return the value of the next item, which is nested ``depth`` levels deep."""
        start = self._data[self.position]
        self.position += 1
        major, info = start >> 5, start & 31
        if info < 24:
            argument = info
        elif info in _SIZES:
            argument = self._number(_SIZES[info])
        elif info == _INDEFINITE and major in (_BYTES, _TEXT, _ARRAY, _MAP):
            argument = -1
        elif start == _BREAK:
            raise IllFormed('cbor: unexpected "break" code')
        else:
            raise IllFormed(f"cbor: invalid additional information {info} for type {_TYPES[major]}")
        if major in (_BYTES, _TEXT):
            return self._text(major, self._string(major, argument))
        if major == _MAP:
            return self._map(argument, depth + 1)
        if major == _ARRAY:
            return self._array(argument, depth + 1)
        if major == _TAG:
            return self._read_tagged(argument, depth)
        return self._primitive(info, argument) if major == _PRIMITIVE else self._integer(major, argument)

    def _number(self, size: int) -> int:
        return int.from_bytes(self._take(size), "big")

    def _take(self, size: int) -> bytes:
        end = self.position + size
        if end > len(self._data):
            raise IllFormed("unexpected EOF")
        taken = self._data[self.position : end]
        self.position = end
        return taken

    def _refuse(self, message: str, *, outermost: bool = False) -> None:
        if self.problem is None:
            self.problem = CborError(message, outermost=outermost)

    def _skip_break(self) -> bool:
        """True if the next byte ends an indefinite-length container. It is consumed then."""
        if self._data[self.position] != _BREAK:
            return False
        self.position += 1
        return True

    def _string(self, major: int, size: int) -> bytes:
        if size >= 0:
            return self._take(size)
        chunks = []
        while not self._skip_break():
            start = self._data[self.position]
            if start >> 5 != major:
                wrong, kind = _TYPES[start >> 5], _TYPES[major]
                raise IllFormed(f"cbor: wrong element type {wrong} for indefinite-length {kind}")
            if start & 31 == _INDEFINITE:
                raise IllFormed(f"cbor: indefinite-length {_TYPES[major]} chunk is not definite-length")
            self.position += 1
            info = start & 31
            if info > 27:
                raise IllFormed(f"cbor: invalid additional information {info} for type {_TYPES[major]}")
            chunks.append(self._take(info if info < 24 else self._number(_SIZES[info])))
        return b"".join(chunks)

    def _text(self, major: int, data: bytes) -> str:
        if major == _BYTES and self._later is not None:
            data = self._later(data)
        try:
            return data.decode()
        except UnicodeDecodeError:
            if major == _TEXT:
                self._refuse("cbor: invalid UTF-8 string")
            # Go's strings may hold any bytes. Its JSON replaces invalid ones by U+FFFD.
            return data.decode("utf-8", "replace")

    def _count(self, major: int, count: int) -> None:
        text, most = _MOST_ITEMS[major]
        if count > most:
            raise IllFormed(f"cbor: exceeded max number of {text}")

    def _array(self, size: int, depth: int) -> list[Any]:
        self._count(_ARRAY, size)
        items: list[Any] = []
        while len(items) < size if size >= 0 else not self._skip_break():
            items.append(self.item(depth))
        return items

    def _map(self, size: int, depth: int) -> dict[str, Any]:
        self._count(_MAP, size)
        made: dict[str, Any] = {}
        index = 0
        while index < size if size >= 0 else not self._skip_break():
            key_at = self.position
            key = self.item(depth)
            if size < 0 and self._data[self.position] == _BREAK:
                raise IllFormed('cbor: unexpected "break" code')
            value = self.item(depth)
            if not isinstance(key, str):
                found = _TYPES[self._data[key_at] >> 5]
                self._refuse(f"cbor: cannot unmarshal {found} into Go value of type string")
            elif key in made:
                text = f"cbor: found duplicate map key {go_quote(key)} at map element index {index}"
                self._refuse(text, outermost=depth == 1)
            else:
                made[key] = value
            index += 1
        return made

    def _integer(self, major: int, argument: int) -> int:
        value = argument if major == _UNSIGNED else -1 - argument
        if argument > _MOST_INT:
            kind = _TYPES[major]
            self._refuse(
                f"cbor: cannot unmarshal {kind} into Go value of type int64 ({value} overflows Go's int64)"
            )
        return value

    def _primitive(self, info: int, argument: int) -> bool | float | None:
        if info in _FLOATS:
            size = _SIZES[info]
            number: float = struct.unpack(_FLOATS[info], argument.to_bytes(size, "big"))[0]
            if not math.isfinite(number):
                what = "NaN" if math.isnan(number) else "infinity"
                raise IllFormed(f"{_NOT_ACCEPTED.format(_TYPES[_PRIMITIVE])}floating-point {what}")
            return number
        if info == 24 and argument < 32:
            raise IllFormed(f"cbor: invalid simple value {argument} for type {_TYPES[_PRIMITIVE]}")
        if argument not in _SIMPLE:
            name = _NOT_ACCEPTED.format(_TYPES[_PRIMITIVE])
            self._refuse(f"{name}simple value {argument} is not recognized")
            return None
        return _SIMPLE[argument]

    def _read_tagged(self, tag: int, depth: int) -> Any:
        if tag in _BIGNUMS:
            raise IllFormed(f"{_NOT_ACCEPTED.format(_TYPES[_TAG])}bignum")
        start = self._data[self.position]
        if tag == _TIME and start >> 5 != _TEXT:
            found = _TYPES[start >> 5]
            self._refuse(f"cbor: tag number 0 must be followed by text string, got {found}")
        elif tag == _EPOCH and start >> 5 not in (_UNSIGNED, _NEGATIVE) and not 0xF9 <= start <= 0xFB:
            found = _TYPES[start >> 5]
            self._refuse(
                f"cbor: tag number 1 must be followed by integer or floating-point number, got {found}"
            )
        if tag not in _LATER:
            value = self.item(depth)
            return self._time(value) if tag in (_TIME, _EPOCH) and self.problem is None else value
        before, self._later = self._later, _LATER[tag]
        value = self.item(depth)
        self._later = before
        return value

    def _time(self, value: Any) -> str:
        """Format a time as Go does, without trailing zeros in the fraction of a second."""
        if isinstance(value, str):
            if not _RFC3339.fullmatch(value):
                text = (
                    f'parsing time "{value}" as "2006-01-02T15:04:05Z07:00": cannot parse "{value}" as "2006"'
                )
                self._refuse(f"cbor: cannot set {value} for time.Time: {text}")
            return value
        try:
            moment = _START + timedelta(seconds=value)
        except OverflowError:
            self._refuse(
                "cbor: decoded time cannot be represented in RFC3339 format with sub-second precision"
            )
            return ""
        fraction = f"{moment.microsecond:06d}".rstrip("0")
        return f"{moment:%Y-%m-%dT%H:%M:%S}{'.' if fraction else ''}{fraction}Z"


_NOT_ACCEPTED: Final = "cbor: data item of cbor type {} is not accepted by protocol: "
