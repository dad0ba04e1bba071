"""Test that durations are parsed and printed as in Go."""

import pytest
from dra_shared.durations import Duration, parse, parse_age, seconds

from tests.support.cases import each_case


@each_case(
    ("text", "printed"),
    [
        ("0", "0s"),
        ("60s", "1m0s"),
        ("1h2m3.5s", "1h2m3.5s"),
        ("-1.5h", "-1h30m0s"),
        ("1500us", "1.5ms"),
        (".5s", "500ms"),
        ("1ns", "1ns"),
        ("1h", "1h0m0s"),
        ("1m1ms", "1m0.001s"),
    ],
)
def test_durations_are_printed_as_in_go(text: str, printed: str) -> None:
    assert str(parse(text)) == printed
    assert parse(printed) == parse(text)


@each_case(
    ("text", "message"),
    [
        ("", 'time: invalid duration ""'),
        ("3", 'time: missing unit in duration "3"'),
        ("3x", 'time: unknown unit "x" in duration "3x"'),
        ("s", 'time: invalid duration "s"'),
        ("-", 'time: invalid duration "-"'),
        ("9999999h", 'time: invalid duration "9999999h"'),
    ],
)
def test_invalid_durations_have_the_error_messages_of_go(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        parse(text)


def test_durations_are_compared_by_length() -> None:
    assert seconds(1) > Duration(999_999_999)
    assert not Duration()


@pytest.mark.parametrize(
    ("text", "age"), [("7d", 604800), ("1h30m", 5400), ("1d2h3m4.5s", 93784.5), ("90s", 90), ("20ms", 0.02)]
)
def test_an_age_may_have_days(text: str, age: float) -> None:
    assert parse_age(text) == pytest.approx(age)


@pytest.mark.parametrize("text", ["", "7", "2m1h", "-5m", "1w"])
def test_texts_that_are_not_ages_are_rejected(text: str) -> None:
    assert parse_age(text) is None
