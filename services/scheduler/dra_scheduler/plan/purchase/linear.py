"""Small, dense linear programs in the form that covering needs.

There is no such library among the dependencies. The programs have a few dozen columns, and their results are
verified where they are used.
"""

from collections.abc import Sequence
from dataclasses import dataclass

_TINY = 1e-9
# After this many steps the first column is taken instead of the best one, which cannot cycle (Bland's rule).
_MANY_STEPS = 500


@dataclass(frozen=True)
class Solution:
    """The values of the variables, and the value of one more unit of each row's limit."""

    values: tuple[float, ...]
    worth: tuple[float, ...]


def maximize(
    objective: Sequence[float], rows: Sequence[Sequence[float]], limits: Sequence[float]
) -> Solution | None:
    """Maximize ``objective·v`` subject to ``rows·v <= limits`` and ``v >= 0``. Limits are not negative.

    Return None if there is no maximum.
    """
    width = len(objective)
    table = [[*row, limit] for row, limit in zip(rows, limits, strict=True)]
    costs = [*(-value for value in objective), 0.0]
    # Numbers below width are variables, the others are slack variables of rows.
    outside, inside = list(range(width)), [width + index for index in range(len(rows))]
    for step in range(100 * (width + len(rows)) + 100):
        column = _choose_entering(costs, width, best=step < _MANY_STEPS)
        if column is None:
            break
        row = _choose_leaving(table, column)
        if row is None:
            return None
        _exchange(table, costs, row, column)
        outside[column], inside[row] = inside[row], outside[column]
    values, worth = [0.0] * width, [0.0] * len(rows)
    for index, number in enumerate(inside):
        if number < width:
            values[number] = max(0.0, table[index][-1])
    for index, number in enumerate(outside):
        if number >= width:
            worth[number - width] = max(0.0, costs[index])
    return Solution(tuple(values), tuple(worth))


def _choose_entering(costs: Sequence[float], width: int, *, best: bool) -> int | None:
    if best:
        column = min(range(width), key=costs.__getitem__, default=None)
        return column if column is not None and costs[column] < -_TINY else None
    return next((column for column in range(width) if costs[column] < -_TINY), None)


def _choose_leaving(table: Sequence[Sequence[float]], column: int) -> int | None:
    ratios = [(row[-1] / row[column], index) for index, row in enumerate(table) if row[column] > _TINY]
    return min(ratios)[1] if ratios else None


def _exchange(table: list[list[float]], costs: list[float], row: int, column: int) -> None:
    pivot = table[row]
    by = pivot[column]
    pivot[:] = [value / by for value in pivot]
    pivot[column] = 1 / by
    for other in (*table, costs):
        if other is pivot or not other[column]:
            continue
        factor = other[column]
        other[column] = 0.0
        for index, value in enumerate(pivot):
            if value:
                other[index] -= factor * value
