"""What a call costs when it runs (cel-go's interpreter/runtimecost.go with Kubernetes' and the extensions' costs)."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from dra_shared.cel.estimates import AUTHORIZATION, MAX, selector_cost
from dra_shared.cel.network import Cidr, Ip
from dra_shared.cel.url import Url
from dra_shared.cel.values import DerivedQuantity, NamedFormat, cost_size, is_list, is_map, size
from dra_shared.quantity import Quantity
from dra_shared.semver import Semver

_STRING: Final = 0.1
_REGEX: Final = 0.25
_LIST: Final = 10

#: Takes the arguments and the result; a failed one is FAILED.
CallCost = Callable[[Sequence[Any], Any], int]


class Failed:
    """Stands for an argument or result that is an error."""


FAILED: Final = Failed()


def _size(value: Any) -> int:
    if value is FAILED:
        return 1
    known = size(value)
    return 1 if known is None else known


def _cel_size(value: Any) -> int:
    return 1 if value is FAILED else cost_size(value)


def _one(args: Sequence[Any], result: Any) -> int:
    return 1


def _scan(by: float, at: int = 0) -> CallCost:
    def cost(args: Sequence[Any], result: Any) -> int:
        return math.ceil(float(_size(args[at])) * by)

    return cost


def _traverse(value: Any) -> int:
    """A traversal of the whole value."""
    if type(value) is str:
        return int(float(len(value.encode())) * _STRING)
    if isinstance(value, bytes):
        return int(float(len(value)) * _STRING)
    if value is not FAILED and is_list(value):
        return sum(map(_traverse, value))
    if value is not FAILED and is_map(value):
        return sum(_traverse(key) + _traverse(item) for key, item in value.items())
    return 1


def _traversal(args: Sequence[Any], result: Any) -> int:
    return _traverse(args[0])


def _join(args: Sequence[Any], result: Any) -> int:
    return math.ceil(float(_size(result)) * 2 * _STRING)


def _search(args: Sequence[Any], result: Any) -> int:
    text = math.ceil((1.0 + float(_size(args[0]))) * _STRING)
    return text * math.ceil(float(_size(args[1])) * _REGEX)


def _contained(*, parsed: bool, masking: bool) -> CallCost:
    def cost(args: Sequence[Any], result: Any) -> int:
        network = _size(args[0])
        total = math.ceil(float(network + network) * _STRING)
        if masking:
            total += math.ceil(float(network) * _STRING) + 1
        if parsed:
            total += math.ceil(float(_size(args[1])) * _STRING)
        return total

    return cost


def _selector(args: Sequence[Any], result: Any) -> int:
    return selector_cost((_size(args[1]), _size(args[1])))[1]


def _validate(args: Sequence[Any], result: Any) -> int:
    named = args[0]
    if not isinstance(named, NamedFormat):
        return 1
    text = math.ceil((1.0 + float(_size(args[1]))) * _STRING)
    return text * math.ceil(float(named.max_regex_size) * _REGEX)


_SIMPLE: Final = (Quantity, DerivedQuantity, Ip, Cidr, NamedFormat, Url, Semver)


def _equals(args: Sequence[Any], result: Any) -> int:
    if isinstance(args[0], _SIMPLE):
        return 1
    return _smaller(args, result)


def _smaller(args: Sequence[Any], result: Any) -> int:
    return math.ceil(float(min(_cel_size(args[0]), _cel_size(args[1]))) * _STRING)


def _scan_cel(args: Sequence[Any], result: Any) -> int:
    return math.ceil(float(_cel_size(args[0])) * _STRING)


def _in_list(args: Sequence[Any], result: Any) -> int:
    return _cel_size(args[1])


def _concatenate(args: Sequence[Any], result: Any) -> int:
    return math.ceil(float(_cel_size(args[0]) + _cel_size(args[1])) * _STRING)


def _contains(args: Sequence[Any], result: Any) -> int:
    return math.ceil(float(_cel_size(args[0])) * _STRING) * math.ceil(float(_cel_size(args[1])) * _STRING)


def _allocating(by: float, count: int) -> int:
    return _unsigned(float(count) * by) + 1 + _LIST & MAX


def _unsigned(value: float) -> int:
    """As Go on amd64 makes an unsigned integer of a number."""
    return int(value) & MAX if -(1 << 63) <= value < 1 << 64 else 1 << 63


def _output(args: Sequence[Any], result: Any) -> int:
    return _allocating(1, _size(result))


def _flatten(args: Sequence[Any], result: Any) -> int:
    depth = float(args[1]) if len(args) == 2 and isinstance(args[1], int) else 1.0
    return _allocating(depth, _size(args[0]))


def _self_compare(at: int) -> CallCost:
    def cost(args: Sequence[Any], result: Any) -> int:
        values = args[at]
        if not values or values is FAILED:
            return _allocating(2, 0)
        by = 2 + (_STRING if isinstance(values[0], str | bytes) else 0)
        return _allocating(by, len(values) ** 2)

    return cost


def _sets(by: int) -> CallCost:
    def cost(args: Sequence[Any], result: Any) -> int:
        return 1 + _size(args[0]) * _size(args[1]) * by

    return cost


_NOMINAL: Final = [
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
]
_BY_FUNCTION: Final[dict[str, CallCost]] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _traversal),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim"), _scan(_STRING)),
    **dict.fromkeys(("replace", "split"), _scan(2 * _STRING)),
    "join": _join,
    **dict.fromkeys(("find", "findAll"), _search),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "ip"), _scan(_STRING)),
    "check": lambda args, result: AUTHORIZATION,
    "ip.isCanonical": _scan(2 * _STRING),
    **dict.fromkeys(_NOMINAL, _one),
    **dict.fromkeys(("fieldSelector", "labelSelector"), _selector),
    **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver"), _scan(_STRING)),
    "containsIP": _contained(parsed=False, masking=False),
    "containsCIDR": _contained(parsed=False, masking=True),
    "validate": _validate,
    "_==_": _equals,
}
_ORDERS: Final = ("less", "greater", "less_equals", "greater_equals")
_BY_OVERLOAD: Final[dict[str, CallCost]] = {
    **dict.fromkeys(
        (
            "starts_with_string",
            "ends_with_string",
            "string_to_bytes",
            "bytes_to_string",
            "strings_quote",
            "string_format",
        ),
        _scan_cel,
    ),
    "in_list": _in_list,
    **{f"{order}_{kind}": _smaller for order in _ORDERS for kind in ("string", "bytes")},
    "not_equals": _smaller,
    "add_string": _concatenate,
    "add_bytes": _concatenate,
    "matches_string": _search,
    "contains_string": _contains,
}
_FIRST: Final[dict[str, CallCost]] = {
    "cidr_ip": _one,
    "cidr_contains_ip_string": _contained(parsed=True, masking=False),
    "cidr_contains_cidr_string": _contained(parsed=True, masking=True),
    "list_slice": _output,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "lists_range": _output,
    "list_reverse": _output,
    "list_distinct": _self_compare(0),
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
}


def call_cost(function: str, overload: str) -> CallCost:
    """How to compute the cost of a call; ``overload`` is empty when several matched."""
    if overload in _FIRST:
        return _FIRST[overload]
    if overload.endswith("_sort"):
        return _self_compare(0)
    if overload.endswith("_sortByAssociatedKeys"):
        return _self_compare(1)
    if function in _BY_FUNCTION:
        return _BY_FUNCTION[function]
    return _BY_OVERLOAD.get(overload, _one)
