"""Runtime costs and estimates that several topics share.

Mirrors k8s.io/apiserver/pkg/cel/library/cost.go, cel-go's interpreter/runtimecost.go, checker/cost.go and
ext/costs.go. A function without a cost or estimate of its own costs one.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

from dra_shared.cel.declarations import FAILED, CallCost, Estimate, Estimator, Node
from dra_shared.cel.device_sizes import path_size
from dra_shared.cel.ranges import MAX, ONE, UNKNOWN, Range, add, exactly, factor, multiply
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
    """Return the size that Kubernetes' costs are based on."""
    if value is FAILED:
        return 1
    known = size_of_value(value)
    return 1 if known is None else known


def cel_size(value: Any) -> int:
    """Return the size that cel-go's costs are based on."""
    return 1 if value is FAILED else cost_size(value)


def scan(by: float = STRING) -> CallCost:
    """Return the cost of reading the whole first argument."""

    def cost(args: Sequence[Any], result: Any) -> int:
        return math.ceil(float(size(args[0])) * by)

    return cost


def scan_cel(args: Sequence[Any], result: Any) -> int:
    """Return the cost of reading the whole first argument, computed like the costs of cel-go's own functions."""
    return math.ceil(float(cel_size(args[0])) * STRING)


def smaller(args: Sequence[Any], result: Any) -> int:
    """Return the cost of comparing two arguments, which is the cost of reading the smaller one."""
    return math.ceil(float(min(cel_size(args[0]), cel_size(args[1]))) * STRING)


def traversal(args: Sequence[Any], result: Any) -> int:
    """Return the cost of reading the first argument and all that it contains."""
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
    """Return the cost of running a regular expression over a text."""
    text = math.ceil((1.0 + float(size(args[0]))) * STRING)
    return text * math.ceil(float(size(args[1])) * REGEX)


def size_range(node: Node) -> Range:
    return node.size if node.size is not None else UNKNOWN


def element(node: Node) -> Node | None:
    """Return a node that stands for each element of a list, with the type and the largest size of an element."""
    if not node.type.params:
        return None
    path = (*node.path, "@items") if node.path else ()
    return Node(node.type.params[0], None, path, path_size(path) if path else None)


def literal(node: Node, default: int) -> int:
    """Return the value of an integer literal, at least zero; ``default`` if the operand is not an integer literal."""
    if isinstance(node.expr, Literal) and type(node.expr.value) is int:
        return max(node.expr.value, 0)
    return default


def estimate_scan(by: float = STRING) -> Estimator:
    """Estimate reading the whole first argument."""

    def estimate(target: Node | None, args: list[Node]) -> Estimate | None:
        return Estimate(factor(size_range(args[0]), by)) if args else None

    return estimate


def estimate_transform(target: Node | None, args: list[Node]) -> Estimate | None:
    """Estimate reading the receiver. The result has the size of the receiver."""
    if target is None:
        return None
    return Estimate(factor(size_range(target), STRING), size_range(target))


def estimate_smaller(target: Node | None, args: list[Node]) -> Estimate:
    """Estimate comparing two arguments: reading the smaller one."""
    smallest = min(size_range(args[0])[1], size_range(args[1])[1])
    return Estimate(factor((1 if smallest > 0 else 0, smallest), STRING))


def estimate_traversal(target: Node | None, args: list[Node]) -> Estimate | None:
    """Estimate reading the elements of the receiver."""
    if target is None:
        return None
    item = element(target)
    if item is None:
        return Estimate(factor(size_range(target), STRING))
    cost = ONE
    if item.type.kind in (Kind.STRING, Kind.BYTES):
        cost = add(cost, factor(size_range(item), STRING))
    return Estimate(multiply(size_range(target), cost))


def estimate_search(target: Node | None, args: list[Node]) -> Range | None:
    """Estimate running a regular expression over the receiver."""
    if target is None or not args:
        return None
    text = factor(add(size_range(target), ONE), STRING)
    return multiply(text, factor(size_range(args[0]), REGEX))


def allocation_cost(by: float, count: int) -> int:
    """Return the cost of reading ``count`` elements ``by`` times, and creating a list."""
    return _to_unsigned(float(count) * by) + 1 + LIST & MAX


def _to_unsigned(value: float) -> int:
    """Convert a number to an unsigned integer as Go does on amd64."""
    return int(value) & MAX if -(1 << 63) <= value < 1 << 64 else 1 << 63


def estimate_allocating(by: float, size: Range) -> Estimate:
    """Estimate reading ``size`` elements ``by`` times, and creating a list of that size."""
    return Estimate(add(add(factor(size, by), ONE), exactly(LIST)), size)
