"""Counters and capacities as plain integers, in billionths, which are fast to compare and to add."""

import functools

from dra_shared.quantity import Format, Quantity

_SCALE = 9
# Larger than any capacity that the API server accepts. Without a limit, a huge exponent would exhaust memory.
_MAX_EXPONENT = 400


@functools.lru_cache(maxsize=65536)
def amount(text: str) -> int:
    """Parse a quantity and return it in billionths. Raises QuantityError."""
    return in_billionths(Quantity.parse(text))


def in_billionths(quantity: Quantity) -> int:
    """Return a parsed quantity in billionths."""
    return quantity.number * int(10 ** (min(quantity.exponent, _MAX_EXPONENT) + _SCALE))


def display(value: int) -> str:
    """Format ``value`` billionths for people, with a binary suffix if that is shorter."""
    whole, rest = divmod(value, 10**_SCALE)
    if rest:
        return str(Quantity(value, -_SCALE, Format.DECIMAL_SI))
    decimal, binary = str(Quantity(whole)), str(Quantity(whole, 0, Format.BINARY_SI))
    return binary if len(binary) < len(decimal) else decimal
