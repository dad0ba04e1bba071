"""Conversions between types, and the parts of times and durations."""

import datetime
import functools
import math
import posixpath
import re
import zoneinfo
from typing import Any, Final

from dra_shared.cel.errors import EvaluationError
from dra_shared.cel.library import Implementation
from dra_shared.cel.library.operators import (
    checked_int,
    checked_timestamp,
    checked_uint,
    identity,
)
from dra_shared.cel.values import Duration, Timestamp, Uint, format_double
from dra_shared.quoting import go_quote

_NANOS: Final = 1_000_000_000
_TRUE: Final = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE: Final = frozenset(("0", "f", "F", "FALSE", "false", "False"))
_INT: Final = re.compile(r"[+-]?[0-9]+")
_UINT: Final = re.compile(r"[0-9]+")
_DOUBLE: Final = re.compile(
    r"[+-]?(?:(?:_D\.?(?:_D)?|\._D)(?:[eE][+-]?[0-9]+)?|[iI][nN][fF](?:[iI][nN][iI][tT][yY])?|[nN][aA][nN])".replace(
        "_D", "[0-9]+(?:_[0-9]+)*"
    )
)
_HEX_DOUBLE: Final = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+")
_DURATION: Final = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+|[+-]?0")
_PART: Final = re.compile(r"([0-9]*)\.?([0-9]*)(ns|us|µs|μs|ms|s|m|h)")
_UNITS: Final = {
    "ns": 1, "us": 1000, "µs": 1000, "μs": 1000, "ms": 1_000_000, "s": _NANOS, "m": 60 * _NANOS, "h": 3600 * _NANOS,
}  # fmt: skip
_TIMESTAMP: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d?):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))"
)
# The calendar repeats itself every 400 years.
_CYCLE: Final = 146_097 * 86_400
_FIRST_WEEK: Final = -62_135_596_800 + 7 * 86_400
_LAST_WEEK: Final = 253_402_300_799 - 7 * 86_400
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}")


