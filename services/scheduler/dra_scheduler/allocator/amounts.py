"""Counters and capacities as plain integers, in billionths: quick to compare and to add."""

import functools

from dra_shared.quantity import Format, Quantity

_SCALE = 9
# Beyond any capacity that an API server accepts; keeps a hostile exponent from filling the memory.
_MAX_EXPONENT = 400


@functools.lru_cache(maxsize=65536)
def amount(text: str) -> int:
    """The quantity ``text`` in billionths. Raises QuantityError."""
    quantity = Quantity.parse(text)
    return quantity.number * int(10 ** (min(quantity.exponent, _MAX_EXPONENT) + _SCALE))


def display(value: int, like: str = "0") -> str:
    """The text of ``value`` billionths, in the suffix family of the quantity ``like``."""
    whole, rest = divmod(value, 10**_SCALE)
    form = Quantity.parse(like).format
    return str(Quantity(whole, 0, form) if not rest else Quantity(value, -_SCALE, Format.DECIMAL_SI))
