"""Test that quantities are parsed, printed, compared and added as upstream does."""

import pytest
from dra_shared.quantity import (
    FORMAT_ERROR,
    NUMERIC_ERROR,
    SUFFIX_ERROR,
    Format,
    Quantity,
    QuantityError,
    amount_text,
)
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.support.cases import each_case


@each_case(
    ("text", "canonical"),
    [
        ("0", "0"),
        ("000", "0"),
        ("-0", "0"),
        ("+5", "+5"),  # texts that upstream considers canonical are kept
        ("1.5", "1500m"),
        ("1.5Gi", "1536Mi"),
        ("1024Mi", "1Gi"),
        ("1025Mi", "1025Mi"),
        ("1000", "1k"),
        ("1000k", "1M"),
        ("10G", "10G"),
        ("141Gi", "141Gi"),
        ("8Gi", "8Gi"),
        ("0.5Ki", "512"),
        ("0.1Ki", "102400m"),
        ("100m", "100m"),
        ("0.1n", "1n"),
        ("1e3", "1e3"),
        ("12e6", "12e6"),
        ("1E4", "10e3"),
        ("1.", "1."),
        (".5", "500m"),
        ("9223372036854775807", "9223372036854775807"),
        ("99999999999999999999", "99999999999999999999"),
        ("16Ei", "9223372036854775807"),
        ("-1.5Gi", "-1536Mi"),
        ("1000E", "1"),
    ],
)
def test_quantities_are_written_canonically(text: str, canonical: str) -> None:
    assert str(Quantity.parse(text)) == canonical


@each_case(
    ("text", "message"),
    [
        ("", FORMAT_ERROR),
        ("abc", FORMAT_ERROR),
        ("1 Gi", FORMAT_ERROR),
        ("1.2.3", FORMAT_ERROR),
        ("1ki", SUFFIX_ERROR),
        ("1e", SUFFIX_ERROR),
        ("1Gii", SUFFIX_ERROR),
        ("1e1.5", FORMAT_ERROR),
        ("M", None),
    ],
)
def test_invalid_quantities_are_rejected(text: str, message: str | None) -> None:
    if message is None:
        # Upstream reads a missing number as zero.
        assert Quantity.parse(text).is_zero()
        return
    with pytest.raises(QuantityError) as caught:
        Quantity.parse(text)
    assert str(caught.value) == message


def test_a_quantity_without_digits_is_a_numeric_error() -> None:
    with pytest.raises(QuantityError) as caught:
        Quantity.parse("1" * 5000 + "Gi")
    assert str(caught.value) == NUMERIC_ERROR


def test_quantities_are_compared_numerically() -> None:
    assert Quantity.parse("1Gi") == Quantity.parse("1024Mi")
    assert hash(Quantity.parse("1Gi")) == hash(Quantity.parse("1024Mi"))
    assert Quantity.parse("1G") < Quantity.parse("1Gi")
    assert Quantity.parse("100m").compare(Quantity.parse("0.1")) == 0
    assert Quantity.parse("-1").compare(Quantity.parse("1n")) == -1
    assert Quantity.parse("1e300").compare(Quantity.parse("1e299")) == 1
    assert Quantity.parse("1e1000000").compare(Quantity.parse("2")) == 1
    assert Quantity.parse("1").compare(Quantity.parse("1e1000000")) == -1


def test_sums_keep_the_format_of_the_left() -> None:
    assert str(Quantity.parse("1Gi").add(Quantity.parse("1G"))) == "2073741824"
    assert str(Quantity.parse("0").add(Quantity.parse("1Gi"))) == "1Gi"
    assert str(Quantity.parse("2Gi").sub(Quantity.parse("1Gi"))) == "1Gi"
    assert str(Quantity.parse("1").sub(Quantity.parse("300m"))) == "700m"
    assert str(Quantity.parse("9223372036854775807").add(Quantity.parse("1"))) == "9223372036854775808"
    assert str(Quantity.parse("2").mul(3)) == "6"


def test_integer_values_of_quantities_are_rounded_up() -> None:
    assert Quantity.parse("1.5").value() == 2
    assert Quantity.parse("-1.5").value() == -2
    assert Quantity.parse("1500m").milli_value() == 1500
    assert Quantity.parse("1Gi").as_int64() == 1 << 30
    assert Quantity.parse("1k").as_int64() == 1000
    assert Quantity.parse("1.5").as_int64() is None
    assert Quantity.parse("1.5Gi").as_int64() is None  # the decimal form never has a result
    assert Quantity.parse("1.5Gi").value() == 1610612736
    assert Quantity.parse("1.5").as_approximate_float() == 1.5
    assert Quantity.parse("1Gi").format is Format.BINARY_SI


@given(st.integers(-(1 << 70), 1 << 70), st.sampled_from(["", "m", "k", "Ki", "Gi", "n", "e3"]))
def test_the_canonical_text_of_a_quantity_is_the_same_number(number: int, suffix: str) -> None:
    # A multiple of 1000E has no suffix. Upstream's text has none either, and means another amount.
    too_large = {"": 10**21, "m": 10**24, "k": 10**18, "n": 10**30}.get(suffix)
    assume(number == 0 or too_large is None or number % too_large != 0)
    quantity = Quantity.parse(f"{number}{suffix}")
    again = Quantity.parse(str(quantity))
    assert again.compare(quantity) == 0
    assert str(again) == str(quantity)


@pytest.mark.parametrize("text", ["1000E", "1000000000000000000k"])
def test_a_suffix_that_is_too_large_is_omitted_as_upstream_does(text: str) -> None:
    assert str(Quantity.parse(text)) == "1"


@given(st.integers(-(1 << 40), 1 << 40), st.integers(-(1 << 40), 1 << 40))
def test_subtracting_an_added_quantity_gives_the_original(a: int, b: int) -> None:
    left, right = Quantity(a), Quantity(b, -3)
    assert left.add(right).sub(right) == left


@each_case(
    ("one", "other"),
    [
        ("1Gi", "1073741824"),
        ("1000", "1k"),
        ("1074000000", "1074M"),
        ("0", "0Ki"),
        ("1e3", "1000"),
        ("-5", "-5000m"),
    ],
)
def test_all_spellings_of_an_amount_have_the_same_text(one: str, other: str) -> None:
    assert amount_text(one) == amount_text(other)


@pytest.mark.parametrize(("one", "other"), [("1Gi", "1G"), ("1", "-1"), ("10", "1"), ("x", "y"), ("0", "1n")])
def test_different_amounts_have_different_texts(one: str, other: str) -> None:
    assert amount_text(one) != amount_text(other)


def test_numbers_of_very_different_size_are_added_without_expanding_them() -> None:
    assert Quantity.parse("1e99999999").add(Quantity.parse("3")).compare(Quantity.parse("1e99999999")) == 0
    assert Quantity.parse("3").sub(Quantity.parse("1e99999999")).compare(Quantity.parse("0")) < 0
