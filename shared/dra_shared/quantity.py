"""Exact resource quantities: the numbers of capacities, counters and resource requests.

Mirrors ``k8s.io/apimachinery/pkg/api/resource.Quantity``, including its two internal forms (a scaled 64-bit
integer, or an arbitrary decimal). ``as_int64`` only returns a value for the former, and users see the form in
CEL's ``isInteger``.
"""

import enum
import functools
from typing import Final

_MAX_INT64: Final = (1 << 63) - 1
_MIN_INT64: Final = -(1 << 63)
_NANO: Final = -9
# Python refuses to convert longer decimal texts; upstream has no limit but its request size.
_MAX_DIGITS: Final = 4300

FORMAT_ERROR: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
NUMERIC_ERROR: Final = "unable to parse numeric part of quantity"
SUFFIX_ERROR: Final = "unable to parse quantity's suffix"


class QuantityError(ValueError):
    """The text is not a quantity. The message is upstream's."""


class Format(enum.StrEnum):
    """The family of suffixes in which a quantity was written, and in which it is printed."""

    DECIMAL_EXPONENT = "DecimalExponent"
    BINARY_SI = "BinarySI"
    DECIMAL_SI = "DecimalSI"


_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL: Final = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY_SUFFIX: Final = {exponent: suffix for suffix, exponent in _BINARY.items()}
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_DIGITS: Final = frozenset("0123456789")
_SUFFIX_LETTERS: Final = frozenset("eEinumkKMGTP")


