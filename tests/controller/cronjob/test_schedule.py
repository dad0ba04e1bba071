"""Due times of cron schedules."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from dra_controller.cronjob.schedule import parse

from tests.support.cases import each_case


def _at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@each_case(
    ("schedule", "moment", "expected"),
    [
        ("* * * * *", "2026-01-01T00:00:30", "2026-01-01T00:01:00"),
        ("*/15 * * * *", "2026-01-01T00:45:00", "2026-01-01T01:00:00"),
        ("5/20 3 * * *", "2026-01-01T03:25:00", "2026-01-01T03:45:00"),
        ("0 0 31 * *", "2026-01-31T00:00:00", "2026-03-31T00:00:00"),
        ("0 0 29 feb *", "2026-01-01T00:00:00", "2028-02-29T00:00:00"),
        ("0 12 * * mon-fri", "2026-01-02T12:00:00", "2026-01-05T12:00:00"),
        # Both day fields given: one of them is enough.
        ("0 0 13 * fri", "2026-02-06T00:00:00", "2026-02-13T00:00:00"),
        ("0 0 15 * 0", "2026-02-08T00:00:00", "2026-02-15T00:00:00"),
        ("0 0 10 * 0", "2026-02-08T00:00:00", "2026-02-10T00:00:00"),
        ("0 0 */10 * 0", "2026-02-08T00:00:00", "2026-02-11T00:00:00"),
        ("@monthly", "2026-12-05T00:00:00", "2027-01-01T00:00:00"),
        ("@every 1h30m", "2026-01-01T00:00:00", "2026-01-01T01:30:00"),
    ],
)
def test_a_schedule_returns_its_next_due_time(schedule: str, moment: str, expected: str) -> None:
    assert parse(schedule).after(_at(moment)) == _at(expected)


def test_a_schedule_for_a_day_that_does_not_exist_is_never_due() -> None:
    assert parse("0 0 30 2 *").after(_at("2026-01-01T00:00:00")) is None


def test_a_schedule_skips_and_repeats_no_time_when_clocks_change() -> None:
    """The hour that is skipped in spring is never due. The hour that repeats in autumn is due once."""
    try:
        zone = ZoneInfo("Europe/Berlin")
    except KeyError:
        pytest.skip("this machine knows no time zones")
    spring = parse("30 2 * * *").after(_at("2026-03-28T12:00:00"), zone)
    assert spring == _at("2026-03-30T00:30:00")
    autumn = parse("30 2 * * *").after(_at("2026-10-24T12:00:00"), zone)
    assert autumn == _at("2026-10-25T00:30:00")
    assert parse("30 2 * * *").after(autumn, zone) == autumn + timedelta(hours=25)


@each_case(
    "text", ["", "* * * *", "60 * * * *", "* * * * 8", "*/0 * * * *", "@every", "@every x", "a * * * *"]
)
def test_an_invalid_schedule_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse(text)
