"""Check literals after the type check: durations, timestamps, patterns, formats, mixed aggregates.

Mirrors cel-go's cel/validator.go and ext/formatting.go.
"""

from collections.abc import Callable
from typing import Any, Final

from dra_shared.cel.errors import EvaluationError, Issue
from dra_shared.cel.library.formatting import ALLOWED, FormatError, expand, refuse
from dra_shared.cel.library.patterns import RegexError, compile_regex
from dra_shared.cel.library.times import int_to_timestamp, string_to_duration, string_to_timestamp
from dra_shared.cel.syntax import Call, Expr, ListLiteral, Literal, MapLiteral, children, walk
from dra_shared.cel.types import Kind, Type


def validate(expr: Expr) -> list[Issue]:
    """Return the issues that cel-go's literal validators find in a checked tree."""
    nodes = _bottom_up(expr)
    calls = [node for node in nodes if isinstance(node, Call)]
    issues: list[Issue] = []
    for function in ("duration", "timestamp", "matches"):
        issues += [issue for call in calls if (issue := _literal(call, function)) is not None]
    exempt = {id(node) for call in calls if call.function == "format" for node in walk(call)}
    for node in nodes:
        if isinstance(node, ListLiteral) and id(node) not in exempt:
            issues += _find_mixed([(element, element.type) for element in node.elements], node.optional)[:1]
    for node in nodes:
        if isinstance(node, MapLiteral) and id(node) not in exempt:
            optional = frozenset(index for index, entry in enumerate(node.entries) if entry.optional)
            issues += _find_mixed([(entry.key, entry.key.type) for entry in node.entries], frozenset())
            issues += _find_mixed([(entry.value, entry.value.type) for entry in node.entries], optional)
    for call in calls:
        issues += _format(call)
    return issues


def _bottom_up(expr: Expr) -> list[Expr]:
    found: list[Expr] = []
    pending = [expr]
    while pending:
        current = pending.pop()
        found.append(current)
        pending.extend(children(current))
    found.reverse()
    return found


def _literal(call: Call, function: str) -> Issue | None:
    if call.function != function or not call.args:
        return None
    arg = call.args[0]
    if type(arg) is not Literal:
        return None
    check = _VALID.get((function, type(arg.value)))
    if check is None and function == "matches":
        return None
    try:
        if check is not None:
            check(arg.value)
            return None
    except (EvaluationError, RegexError):
        pass
    return Issue(arg.pos, f"invalid {function} argument")


_VALID: Final[dict[tuple[str, type], Callable[[Any], Any]]] = {
    ("duration", str): string_to_duration,
    ("timestamp", str): string_to_timestamp,
    ("timestamp", int): int_to_timestamp,
    ("matches", str): compile_regex,
}


def _find_mixed(elements: list[tuple[Expr, Type]], optional: frozenset[int]) -> list[Issue]:
    first: Type | None = None
    issues: list[Issue] = []
    for index, (element, type_) in enumerate(elements):
        if index in optional and type_.params:
            type_ = type_.params[0]
        if first is None:
            first = type_
        elif first != type_:
            issues.append(Issue(element.pos, f"expected type '{first}' but found '{type_}'"))
    return issues


def _format(call: Call) -> list[Issue]:
    template, args = call.target, call.args
    if call.function != "format" or type(template) is not Literal or not isinstance(template.value, str):
        return []
    if len(args) != 1 or not isinstance(args[0], ListLiteral):
        return []
    elements = args[0].elements

    def show(index: int, clause: str, precision: int | None) -> str:
        bad = _find_refused(elements[index], clause.lower())
        if bad is not None:
            raise refuse(clause, bad.type.name, bad.pos)
        return ""

    try:
        _, used = expand(template.value, len(elements), show)
    except FormatError as error:
        return [Issue(call.pos if error.index is None else error.index, str(error))]
    if len(elements) > used:
        return [
            Issue(
                call.pos,
                f"too many arguments supplied to string.format (expected {used}, got {len(elements)})",
            )
        ]
    return []


def _find_refused(element: Expr, clause: str) -> Expr | None:
    """Return the expression that the clause cannot format, or None."""
    if element.type.kind is not Kind.DYN and element.type.name not in ALLOWED[clause]:
        return element
    if clause != "s":
        return None
    parts: list[Expr] = []
    if isinstance(element, ListLiteral):
        parts = element.elements
    elif isinstance(element, MapLiteral):
        parts = [part for entry in element.entries for part in (entry.key, entry.value)]
    return next((bad for part in parts if (bad := _find_refused(part, clause)) is not None), None)
