import pytest
from dra_shared.numerals import BEYOND, integer, is_digits

from tests.support.cases import each_case


@each_case(
    ("text", "number"),
    [
        ("0", 0),
        ("-12", -12),
        ("+7", 7),
        ("0" * 5000 + "12", 12),
        ("9" * 5000, BEYOND),
        ("-" + "9" * 5000, -BEYOND),
        ("18446744073709551615", (1 << 64) - 1),
    ],
)
def test_numbers_are_parsed_from_text(text: str, number: int) -> None:
    assert integer(text) == number


@each_case("text", ["", "x", "1" * 5000 + "x", "-", "1e" + "0" * 30, "1_0", " 1", "٣", "²"])
def test_texts_that_are_not_numbers_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="invalid"):
        integer(text)


@pytest.mark.parametrize(
    ("text", "expected"), [("0", True), ("9" * 5000, True), ("", False), ("+1", False), ("²", False)]
)
def test_only_ascii_digits_are_digits(text: str, expected: bool) -> None:
    assert is_digits(text) is expected
