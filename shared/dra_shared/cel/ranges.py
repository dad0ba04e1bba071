"""Ranges of sizes and costs (SizeEstimate and CostEstimate of cel-go's checker/cost.go).

Unsigned 64-bit numbers that saturate at the maximum.
"""

import math
from typing import Final

MAX: Final = (1 << 64) - 1

#: Smallest and largest.
Range = tuple[int, int]

ONE: Final[Range] = (1, 1)
UNKNOWN: Final[Range] = (0, MAX)


def exactly(value: int) -> Range:
    return value, value


def add(a: Range, b: Range) -> Range:
    return min(a[0] + b[0], MAX), min(a[1] + b[1], MAX)


def multiply(a: Range, b: Range) -> Range:
    return min(a[0] * b[0], MAX), min(a[1] * b[1], MAX)


def union(a: Range, b: Range) -> Range:
    return min(a[0], b[0]), max(a[1], b[1])


def _scale(value: int, by: float) -> int:
    number = float(value)
    if number > 0 and by > 0 and number > float(MAX) / by:
        return MAX
    scaled = math.ceil(number * by)
    return MAX if scaled >= 1 << 64 else scaled


def factor(value: Range, by: float) -> Range:
    """Multiply the range by a factor, and round up."""
    return _scale(value[0], by), _scale(value[1], by)
