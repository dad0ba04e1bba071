"""Lists, sets, maps and optionals.

Kubernetes' lists, cel-go's ext.Lists (version 3), ext.Sets and the optional library.
"""

import functools
import itertools
from typing import Any, Final

from dra_shared.cel.declarations import COMPARABLE, NAMED, SUMMABLE
from dra_shared.cel.errors import EvaluationError, Panic
from dra_shared.cel.library import Implementation
from dra_shared.cel.library.operators import add
from dra_shared.cel.values import (
    NO_OVERLOAD,
    NONE,
    Duration,
    OptionalValue,
    StructValue,
    Timestamp,
    Uint,
    comparable,
    compare,
    contains,
    find,
    go_type,
    is_list,
    is_map,
    same,
    to_text,
    type_name,
    type_text,
)

_INCLUDES_LIMIT: Final = 48
# Upstream would build the list first and find the cost limit exceeded afterwards.
_RANGE_LIMIT: Final = 1_000_000


# The beginning of the year 1, which is Go's zero of times.
_FIRST_MOMENT: Final = -62_135_596_800_000_000_000
_SUMMABLE: Final = frozenset((int, Uint, float, str, bytes, Duration, Timestamp))


class CostLimitExceeded(Exception):
    """The evaluation was stopped because it cost too much."""


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


def includes(target: Any, wanted: Any) -> bool:
    if not is_list(target):
        return same(target, wanted)
    for index, value in enumerate(target):
        if index >= _INCLUDES_LIMIT:
            raise EvaluationError(
                f"'includes' function cannot be applied to lists longer than {_INCLUDES_LIMIT} values"
            )
        if same(value, wanted):
            return True
    return False


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
    """What accounts for comparing a list's elements with each other panics if it gets anything else."""
    if not is_list(value):
        raise _no_lister(go_type(value), type(value) in _SUMMABLE)


def failed_list() -> Panic:
    """The same where the list could not be worked out."""
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
        return [values[index] for index in _inserted(keys)]
    return [values[index] for index in sorted(range(len(keys)), key=functools.cmp_to_key(by_key))]


def _inserted(keys: list[float]) -> list[int]:
    """Indices in the order that Go's sort leaves them in where no number is less than NaN, nor NaN than any."""
    order: list[int] = []
    for index, key in enumerate(keys):
        at = index
        while at and key < keys[order[at - 1]]:
            at -= 1
        order.insert(at, index)
    return order


def sort(values: Any) -> list[Any]:
    if not is_list(values):
        # Those that can receive calls say less.
        receives = type(values) in (str, Duration, Timestamp)
        raise EvaluationError(NO_OVERLOAD if receives else f"{NO_OVERLOAD}: sort")
    return sort_by_keys(values, values)


def number_range(count: int) -> list[int]:
    if count > _RANGE_LIMIT:
        raise CostLimitExceeded
    return list(range(count))


def distinct(values: list[Any]) -> list[Any]:
    needs_list(values)
    unique: list[Any] = []
    for value in values:
        if not any(same(value, other) for other in unique):
            unique.append(value)
    return unique


def sets_contain(values: list[Any], part: list[Any]) -> bool:
    return all(contains(values, value) for value in part)


def sets_equivalent(first: list[Any], second: list[Any]) -> bool:
    return sets_contain(first, second) and sets_contain(second, first)


def sets_intersect(first: list[Any], second: list[Any]) -> bool:
    return any(contains(second, value) for value in first)


def insert(target: dict[Any, Any], key: Any, value: Any) -> dict[Any, Any]:
    if find(dict(target), key)[1]:
        raise EvaluationError(f"insert failed: key {to_text(key)} already exists")
    return {**target, key: value}


def insert_all(target: dict[Any, Any], more: dict[Any, Any]) -> dict[Any, Any]:
    for key, value in more.items():
        target = insert(target, key, value)
    return target


def is_zero(value: Any) -> bool:
    """Whether optional.ofNonZeroValue drops the value."""
    if value is None:
        return True
    if is_list(value) or is_map(value) or isinstance(value, str | bytes):
        return len(value) == 0
    if isinstance(value, Timestamp):
        return value == _FIRST_MOMENT
    if isinstance(value, StructValue):
        return all(item is None or item == "" for item in value.fields.values())
    return isinstance(value, bool | int | float) and value == 0


def of_non_zero(value: Any) -> OptionalValue:
    return NONE if is_zero(value) else OptionalValue(value)


def unwrap(values: list[Any]) -> list[Any]:
    for value in values:
        if not isinstance(value, OptionalValue):
            raise EvaluationError(f"value {to_text(value)} is not optional")
    return [value.value for value in values if value.present]


def _optional(value: Any, function: str) -> OptionalValue:
    if not isinstance(value, OptionalValue):
        raise EvaluationError(f"{NO_OVERLOAD}: {function}({type_name(value)})")
    return value


OVERLOADS: Final[dict[str, Implementation]] = {
    **{f"list_{name}_is_sorted_bool": is_sorted for name in COMPARABLE},
    **{
        f"list_{name}_sum_{name}": _sum(zero)
        for name, zero in zip(SUMMABLE, (0, Uint(0), 0.0, Duration(0)), strict=True)
    },
    **{f"list_{name}_max_{name}": _extreme("max", -1) for name in COMPARABLE},
    **{f"list_{name}_min_{name}": _extreme("min", 1) for name in COMPARABLE},
    **{f"list_{NAMED[name].name}_sort": sort for name in COMPARABLE},
    **{f"list_{NAMED[name].name}_sortByAssociatedKeys": sort_by_keys for name in COMPARABLE},
    "list_a_index_of_int": index_of,
    "list_a_last_index_of_int": last_index_of,
    "dra_includes_dyn_dyn": includes,
    "list_slice": slice_list,
    "list_flatten": flatten,
    "list_flatten_int": flatten,
    "lists_range": number_range,
    "list_reverse": lambda values: list(reversed(values)),
    "list_distinct": distinct,
    "list_sets_contains_list": sets_contain,
    "list_sets_equivalent_list": sets_equivalent,
    "list_sets_intersects_list": sets_intersect,
    "@mapInsert_map_key_value": insert,
    "@mapInsert_map_map": insert_all,
    "optional_of": OptionalValue,
    "optional_ofNonZeroValue": of_non_zero,
    "optional_none": lambda: NONE,
    "optional_value": lambda value: _optional(value, "value").get(),
    "optional_hasValue": lambda value: _optional(value, "hasValue").present,
    "list_last": lambda values: OptionalValue(values[-1]) if values else NONE,
    "list_first": lambda values: OptionalValue(values[0]) if values else NONE,
    "optional_unwrap": unwrap,
    "optional_unwrapOpt": unwrap,
}
