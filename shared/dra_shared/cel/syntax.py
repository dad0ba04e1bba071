"""The tree of an expression. The parser builds it and the checker annotates it.

``pos`` is the offset at which cel-go reports errors (the operator's token for calls and selections). The
checker sets ``type`` and, on calls, the matching overloads.
"""

from dataclasses import dataclass, field
from typing import Any

from dra_shared.cel.types import DYN, Type

ACCUMULATOR = "@result"


@dataclass(slots=True, eq=False)
class Expr:
    pos: int
    type: Type = field(default=DYN, init=False)


@dataclass(slots=True, eq=False)
class Literal(Expr):
    value: Any


@dataclass(slots=True, eq=False)
class Ident(Expr):
    name: str


@dataclass(slots=True, eq=False)
class Select(Expr):
    operand: Expr
    name: str
    test_only: bool = False


@dataclass(slots=True, eq=False)
class Call(Expr):
    function: str
    args: list[Expr]
    target: Expr | None = None
    overloads: list[str] = field(default_factory=list, init=False)


@dataclass(slots=True, eq=False)
class ListLiteral(Expr):
    elements: list[Expr]
    optional: frozenset[int] = frozenset()


@dataclass(slots=True, eq=False)
class Entry:
    pos: int
    key: Expr
    value: Expr
    optional: bool


@dataclass(slots=True, eq=False)
class MapLiteral(Expr):
    entries: list[Entry]


@dataclass(slots=True, eq=False)
class StructLiteral(Expr):
    name: str
    fields: list[tuple[int, str, Expr, bool]]


@dataclass(slots=True, eq=False)
class Comprehension(Expr):
    range: Expr
    variable: str
    second: str | None
    accumulator: str
    initial: Expr
    condition: Expr
    step: Expr
    result: Expr


def copy(expr: Expr) -> Expr:
    """Return a copy with the same positions, for macros that use an operand twice."""
    match expr:
        case Literal():
            return Literal(expr.pos, expr.value)
        case Ident():
            return Ident(expr.pos, expr.name)
        case Select():
            return Select(expr.pos, copy(expr.operand), expr.name, expr.test_only)
        case Call():
            target = copy(expr.target) if expr.target is not None else None
            return Call(expr.pos, expr.function, [copy(arg) for arg in expr.args], target)
        case ListLiteral():
            return ListLiteral(expr.pos, [copy(element) for element in expr.elements], expr.optional)
        case MapLiteral():
            return MapLiteral(
                expr.pos,
                [Entry(e.pos, copy(e.key), copy(e.value), e.optional) for e in expr.entries],
            )
        case StructLiteral():
            return StructLiteral(
                expr.pos, expr.name, [(pos, name, copy(value), opt) for pos, name, value, opt in expr.fields]
            )
        case Comprehension():
            return Comprehension(
                expr.pos,
                copy(expr.range),
                expr.variable,
                expr.second,
                expr.accumulator,
                copy(expr.initial),
                copy(expr.condition),
                copy(expr.step),
                copy(expr.result),
            )
    raise TypeError(f"unknown expression {expr!r}")


def children(expr: Expr) -> list[Expr]:
    """Return the direct sub-expressions, in the order in which cel-go visits them."""
    match expr:
        case Select():
            return [expr.operand]
        case Call():
            return [expr.target, *expr.args] if expr.target is not None else expr.args
        case ListLiteral():
            return expr.elements
        case MapLiteral():
            return [part for entry in expr.entries for part in (entry.key, entry.value)]
        case StructLiteral():
            return [value for _, _, value, _ in expr.fields]
        case Comprehension():
            return [expr.range, expr.initial, expr.condition, expr.step, expr.result]
    return []


def walk(expr: Expr) -> "list[Expr]":
    """Return the expression and everything below it, top down."""
    found: list[Expr] = []
    pending = [expr]
    while pending:
        current = pending.pop()
        found.append(current)
        pending.extend(reversed(children(current)))
    return found
