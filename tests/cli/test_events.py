"""``dralab events``."""

from datetime import UTC, datetime, timedelta

import pytest
from dra_cli.commands.events import row

_AGES = [
    (timedelta(seconds=215), "3m35s"),
    (timedelta(minutes=12), "12m"),
    (timedelta(hours=5, minutes=3), "5h3m"),
]


@pytest.mark.parametrize(("ago", "shown"), _AGES)
def test_the_events_command_shows_the_same_ages_as_get_events(ago: timedelta, shown: str) -> None:
    last = (datetime.now(UTC) - ago).isoformat()
    assert row({"lastTimestamp": last})[0] == shown
    assert row({"lastTimestamp": last, "count": 3})[0] == f"{shown} (x3)"


def test_an_event_without_a_time_has_no_age() -> None:
    assert row({})[0] == "<unknown>"
