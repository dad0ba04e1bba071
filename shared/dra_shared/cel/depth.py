"""How deep an expression may be, and room on the stack for one that is."""

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

from dra_shared.cel.syntax import Expr, children

MAX_DEPTH: Final = 250
#: How many of Python's own calls the deepest expression needs at most, with some to spare.
_CALLS: Final = 10_000
#: So deep an expression gets along with the calls that Python allows.
_SHALLOW: Final = 40

# The right side of an operator is a rule within a rule of the same kind, and what else begins there: by what it is,
# how many relations and calculations.
_RIGHT: Final = {"addition": (1, 1), "multiplication": (0, 1), "unary": (0, 1)}


def nesting(tree: Any) -> int:
    """How deep any rule of cel-go's grammar is inside of itself, in lark's tree."""
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


class _Rooms:
    """Python has one limit for all threads: the last one that leaves puts it back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before = 0

    def enter(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = sys.getrecursionlimit()
                sys.setrecursionlimit(max(self._before, _CALLS))
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                sys.setrecursionlimit(self._before)


_rooms = _Rooms()


@contextlib.contextmanager
def room() -> Iterator[None]:
    """As many calls as the deepest expression needs may be under way within, in whatever thread."""
    _rooms.enter()
    try:
        yield
    finally:
        _rooms.leave()


def with_room(expr: Expr, run: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """``run``, which evaluates ``expr``, with the room that it needs."""
    if not _is_deep(expr):
        return run

    def roomy(frame: list[Any]) -> Any:
        with room():
            return run(frame)

    return roomy
