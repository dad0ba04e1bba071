"""Limit how deep expressions are nested, and reserve stack for deep ones."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final

from dra_shared import recursion
from dra_shared.cel.syntax import Expr, children

MAX_DEPTH: Final = 250
#: More nested Python calls than the deepest expression needs.
_CALLS: Final = 10_000
#: An expression of at most this depth fits in Python's default limit of nested calls.
_SHALLOW: Final = 40

# In cel-go's grammar, the right operand of an operator is a nested rule. By operator, the number of
# ``relation`` and of ``calc`` rules that are entered for the right operand.
_RIGHT: Final = {"addition": (1, 1), "multiplication": (0, 1), "unary": (0, 1)}


def measure_nesting(tree: Any) -> int:
    """Return how often a rule of cel-go's grammar is nested in itself, at most, in lark's tree."""
    deepest = 0
    pending = [(tree, 1, 0, 0)]
    while pending:
        node, *depths = pending.pop()
        expressions, relations, calculations = depths
        deepest = max(deepest, expressions, relations, calculations)
        parts = node.children
        for part in parts:
            kind = getattr(part, "data", None)
            if kind is None:
                continue
            if kind == "expr":
                inner = (expressions + 1, relations, calculations)
            elif kind == "relation" and node.data == "conditionaland":
                inner = (expressions, relations + 1, calculations)
            elif (
                len(parts) == 2
                and part is parts[1]
                and node.data in ("relation", "addition", "multiplication")
            ):
                more_relations, more_calculations = _RIGHT[kind]
                inner = (expressions, relations + more_relations, calculations + more_calculations)
            elif node.data == "relation" and kind == "addition":
                inner = (expressions, relations, calculations + 1)
            else:
                inner = (expressions, relations, calculations)
            pending.append((part, *inner))
    return deepest


def _is_deep(expr: Expr) -> bool:
    level = [expr]
    for _ in range(_SHALLOW):
        level = [child for parent in level for child in children(parent)]
        if not level:
            return False
    return True


def room() -> AbstractContextManager[None]:
    """Return a context manager that raises Python's recursion limit to what the deepest expression needs."""
    return recursion.room(_CALLS)


def with_room(expr: Expr, run: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """Return ``run``, which evaluates ``expr``, with enough stack for it."""
    if not _is_deep(expr):
        return run

    def roomy(frame: list[Any]) -> Any:
        with room():
            return run(frame)

    return roomy
