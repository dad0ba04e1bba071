"""Durations in Go's notation (``time.ParseDuration``, ``time.Duration.String``)."""

import re
from dataclasses import dataclass

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
