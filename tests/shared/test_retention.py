"""Test the values of ``--history``."""

import pytest
from dra_shared.retention import Retention, parse_retention

from tests.support.cases import each_case


@each_case(
    ("text", "retention", "window", "lasting"),
    [
        ("all", Retention(), 300, True),
        ("5m", Retention(300), 300, False),
        ("90s", Retention(90), 90, False),
        ("250ms", Retention(0.25), 0.25, False),
        ("1h30m", Retention(5400), 300, True),
        ("7d", Retention(7 * 86400), 300, True),
        ("2Gi", Retention(None, 2 << 30), 300, True),
        ("24h,500Mi", Retention(86400, 500 << 20), 300, True),
        ("500Mi,24h", Retention(86400, 500 << 20), 300, True),
    ],
)
def test_retentions_are_parsed_in_every_form(
    text: str, retention: Retention, window: float, lasting: bool
) -> None:
    found = parse_retention(text)
    assert (found, found.window, found.is_lasting) == (retention, window, lasting)


@each_case("text", ["", "none", "5", "24h,24h", "1Gi,1Gi", "all,24h", "1Ki", "-5m"])
def test_invalid_texts_for_the_history_option_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a history|too little"):
        parse_retention(text)
