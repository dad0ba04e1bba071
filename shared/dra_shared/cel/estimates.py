"""Cost ranges and the estimates of library calls (k8s.io/apiserver/pkg/cel/library/cost.go, cel-go's ext/costs.go)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from dra_shared.cel import types as t
from dra_shared.cel.syntax import Expr, Literal
from dra_shared.cel.types import Kind, Type

MAX: Final = (1 << 64) - 1

#: Smallest and largest.
Range = tuple[int, int]

ONE: Final[Range] = (1, 1)
UNKNOWN: Final[Range] = (0, MAX)
_STRING: Final = 0.1
_REGEX: Final = 0.25
_LIST: Final = 10
_STRUCT: Final = 40
_INCLUDES_LIMIT: Final = 48
_FORMAT_SIZE: Final = 64
_FORMAT_REGEX_SIZE: Final = 128


def fixed(value: int) -> Range:
    return value, value


def add(a: Range, b: Range) -> Range:
    return min(a[0] + b[0], MAX), min(a[1] + b[1], MAX)


def multiply(a: Range, b: Range) -> Range:
    return min(a[0] * b[0], MAX), min(a[1] * b[1], MAX)


def union(a: Range, b: Range) -> Range:
    return min(a[0], b[0]), max(a[1], b[1])


def _scale(value: int, by: float) -> int:
    number = float(value)
    if number > 0 and by > 0 and number > float(MAX) / by:
        return MAX
    scaled = math.ceil(number * by)
    return MAX if scaled >= 1 << 64 else scaled


def factor(value: Range, by: float) -> Range:
    """The range times a factor, rounded up."""
    return _scale(value[0], by), _scale(value[1], by)


@dataclass(slots=True)
class Estimate:
    """A call's cost, and the size of its result where it has one."""

    cost: Range
    size: Range | None = None


@dataclass(slots=True)
class Node:
    """An operand of a call, with what is known of it."""

    type: Type
    expr: Expr | None
    path: tuple[str, ...]
    size: Range | None


def _known(node: Node) -> Range:
    return node.size if node.size is not None else UNKNOWN


def _element(node: Node) -> Node | None:
    """The elements of a list, for their type and size."""
    from dra_shared.cel.estimate import path_size

    if not node.type.params:
        return None
    path = (*node.path, "@items") if node.path else ()
    return Node(node.type.params[0], None, path, path_size(path) if path else None)


def _number(node: Node, default: int) -> int:
    if isinstance(node.expr, Literal) and type(node.expr.value) is int:
        return max(node.expr.value, 0)
    return default


def selector_cost(length: Range) -> Range:
    """What it costs to parse the text of a selector: a requirement may be as short as two characters."""
    requirements = factor(factor(length, 0.5), _LIST + _STRUCT)
    return add(add(fixed(_LIST), factor(length, _STRING)), requirements)


#: The types whose values are compared in one step.
_SAME_AT_A_GLANCE: Final = frozenset((t.IP, t.CIDR, t.QUANTITY, t.SEMVER, *t.AUTHORIZATION.values()))

_Estimator = Callable[[str, Node | None, list[Node]], Estimate | None]

#: What asking the authorizer costs.
AUTHORIZATION: Final = 350_000

_NOMINAL: Final = frozenset(
    [
        "masked",
        "prefixLength",
        "family",
        "isUnspecified",
        "isLoopback",
        "isLinkLocalMulticast",
        "isLinkLocalUnicast",
        "isGlobalUnicast",
        "format.named",
        "sign",
        "asInteger",
        "isInteger",
        "asApproximateFloat",
        "isGreaterThan",
        "isLessThan",
        "compareTo",
        "add",
        "sub",
        "major",
        "minor",
        "patch",
        "getScheme",
        "getHostname",
        "getHost",
        "getPort",
        "getEscapedPath",
        "getQuery",
        "serviceAccount",
        "path",
        "group",
        "resource",
        "subresource",
        "namespace",
        "name",
        "allowed",
        "reason",
        "error",
        "errored",
    ]
)


def estimate_library_call(
    function: str, overload: str, target: Node | None, args: list[Node]
) -> Estimate | None:
    """The estimate that a library makes of its call, None when it has none."""
    by_overload = _list_call(overload, target, args)
    if by_overload is not None:
        return by_overload
    if overload == "dra_includes_dyn_dyn":
        return Estimate((0, _INCLUDES_LIMIT))
    if function == "check":
        return Estimate(fixed(AUTHORIZATION))
    if function in _NOMINAL:
        return Estimate(ONE)
    estimator = _BY_FUNCTION.get(function)
    return estimator(overload, target, args) if estimator is not None else None


def _list_call(overload: str, target: Node | None, args: list[Node]) -> Estimate | None:
    """ext.Lists and ext.Sets, which estimate by overload."""
    if overload.startswith("list_sets_"):
        by = 2 if overload == "list_sets_equivalent_list" else 1
        return Estimate(add(factor(multiply(_known(args[0]), _known(args[1])), by), ONE))
    if overload == "lists_range":
        return _allocating(1, fixed(_number(args[0], MAX)))
    if target is None:
        return None
    if overload == "list_slice":
        size = _known(target)
        return _allocating(1, fixed((_number(args[1], size[1]) - _number(args[0], 0)) & MAX))
    if overload == "list_reverse":
        return _allocating(1, _known(target))
    if overload in ("list_flatten", "list_flatten_int"):
        depth = _number(args[0], MAX) if args else 1
        return _allocating(float(depth), _known(target))
    if overload == "list_distinct":
        return _allocating(2, multiply(_known(target), _known(target)))
    if overload.endswith("_sort"):
        return _sorting(overload, _known(target))
    if overload.endswith("_sortByAssociatedKeys"):
        return _sorting(overload, _known(args[0]))
    return None


