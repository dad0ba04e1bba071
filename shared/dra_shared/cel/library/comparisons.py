"""Equality and order: operators that dispatch on their values, regardless of the overload that was found.

Mirrors cel-go's common/stdlib/standard.go. Kubernetes adds the cost of comparing its own types
(k8s.io/apiserver/pkg/cel/library/cost.go).
"""

from collections.abc import Sequence
from typing import Any, Final

from dra_shared.cel import types as t
from dra_shared.cel.declarations import Estimate, Function, Implementation, Node, function, overload
from dra_shared.cel.equality import comparable, compare, equal
from dra_shared.cel.errors import EvaluationError
from dra_shared.cel.library.costs import STRING, estimate_smaller, smaller
from dra_shared.cel.network import Cidr, Ip
from dra_shared.cel.ranges import ONE, factor
from dra_shared.cel.url import Url
from dra_shared.cel.values import DerivedQuantity, NamedFormat, no_operator
from dra_shared.quantity import Quantity
from dra_shared.semver import Semver

_FORMAT_SIZE: Final = 64
#: The values that are compared in one step, and their types.
_SIMPLE: Final = (Quantity, DerivedQuantity, Ip, Cidr, NamedFormat, Url, Semver)
_SIMPLE_TYPES: Final = frozenset((t.IP, t.CIDR, t.QUANTITY, t.SEMVER, *t.AUTHORIZATION.values()))
#: The ends of the overloads' ids, and the types on both sides.
_ORDERED: Final = (
    ("bool", "bool", "bool"),
    ("int64", "int", "int"),
    ("int64_double", "int", "double"),
    ("int64_uint64", "int", "uint"),
    ("uint64", "uint", "uint"),
    ("uint64_double", "uint", "double"),
    ("uint64_int64", "uint", "int"),
    ("double", "double", "double"),
    ("double_int64", "double", "int"),
    ("double_uint64", "double", "uint"),
    ("string", "string", "string"),
    ("bytes", "bytes", "bytes"),
    ("timestamp", "timestamp", "timestamp"),
    ("duration", "duration", "duration"),
)


def _compare_ordered(left: Any, right: Any, operator: str) -> int:
    if not comparable(left):
        raise no_operator(left, operator)
    return compare(left, right)


def less(left: Any, right: Any) -> bool:
    return _compare_ordered(left, right, "_<_") < 0


def less_equals(left: Any, right: Any) -> bool:
    return _compare_ordered(left, right, "_<=_") <= 0


def greater(left: Any, right: Any) -> bool:
    return _compare_ordered(left, right, "_>_") > 0


def greater_equals(left: Any, right: Any) -> bool:
    return _compare_ordered(left, right, "_>=_") >= 0


def not_equal(left: Any, right: Any) -> bool:
    """True if the values differ or cannot be compared."""
    try:
        return not equal(left, right)
    except EvaluationError:
        return True


def _equality(args: Sequence[Any], result: Any) -> int:
    return 1 if isinstance(args[0], _SIMPLE) else smaller(args, result)


def _estimate_equality(target: Node | None, args: list[Node]) -> Estimate:
    left, right = args
    if left.type == right.type:
        if left.type in _SIMPLE_TYPES:
            return Estimate(ONE)
        if left.type == t.FORMAT:
            return Estimate(factor((1, _FORMAT_SIZE), STRING))
        if left.type == t.URL:
            most = right.size[1] if right.size is not None else 1
            return Estimate(factor((1, most), STRING))
    return estimate_smaller(target, args)


def _order(name: str, prefix: str, run: Implementation) -> Function:
    overloads = (
        overload(
            f"{prefix}_{suffix}({left}, {right}) bool",
            cost=smaller if suffix in ("string", "bytes") else None,
            estimate=estimate_smaller if suffix in ("string", "bytes") else None,
        )
        for suffix, left, right in _ORDERED
    )
    return function(name, *overloads, run=run)


FUNCTIONS: Final[tuple[Function, ...]] = (
    function("_==_", overload("equals(A, A) bool"), run=equal, cost=_equality, estimate=_estimate_equality),
    function(
        "_!=_",
        overload("not_equals(A, A) bool", cost=smaller, estimate=estimate_smaller),
        run=not_equal,
    ),
    _order("_<_", "less", less),
    _order("_<=_", "less_equals", less_equals),
    _order("_>_", "greater", greater),
    _order("_>=_", "greater_equals", greater_equals),
)
