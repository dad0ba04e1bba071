"""Durations and timestamps: parse them, format them and read their parts.

Mirrors cel-go's common/stdlib/standard.go, common/types/duration.go and timestamp.go.
"""

import datetime
import functools
import posixpath
import re
import zoneinfo
from typing import Final

from dra_shared import durations
from dra_shared.cel.declarations import Function, Implementation, Overload, function, overload
from dra_shared.cel.errors import EvaluationError
from dra_shared.cel.library.operators import checked_timestamp, conversion_error, identity
from dra_shared.cel.values import Duration, Timestamp
from dra_shared.quoting import go_quote
from dra_shared.version import V1_37, Version

_NANOS: Final = 1_000_000_000
_TIMESTAMP: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d?):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))"
)
# The calendar repeats every 400 years.
_CYCLE: Final = 146_097 * 86_400
_FIRST_WEEK: Final = -62_135_596_800 + 7 * 86_400
_LAST_WEEK: Final = 253_402_300_799 - 7 * 86_400
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}")


def string_to_duration(text: str) -> Duration:
    try:
        return Duration(durations.parse(text).nanoseconds)
    except ValueError:
        raise conversion_error("string", "google.protobuf.Duration") from None


def _int_to_duration(value: int) -> Duration:
    """Raise an error: the conversion is declared, but integers are never converted."""
    raise EvaluationError("type conversion error from 'int' to 'google.protobuf.Duration'")


def string_to_timestamp(text: str) -> Timestamp:
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise conversion_error("string", "google.protobuf.Timestamp")
    year, month, day, hour, minute, second = (int(match[index]) for index in range(1, 7))
    try:
        when = datetime.datetime(year, month, day, hour, minute, second, tzinfo=datetime.UTC)
    except ValueError:
        raise conversion_error("string", "google.protobuf.Timestamp") from None
    offset = 0
    if match[8]:
        hours, minutes = int(match[9]), int(match[10])
        if hours > 24 or minutes >= 60:
            raise conversion_error("string", "google.protobuf.Timestamp")
        offset = (hours * 3600 + minutes * 60) * (-1 if match[8] == "-" else 1)
    delta = when - _EPOCH
    seconds = delta.days * 86400 + delta.seconds - offset
    nanos = int((match[7] or "")[:9].ljust(9, "0"))
    return checked_timestamp(seconds * _NANOS + nanos, offset)


def int_to_timestamp(value: int) -> Timestamp:
    return checked_timestamp(value * _NANOS)


def seconds(value: Timestamp) -> int:
    """Return the seconds since 1970, rounded down."""
    return int(value) // _NANOS


def duration_text(value: Duration) -> str:
    """Format a duration as seconds, with as many digits as needed."""
    seconds = int(value) // _NANOS if value >= 0 else -(-int(value) // _NANOS)
    rest = int(value) - seconds * _NANOS
    number = float(seconds) + rest / 1e9
    text = repr(number)
    if "e" in text:
        text = f"{number:.20f}".rstrip("0")
    return text.removesuffix(".0").removesuffix(".") + "s"


def timestamp_text(value: Timestamp) -> str:
    """Format a timestamp as RFC 3339 in its own zone, without trailing zeros."""
    sign = "-" if value.offset < 0 else "+"
    hours, minutes = divmod(abs(value.offset) // 60, 60)
    zone = f"{sign}{hours:02d}:{minutes:02d}" if value.offset else "Z"
    when, years = _in_zone(value, zone.rstrip("Z"))
    nanos = int(value) % _NANOS
    fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
    return f"{when.year + years:04d}-{when:%m-%dT%H:%M:%S}{fraction}{zone}"


def _in_zone(value: Timestamp, zone: str) -> tuple[datetime.datetime, int]:
    """Return the time in a zone, and the years by which it is off.

    Near the limits of Python's dates, a year 400 years away is used, which has the same calendar.
    """
    seconds = int(value) // _NANOS
    if ":" in zone:
        seconds, zone = seconds + _offset(zone), ""
    if seconds < _FIRST_WEEK:
        return _convert_zone(seconds + _CYCLE, zone), -400
    if seconds > _LAST_WEEK:
        return _convert_zone(seconds - _CYCLE, zone), 400
    return _convert_zone(seconds, zone), 0


def _convert_zone(seconds: int, zone: str) -> datetime.datetime:
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
    """Return Go's error for a zone name that it rejects without looking for a file, or None."""
    if ".." in zone or zone.startswith(("/", "\\")):
        return "time: invalid location name"
    if "\0" in zone:
        return "invalid argument"
    return "not a directory" if zone.endswith("/") and posixpath.normpath(zone) in _zones() else None


def _unknown_zone(zone: str) -> str:
    """Return Go's error for a zone file that does not exist."""
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
    """Return the seconds east of UTC. Large offsets wrap around, as in Go."""
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


def _getter(name: str, part: str, *more: Overload, with_zone: str = "") -> Function:
    """Declare a part of a timestamp, in UTC or in the zone that an argument names."""
    run = _part(part)
    return function(
        name,
        overload(f".timestamp_to_{part}(timestamp) int", run),
        overload(f".{with_zone or f'timestamp_to_{part}_with_tz'}(timestamp, string) int", run),
        *more,
    )


FUNCTIONS: Final[tuple[Function, ...]] = (
    function(
        "timestamp",
        overload("timestamp_to_timestamp(timestamp) timestamp", identity),
        overload("int64_to_timestamp(int) timestamp", int_to_timestamp),
        overload("string_to_timestamp(string) timestamp", string_to_timestamp),
    ),
    _getter("getFullYear", "year"),
    _getter("getMonth", "month"),
    _getter("getDayOfYear", "day_of_year"),
    _getter("getDayOfMonth", "day_of_month"),
    _getter("getDate", "day_of_month_1_based"),
    _getter("getDayOfWeek", "day_of_week"),
    _getter(
        "getHours",
        "hours",
        overload(".duration_to_hours(duration) int", _duration_part(3600 * _NANOS)),
    ),
    _getter(
        "getMinutes",
        "minutes",
        overload(".duration_to_minutes(duration) int", _duration_part(60 * _NANOS)),
    ),
    _getter(
        "getSeconds",
        "seconds",
        overload(".duration_to_seconds(duration) int", _duration_part(_NANOS)),
        with_zone="timestamp_to_seconds_tz",
    ),
    _getter(
        "getMilliseconds",
        "milliseconds",
        overload(".duration_to_milliseconds(duration) int", _milliseconds),
    ),
)


@functools.cache
def duration_of(kubernetes: Version) -> tuple[Function, ...]:
    """Return ``duration`` of a version; cel-go 0.29, since 1.37, does not take integers."""
    overloads = [
        overload("duration_to_duration(duration) duration", identity),
        overload("string_to_duration(string) duration", string_to_duration),
    ]
    if kubernetes < V1_37:
        overloads.insert(1, overload("int64_to_duration(int) duration", _int_to_duration))
    return (function("duration", *overloads),)
