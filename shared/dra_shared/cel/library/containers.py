"""Indices, membership and sizes of lists, maps, strings and bytes.

Mirrors cel-go's common/stdlib/standard.go. The compiler generates the code of indices.
"""

from collections.abc import Sequence
from typing import Any, Final

from dra_shared.cel.declarations import Estimate, Function, Node, function, overload
from dra_shared.cel.equality import contains
from dra_shared.cel.library.costs import cel_size, size_range
from dra_shared.cel.ranges import factor
from dra_shared.cel.values import no_operator, size, type_name


def is_in(wanted: Any, container: Any) -> bool:
    return contains(container, wanted)


def size_of(value: Any) -> int:
    known = size(value)
    if known is None or type_name(value).startswith("net."):
        raise no_operator(value, "size")
    return known


def _whole_list(args: Sequence[Any], result: Any) -> int:
    return cel_size(args[1])


def _estimate_whole_list(target: Node | None, args: list[Node]) -> Estimate:
    return Estimate(factor(size_range(args[1]), 1))


FUNCTIONS: Final[tuple[Function, ...]] = (
    function("_[_]", overload("index_list(list<A>, int) A"), overload("index_map(map<A, B>, A) B")),
    function(
        "@in",
        overload("in_list(A, list<A>) bool", cost=_whole_list, estimate=_estimate_whole_list),
        overload("in_map(A, map<A, B>) bool"),
        run=is_in,
    ),
    function(
        "size",
        overload("size_bytes(bytes) int"),
        overload(".bytes_size(bytes) int"),
        overload("size_list(list<A>) int"),
        overload(".list_size(list<A>) int"),
        overload("size_map(map<A, B>) int"),
        overload(".map_size(map<A, B>) int"),
        overload("size_string(string) int"),
        overload(".string_size(string) int"),
        run=size_of,
    ),
)