def _wrap(value: int) -> int:
    """Return the low 64 bits as a signed integer, like a conversion in Go."""
    return ((value + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)


def _fits(value: int) -> bool:
    return _MIN_INT64 <= value <= _MAX_INT64


def _divide_away(value: int, divisor: int) -> tuple[int, bool]:
    """Return the quotient rounded away from zero, and whether it is exact."""
    quotient, remainder = divmod(abs(value), divisor)
    if remainder:
        quotient += 1
    return (-quotient if value < 0 else quotient), not remainder


_FAR_APART = 10_000
"""If the exponents of two numbers differ by more than this, their sum is the larger one."""


@functools.total_ordering
class Quantity:
    """An immutable quantity ``number * 10**exponent``.

    Equality and order are numeric (``1Gi == 1024Mi``). ``str`` returns the canonical text, in the suffix
    family of ``format``.
    """

    __slots__ = ("_key", "_text", "decimal", "exponent", "format", "kept_text", "number")

    number: int
    exponent: int
    decimal: bool
    format: Format
    # The text that it was parsed from, if upstream keeps it because it is canonical.
    kept_text: str | None

    def __init__(
        self,
        number: int,
        exponent: int = 0,
        format: Format = Format.DECIMAL_SI,
        *,
        decimal: bool = False,
        text: str | None = None,
    ) -> None:
        """Create a quantity.

        ``decimal`` selects the arbitrary-precision form; ``text`` is a text known to be canonical.
        """
        self.number = number
        self.exponent = exponent
        self.format = format
        self.decimal = decimal
        self._text = self.kept_text = text
        self._key: int | None = number * 10 ** (exponent - _NANO) if _NANO <= exponent <= 40 else None

    @classmethod
    def parse(cls, text: str) -> "Quantity":
        """Parse a quantity. Results are shared, because texts repeat a lot.

        Raises QuantityError with one of upstream's three messages.
        """
        return _parse_cached(text)

    def compare(self, other: "Quantity") -> int:
        """Return -1, 0 or 1."""
        mine, theirs = self._key, other._key
        if mine is None or theirs is None:
            return self._compare_wide(other)
        return (mine > theirs) - (mine < theirs)

    def same_form(self, other: "Quantity") -> bool:
        """True if Go's ``==`` considers the two equal: equal in every field, and not decimal, because that is a
        pointer.
        """
        return not (self.decimal or other.decimal) and (
            (self.number, self.exponent, self.format, self.kept_text)
            == (other.number, other.exponent, other.format, other.kept_text)
        )

    def _compare_wide(self, other: "Quantity") -> int:
        mine, theirs = self.sign(), other.sign()
        if mine != theirs:
            return (mine > theirs) - (mine < theirs)
        if mine == 0:
            return 0
        # Comparing lengths avoids computing an enormous power of ten.
        a, b = abs(self.number).bit_length(), abs(other.number).bit_length()
        gap = (a - b) + int((self.exponent - other.exponent) * 3.3219280948873626)
        if abs(gap) > 16 + abs(self.exponent - other.exponent) // 100:
            return mine if gap > 0 else -mine
        low = min(self.exponent, other.exponent)
        left = self.number * int(10 ** (self.exponent - low))
        right = other.number * int(10 ** (other.exponent - low))
        return (left > right) - (left < right)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.compare(other) == 0

    def __lt__(self, other: "Quantity") -> bool:
        return self.compare(other) < 0

    def __hash__(self) -> int:
        number, exponent = self.number, self.exponent
        if number == 0:
            return 0
        if self._key is not None:
            number, exponent = self._key, _NANO
        while number % 10 == 0:
            number //= 10
            exponent += 1
        return hash((number, exponent))

    def __repr__(self) -> str:
        return f"Quantity.parse({str(self)!r})"

    def sign(self) -> int:
        """Return -1, 0 or 1."""
        return (self.number > 0) - (self.number < 0)

    def is_zero(self) -> bool:
        return self.number == 0

    def as_int64(self) -> int | None:
        """Return the value as a 64-bit integer; None for the decimal form, negative scales and overflow."""
        if self.decimal or self.exponent < 0:
            return None
        if self.number != 0 and self.exponent > 18:
            return None
        value = self.number * 10**self.exponent if self.number else 0
        return value if _fits(value) else None

    def scaled_value(self, scale: int) -> int:
        """Return the value in units of ``10**scale``, rounded and overflowing like upstream's ScaledValue."""
        if not self.decimal:
            if self.exponent < scale:
                return _divide_away(self.number, int(10 ** min(scale - self.exponent, 40)))[0]
            shift = self.exponent - scale
            if self.number == 0 or shift > 18:
                return 0
            value = self.number * 10**shift
            return value if _fits(value) else 0
        shift = self.exponent - scale
        if shift >= 0:
            return _wrap(_wrap(self.number) * _wrap(10 ** min(shift, 18)))
        divisor = int(10**-shift)
        if self.number < _MAX_INT64 and -shift < 19:
            number = _wrap(self.number)
            quotient = abs(number) // divisor
            quotient = -quotient if number < 0 else quotient
            return quotient + 1 if abs(number) % divisor else quotient
        quotient, remainder = divmod(self.number, divisor)
        return _wrap(quotient) + (1 if remainder else 0)

    def value(self) -> int:
        """Return the value in whole units, rounded up."""
        return self.scaled_value(0)

    def milli_value(self) -> int:
        """Return the value in thousandths, rounded up."""
        return self.scaled_value(-3)

    def as_approximate_float(self) -> float:
        """Return the float that upstream's multiplication gives (may be infinite)."""
        try:
            base = float(self.number)
        except OverflowError:
            base = float("inf") if self.number > 0 else float("-inf")
        return base if self.exponent == 0 else base * _power_of_ten(self.exponent)

    def add(self, other: "Quantity") -> "Quantity":
        """Return the sum, in this quantity's format (the other's if this one is zero)."""
        return self._combine(other, other.number)

    def sub(self, other: "Quantity") -> "Quantity":
        """Return the difference, in this quantity's format (the other's if this one is zero)."""
        return self._combine(other, -other.number)

    def _combine(self, other: "Quantity", number: int) -> "Quantity":
        format = other.format if self.number == 0 else self.format
        if not self.decimal and not other.decimal:
            if number == 0:
                return Quantity(self.number, self.exponent, format)
            if self.number == 0:
                return Quantity(number, other.exponent, format)
            if abs(self.exponent - other.exponent) <= 18:
                low = min(self.exponent, other.exponent)
                left = self.number * 10 ** (self.exponent - low)
                right = number * 10 ** (other.exponent - low)
                if _fits(left) and _fits(right) and _fits(left + right):
                    return Quantity(left + right, low, format)
        if number and self.number and abs(self.exponent - other.exponent) > _FAR_APART:
            # The smaller one changes no digit that is ever used, and computing all digits takes minutes.
            larger = self if self.exponent > other.exponent else Quantity(number, other.exponent, format)
            return Quantity(larger.number, larger.exponent, format)
        low = min(self.exponent, other.exponent)
        total = self.number * 10 ** (self.exponent - low) + number * 10 ** (other.exponent - low)
        return Quantity(total, low, format, decimal=True)

    def mul(self, factor: int) -> "Quantity":
        """Return the product with a whole number."""
        number = self.number * factor
        decimal = self.decimal or not _fits(number) or not _fits(number * 10 ** max(0, self.exponent))
        return Quantity(number, self.exponent, self.format, decimal=decimal)

    def __str__(self) -> str:
        if self._text is None:
            self._text = self._canonical()
        return self._text

    def _canonical(self) -> str:
        if self.number == 0:
            return "0"
        format = self.format
        if format is Format.BINARY_SI:
            whole, exact = self._round_up()
            if not exact or -1024 < whole < 1024:
                format = Format.DECIMAL_SI
            else:
                times = 0
                # Upstream cannot negate the smallest integer to look for factors.
                while whole % 1024 == 0 and (self.decimal or whole != _MIN_INT64):
                    whole //= 1024
                    times += 1
                return f"{whole}{_BINARY_SUFFIX.get(times * 10, '')}"
        number, exponent = self.number, self.exponent
        while number % 10 == 0:
            number //= 10
            exponent += 1
        while exponent % 3:
            number *= 10
            exponent -= 1
        if format is Format.DECIMAL_SI:
            return f"{number}{_DECIMAL_SUFFIX.get(exponent, '')}"
        return f"{number}e{exponent}" if exponent else str(number)

    def _round_up(self) -> tuple[int, bool]:
        if self.exponent >= 0:
            return self.number * 10**self.exponent, True
        return _divide_away(self.number, 10**-self.exponent)


def amount_text(text: str) -> str:
    """Return the same text for every spelling of an amount, such as ``1Gi`` and ``1073741824``; other texts are
    unchanged.

    The API server may change the spelling of quantities, so comparing texts is not enough.
    """
    try:
        quantity = Quantity.parse(text)
    except QuantityError:
        return text
    number, exponent = quantity.number, quantity.exponent
    while number and number % 10 == 0:
        number, exponent = number // 10, exponent + 1
    return f"{number}e{exponent}" if number else "0"


def _scan(text: str) -> tuple[bool, str, str, str, str]:
    """Split a text into (positive, value with sign, integer digits, fraction digits, suffix)."""
    end, at, positive = len(text), 0, True
    if text[0] in "+-":
        positive = text[0] == "+"
        at = 1
    while at < end and text[at] == "0":
        at += 1
    if at >= end:
        return positive, "0", "0", "", ""
    start = at
    while at < end and text[at] in _DIGITS:
        at += 1
    whole = text[start:at]
    if at >= end:
        return positive, text, whole, "", ""
    whole = whole or "0"
    fraction = ""
    if text[at] == ".":
        start = at = at + 1
        while at < end and text[at] in _DIGITS:
            at += 1
        fraction = text[start:at]
        if at >= end:
            return positive, text, whole, fraction, ""
    value, start = text[:at], at
    while at < end and text[at] in _SUFFIX_LETTERS:
        at += 1
    if at < end and text[at] in "+-":
        at += 1
    while at < end and text[at] in _DIGITS:
        at += 1
    if at < end:
        raise QuantityError(FORMAT_ERROR)
    return positive, value, whole, fraction, text[start:]


def _interpret(suffix: str) -> tuple[int, int, Format]:
    """Return the (base, exponent, format) of a suffix."""
    if (exponent := _DECIMAL.get(suffix)) is not None:
        return 10, exponent, Format.DECIMAL_SI
    if (exponent := _BINARY.get(suffix)) is not None:
        return 2, exponent, Format.BINARY_SI
    if len(suffix) > 1 and suffix[0] in "eE":
        digits = suffix[1:]
        body = digits[1:] if digits[0] in "+-" else digits
        if body.isascii() and body.isdigit() and len(body) < 20:
            parsed = int(digits)
            if _fits(parsed):
                return 10, ((parsed + (1 << 31)) & 0xFFFFFFFF) - (1 << 31), Format.DECIMAL_EXPONENT
    raise QuantityError(SUFFIX_ERROR)


@functools.lru_cache(maxsize=16384)
def _parse_cached(text: str) -> Quantity:
    if not text:
        raise QuantityError(FORMAT_ERROR)
    if text == "0":
        return Quantity(0, 0, Format.DECIMAL_SI, text="0")
    positive, value, whole, fraction, suffix = _scan(text)
    base, exponent, format = _interpret(suffix)
    fast = _parse_fast(text, positive, whole, fraction, base, exponent, format)
    if fast is not None:
        return fast
    return _parse_decimal(value, base, exponent, format)


def _parse_fast(
    text: str, positive: bool, whole: str, fraction: str, base: int, exponent: int, format: Format
) -> Quantity | None:
    mantissa, scale = 1, 0
    if base == 10:
        scale = exponent
        precision = 18 - len(whole) - len(fraction)
    elif not fraction:
        mantissa = 1 << exponent
        precision = 15 - len(whole) - exponent * 3 // 10 - 1
    else:
        precision = -1
    if precision < 0:
        return None
    scale -= len(fraction)
    if scale < _NANO:
        return None
    shifted = whole + fraction
    number = int(shifted)
    result = number * mantissa
    if not _fits(result):
        return None
    if base == 2:
        canonical = exponent % 10 == 0 and number & 7 != 0
    else:
        canonical = scale % 3 == 0 and not shifted.endswith("000") and shifted[0] != "0"
    return Quantity(result if positive else -result, scale, format, text=text if canonical else None)


def _parse_decimal(value: str, base: int, exponent: int, format: Format) -> Quantity:
    sign = -1 if value.startswith("-") else 1
    whole, _, fraction = value.lstrip("+-").partition(".")
    digits = whole + fraction
    if not digits or len(digits) > _MAX_DIGITS or exponent > _MAX_DIGITS:
        raise QuantityError(NUMERIC_ERROR)
    number, scale = int(digits), -len(fraction)
    if base == 10:
        scale += exponent
    else:
        number <<= exponent
    if number:
        # An amount below the smallest that Go can represent is rounded up to that amount.
        if scale < _NANO:
            number, _ = _divide_away(number, 10 ** min(_NANO - scale, 2 * _MAX_DIGITS))
        else:
            number *= 10 ** (scale - _NANO)
        scale = _NANO
    if base == 2:
        if number * 10 ** max(scale, 0) > _MAX_INT64 * 10 ** max(-scale, 0):
            number, scale = _MAX_INT64, 0
        if 0 < number < 10 ** max(-scale, 0):
            format = Format.DECIMAL_SI
    return Quantity(sign * number, scale, format, decimal=True)


def _power_of_ten(exponent: int) -> float:
    """Return a power of ten as Go computes it from two smaller ones, which is not always the nearest float."""
    if exponent > 308:
        return float("inf")
    if exponent < -323:
        return 0.0
    large, small = divmod(abs(exponent), 32)
    if exponent < 0:
        return float(f"1e-{32 * large}") / float(f"1e{small}")
    return float(f"1e{32 * large}") * float(f"1e{small}")
