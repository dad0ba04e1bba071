"""Parse whole numbers from untrusted text."""

import re

BEYOND = 10**20
"""A value above every integer of Go."""

_DIGITS = 20
_NUMBER = re.compile("[+-]?[0-9]+").fullmatch


def is_digits(text: str) -> bool:
    """True if the text is a decimal number without a sign. Python's own methods accept the digits of all scripts."""
    return text.isascii() and text.isdigit()


def integer(text: str) -> int:
    """Parse decimal digits with an optional sign. Many digits give :data:`BEYOND`, or minus it.

    Python refuses to parse thousands of digits, and takes quadratic time for fewer.

    Raises:
        ValueError: the text is not a number.
    """
    if not _NUMBER(text):
        raise ValueError(f"invalid number: {text[:_DIGITS]}")
    if len(text) <= _DIGITS:
        return int(text)
    sign, digits = (text[0], text[1:]) if text[0] in "+-" else ("", text)
    digits = digits.lstrip("0") or "0"
    number = int(digits) if len(digits) <= _DIGITS else BEYOND
    return -number if sign == "-" else number
