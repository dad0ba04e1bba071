"""Lists.

Mirrors k8s.io/apiserver/pkg/cel/library/lists.go and cel-go's ext/lists.go (version 3).
"""

import functools
import itertools
from collections.abc import Sequence
from typing import Any, Final

from dra_shared.cel.declarations import (
    FAILED,
    NAMED,
    CallCost,
    Estimate,
    Estimator,
    Function,
    Implementation,
    Node,
    function,
    overload,
)
from dra_shared.cel.equality import comparable, compare, same
from dra_shared.cel.errors import CostLimitExceeded, EvaluationError, Panic
from dra_shared.cel.library.costs import (
    STRING,
    allocation_cost,
    estimate_allocating,
    estimate_traversal,
    literal,
    size,
    size_range,
    traversal,
)
from dra_shared.cel.library.operators import add
from dra_shared.cel.ranges import MAX, exactly, multiply
from dra_shared.cel.values import NO_OVERLOAD, Duration, Timestamp, Uint, go_type, is_list, type_text
from dra_shared.version import V1_37, Version

_COMPARABLE: Final = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
#: The types of numbers, each with its zero, which is the sum of an empty list.
_ZEROS: Final = {"int": 0, "uint": Uint(0), "double": 0.0, "duration": Duration(0)}

# Upstream would build the list first and then find that the cost limit is exceeded.
_RANGE_LIMIT: Final = 1_000_000
_SUMMABLE: Final = frozenset((int, Uint, float, str, bytes, Duration, Timestamp))


def is_sorted(values: list[Any]) -> bool:
    for value in values:
        if not comparable(value):
            raise EvaluationError(NO_OVERLOAD)
    for first, second in itertools.pairwise(values):
        try:
            if compare(first, second) > 0:
                return False
        except EvaluationError:
            continue
    return True


def _sum(zero: Any) -> Implementation:
    def total(values: list[Any]) -> Any:
        result = zero
        for value in values:
            result = add(result, value)
        return result

    return total


def _extreme(name: str, sign: int) -> Implementation:
    def extreme(values: list[Any]) -> Any:
        if not values:
            raise EvaluationError(f"{name} called on empty list")
        best = values[0]
        for value in values:
            if not comparable(value):
                raise EvaluationError(NO_OVERLOAD)
            try:
                if compare(best, value) == sign:
                    best = value
            except EvaluationError:
                continue
        return best

    return extreme


def index_of(values: list[Any], wanted: Any) -> int:
    return next((index for index, value in enumerate(values) if same(value, wanted)), -1)


def last_index_of(values: list[Any], wanted: Any) -> int:
    return next((index for index in range(len(values) - 1, -1, -1) if same(values[index], wanted)), -1)


def slice_list(values: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise EvaluationError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvaluationError(
            f"cannot slice({start}, {end}), start index must be less than or equal to end index"
        )
    if len(values) < end:
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(values)}")
    return list(values[start:end])


def _no_lister(name: str, summable: bool) -> Panic:
    missing = "Contains" if summable else "Add"
    return Panic(f"interface conversion: {name} is not traits.Lister: missing method {missing}")


def needs_list(value: Any) -> None:
    """Raise a panic unless the value is a list: upstream's cost accounting panics for other values."""
    if not is_list(value):
        raise _no_lister(go_type(value), type(value) in _SUMMABLE)


def failed_list() -> Panic:
    """Return the panic of upstream's cost accounting for a list whose evaluation failed."""
    return _no_lister("*types.Err", False)


def flatten(values: list[Any], *depth: int) -> list[Any]:
    if not is_list(values):
        raise EvaluationError(
            f"{NO_OVERLOAD}: {type_text(values)}.flatten({', '.join(map(type_text, depth))})"
        )
    return _flatten(values, *depth)


def _flatten(values: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    flat: list[Any] = []
    for value in values:
        if is_list(value) and depth > 0:
            flat += _flatten(value, depth - 1)
        else:
            flat.append(value)
    return flat


def sort_by_keys(values: list[Any], keys: list[Any]) -> list[Any]:
    if not is_list(values):
        raise EvaluationError(f"{NO_OVERLOAD}: @sortByAssociatedKeys")
    if len(values) != len(keys):
        raise EvaluationError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got "
            f"{len(values)} and {len(keys)} elements respectively"
        )
    if not values:
        return values
    if not comparable(keys[0]):
        raise EvaluationError("list elements must be comparable")
    if any(type(key) is not type(keys[0]) for key in keys):
        raise EvaluationError("list elements must have the same type")

    def by_key(first: int, second: int) -> int:
        return compare(keys[first], keys[second])

    if any(key != key for key in keys):
        return [values[index] for index in _insertion_order(keys)]
    return [values[index] for index in sorted(range(len(keys)), key=functools.cmp_to_key(by_key))]


def _insertion_order(keys: list[float]) -> list[int]:
    """Return indices in the order of Go's sort, for which NaN is neither less nor greater than any number."""
    order: list[int] = []
    for index, key in enumerate(keys):
        at = index
        while at and key < keys[order[at - 1]]:
            at -= 1
        order.insert(at, index)
    return order


def sort(values: Any) -> list[Any]:
    if not is_list(values):
        # Upstream's error is shorter for values of types that can have methods.
        receives = type(values) in (str, Duration, Timestamp)
        raise EvaluationError(NO_OVERLOAD if receives else f"{NO_OVERLOAD}: sort")
    return sort_by_keys(values, values)


def number_range(count: int) -> list[int]:
    if count > _RANGE_LIMIT:
        raise CostLimitExceeded
    return list(range(count))


def limited_range(count: int) -> list[int]:
    if count < 0:
        raise EvaluationError(f"lists.range: size must be non-negative, got {count}")
    if count > _RANGE_LIMIT:
        raise EvaluationError(f"lists.range: size {count} exceeds maximum allowed ({_RANGE_LIMIT})")
    return list(range(count))


