"""Durations and ages: parse them, and write them as Go and kubectl do.

Go's notation (``1h2m3.5s``) is that of ``time.ParseDuration`` and ``time.Duration.String``. Ages are written as
``k8s.io/apimachinery/pkg/util/duration`` does.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dra_shared.quoting import go_quote

_UNITS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_MOST = (1 << 63) - 1
# An age may have days, which Go's notation lacks.
_AGE = re.compile(r"(?=.)(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?").fullmatch
#: The text that is shown instead of an age if an object has no timestamp.
UNKNOWN = "<unknown>"
_PART = re.compile(r"(?P<whole>[0-9]*)(?:\.(?P<rest>[0-9]*))?(?P<unit>[^0-9.]*)")


@dataclass(frozen=True, order=True, slots=True)
class Duration:
    """A duration in nanoseconds (``metav1.Duration``)."""

    nanoseconds: int = 0

    @property
    def seconds(self) -> float:
        return self.nanoseconds / _UNITS["s"]

    def __bool__(self) -> bool:
        return self.nanoseconds != 0

    def __str__(self) -> str:
        return _text(self.nanoseconds)


ZERO = Duration()


def seconds(count: int) -> Duration:
    """Return a duration of ``count`` seconds."""
    return Duration(count * _UNITS["s"])


def parse(text: str) -> Duration:
    """Parse a duration such as ``1h2m3.5s``.

    Raises:
        ValueError: the text is not a duration; the message is Go's.
    """
    sign = -1 if text.startswith("-") else 1
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return Duration()
    if not rest:
        raise ValueError(f"time: invalid duration {go_quote(text)}")
    total = 0
    while rest:
        found = _PART.match(rest)
        assert found is not None
        whole, fraction, unit = found["whole"], found["rest"] or "", found["unit"]
        if not whole and not fraction:
            raise ValueError(f"time: invalid duration {go_quote(text)}")
        if not unit:
            raise ValueError(f"time: missing unit in duration {go_quote(text)}")
        if unit not in _UNITS:
            raise ValueError(f"time: unknown unit {go_quote(unit)} in duration {go_quote(text)}")
        scale = _UNITS[unit]
        total += int(whole or "0") * scale + int(fraction or "0") * scale // 10 ** len(fraction)
        if total > _MOST + (sign < 0):
            raise ValueError(f"time: invalid duration {go_quote(text)}")
        rest = rest[found.end() :]
    return Duration(sign * total)


def _text(nanoseconds: int) -> str:
    if not nanoseconds:
        return "0s"
    sign, left = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    for unit, above in (("ns", "µs"), ("µs", "ms"), ("ms", "s")):
        if left < _UNITS[above]:
            return f"{sign}{_decimal(left, _UNITS[unit])}{unit}"
    minutes, left = divmod(left, _UNITS["m"])
    hours, minutes = divmod(minutes, 60)
    text = f"{_decimal(left, _UNITS['s'])}s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    return f"{sign}{hours}h{text}" if hours else f"{sign}{text}"


def _decimal(value: int, unit: int) -> str:
    whole, rest = divmod(value, unit)
    if not rest:
        return str(whole)
    digits = len(str(unit)) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0")


def parse_age(text: str) -> float | None:
    """Return the seconds of ``90s``, ``24h``, ``1h30m`` or ``7d``; None if the text is not an age."""
    found = _AGE(text)
    if found is None:
        return None
    days, hours, minutes, seconds, milliseconds = (float(number or 0) for number in found.groups())
    return days * 86400 + hours * 3600 + minutes * 60 + seconds + milliseconds / 1000


def human_duration(seconds: float) -> str:
    """Write a duration with at most two units, as ``kubectl`` shows ages: ``5s``, ``3m20s``, ``7d``."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 0:
        return "0s"
    minutes, hours = whole // 60, whole // 3600
    days, years = hours // 24, hours // 24 // 365
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    if days < 2920:
        return _two(years, "y", days % 365, "d")
    return f"{years}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


def moment(text: Any) -> datetime | None:
    """Parse a timestamp of an object. Return None if it is missing or malformed."""
    if not isinstance(text, str) or not text:
        return None
    text = re.sub(r"(\.\d{6})\d+", r"\1", text.replace("Z", "+00:00"))
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def since(text: Any, now: datetime) -> str:
    """Return the age of a time as ``kubectl`` shows it."""
    start = moment(text)
    return UNKNOWN if start is None else human_duration((now - start).total_seconds())
