"""Operators, sizes and order: functions that dispatch on their values, whatever overload was found."""

import math
from typing import Any, Final

from dra_shared.cel.errors import EvaluationError
from dra_shared.cel.library import Implementation
from dra_shared.cel.values import (
    NO_OVERLOAD,
    Duration,
    Timestamp,
    TypeValue,
    Uint,
    comparable,
    compare,
    contains,
    equal,
    is_list,
    size,
    type_name,
)

_MIN: Final = -(1 << 63)
_MAX: Final = (1 << 63) - 1
_MAX_UINT: Final = (1 << 64) - 1
_FIRST_SECOND: Final = -62135596800
_LAST_SECOND: Final = 253402300799
_NANOS: Final = 1_000_000_000
_RECEIVERS: Final = frozenset((Duration, str, Timestamp))


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
        return when.shown_at(offset) if offset else when
    raise EvaluationError("timestamp overflow")


def _unknown(left: Any, operator: str) -> EvaluationError:
    """The error of an operand whose type knows nothing of the operator."""
    return EvaluationError(NO_OVERLOAD if type(left) in _RECEIVERS else f"{NO_OVERLOAD}: {operator}")


def _none() -> EvaluationError:
    return EvaluationError(NO_OVERLOAD)


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
    raise _unknown(left, "_+_")


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
    raise _unknown(left, "_-_")


def multiply(left: Any, right: Any) -> Any:
    kind, other = type(left), type(right)
    if kind not in (int, float, Uint):
        raise _unknown(left, "_*_")
    if kind is not other:
        raise _none()
    if kind is int:
        return checked_int(left * right)
    return left * right if kind is float else checked_uint(int(left) * int(right))


def divide(left: Any, right: Any) -> Any:
    kind, other = type(left), type(right)
    if kind not in (int, float, Uint):
        raise _unknown(left, "_/_")
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
        raise _unknown(left, "_%_")
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
    raise _unknown(value, "-_")


def logical_not(value: Any) -> bool:
    if value is True:
        return False
    if value is False:
        return True
    raise _none()


def _ordered(left: Any, right: Any, operator: str) -> int:
    if not comparable(left):
        raise _unknown(left, operator)
    return compare(left, right)


def less(left: Any, right: Any) -> bool:
    return _ordered(left, right, "_<_") < 0


def less_equals(left: Any, right: Any) -> bool:
    return _ordered(left, right, "_<=_") <= 0


def greater(left: Any, right: Any) -> bool:
    return _ordered(left, right, "_>_") > 0


def greater_equals(left: Any, right: Any) -> bool:
    return _ordered(left, right, "_>=_") >= 0


def not_equal(left: Any, right: Any) -> bool:
    """An error of equality makes the two different."""
    try:
        return not equal(left, right)
    except EvaluationError:
        return True


def is_in(wanted: Any, container: Any) -> bool:
    return contains(container, wanted)


def size_of(value: Any) -> int:
    known = size(value)
    if known is None or type_name(value).startswith("net."):
        raise _unknown(value, "size")
    return known


def type_of(value: Any) -> TypeValue:
    return TypeValue(type_name(value))


def identity(value: Any) -> Any:
    return value


BY_FUNCTION: Final[dict[str, Implementation]] = {
    "_+_": add,
    "_-_": subtract,
    "_*_": multiply,
    "_/_": divide,
    "_%_": modulo,
    "-_": negate,
    "!_": logical_not,
    "_<_": less,
    "_<=_": less_equals,
    "_>_": greater,
    "_>=_": greater_equals,
    "_==_": equal,
    "_!=_": not_equal,
    "@in": is_in,
    "size": size_of,
    "type": type_of,
    "dyn": identity,
}
