"""A failing table of cases names each failed case with its reason."""

import pytest

from tests.support.cases import check_all


def _small(number: int) -> None:
    assert 10 // number < 10, "too large"


def test_all_failed_cases_are_named() -> None:
    cases = [("two", 2), ("one", 1), ("none", 0), ("three", 3), ("again", 1)]
    with pytest.raises(pytest.fail.Exception) as failure:
        check_all(cases, _small)
    message = str(failure.value)
    assert message.startswith("3 of 5 cases fail:\none: too large")
    assert "\nagain: too large" in message
    assert "two" not in message
    assert "none: Traceback" in message
    assert "ZeroDivisionError: integer division or modulo by zero" in message


def test_passing_cases_pass() -> None:
    check_all([("two", 2), ("three", 3)], _small)


def test_a_table_without_cases_fails() -> None:
    with pytest.raises(pytest.fail.Exception, match="no case"):
        check_all([], _small)
