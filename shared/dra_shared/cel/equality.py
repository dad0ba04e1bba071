"""Equality and order of values (cel-go's `common/types`)."""

import math
from typing import Any, Final

from dra_shared.cel.access import find
from dra_shared.cel.errors import EvaluationError
from dra_shared.cel.network import Cidr, Ip
from dra_shared.cel.url import Url
from dra_shared.cel.values import (
    LISTS,
    NO_OVERLOAD,
    NUMBERS,
    DerivedQuantity,
    DomainMap,
    Duration,
    NamedFormat,
    OptionalValue,
    StructValue,
    Timestamp,
    TypeValue,
    Uint,
    is_map,
)
from dra_shared.quantity import Quantity
from dra_shared.semver import Semver

_NAN: Final = "NaN values cannot be ordered"
_PLAIN: Final = frozenset((str, int, bool, Uint, bytes, Duration, Timestamp, TypeValue))
_STRICT: Final = frozenset((Quantity, DerivedQuantity, Semver, Url, Ip, Cidr, NamedFormat))
_ORDERED: Final = frozenset((bool, bytes, float, Duration, int, str, Timestamp, Uint))


def equal(left: Any, right: Any) -> bool:
    """Compare two values with CEL's ``==``. Raises EvaluationError if cel-go's equality is an error."""
    kind = type(left)
    if kind is type(right) and kind in _PLAIN:
        return bool(left == right)
    if left is None or right is None:
        return left is right
    if kind in NUMBERS:
        return type(right) in NUMBERS and _numbers_equal(left, right)
    if kind in LISTS:
        return type(right) in LISTS and len(left) == len(right) and all(map(_lenient, left, right))
    if kind is dict or kind is DomainMap:
        return is_map(right) and _maps_equal(left, right)
    if kind in _STRICT:
        return _strict_equal(kind, left, right)
    if kind is OptionalValue:
        if type(right) is not OptionalValue or left.present != right.present:
            return False
        return not left.present or equal(left.value, right.value)
    if kind is StructValue:
        return (
            type(right) is StructValue and left.name == right.name and _maps_equal(left.fields, right.fields)
        )
    return False


def _lenient(left: Any, right: Any) -> bool:
    """True if equal. Inside lists and maps, an error counts as not equal."""
    try:
        return equal(left, right)
    except EvaluationError:
        return True


def _numbers_equal(left: Any, right: Any) -> bool:
    if type(left) is float or type(right) is float:
        return float(left) == float(right)
    return int(left) == int(right)


def _maps_equal(left: dict[Any, Any], right: dict[Any, Any]) -> bool:
    if len(left) != len(right):
        return False
    for key, value in left.items():
        other, found = find(right, key)
        if not found or not _lenient(value, other):
            return False
    return True


def _strict_equal(kind: type[Any], left: Any, right: Any) -> bool:
    if issubclass(kind, Quantity):
        if type(right) is not Quantity:
            raise EvaluationError(NO_OVERLOAD)
        return bool(left == right)
    if type(right) is not kind:
        raise EvaluationError(NO_OVERLOAD)
    if kind is NamedFormat:
        return bool(left.name == right.name)
    return bool(left == right)


def same(left: Any, right: Any) -> bool:
    """True if equal. An error counts as not equal."""
    try:
        return equal(left, right)
    except EvaluationError:
        return False


def comparable(value: Any) -> bool:
    return type(value) in _ORDERED


def compare(left: Any, right: Any) -> int:
    """Return CEL's order of two values: -1, 0 or 1. Raises EvaluationError for values without an order."""
    kind, other = type(left), type(right)
    if kind is other and kind in _ORDERED:
        if kind is float and (math.isnan(left) or math.isnan(right)):
            raise EvaluationError(_NAN)
        return int(left > right) - int(left < right)
    if kind is float and math.isnan(left):
        raise EvaluationError(_NAN)
    if kind in NUMBERS and other in NUMBERS:
        if kind is float or other is float:
            a, b = float(left), float(right)
            if math.isnan(a) or math.isnan(b):
                raise EvaluationError(_NAN)
            return (a > b) - (a < b)
        return (int(left) > int(right)) - (int(left) < int(right))
    raise EvaluationError(NO_OVERLOAD)


def contains(container: Any, wanted: Any) -> bool:
    """Evaluate CEL's ``in``."""
    kind = type(container)
    if kind in LISTS:
        return any(same(wanted, element) for element in container)
    if kind is DomainMap:
        return type(wanted) is str and wanted in container
    if kind is dict:
        return find(container, wanted)[1]
    raise EvaluationError(NO_OVERLOAD)
