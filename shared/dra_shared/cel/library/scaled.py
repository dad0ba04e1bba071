"""The estimates of cel-go 0.33 for its own functions, which Kubernetes 1.38 has (common/cost, model version 0).

Sizes are scaled exactly, and an unbounded size stays unbounded.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from dra_shared.cel.declarations import (
    FAILED,
    CallCost,
    Estimate,
    Estimator,
    Function,
    Functions,
    Node,
)
from dra_shared.cel.library.costs import allocation_cost, estimate_allocating, size, size_range
from dra_shared.cel.ranges import MAX, Range, add, exactly, multiply
from dra_shared.cel.types import Kind

_PATTERN: Final = 4
_TEXT: Final = 10

Cost = Callable[[list[Range]], Range]


def with_scaled_estimates(functions: Functions) -> Functions:
    """Return the functions with the newer estimates."""
    return {name: _replace_estimates(function) for name, function in functions.items()}


def _replace_estimates(function: Function) -> Function:
    overloads = tuple(
        replace(one, estimate=_ESTIMATES.get(one.id, one.estimate), cost=_COSTS.get(one.id, one.cost))
        for one in function.overloads
    )
    return replace(function, overloads=overloads)


def _scale(value: Range, by: int) -> Range:
    """Return the range divided by ``by``, and rounded up."""
    low, high = (MAX if bound == MAX else -(-bound // by) for bound in value)
    return low, high


def _of(cost: Cost, result: Cost | None = None) -> Estimator:
    """Return an estimator from the sizes of the receiver, if there is one, and the arguments."""

    def estimate(target: Node | None, args: list[Node]) -> Estimate:
        sizes = [size_range(node) for node in ([] if target is None else [target]) + args]
        return Estimate(cost(sizes), None if result is None else result(sizes))

    return estimate


def _read(at: int) -> Cost:
    return lambda sizes: _scale(sizes[at], _TEXT)


def _search(sizes: list[Range]) -> Range:
    return multiply(_scale(add(sizes[0], exactly(1)), _TEXT), _scale(sizes[1], _PATTERN))


def _find(sizes: list[Range]) -> Range:
    return multiply(_scale(sizes[0], _TEXT), _scale(sizes[1], _TEXT))


def _join(sizes: list[Range]) -> Range:
    return add(sizes[0], sizes[1])


def _encode(sizes: list[Range]) -> Range:
    return sizes[0][0], min(sizes[0][1] * 4, MAX)


def _decode(sizes: list[Range]) -> Range:
    return -(-sizes[0][0] // 4), sizes[0][1]


def _estimate_distinct(target: Node | None, args: list[Node]) -> Estimate | None:
    """Estimate comparing the elements of a list with each other, including the cost of reading texts."""
    if target is None:
        return None
    item = target.type.params[0].kind if target.type.params else Kind.DYN
    by = 2.1 if item in (Kind.STRING, Kind.BYTES) else 2
    count = size_range(target)
    return estimate_allocating(by, multiply(count, count))


def _new_list(args: Sequence[Any], result: Any) -> int:
    """Return the cost of a new list, which a failed call does not create."""
    return allocation_cost(1, 0 if result is FAILED else size(result))


_COSTS: Final[Mapping[str, CallCost]] = dict.fromkeys(
    ("list_reverse", "list_slice", "lists_range"), _new_list
)
_ESTIMATES: Final[Mapping[str, Estimator]] = {
    "add_bytes": _of(lambda sizes: _scale(_join(sizes), _TEXT), _join),
    "add_string": _of(lambda sizes: _scale(_join(sizes), _TEXT), _join),
    "bytes_to_string": _of(_read(0), _decode),
    "contains_string": _of(_find),
    "ends_with_string": _of(_read(1)),
    "list_distinct": _estimate_distinct,
    "matches": _of(_search),
    "matches_string": _of(_search),
    "starts_with_string": _of(_read(1)),
    "string_format": _of(_read(0)),
    "string_to_bytes": _of(_read(0), _encode),
}
