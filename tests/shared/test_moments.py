"""Test the forms of moments that people write."""

from datetime import UTC, datetime, timedelta

import pytest
from dra_shared.moments import parse_moment

from tests.support.cases import each_case

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@each_case(
    ("text", "moment"),
    [
        ("now", NOW),
        ("1234", 1234),
        ("-5m", NOW - timedelta(minutes=5)),
        ("-1h30m", NOW - timedelta(minutes=90)),
        ("-2d", NOW - timedelta(days=2)),
        ("-0.5s", NOW - timedelta(seconds=0.5)),
        ("2026-01-01T00:00:00Z", datetime(2026, 1, 1, tzinfo=UTC)),
        ("2026-01-01T01:00:00.250+01:00", datetime(2026, 1, 1, 0, 0, 0, 250000, tzinfo=UTC)),
    ],
)
def test_moments_are_read_in_each_form(text: str, moment: int | datetime) -> None:
    assert parse_moment(text, NOW) == moment


@each_case("text", ["", "-", "5m", "-5", "-5w", "yesterday", "2026-01-01T00:00:00", "-99999999999d"])
def test_texts_that_are_not_moments_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"moment|too long ago"):
        parse_moment(text, NOW)
