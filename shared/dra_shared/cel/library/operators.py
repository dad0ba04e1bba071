"""Logic and arithmetic: operators that dispatch on their values, regardless of the overload that was found.

Mirrors cel-go's common/stdlib/standard.go. The compiler generates the code of ``&&``, ``

`` and ``?:``. The cost estimator knows that they may skip operands.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

from dra_shared.cel.declarations import Estimate, Function, Node, function, overload
from dra_shared.cel.errors import EvaluationError
from dra_shared.cel.library.costs import STRING, cel_size, size_range
from dra_shared.cel.ranges import ONE, factor
from dra_shared.cel.ranges import add as add_ranges
from dra_shared.cel.values import NO_OVERLOAD, Duration, Timestamp, Uint, is_list, no_operator

_MIN: Final = -(1 << 63)
_MAX: Final = (1 << 63) - 1
_MAX_UINT: Final = (1 << 64) - 1
_FIRST_SECOND: Final = -62135596800
_LAST_SECOND: Final = 253402300799
_NANOS: Final = 1_000_000_000


def checked_int(value: int) -> int:
    if _MIN <= value <= _MAX:
        return value
    raise EvaluationError("integer overflow")


def checked_uint(value: int) -> Uint:
    if 0 <= value <= _MAX_UINT:
        return Uint(value)
    raise EvaluationError("unsigned integer overflow")


def checked_duration(value: int) -> Duration:
    if _MIN <= value <= _MAX:
        return Duration(value)
    raise EvaluationError("integer overflow")


def checked_timestamp(nanos: int, offset: int = 0) -> Timestamp:
    if _FIRST_SECOND <= nanos // _NANOS <= _LAST_SECOND:
        when = Timestamp(nanos)
        return when.at_offset(offset) if offset else when
    raise EvaluationError("timestamp overflow")


def _none() -> EvaluationError:
    return EvaluationError(NO_OVERLOAD)


def conversion_error(source: str, target: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from '{source}' to '{target}'")


def identity(value: Any) -> Any:
    return value


def add(left: Any, right: Any) -> Any:
    kind, other = type(left), type(right)
    if kind is int and other is int:
        value = left + right
        if _MIN <= value <= _MAX:
            return value
        raise EvaluationError("integer overflow")
    if kind is str or kind is bytes or kind is float:
        if other is kind:
            return left + right
        raise _none()
    if kind is Uint and other is Uint:
        return checked_uint(int(left) + int(right))
    if is_list(left):
        if is_list(right):
            return [*left, *right]
        raise _none()
    if kind is Duration:
        if other is Duration:
            return checked_duration(int(left) + int(right))
        if other is Timestamp:
            return checked_timestamp(int(left) + int(right), right.offset)
        raise _none()
    if kind is Timestamp:
        if other is Duration:
            return checked_timestamp(int(left) + int(right), left.offset)
        raise _none()
    if kind is int or kind is Uint:
        raise _none()
    raise no_operator(left, "_+_")


def subtract(left: Any, right: Any) -> Any:
    kind, other = type(left), type(right)
    if kind is int and other is int:
        return checked_int(left - right)
    if kind is float and other is float:
        return left - right
    if kind is Uint and other is Uint:
        return checked_uint(int(left) - int(right))
    if kind is Duration and other is Duration:
        return checked_duration(int(left) - int(right))
    if kind is Timestamp and other is Duration:
        return checked_timestamp(int(left) - int(right), left.offset)
    if kind is Timestamp and other is Timestamp:
        return checked_duration(int(left) - int(right))
    if kind in (int, float, Uint, Duration, Timestamp):
        raise _none()
    raise no_operator(left, "_-_")


def multiply(left: Any, right: Any) -> Any:
    kind, other = type(left), type(right)
    if kind not in (int, float, Uint):
        raise no_operator(left, "_*_")
    if kind is not other:
        raise _none()
    if kind is int:
        return checked_int(left * right)
    return left * right if kind is float else checked_uint(int(left) * int(right))


def divide(left: Any, right: Any) -> Any:
    kind, other = type(left), type(right)
    if kind not in (int, float, Uint):
        raise no_operator(left, "_/_")
    if kind is not other:
        raise _none()
    if kind is float:
        return _divide_doubles(left, right)
    if right == 0:
        raise EvaluationError("division by zero")
    if kind is Uint:
        return Uint(int(left) // int(right))
    quotient = abs(left) // abs(right)
    return checked_int(quotient if (left < 0) == (right < 0) else -quotient)


def _divide_doubles(left: float, right: float) -> float:
    if right != 0:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1, right)


def modulo(left: Any, right: Any) -> Any:
    kind, other = type(left), type(right)
    if kind not in (int, Uint):
        raise no_operator(left, "_%_")
    if kind is not other:
        raise _none()
    if right == 0:
        raise EvaluationError("modulus by zero")
    if kind is Uint:
        return Uint(int(left) % int(right))
    if left == _MIN and right == -1:
        raise EvaluationError("integer overflow")
    remainder = abs(left) % abs(right)
    return -remainder if left < 0 else remainder


def negate(value: Any) -> Any:
    kind = type(value)
    if kind is int:
        return checked_int(-value)
    if kind is float:
        return -value
    if kind is Duration:
        return checked_duration(-int(value))
    if kind is bool:
        raise _none()
    raise no_operator(value, "-_")


def logical_not(value: Any) -> bool:
    if value is True:
        return False
    if value is False:
        return True
    raise _none()


def _concatenate(args: Sequence[Any], result: Any) -> int:
    return math.ceil(float(cel_size(args[0]) + cel_size(args[1])) * STRING)


def _estimate_concatenation(target: Node | None, args: list[Node]) -> Estimate:
    size = add_ranges(size_range(args[0]), size_range(args[1]))
    return Estimate(factor(size, STRING), size)


def _estimate_joined_lists(target: Node | None, args: list[Node]) -> Estimate:
    return Estimate(ONE, add_ranges(size_range(args[0]), size_range(args[1])))


FUNCTIONS: Final[tuple[Function, ...]] = (
    function("_?_:_", overload("conditional(bool, A, A) A")),
    function("_&&_", overload("logical_and(bool, bool) bool")),
    function("_||_", overload("logical_or(bool, bool) bool")),
    function("!_", overload("logical_not(bool) bool"), run=logical_not),
    function("@not_strictly_false", overload("not_strictly_false(bool) bool")),
    function(
        "_+_",
        overload("add_bytes(bytes, bytes) bytes", cost=_concatenate, estimate=_estimate_concatenation),
        overload("add_double(double, double) double"),
        overload("add_duration_duration(duration, duration) duration"),
        overload("add_duration_timestamp(duration, timestamp) timestamp"),
        overload("add_timestamp_duration(timestamp, duration) timestamp"),
        overload("add_int64(int, int) int"),
        overload("add_list(list<A>, list<A>) list<A>", estimate=_estimate_joined_lists),
        overload("add_string(string, string) string", cost=_concatenate, estimate=_estimate_concatenation),
        overload("add_uint64(uint, uint) uint"),
        run=add,
    ),
    function(
        "_/_",
        overload("divide_double(double, double) double"),
        overload("divide_int64(int, int) int"),
        overload("divide_uint64(uint, uint) uint"),
        run=divide,
    ),
    function(
        "_%_",
        overload("modulo_int64(int, int) int"),
        overload("modulo_uint64(uint, uint) uint"),
        run=modulo,
    ),
    function(
        "_*_",
        overload("multiply_double(double, double) double"),
        overload("multiply_int64(int, int) int"),
        overload("multiply_uint64(uint, uint) uint"),
        run=multiply,
    ),
    function(
        "-_",
        overload("negate_double(double) double"),
        overload("negate_int64(int) int"),
        run=negate,
    ),
    function(
        "_-_",
        overload("subtract_double(double, double) double"),
        overload("subtract_duration_duration(duration, duration) duration"),
        overload("subtract_int64(int, int) int"),
        overload("subtract_timestamp_duration(timestamp, duration) timestamp"),
        overload("subtract_timestamp_timestamp(timestamp, timestamp) duration"),
        overload("subtract_uint64(uint, uint) uint"),
        run=subtract,
    ),
)
