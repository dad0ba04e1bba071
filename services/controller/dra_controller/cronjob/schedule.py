"""Cron schedules: the next time that is due. Pure.

Mirrors the standard parser of github.com/robfig/cron (parser.go and spec.go): five fields, a word such as ``@daily``,
or ``@every`` with a duration. A day is due if both day fields allow it; if neither is ``*``, one of them is enough.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from dra_shared import durations

_WORDS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_RANGES: tuple[tuple[int, int, tuple[str, ...]], ...] = (
    (0, 59, ()),
    (0, 23, ()),
    (1, 31, ()),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)
# As upstream: a schedule that is not due within this time never is.
_YEARS = 5


@dataclass(frozen=True)
class Schedule:
    """The minutes, hours, days of the month, months and days of the week that are due; or a fixed interval."""

    fields: tuple[frozenset[int], ...] = ()
    any_day: bool = False
    """True if a day field is ``*``, so that only the other one decides."""
    every: timedelta | None = None

    def after(self, moment: datetime, zone: tzinfo = UTC) -> datetime | None:
        """Return the first time after ``moment``, in UTC; None if there is none within five years."""
        if self.every is not None:
            return (moment + self.every).replace(microsecond=0)
        minutes, hours, _, months, _ = self.fields
        local = moment.astimezone(zone).replace(tzinfo=None, second=0, microsecond=0) + timedelta(minutes=1)
        last = local.year + _YEARS
        while local.year <= last:
            if local.month not in months:
                year, month = divmod(local.year * 12 + local.month, 12)
                local = datetime(year, month + 1, 1)
            elif not self._has_day(local):
                local = local.replace(hour=0, minute=0) + timedelta(days=1)
            elif local.hour not in hours:
                local = local.replace(minute=0) + timedelta(hours=1)
            elif local.minute not in minutes:
                local += timedelta(minutes=1)
            else:
                found = local.replace(tzinfo=zone).astimezone(UTC)
                # The time does not exist in the hour that is skipped when daylight saving time begins.
                if found.astimezone(zone).replace(tzinfo=None) == local and found > moment:
                    return found
                local += timedelta(minutes=1)
        return None

    def _has_day(self, moment: datetime) -> bool:
        in_month = moment.day in self.fields[2]
        in_week = (moment.weekday() + 1) % 7 in self.fields[4]
        return in_month and in_week if self.any_day else in_month or in_week


def parse(text: str) -> Schedule:
    """Parse a schedule.

    Raises:
        ValueError: the text is not a schedule.
    """
    if text.startswith("@every "):
        try:
            every = durations.parse(text.removeprefix("@every "))
        except ValueError as error:
            raise ValueError(f"failed to parse duration {text}: {error}") from error
        # As upstream: whole seconds, and at least one.
        return Schedule(every=timedelta(seconds=max(1, int(every.seconds))))
    parts = _WORDS.get(text, text).split()
    if len(parts) != len(_RANGES):
        raise ValueError(f"expected exactly 5 fields, found {len(parts)}: [{text}]")
    fields = tuple(_field(part, *limits) for part, limits in zip(parts, _RANGES, strict=True))
    return Schedule(fields, any(_is_star(parts[index]) for index in (2, 4)))


def _is_star(part: str) -> bool:
    spans = (entry.partition("/") for entry in part.split(","))
    return any(span in ("*", "?") and step in ("", "1") for span, _, step in spans)


def _field(part: str, low: int, high: int, names: tuple[str, ...]) -> frozenset[int]:
    values: set[int] = set()
    for entry in part.split(","):
        span, slash, step_text = entry.partition("/")
        first_text, dash, last_text = span.partition("-")
        if span in ("*", "?"):
            first, last = low, high
        else:
            first = _number(first_text, low, names)
            last = _number(last_text, low, names) if dash else (high if slash else first)
        step = int(step_text) if slash else 1
        if first < low or last > high or first > last or step < 1:
            raise ValueError(f"out of range: {entry}")
        values.update(range(first, last + 1, step))
    return frozenset(values)


def _number(text: str, low: int, names: tuple[str, ...]) -> int:
    return names.index(text.lower()) + low if text.lower() in names else int(text)
