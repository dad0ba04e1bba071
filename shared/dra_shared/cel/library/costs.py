"""Runtime costs and estimates that several topics share.

Mirrors k8s.io/apiserver/pkg/cel/library/cost.go, cel-go's interpreter/runtimecost.go, checker/cost.go and
ext/costs.go. A function without a cost or estimate of its own costs one.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

from dra_shared.cel.declarations import FAILED, CallCost, Estimate, Estimator, Node
from dra_shared.cel.device_sizes import path_size
from dra_shared.cel.ranges import MAX, ONE, UNKNOWN, Range, add, factor, fixed, multiply
from dra_shared.cel.syntax import Literal
from dra_shared.cel.types import Kind
from dra_shared.cel.values import cost_size, is_list, is_map
from dra_shared.cel.values import size as size_of_value

#: Of each character (common.StringTraversalCostFactor).
STRING: Final = 0.1
#: Of each character of a regular expression (common.RegexStringLengthCostFactor).
REGEX: Final = 0.25
#: Of a new list (common.ListCreateBaseCost).
LIST: Final = 10
#: Of a new struct (common.StructCreateBaseCost).
STRUCT: Final = 40


def size(value: Any) -> int:
    """The size that Kubernetes' costs count with."""
    if value is FAILED:
        return 1
    known = size_of_value(value)
    return 1 if known is None else known


def cel_size(value: Any) -> int:
    """The size that cel-go's costs count with."""
    return 1 if value is FAILED else cost_size(value)


def scan(by: float = STRING) -> CallCost:
    """Reading the whole first argument."""

    def cost(args: Sequence[Any], result: Any) -> int:
        return math.ceil(float(size(args[0])) * by)

    return cost


def scan_cel(args: Sequence[Any], result: Any) -> int:
    """The same, as cel-go's own functions cost."""
    return math.ceil(float(cel_size(args[0])) * STRING)


def smaller(args: Sequence[Any], result: Any) -> int:
    """Reading the smaller argument, to compare the two."""
    return math.ceil(float(min(cel_size(args[0]), cel_size(args[1]))) * STRING)


def traversal(args: Sequence[Any], result: Any) -> int:
    """Reading the first argument and all that it contains."""
    return _traverse(args[0])


def _traverse(value: Any) -> int:
    if type(value) is str:
        return int(float(len(value.encode())) * STRING)
    if isinstance(value, bytes):
        return int(float(len(value)) * STRING)
    if value is not FAILED and is_list(value):
        return sum(map(_traverse, value))
    if value is not FAILED and is_map(value):
        return sum(_traverse(key) + _traverse(item) for key, item in value.items())
    return 1


def search(args: Sequence[Any], result: Any) -> int:
    """Running a regular expression over a text."""
    text = math.ceil((1.0 + float(size(args[0]))) * STRING)
    return text * math.ceil(float(size(args[1])) * REGEX)


def known(node: Node) -> Range:
    return node.size if node.size is not None else UNKNOWN


def element(node: Node) -> Node | None:
    """The elements of a list, for their type and size."""
    if not node.type.params:
        return None
    path = (*node.path, "@items") if node.path else ()
    return Node(node.type.params[0], None, path, path_size(path) if path else None)


def literal(node: Node, default: int) -> int:
    """The number that is written there, not below zero."""
    if isinstance(node.expr, Literal) and type(node.expr.value) is int:
        return max(node.expr.value, 0)
    return default


def estimate_scan(by: float = STRING) -> Estimator:
    """Reading the whole first argument."""

    def estimate(target: Node | None, args: list[Node]) -> Estimate | None:
        return Estimate(factor(known(args[0]), by)) if args else None

    return estimate


def estimate_transform(target: Node | None, args: list[Node]) -> Estimate | None:
    """Reading the receiver; the result has its size."""
    if target is None:
        return None
    return Estimate(factor(known(target), STRING), known(target))


def estimate_smaller(target: Node | None, args: list[Node]) -> Estimate:
    """Reading the smaller argument, to compare the two."""
    smallest = min(known(args[0])[1], known(args[1])[1])
    return Estimate(factor((1 if smallest > 0 else 0, smallest), STRING))


def estimate_traversal(target: Node | None, args: list[Node]) -> Estimate | None:
    """Reading the elements of the receiver."""
    if target is None:
        return None
    item = element(target)
    if item is None:
        return Estimate(factor(known(target), STRING))
    cost = ONE
    if item.type.kind in (Kind.STRING, Kind.BYTES):
        cost = add(cost, factor(known(item), STRING))
    return Estimate(multiply(known(target), cost))


def estimate_search(target: Node | None, args: list[Node]) -> Range | None:
    """Running a regular expression over the receiver."""
    if target is None or not args:
        return None
    text = factor(add(known(target), ONE), STRING)
    return multiply(text, factor(known(args[0]), REGEX))


def allocating(by: float, count: int) -> int:
    """Reading ``count`` elements ``by`` times, and making a list."""
    return _unsigned(float(count) * by) + 1 + LIST & MAX


def _unsigned(value: float) -> int:
    """As Go on amd64 makes an unsigned integer of a number."""
    return int(value) & MAX if -(1 << 63) <= value < 1 << 64 else 1 << 63


def estimate_allocating(by: float, size: Range) -> Estimate:
    """Reading ``size`` elements ``by`` times, and making a list of that size."""
    return Estimate(add(add(factor(size, by), ONE), fixed(LIST)), size)