def _sorting(overload: str, size: Range) -> Estimate:
    by = 2 + (_STRING if overload.startswith(("list_string_", "list_bytes_")) else 0)
    return _allocating(by, multiply(size, size))


def _allocating(by: float, size: Range) -> Estimate:
    return Estimate(add(add(factor(size, by), ONE), fixed(_LIST)), size)


def _traverse_list() -> _Estimator:
    def estimator(overload: str, target: Node | None, args: list[Node]) -> Estimate | None:
        if target is None:
            return None
        element = _element(target)
        if element is None:
            return Estimate(factor(_known(target), _STRING))
        cost = ONE
        if element.type.kind in (Kind.STRING, Kind.BYTES):
            cost = add(cost, factor(_known(element), _STRING))
        return Estimate(multiply(_known(target), cost))

    return estimator


def _url(overload: str, target: Node | None, args: list[Node]) -> Estimate | None:
    size = _known(args[0])
    return Estimate(factor(size, _STRING), size)


def _transform(overload: str, target: Node | None, args: list[Node]) -> Estimate | None:
    if target is None:
        return None
    size = _known(target)
    return Estimate(factor(size, _STRING), size)


def _replace(overload: str, target: Node | None, args: list[Node]) -> Estimate | None:
    if target is None or len(args) < 2:
        return None
    size, old, new = _known(target), _known(args[0]), _known(args[1])
    most = kept_most = least = kept_least = 0
    if old[0] == 0:
        most = min(size[1] + 1, MAX)
        kept_most = size[1]
    elif new[1] <= old[0]:
        kept_most = size[1]
    else:
        most = math.ceil(float(size[1]) / float(old[0]))
    if old[1] == 0:
        least = min(size[0] + 1, MAX)
        kept_least = size[0]
    elif old[1] <= new[0]:
        kept_least = size[0]
    else:
        least = math.ceil(float(size[0]) / float(old[1]))
    result = add(multiply((least, min(most, MAX)), new), (kept_least, kept_most))
    return Estimate(factor(size, 2 * _STRING), result)


def _split(overload: str, target: Node | None, args: list[Node]) -> Estimate | None:
    if target is None:
        return None
    size = _known(target)
    most = size[1]
    if len(args) > 1 and isinstance(args[1].expr, Literal) and type(args[1].expr.value) is int:
        most = args[1].expr.value & MAX
    return Estimate(factor(size, 2 * _STRING), (0, most))


def _join(overload: str, target: Node | None, args: list[Node]) -> Estimate | None:
    if target is None:
        return None
    count = _known(target)
    size: Range = (0, 0)
    element = _element(target)
    if element is not None:
        size = multiply(count, _known(element))
    if args:
        separators = (max(count[0] - 1, 0), max(count[1] - 1, 0))
        size = add(size, multiply(_known(args[0]), separators))
    return Estimate(factor(size, _STRING), size)


def _find(overload: str, target: Node | None, args: list[Node]) -> Estimate | None:
    if target is None or not args:
        return None
    size = _known(target)
    text = factor(add(size, ONE), _STRING)
    return Estimate(multiply(text, factor(_known(args[0]), _REGEX)), (0, size[1]))


def _scan(by: float) -> _Estimator:
    def estimator(overload: str, target: Node | None, args: list[Node]) -> Estimate | None:
        if overload == "cidr_ip":
            return Estimate(ONE)
        return Estimate(factor(_known(args[0]), by)) if args else None

    return estimator


def _contains(parsed: str, masking: bool) -> _Estimator:
    def estimator(overload: str, target: Node | None, args: list[Node]) -> Estimate | None:
        address: Range = (4, 16)
        cost = factor(add(address, address), _STRING)
        if masking:
            cost = add(add(cost, factor(address, _STRING)), ONE)
        if overload == parsed:
            cost = add(cost, factor(_known(args[0]), _STRING))
        return Estimate(cost)

    return estimator


def _validate(overload: str, target: Node | None, args: list[Node]) -> Estimate | None:
    return Estimate(factor(factor(_known(args[0]), _STRING), _FORMAT_REGEX_SIZE * _REGEX))


def _select(overload: str, target: Node | None, args: list[Node]) -> Estimate | None:
    return Estimate(selector_cost(_known(args[0]))) if len(args) == 1 else None


def _equals(overload: str, target: Node | None, args: list[Node]) -> Estimate | None:
    left, right = args
    if left.type != right.type:
        return None
    if left.type in _SAME_AT_A_GLANCE:
        return Estimate(ONE)
    if left.type == t.FORMAT:
        return Estimate(factor((1, _FORMAT_SIZE), _STRING))
    if left.type == t.URL:
        most = right.size[1] if right.size is not None else 1
        return Estimate(factor((1, most), _STRING))
    return None


_BY_FUNCTION: Final[dict[str, _Estimator]] = {
    **{name: _traverse_list() for name in ("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf")},
    "url": _url,
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _transform),
    "replace": _replace,
    "split": _split,
    "join": _join,
    **dict.fromkeys(("find", "findAll"), _find),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "ip"), _scan(_STRING)),
    **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver"), _scan(_STRING)),
    "ip.isCanonical": _scan(2 * _STRING),
    "containsIP": _contains("cidr_contains_ip_string", masking=False),
    "containsCIDR": _contains("cidr_contains_cidr_string", masking=True),
    **dict.fromkeys(("fieldSelector", "labelSelector"), _select),
    "validate": _validate,
    "_==_": _equals,
}
