"""Conversions between the types of the language, and the type of a value.

Mirrors cel-go's common/stdlib/standard.go and common/types; ``times`` converts to durations and timestamps.
"""

import math
import re
from typing import Any, Final

from dra_shared.cel.declarations import Estimate, Function, Node, function, overload
from dra_shared.cel.errors import EvaluationError
from dra_shared.cel.library.costs import STRING, scan_cel, size_range
from dra_shared.cel.library.operators import checked_int, checked_uint, conversion_error, identity
from dra_shared.cel.library.times import duration_text, seconds, timestamp_text
from dra_shared.cel.ranges import MAX, factor
from dra_shared.cel.values import TypeValue, Uint, format_double, type_name

_TRUE: Final = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE: Final = frozenset(("0", "f", "F", "FALSE", "false", "False"))
_INT: Final = re.compile(r"[+-]?[0-9]+")
_UINT: Final = re.compile(r"[0-9]+")
_DOUBLE: Final = re.compile(
    r"[+-]?(?:(?:_D\.?(?:_D)?|\._D)(?:[eE][+-]?[0-9]+)?|[iI][nN][fF](?:[iI][nN][iI][tT][yY])?|[nN][aA][nN])".replace(
        "_D", "[0-9]+(?:_[0-9]+)*"
    )
)
_HEX_DOUBLE: Final = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+")


def string_to_int(text: str) -> int:
    if _INT.fullmatch(text) and len(text) < 40 and -(1 << 63) <= (value := int(text)) < 1 << 63:
        return value
    raise conversion_error("string", "int")


def string_to_uint(text: str) -> Uint:
    if _UINT.fullmatch(text) and len(text) < 40 and (value := int(text)) < 1 << 64:
        return Uint(value)
    raise conversion_error("string", "uint")


def string_to_double(text: str) -> float:
    if _HEX_DOUBLE.fullmatch(text):
        try:
            return float.fromhex(text)
        except OverflowError:
            raise conversion_error("string", "double") from None
    # Both Go and Python allow underscores between digits.
    if _DOUBLE.fullmatch(text):
        value = float(text)
        if not math.isinf(value) or "n" in text.lower():
            return value
    raise conversion_error("string", "double")


def string_to_bool(text: str) -> bool:
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise conversion_error("string", "bool")


def double_to_int(value: float) -> int:
    if math.isnan(value) or not -9223372036854775808.0 < value < 9223372036854775808.0:
        raise EvaluationError("integer overflow")
    return int(value)


def double_to_uint(value: float) -> Uint:
    if math.isnan(value) or not 0 <= value < 18446744073709551616.0:
        raise EvaluationError("unsigned integer overflow")
    return Uint(int(value))


def bytes_to_string(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


def type_of(value: Any) -> TypeValue:
    return TypeValue(type_name(value))


def _estimate_encoding(target: Node | None, args: list[Node]) -> Estimate:
    """Estimate an encoding: a character takes up to four bytes. For an unbounded size, Go's product wraps around."""
    low, high = size_range(args[0])
    most = min(high * 4, MAX) if high < MAX else high * 4 & MAX
    return Estimate(factor((low, high), STRING), (low, most))


def _estimate_decoding(target: Node | None, args: list[Node]) -> Estimate:
    low, high = size_range(args[0])
    return Estimate(factor((low, high), STRING), (low // 4, high))


FUNCTIONS: Final[tuple[Function, ...]] = (
    function("type", overload("type(A) type<A>"), run=type_of),
    function("dyn", overload("to_dyn(A) dyn"), run=identity),
    function(
        "bool",
        overload("bool_to_bool(bool) bool", identity),
        overload("string_to_bool(string) bool", string_to_bool),
    ),
    function(
        "bytes",
        overload("bytes_to_bytes(bytes) bytes", identity),
        overload("string_to_bytes(string) bytes", str.encode, cost=scan_cel, estimate=_estimate_encoding),
    ),
    function(
        "double",
        overload("double_to_double(double) double", identity),
        overload("int64_to_double(int) double", float),
        overload("string_to_double(string) double", string_to_double),
        overload("uint64_to_double(uint) double", float),
    ),
    function(
        "int",
        overload("int64_to_int64(int) int", identity),
        overload("double_to_int64(double) int", double_to_int),
        overload("duration_to_int64(duration) int", int),
        overload("string_to_int64(string) int", string_to_int),
        overload("timestamp_to_int64(timestamp) int", seconds),
        overload("uint64_to_int64(uint) int", lambda value: checked_int(int(value))),
    ),
    function(
        "string",
        overload("string_to_string(string) string", identity),
        overload("bool_to_string(bool) string", lambda value: "true" if value else "false"),
        overload(
            "bytes_to_string(bytes) string", bytes_to_string, cost=scan_cel, estimate=_estimate_decoding
        ),
        overload("double_to_string(double) string", format_double),
        overload("duration_to_string(duration) string", duration_text),
        overload("int64_to_string(int) string", str),
        overload("timestamp_to_string(timestamp) string", timestamp_text),
        overload("uint64_to_string(uint) string", lambda value: str(int(value))),
    ),
    function(
        "uint",
        overload("uint64_to_uint64(uint) uint", identity),
        overload("double_to_uint64(double) uint", double_to_uint),
        overload("int64_to_uint64(int) uint", checked_uint),
        overload("string_to_uint64(string) uint", string_to_uint),
    ),
)
