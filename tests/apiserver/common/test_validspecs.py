"""Test that a value equal to one that was found valid is not validated again."""

from typing import Any

from dra_apiserver.common.validspecs import KnownGood
from dra_apiserver.errors import FieldError, missing_field


class _Look:
    def __init__(self, *errors: FieldError) -> None:
        self.errors = list(errors)
        self.asked = 0

    def __call__(self) -> list[FieldError]:
        self.asked += 1
        return self.errors


def _value(index: int = 0, **more: Any) -> dict[str, Any]:
    return {"index": index, **more}


def test_a_value_equal_to_a_valid_one_is_not_validated_again() -> None:
    known, look = KnownGood(), _Look()
    assert known.check(_value(), look) == known.check(_value(), look) == []
    assert look.asked == 1


def test_an_invalid_value_is_validated_again_each_time() -> None:
    known, look = KnownGood(), _Look(missing_field("spec"))
    assert known.check(_value(), look) == known.check(_value(), look) == look.errors
    assert look.asked == 2


def test_a_value_that_is_equal_but_of_another_type_is_validated_again() -> None:
    known, look = KnownGood(), _Look()
    for value in (1, True, 1.0, "1"):
        known.check({"index": value}, look)
    assert look.asked == 4


def test_an_equal_value_is_validated_again_if_the_options_differ() -> None:
    known, look = KnownGood(), _Look()
    known.check(_value(), look, under="a")
    known.check(_value(), look, under="b")
    assert look.asked == 2


def test_old_valid_values_are_evicted_and_large_ones_are_never_cached() -> None:
    known, look = KnownGood(), _Look()
    for index in range(600):
        known.check(_value(index), look)
    known.check(_value(599), look)
    assert look.asked == 600
    known.check(_value(0), look)
    assert look.asked == 601
    for _ in range(2):
        known.check(_value(text="x" * 10_000), look)
    assert look.asked == 603
