"""Lists as sets.

Mirrors cel-go's ext/sets.go.
"""

from collections.abc import Sequence
from typing import Any, Final

from dra_shared.cel.declarations import CallCost, Estimate, Estimator, Function, Node, function, overload
from dra_shared.cel.equality import contains
from dra_shared.cel.library.costs import size, size_range
from dra_shared.cel.ranges import ONE, add, factor, multiply


def sets_contain(values: list[Any], part: list[Any]) -> bool:
    return all(contains(values, value) for value in part)


def sets_equivalent(first: list[Any], second: list[Any]) -> bool:
    return sets_contain(first, second) and sets_contain(second, first)


def sets_intersect(first: list[Any], second: list[Any]) -> bool:
    return any(contains(second, value) for value in first)


def _pairs(by: int) -> CallCost:
    """Return the cost of comparing each element of one list with each of the other."""

    def cost(args: Sequence[Any], result: Any) -> int:
        return 1 + size(args[0]) * size(args[1]) * by

    return cost


def _estimate_pairs(by: int) -> Estimator:
    def estimate(target: Node | None, args: list[Node]) -> Estimate:
        return Estimate(add(factor(multiply(size_range(args[0]), size_range(args[1])), by), ONE))

    return estimate


FUNCTIONS: Final[tuple[Function, ...]] = (
    function(
        "sets.contains",
        overload(
            "list_sets_contains_list(list<T>, list<T>) bool",
            sets_contain,
            cost=_pairs(1),
            estimate=_estimate_pairs(1),
        ),
    ),
    function(
        "sets.equivalent",
        overload(
            "list_sets_equivalent_list(list<T>, list<T>) bool",
            sets_equivalent,
            cost=_pairs(2),
            estimate=_estimate_pairs(2),
        ),
    ),
    function(
        "sets.intersects",
        overload(
            "list_sets_intersects_list(list<T>, list<T>) bool",
            sets_intersect,
            cost=_pairs(1),
            estimate=_estimate_pairs(1),
        ),
    ),
)
