"""Errors of macros and literals in the tree that a parser recovers from a text with syntax errors.

Mirrors the visitor of cel-go's parser/parser.go, which visits the tree even if the parser recovered from
errors.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from dra_shared.cel.errors import NOWHERE, Issue
from dra_shared.cel.literals import double, integer, parse_unsigned, text_bytes, unquote
from dra_shared.cel.macros import MacroError, expand
from dra_shared.cel.syntax import Call, Expr, Ident, ListLiteral, Literal, MapLiteral, Select, StructLiteral
from dra_shared.cel.tokens import Token

_VALUES: Final[dict[str, Callable[[str], Any]]] = {
    "NUM_INT": integer,
    "NUM_UINT": parse_unsigned,
    "NUM_FLOAT": double,
    "STRING": unquote,
    "BYTES": text_bytes,
}


@dataclass(slots=True)
class Node:
    """A rule of the grammar that may be incomplete. ``kind`` is "" if the parser chose no alternative."""

    kind: str
    start: int
    parts: "list[Node]" = field(default_factory=list)
    #: The arguments of a call, or the values of the entries of a literal.
    items: "list[Node]" = field(default_factory=list)
    marks: dict[str, list[Token]] = field(default_factory=dict)

    def mark(self, name: str, token: Token) -> None:
        self.marks.setdefault(name, []).append(token)

    def first(self, name: str) -> Token | None:
        found = self.marks.get(name)
        return found[0] if found else None


def findings(tree: Node | None, reserved: frozenset[str]) -> list[Issue]:
    """Return the issues in the order in which cel-go finds them."""
    visitor = _Visitor(reserved)
    if tree is not None:
        visitor.visit(tree)
    return visitor.issues


class _Visitor:
    def __init__(self, reserved: frozenset[str]) -> None:
        self.issues: list[Issue] = []
        self._reserved = reserved

    def visit(self, node: Node | None) -> Expr:
        """Return the expression. A literal replaces a missing one."""
        handler = getattr(self, f"_visit_{node.kind}", None) if node is not None and node.kind else None
        if handler is None:
            return Literal(NOWHERE, None)
        found: Expr = handler(node)
        return found

    def _error(self, pos: int, message: str) -> Expr:
        self.issues.append(Issue(pos, message))
        return Literal(pos, None)

    def _part(self, node: Node, index: int = 0) -> Expr:
        return self.visit(node.parts[index] if index < len(node.parts) else None)

    def _all(self, nodes: Sequence[Node]) -> list[Expr]:
        return [self.visit(node) for node in nodes]

    def _visit_wrapped(self, node: Node) -> Expr:
        return self._part(node)

    def _visit_conditional(self, node: Node) -> Expr:
        mark = node.first("operator")
        if mark is None:
            return self._part(node)
        return Call(mark.start, "_?_:_", [self._part(node, index) for index in range(3)])

    def _visit_chain(self, node: Node) -> Expr:
        marks = node.marks.get("operator")
        if marks is None:
            return self._part(node)
        # A chain of logical operators is balanced. All other chains are left-associative.
        root = marks[len(marks) // 2 if marks[0].kind in ("&&", "||") else -1]
        return Call(root.start, root.kind, self._all(node.parts))

    def _visit_unary(self, node: Node) -> Expr:
        return Literal(node.start, "<<error>>")

    def _visit_signed(self, node: Node) -> Expr:
        signs = node.marks.get("operator", [])
        operand = self._part(node)
        return Call(signs[0].start, signs[0].kind, [operand]) if len(signs) % 2 else operand

    def _visit_index(self, node: Node) -> Expr:
        target = self._part(node)
        mark = node.first("operator")
        return (
            Literal(node.start, None)
            if mark is None
            else Call(mark.start, "[", [target, self._part(node, 1)])
        )

    def _visit_select(self, node: Node) -> Expr:
        operand = self._part(node)
        mark = node.first("operator")
        if mark is None or len(node.parts) < 2:
            return Literal(node.start, None)
        name = self._name_of(node.parts[1], node.parts[1].start)
        if node.first("optional") is not None:
            return Call(mark.start, "_?._", [operand, Literal(node.parts[1].start, name)])
        return Select(mark.start, operand, name or "")

    def _name_of(self, node: Node, pos: int) -> str | None:
        token = node.first("name")
        if not node.kind:
            self._error(pos, "unsupported ident kind")
        elif token is not None and token.kind == "ESC_IDENTIFIER":
            self._error(pos, "unsupported syntax: '`'")
        else:
            return "" if token is None else token.text
        return None

    def _visit_call(self, node: Node) -> Expr:
        operand = self._part(node)
        name, mark = node.first("name"), node.first("operator")
        if name is None or mark is None:
            return Literal(node.start, None)
        return self._expand(mark.start, name.text, operand, self._all(node.items))

    def _visit_named(self, node: Node) -> Expr:
        name = node.first("name")
        if name is None:
            return Literal(node.start, None)
        if name.text in self._reserved:
            return self._error(node.start, f"reserved identifier: {name.text}")
        text = name.text if node.first("dot") is None else f".{name.text}"
        mark = node.first("operator")
        if mark is None:
            return Ident(name.start, text)
        return self._expand(mark.start, text, None, self._all(node.items))

    def _expand(self, pos: int, function: str, target: Expr | None, args: list[Expr]) -> Expr:
        try:
            expanded = expand(pos, function, target, args)
        except MacroError as error:
            return self._error(error.pos, error.message)
        return Call(pos, function, args, target) if expanded is None else expanded

    def _place(self, node: Node) -> int:
        mark = node.first("operator")
        return node.start if mark is None else mark.start

    def _visit_elements(self, node: Node) -> Expr:
        items = node.parts[0].parts if node.parts else []
        return ListLiteral(self._place(node), [self._part(item) for item in items])

    def _visit_entries(self, node: Node) -> Expr:
        pairs = node.parts[0] if node.parts else Node("pairs", node.start)
        for key, _, value in zip(pairs.parts, pairs.marks.get("operator", ()), pairs.items, strict=False):
            self._part(key)
            self.visit(value)
        return MapLiteral(self._place(node), [])

    def _visit_message(self, node: Node) -> Expr:
        pairs = node.parts[0] if node.parts else Node("pairs", node.start)
        for key, _, value in zip(pairs.parts, pairs.marks.get("operator", ()), pairs.items, strict=False):
            name = key.parts[0] if key.parts else Node("", key.start)
            if self._name_of(name, pairs.start) is not None:
                self.visit(value)
        return StructLiteral(self._place(node), "", [])

    def _visit_literal(self, node: Node) -> Expr:
        token, sign = node.first("value"), node.first("sign")
        if token is None or token.kind not in _VALUES:
            return Literal(node.start, None)
        try:
            return Literal(node.start, _VALUES[token.kind](f"{sign.text if sign else ''}{token.text}"))
        except ValueError as error:
            return self._error(node.start, str(error))
