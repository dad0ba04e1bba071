"""A failing table of cases names each failed case with its reason."""

from pathlib import Path

import pytest

from tests.support.cases import check_all, each_case


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


def test_a_table_whose_cases_all_pass_passes() -> None:
    check_all([("two", 2), ("three", 3)], _small)


def test_a_table_without_cases_fails() -> None:
    with pytest.raises(pytest.fail.Exception, match="no case"):
        check_all([], _small)


def test_each_case_of_a_function_is_checked_and_named() -> None:
    @each_case("number", [2, pytest.param(1, id="one"), 0])
    def check(number: int) -> None:
        _small(number)

    with pytest.raises(pytest.fail.Exception) as failure:
        check()
    message = str(failure.value)
    assert message.startswith("2 of 3 cases fail:\none: too large")
    assert "\n0: Traceback" in message


async def test_each_case_of_a_coroutine_is_checked_and_named() -> None:
    @each_case(("number", "limit"), [(2, 3), (4, 3), (5, 3)], ids=["two", "four", "five"])
    async def check(number: int, limit: int) -> None:
        assert number < limit, "too large"

    with pytest.raises(pytest.fail.Exception) as failure:
        await check()
    message = str(failure.value)
    assert message.startswith("2 of 3 cases fail:\nfour: too large")
    assert "\nfive: too large" in message


@each_case("number", range(3))
def test_cases_share_the_fixtures_and_may_skip_themselves(number: int, tmp_path: Path) -> None:
    seen = len([*tmp_path.iterdir()])
    assert seen == number
    (tmp_path / str(number)).touch()
    pytest.skip("the case ends here, and the others are still checked")
