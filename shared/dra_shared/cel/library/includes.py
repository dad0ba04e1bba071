"""``includes``: true if a value equals another, or a list contains it.

Mirrors k8s.io/dynamic-resource-allocation/cel/compile.go of 1.36 and
k8s.io/apiserver/pkg/cel/library/lists.go of 1.37. Available with the gate DRAListTypeAttributes.
"""

from typing import Any, Final

from dra_shared.cel.declarations import Estimate, Function, Node, function, overload
from dra_shared.cel.equality import same
from dra_shared.cel.errors import EvaluationError
from dra_shared.cel.library.costs import element, estimate_traversal, size_range, traversal
from dra_shared.cel.values import is_list
from dra_shared.version import V1_36, V1_37, Version

_INCLUDES_LIMIT: Final = 48


def includes(target: Any, wanted: Any) -> bool:
    return any(same(value, wanted) for value in target) if is_list(target) else same(target, wanted)


def includes_of_few(target: Any, wanted: Any) -> bool:
    if not is_list(target):
        return same(target, wanted)
    for index, value in enumerate(target):
        if index >= _INCLUDES_LIMIT:
            raise EvaluationError(
                f"'includes' function cannot be applied to lists longer than {_INCLUDES_LIMIT} values"
            )
        if same(value, wanted):
            return True
    return False


def _estimate_few(target: Node | None, args: list[Node]) -> Estimate:
    return Estimate((0, _INCLUDES_LIMIT))


def _estimate_target(target: Node | None, args: list[Node]) -> Estimate | None:
    # A target of an unknown type may be a list as long as its size.
    if target is not None and element(target) is None:
        return Estimate(size_range(target))
    return estimate_traversal(target, args)


_SINCE_1_36: Final = (
    function(
        "includes", overload(".dra_includes_dyn_dyn(dyn, dyn) bool", includes_of_few, estimate=_estimate_few)
    ),
)
_SINCE_1_37: Final = (
    function(
        "includes",
        overload(".list_includes_dyn_dyn(dyn, dyn) bool", includes),
        cost=traversal,
        estimate=_estimate_target,
    ),
)


def functions_of(version: Version) -> tuple[Function, ...]:
    """Return the functions that DRA adds to the environment in a version."""
    if version < V1_36:
        return ()
    return _SINCE_1_36 if version < V1_37 else _SINCE_1_37
