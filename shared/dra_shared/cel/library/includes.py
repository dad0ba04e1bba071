"""``includes``: whether a value is another, or a list has it.

Mirrors k8s.io/dynamic-resource-allocation/cel/compile.go; on with the gate DRAListTypeAttributes.
"""

from typing import Any, Final

from dra_shared.cel.declarations import Estimate, Function, Node, function, overload
from dra_shared.cel.equality import same
from dra_shared.cel.errors import EvaluationError
from dra_shared.cel.values import is_list

_INCLUDES_LIMIT: Final = 48


def includes(target: Any, wanted: Any) -> bool:
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


def _estimate_includes(target: Node | None, args: list[Node]) -> Estimate:
    return Estimate((0, _INCLUDES_LIMIT))


FUNCTIONS: Final[tuple[Function, ...]] = (
    function(
        "includes", overload(".dra_includes_dyn_dyn(dyn, dyn) bool", includes, estimate=_estimate_includes)
    ),
)
