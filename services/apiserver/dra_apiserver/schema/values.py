"""Single values: the JSON types that a scalar accepts, and its stored form."""

import base64
import binascii
import functools
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from dra_shared.clock import rfc3339, rfc3339_micro
from dra_shared.quantity import Quantity, QuantityError

from dra_apiserver.schema.types import Scalar

_TIME = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})(?:[.,](\d+))?(Z|[+-]\d{2}:\d{2})", re.ASCII
)
_LAYOUT = "2006-01-02T15:04:05Z07:00"
_MICRO_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"
_RANGES = {Scalar.INT32: 1 << 31, Scalar.INT64: 1 << 63}


class WrongType(Exception):
    """The value is of another JSON type. ``found`` is its name in Go's decoder.

    ``go`` is the expected type, if that isn't the field's own.
    """

    def __init__(self, found: str, go: str = "") -> None:
        super().__init__(found)
        self.found = found
        self.go = go


class Malformed(Exception):
    """The value has the right JSON type but is malformed. The text is upstream's whole message."""


def json_type(value: Any) -> str:
    """Return the name of a JSON value's type in messages of Go's decoder."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int | float):
        return "number"
    return "array" if isinstance(value, list) else "object"


def _string(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise WrongType(json_type(value))


def _bool(value: Any) -> bool:
    if value is True or value is False:
        return bool(value)
    raise WrongType(json_type(value))


def _integer(limit: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if type(value) is int and -limit <= value < limit:
            return value
        if isinstance(value, int | float) and not isinstance(value, bool):
            raise WrongType(f"number {number_text(value)}")
        raise WrongType(json_type(value))

    return read


def number_text(value: float) -> str:
    """Format a number as a client is likely to have written it."""
    return repr(value)


def _float(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise WrongType(json_type(value))


def _bytes(value: Any) -> str:
    if not isinstance(value, str):
        raise WrongType(json_type(value))
    plain: str = value.replace("\n", "").replace("\r", "")
    try:
        data = base64.b64decode(plain, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Malformed(f"illegal base64 data at input byte {_bad_base64(value)}") from error
    return base64.b64encode(data).decode()


def _bad_base64(text: str) -> int:
    """Return the position at which Go's decoder stops."""
    taken = 0
    for position, char in enumerate(text):
        if char in "\r\n":
            continue
        if not char.isascii() or not (char.isalnum() or char in "+/"):
            if char != "=" or taken % 4 < 2:
                return position
            rest = position + 1
            if taken % 4 == 2:
                rest += len(text[rest:]) - len(text[rest:].lstrip("\r\n"))
                if rest == len(text):
                    return rest
                if text[rest] != "=":
                    return rest - 1
                rest += 1
            return rest
        taken += 1
    return len(text) - taken % 4


def _any(value: Any) -> Any:
    return value


@functools.lru_cache(maxsize=1024)
def _canonical_quantity(text: str) -> str:
    return str(Quantity.parse(text))


def _quantity(value: Any) -> str:
    if not isinstance(value, str):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Malformed(_quantity_message())
        value = number_text(value)
    try:
        return _canonical_quantity(value.strip())
    except QuantityError as error:
        raise Malformed(str(error)) from error


def _quantity_message() -> str:
    try:
        Quantity.parse("{}")
    except QuantityError as error:
        return str(error)
    raise AssertionError("a brace is not a quantity")


def _int_or_string(value: Any) -> int | str:
    if isinstance(value, str):
        return value
    if type(value) is int and -(1 << 31) <= value < 1 << 31:
        return value
    found = json_type(value)
    if found == "number":
        found = f"number {number_text(value)}"
    raise WrongType(found, "int32")


def parse_time(text: str, layout: str = _LAYOUT) -> datetime:
    """Parse an RFC 3339 time.

    Raises:
        Malformed: it is not one. The message is that of Go's ``time.Parse``.
    """
    match = _TIME.match(text)
    if match is not None and match.end() < len(text):
        raise Malformed(f'parsing time "{text}": extra text: "{text[match.end() :]}"')
    if match is None:
        raise Malformed(f'parsing time "{text}" as "{layout}": cannot parse "{_remainder(text)}"')
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    try:
        moment = datetime(int(year), int(month), int(day), int(hour), int(minute), int(second), tzinfo=UTC)
    except ValueError as error:
        part = next(
            word for word in ("year", "month", "day", "hour", "minute", "second") if word in str(error)
        )
        raise Malformed(f'parsing time "{text}": {part} out of range') from error
    moment = moment.replace(microsecond=int(((fraction or "") + "000000")[:6]))
    return moment if zone == "Z" else _to_utc(text, moment, zone)


def _to_utc(text: str, moment: datetime, zone: str) -> datetime:
    """Convert a time in another zone to UTC."""
    hours, minutes = int(zone[1:3]), int(zone[4:6])
    # Go accepts the limits too.
    if hours > 24 or minutes > 60:
        part = "minute" if minutes > 60 else "hour"
        raise Malformed(f'parsing time "{text}": time zone offset {part} out of range')
    shift = timedelta(hours=hours, minutes=minutes)
    try:
        return moment + shift if zone[0] == "-" else moment - shift
    except OverflowError:
        # Go's years have a larger range than Python's.
        raise Malformed(f'parsing time "{text}": year out of range') from None


def _remainder(text: str) -> str:
    parts = (("\\d{4}", "2006"), ("-", "-"), ("\\d{2}", "01"), ("-", "-"), ("\\d{2}", "02"), ("T", "T"),
             ("\\d{2}", "15"), (":", ":"), ("\\d{2}", "04"), (":", ":"), ("\\d{2}", "05"))  # fmt: skip
    position = 0
    for pattern, name in parts:
        match = re.compile(pattern, re.ASCII).match(text, position)
        if match is None:
            return f'{text[position:]}" as "{name}'
        position = match.end()
    return f'{text[position:]}" as "Z07:00'


def _time(value: Any) -> str:
    if not isinstance(value, str):
        raise WrongType(json_type(value), "string")
    return _canonical_time(value)


@functools.lru_cache(maxsize=4096)
def _canonical_time(text: str) -> str:
    moment = parse_time(text)
    return text if len(text) == 20 and text[19] == "Z" else rfc3339(moment)


def _micro_time(value: Any) -> str:
    if not isinstance(value, str):
        raise WrongType(json_type(value), "string")
    return rfc3339_micro(parse_time(value, _MICRO_LAYOUT))


READERS: dict[Scalar, Callable[[Any], Any]] = {
    Scalar.STRING: _string,
    Scalar.BOOL: _bool,
    Scalar.INT32: _integer(_RANGES[Scalar.INT32]),
    Scalar.INT64: _integer(_RANGES[Scalar.INT64]),
    Scalar.FLOAT: _float,
    Scalar.BYTES: _bytes,
    Scalar.TIME: _time,
    Scalar.MICRO_TIME: _micro_time,
    Scalar.QUANTITY: _quantity,
    Scalar.INT_OR_STRING: _int_or_string,
    Scalar.ANY: _any,
}
