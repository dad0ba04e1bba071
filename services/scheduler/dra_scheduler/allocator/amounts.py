"""Counters and capacities as plain integers, in billionths: quick to compare and to add."""

import functools

from dra_shared.quantity import Format, Quantity

_SCALE = 9
# Beyond any capacity that an API server accepts; keeps a hostile exponent from filling the memory.
_MAX_EXPONENT = 400


@functools.lru_cache(maxsize=65536)
def amount(text: str) -> int:
    """The quantity ``text`` in billionths. Raises QuantityError."""
    return in_billionths(Quantity.parse(text))


def in_billionths(quantity: Quantity) -> int:
    """The same for a quantity that has been parsed."""
    return quantity.number * int(10 ** (min(quantity.exponent, _MAX_EXPONENT) + _SCALE))


def display(value: int) -> str:
    """``value`` billionths for people to read: with a binary suffix where that is shorter."""
    whole, rest = divmod(value, 10**_SCALE)
    if rest:
        return str(Quantity(value, -_SCALE, Format.DECIMAL_SI))
    decimal, binary = str(Quantity(whole)), str(Quantity(whole, 0, Format.BINARY_SI))
    return binary if len(binary) < len(decimal) else decimal