def _fail(source: str, target: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from '{source}' to '{target}'")


def string_to_int(text: str) -> int:
    if _INT.fullmatch(text) and len(text) < 40 and -(1 << 63) <= (value := int(text)) < 1 << 63:
        return value
    raise _fail("string", "int")


def string_to_uint(text: str) -> Uint:
    if _UINT.fullmatch(text) and len(text) < 40 and (value := int(text)) < 1 << 64:
        return Uint(value)
    raise _fail("string", "uint")


def string_to_double(text: str) -> float:
    if _HEX_DOUBLE.fullmatch(text):
        try:
            return float.fromhex(text)
        except OverflowError:
            raise _fail("string", "double") from None
    # Both Go and Python allow underscores between digits.
    if _DOUBLE.fullmatch(text):
        value = float(text)
        if not math.isinf(value) or "n" in text.lower():
            return value
    raise _fail("string", "double")


def string_to_bool(text: str) -> bool:
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise _fail("string", "bool")


def string_to_duration(text: str) -> Duration:
    if not _DURATION.fullmatch(text):
        raise _fail("string", "google.protobuf.Duration")
    total = 0
    for whole, fraction, unit in _PART.findall(text):
        scale = _UNITS[unit]
        total += int(whole or "0") * scale
        if fraction:
            total += int(fraction) * scale // 10 ** len(fraction)
    if text.startswith("-"):
        total = -total
    if not -(1 << 63) <= total < 1 << 63:
        raise _fail("string", "google.protobuf.Duration")
    return Duration(total)


def _int_to_duration(value: int) -> Duration:
    """Declared, but no integer converts."""
    raise EvaluationError("type conversion error from 'int' to 'google.protobuf.Duration'")


def string_to_timestamp(text: str) -> Timestamp:
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise _fail("string", "google.protobuf.Timestamp")
    year, month, day, hour, minute, second = (int(match[index]) for index in range(1, 7))
    try:
        when = datetime.datetime(year, month, day, hour, minute, second, tzinfo=datetime.UTC)
    except ValueError:
        raise _fail("string", "google.protobuf.Timestamp") from None
    offset = 0
    if match[8]:
        hours, minutes = int(match[9]), int(match[10])
        if hours > 24 or minutes >= 60:
            raise _fail("string", "google.protobuf.Timestamp")
        offset = (hours * 3600 + minutes * 60) * (-1 if match[8] == "-" else 1)
    delta = when - _EPOCH
    seconds = delta.days * 86400 + delta.seconds - offset
    nanos = int((match[7] or "")[:9].ljust(9, "0"))
    return checked_timestamp(seconds * _NANOS + nanos, offset)


def double_to_int(value: float) -> int:
    if math.isnan(value) or not -9223372036854775808.0 < value < 9223372036854775808.0:
        raise EvaluationError("integer overflow")
    return int(value)


def double_to_uint(value: float) -> Uint:
    if math.isnan(value) or not 0 <= value < 18446744073709551616.0:
        raise EvaluationError("unsigned integer overflow")
    return Uint(int(value))


def int_to_timestamp(value: int) -> Timestamp:
    return checked_timestamp(value * _NANOS)


def bytes_to_string(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


def duration_text(value: Duration) -> str:
    """Seconds with as many digits as it takes."""
    seconds = int(value) // _NANOS if value >= 0 else -(-int(value) // _NANOS)
    rest = int(value) - seconds * _NANOS
    number = float(seconds) + rest / 1e9
    text = repr(number)
    if "e" in text:
        text = f"{number:.20f}".rstrip("0")
    return text.removesuffix(".0").removesuffix(".") + "s"


def timestamp_text(value: Timestamp) -> str:
    """RFC 3339 in the zone that it was given in, without trailing zeros."""
    sign = "-" if value.offset < 0 else "+"
    hours, minutes = divmod(abs(value.offset) // 60, 60)
    zone = f"{sign}{hours:02d}:{minutes:02d}" if value.offset else "Z"
    when, years = _in_zone(value, zone.rstrip("Z"))
    nanos = int(value) % _NANOS
    fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
    return f"{when.year + years:04d}-{when:%m-%dT%H:%M:%S}{fraction}{zone}"


def _in_zone(value: Timestamp, zone: str) -> tuple[datetime.datetime, int]:
    """The time there, and by how many years that is off: near the ends the calendar is used of 400 years away."""
    seconds = int(value) // _NANOS
    if ":" in zone:
        seconds, zone = seconds + _offset(zone), ""
    if seconds < _FIRST_WEEK:
        return _shown(seconds + _CYCLE, zone), -400
    if seconds > _LAST_WEEK:
        return _shown(seconds - _CYCLE, zone), 400
    return _shown(seconds, zone), 0


def _shown(seconds: int, zone: str) -> datetime.datetime:
    when = _EPOCH + datetime.timedelta(seconds=seconds)
    if zone in ("UTC", "", "Local"):
        return when
    problem = _zone_problem(zone)
    if problem is not None:
        raise EvaluationError(problem)
    try:
        return when.astimezone(zoneinfo.ZoneInfo(posixpath.normpath(zone)))
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise EvaluationError(_unknown_zone(zone)) from None


def _zone_problem(zone: str) -> str | None:
    """Why Go does not even look for the zone's file."""
    if ".." in zone or zone.startswith(("/", "\\")):
        return "time: invalid location name"
    if "\0" in zone:
        return "invalid argument"
    return "not a directory" if zone.endswith("/") and posixpath.normpath(zone) in _zones() else None


def _unknown_zone(zone: str) -> str:
    """What Go says when there is no such file."""
    path = posixpath.normpath(zone)
    if any(known.startswith(f"{path}/") for known in _zones()):
        return "is a directory"
    if any(path.startswith(f"{known}/") for known in _zones()):
        return "not a directory"
    return f"unknown time zone {zone}"


@functools.cache
def _zones() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())


def _offset(zone: str) -> int:
    """Seconds east of UTC; too many go round, as in Go."""
    hours, _, minutes = zone.partition(":")
    whole, part = _atoi(hours), _atoi(minutes)
    total = whole * 60 + (-part if zone.startswith("-") else part)
    nanos = (total * 60 * _NANOS + (1 << 63)) % (1 << 64) - (1 << 63)
    return nanos // _NANOS if nanos >= 0 else -(-nanos // _NANOS)


def _atoi(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise EvaluationError(f"strconv.Atoi: parsing {go_quote(text)}: invalid syntax")
    return int(text)


def _part(name: str) -> Implementation:
    def part(value: Timestamp, zone: str = "UTC") -> int:
        when, years = _in_zone(value, zone)
        match name:
            case "year":
                return when.year + years
            case "month":
                return when.month - 1
            case "day_of_year":
                return when.timetuple().tm_yday - 1
            case "day_of_month":
                return when.day - 1
            case "day_of_month_1_based":
                return when.day
            case "day_of_week":
                return when.isoweekday() % 7
            case "hours":
                return when.hour
            case "minutes":
                return when.minute
            case "seconds":
                return when.second
        return int(value) % _NANOS // 1_000_000

    return part


def _duration_part(unit: int) -> Implementation:
    def part(value: Duration) -> int:
        number = int(value)
        return number // unit if number >= 0 else -(-number // unit)

    return part


def _milliseconds(value: Duration) -> int:
    number = abs(int(value)) // 1_000_000
    return number if value >= 0 else -number


_PARTS: Final = [
    "year",
    "month",
    "day_of_year",
    "day_of_month",
    "day_of_month_1_based",
    "day_of_week",
    "hours",
    "minutes",
    "seconds",
    "milliseconds",
]


def _text_of_address(value: Any) -> str:
    return str(value)


OVERLOADS: Final[dict[str, Implementation]] = {
    "bool_to_bool": identity,
    "string_to_bool": string_to_bool,
    "bytes_to_bytes": identity,
    "string_to_bytes": str.encode,
    "double_to_double": identity,
    "int64_to_double": float,
    "string_to_double": string_to_double,
    "uint64_to_double": float,
    "duration_to_duration": identity,
    "int64_to_duration": _int_to_duration,
    "string_to_duration": string_to_duration,
    "int64_to_int64": identity,
    "double_to_int64": double_to_int,
    "duration_to_int64": int,
    "string_to_int64": string_to_int,
    "timestamp_to_int64": lambda value: int(value) // _NANOS,
    "uint64_to_int64": lambda value: checked_int(int(value)),
    "string_to_string": identity,
    "bool_to_string": lambda value: "true" if value else "false",
    "bytes_to_string": bytes_to_string,
    "double_to_string": format_double,
    "duration_to_string": duration_text,
    "int64_to_string": str,
    "timestamp_to_string": timestamp_text,
    "uint64_to_string": lambda value: str(int(value)),
    "ip_to_string": _text_of_address,
    "cidr_to_string": _text_of_address,
    "timestamp_to_timestamp": identity,
    "int64_to_timestamp": int_to_timestamp,
    "string_to_timestamp": string_to_timestamp,
    "uint64_to_uint64": identity,
    "double_to_uint64": double_to_uint,
    "int64_to_uint64": checked_uint,
    "string_to_uint64": string_to_uint,
    **{f"timestamp_to_{name}": _part(name) for name in _PARTS},
    **{f"timestamp_to_{name}_with_tz": _part(name) for name in _PARTS},
    "timestamp_to_seconds_tz": _part("seconds"),
    "duration_to_hours": _duration_part(3600 * _NANOS),
    "duration_to_minutes": _duration_part(60 * _NANOS),
    "duration_to_seconds": _duration_part(_NANOS),
    "duration_to_milliseconds": _milliseconds,
}