def distinct(values: list[Any]) -> list[Any]:
    needs_list(values)
    unique: list[Any] = []
    for value in values:
        if not any(same(value, other) for other in unique):
            unique.append(value)
    return unique


def _new_list(args: Sequence[Any], result: Any) -> int:
    return allocation_cost(1, size(result))


def _flatten_cost(args: Sequence[Any], result: Any) -> int:
    depth = float(args[1]) if len(args) == 2 and isinstance(args[1], int) else 1.0
    return allocation_cost(depth, size(args[0]))


def _pairs(at: int) -> CallCost:
    """Return the cost of comparing the elements of an argument with each other."""

    def cost(args: Sequence[Any], result: Any) -> int:
        values = args[at]
        if not values or values is FAILED:
            return allocation_cost(2, 0)
        by = 2 + (STRING if isinstance(values[0], str | bytes) else 0)
        return allocation_cost(by, len(values) ** 2)

    return cost


def _estimate_range(target: Node | None, args: list[Node]) -> Estimate:
    return estimate_allocating(1, exactly(literal(args[0], MAX)))


def _estimate_slice(target: Node | None, args: list[Node]) -> Estimate | None:
    if target is None:
        return None
    most = size_range(target)[1]
    return estimate_allocating(1, exactly((literal(args[1], most) - literal(args[0], 0)) & MAX))


def _estimate_reverse(target: Node | None, args: list[Node]) -> Estimate | None:
    return None if target is None else estimate_allocating(1, size_range(target))


def _estimate_flatten(target: Node | None, args: list[Node]) -> Estimate | None:
    depth = literal(args[0], MAX) if args else 1
    return None if target is None else estimate_allocating(float(depth), size_range(target))


def _estimate_pairs(name: str, *, keys: bool = False) -> Estimator:
    by = 2 + (STRING if name in ("string", "bytes") else 0)

    def estimate(target: Node | None, args: list[Node]) -> Estimate | None:
        if target is None:
            return None
        count = size_range(args[0] if keys else target)
        return estimate_allocating(by, multiply(count, count))

    return estimate


FUNCTIONS: Final[tuple[Function, ...]] = (
    function(
        "isSorted",
        *(overload(f".list_{name}_is_sorted_bool(list<{name}>) bool", is_sorted) for name in _COMPARABLE),
        cost=traversal,
        estimate=estimate_traversal,
    ),
    function(
        "sum",
        *(
            overload(f".list_{name}_sum_{name}(list<{name}>) {name}", _sum(zero))
            for name, zero in _ZEROS.items()
        ),
        cost=traversal,
        estimate=estimate_traversal,
    ),
    function(
        "max",
        *(
            overload(f".list_{name}_max_{name}(list<{name}>) {name}", _extreme("max", -1))
            for name in _COMPARABLE
        ),
        cost=traversal,
        estimate=estimate_traversal,
    ),
    function(
        "min",
        *(
            overload(f".list_{name}_min_{name}(list<{name}>) {name}", _extreme("min", 1))
            for name in _COMPARABLE
        ),
        cost=traversal,
        estimate=estimate_traversal,
    ),
    function(
        "indexOf",
        overload(".list_a_index_of_int(list<A>, A) int", index_of),
        cost=traversal,
        estimate=estimate_traversal,
    ),
    function(
        "lastIndexOf",
        overload(".list_a_last_index_of_int(list<A>, A) int", last_index_of),
        cost=traversal,
        estimate=estimate_traversal,
    ),
)
_EXTENSIONS: Final[tuple[Function, ...]] = (
    function(
        "slice",
        overload(
            ".list_slice(list<T>, int, int) list<T>", slice_list, cost=_new_list, estimate=_estimate_slice
        ),
    ),
    function(
        "flatten",
        overload(
            ".list_flatten(list<list<T>>) list<T>", flatten, cost=_flatten_cost, estimate=_estimate_flatten
        ),
        overload(
            ".list_flatten_int(list<dyn>, int) list<dyn>",
            flatten,
            cost=_flatten_cost,
            estimate=_estimate_flatten,
        ),
        checks_arguments=True,
    ),
    function(
        "reverse",
        overload(
            ".list_reverse(list<T>) list<T>",
            lambda values: list(reversed(values)),
            cost=_new_list,
            estimate=_estimate_reverse,
        ),
    ),
    function(
        "distinct",
        overload(".list_distinct(list<T>) list<T>", distinct, cost=_pairs(0), estimate=_estimate_pairs("")),
        checks_arguments=True,
    ),
    function(
        "sort",
        *(
            overload(
                f".list_{NAMED[name].name}_sort(list<{name}>) list<{name}>",
                cost=_pairs(0),
                estimate=_estimate_pairs(name),
            )
            for name in _COMPARABLE
        ),
        run=sort,
    ),
    function(
        "@sortByAssociatedKeys",
        *(
            overload(
                f".list_{NAMED[name].name}_sortByAssociatedKeys(list<T>, list<{name}>) list<T>",
                cost=_pairs(1),
                estimate=_estimate_pairs(name, keys=True),
            )
            for name in _COMPARABLE
        ),
        run=sort_by_keys,
    ),
)


@functools.cache
def extensions_of(kubernetes: Version) -> tuple[Function, ...]:
    """Return the functions of cel-go's ext/lists.go in a version; cel-go 0.29, since 1.37, limits ``lists.range``."""
    run = number_range if kubernetes < V1_37 else limited_range
    signature = "lists_range(int) list<int>"
    ranges = function("lists.range", overload(signature, run, cost=_new_list, estimate=_estimate_range))
    return (*_EXTENSIONS, ranges)
