"""Parse a text to the tree of an expression, with macros expanded (cel-go's parser/parser.go)."""

from collections.abc import Callable
from typing import Any, Final

from dra_shared.cel.depth import MAX_DEPTH, measure_nesting
from dra_shared.cel.errors import Issue
from dra_shared.cel.grammar import lark_parser
from dra_shared.cel.literals import double, integer, parse_unsigned, text_bytes, unquote
from dra_shared.cel.macros import MacroError, expand
from dra_shared.cel.syntax import (
    Call,
    Entry,
    Expr,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    StructLiteral,
)

_MAX_LENGTH: Final = 100_000
_KEYWORDS: Final = frozenset(("true", "false", "null", "in"))
_RESERVED: Final = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "false",
        "for",
        "function",
        "if",
        "import",
        "in",
        "let",
        "loop",
        "package",
        "namespace",
        "null",
        "return",
        "true",
        "var",
        "void",
        "while",
    ]
)
_EXPECTED: Final = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', "
    "NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)
_OPERATORS: Final = {
    "relation_lt": "_<_",
    "relation_le": "_<=_",
    "relation_gt": "_>_",
    "relation_ge": "_>=_",
    "relation_eq": "_==_",
    "relation_ne": "_!=_",
    "relation_in": "@in",
    "addition_add": "_+_",
    "addition_sub": "_-_",
    "multiplication_mul": "_*_",
    "multiplication_div": "_/_",
    "multiplication_mod": "_%_",
}


_VALUES: Final[dict[str, Callable[[str], Any]]] = {
    "INT_LIT": integer,
    "UINT_LIT": parse_unsigned,
    "FLOAT_LIT": double,
    "BOOL_LIT": lambda text: text == "true",
    "NULL_LIT": lambda text: None,
    "BYTES_LIT": text_bytes,
    "STRING_LIT": unquote,
    "MLSTRING_LIT": unquote,
}


class ParseFailed(Exception):
    """The text has syntax errors, so there is no tree to check."""

    def __init__(self, issues: list[Issue]) -> None:
        super().__init__(issues[0].message)
        self.issues = issues


def parse(text: str, *, sort_by: bool = True) -> Expr:
    """Return the tree of an expression. ``sort_by`` is True if the environment has the macro of that name.

    Raises:
        ParseFailed: the text is not an expression.
    """
    import lark

    if len(text) > _MAX_LENGTH:
        message = f"expression code point size exceeds limit: size: {len(text)}, limit {_MAX_LENGTH}"
        raise ParseFailed([Issue(-1, message)])
    try:
        tree = lark_parser().parse(text)
    except lark.UnexpectedInput:
        raise ParseFailed(_syntax_errors(text)) from None
    if len(text) > MAX_DEPTH and measure_nesting(tree) > MAX_DEPTH:
        raise ParseFailed([Issue(-1, f"expression recursion limit exceeded: {MAX_DEPTH}")])
    builder = _Builder(sort_by)
    expr = builder.expr(tree)
    if any(issue.message.startswith("Syntax error") for issue in builder.issues):
        raise ParseFailed(_syntax_errors(text))
    if builder.issues:
        raise ParseFailed(builder.issues)
    return expr


def _syntax_errors(text: str) -> list[Issue]:
    from dra_shared.cel.syntax_errors import diagnose

    return diagnose(text, _RESERVED) or [Issue(-1, "Syntax error: not an expression")]


class _Builder:
    """Converts lark's tree to ours. A subtree is ``(data, children)``; a token has ``type`` and ``start_pos``."""

    def __init__(self, sort_by: bool) -> None:
        self._sort_by = sort_by
        self.issues: list[Issue] = []
        self._depth = 0

    def expr(self, tree: Any) -> Expr:
        tree = _unnest(tree)[0]
        result: Expr = getattr(self, f"_{tree.data}")(tree.children)
        return result

    def _enter(self) -> None:
        """Count a level of nesting as cel-go does: for binary operators, selections, indices and conditions."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ParseFailed([Issue(-1, "max recursion depth exceeded")])

    def _error(self, pos: int, message: str) -> Expr:
        self.issues.append(Issue(pos, message))
        return Literal(pos, None)

    def _expr(self, parts: list[Any]) -> Expr:
        self._enter()
        built = [self.expr(part) for part in parts[::2]]
        self._depth -= 1
        return Call(parts[1].start_pos, "_?_:_", built)

    def _conditionalor(self, parts: list[Any]) -> Expr:
        return self._logic("conditionalor", "_||_", parts)

    def _conditionaland(self, parts: list[Any]) -> Expr:
        return self._logic("conditionaland", "_&&_", parts)

    def _logic(self, rule: str, function: str, parts: list[Any]) -> Expr:
        """Build a balanced tree for a chain of one operator, as cel-go does to limit the depth."""
        terms: list[Any] = []
        operators: list[int] = []
        while True:
            terms.append(parts[2])
            operators.append(parts[1].start_pos)
            left = parts[0]
            if left.data == rule and len(left.children) == 3:
                parts = left.children
                continue
            terms.append(left)
            break
        terms.reverse()
        operators.reverse()
        built = [self.expr(term) for term in terms]
        return _balance(function, built, operators, 0, len(operators) - 1)

    def _binary(self, parts: list[Any]) -> Expr:
        # The left operand of a chain is the deep one, so walk it without recursion.
        pending: list[tuple[Any, Any]] = []
        chain: list[Any] = parts
        while True:
            self._enter()
            pending.append((chain[0], chain[1]))
            left, _ = _unnest(chain[0].children[0])
            if left.data in ("relation", "addition", "multiplication") and len(left.children) == 2:
                chain = left.children
                continue
            break
        built = self.expr(left)
        for operator, right in reversed(pending):
            mark = operator.children[1].start_pos
            built = Call(mark, _OPERATORS[operator.data], [built, self.expr(right)])
            self._depth -= 1
        return built

    _relation = _addition = _multiplication = _binary

    def _unary(self, parts: list[Any]) -> Expr:
        if len(parts) == 3:
            return self._negated_number(*parts)
        operator, member = parts
        marks = operator.children
        operand, parentheses = _unnest(member)
        if operator.data == "unary_not":
            built = self.expr(operand)
            return Call(marks[0].start_pos, "!_", [built]) if len(marks) % 2 else built
        if len(marks) == 1 and not parentheses and (number := _leading_number(operand)) is not None:
            # The sign of a number belongs to the literal, even if members follow.
            _negate(number, marks[0].start_pos)
            return self.expr(operand)
        built = self.expr(operand)
        return Call(marks[0].start_pos, "-_", [built]) if len(marks) % 2 else built

    def _negated_number(self, operator: Any, sign: Any, member: Any) -> Expr:
        """Parse ``!-1``: after an exclamation mark, only a number can have a sign."""
        operand, parentheses = _unnest(member)
        number = None if parentheses or len(sign.children) > 1 else _leading_number(operand)
        marks = operator.children
        if number is None:
            return self._error(marks[0].start_pos, "Syntax error: no viable alternative at input '!-'")
        _negate(number, sign.children[0].start_pos)
        built = self.expr(operand)
        return Call(marks[0].start_pos, "!_", [built]) if len(marks) % 2 else built

    def _field(self, pos: int, name: str) -> str:
        """Return the name of a field. Kubernetes does not allow names in backticks."""
        if name.startswith("`"):
            self._error(pos, "unsupported syntax: '`'")
            return ""
        return name

    def _member_dot(self, parts: list[Any]) -> Expr:
        self._enter()
        operand = self.expr(parts[0])
        self._depth -= 1
        name = parts[-1]
        if name in _KEYWORDS:
            return self._error(name.start_pos, f"Syntax error: no viable alternative at input '.{name}'")
        field = self._field(name.start_pos, str(name))
        if len(parts) == 4:
            return Call(parts[1].start_pos, "_?._", [operand, Literal(name.start_pos, field)])
        return Select(parts[1].start_pos, operand, field)

    def _member_dot_arg(self, parts: list[Any]) -> Expr:
        self._enter()
        operand = self.expr(parts[0])
        name, mark = parts[2], parts[3].start_pos
        if name in _KEYWORDS:
            return self._error(name.start_pos, f"Syntax error: no viable alternative at input '.{name}'")
        arguments = self._arguments(parts[4:-1])
        self._depth -= 1
        return self._call(mark, str(name), operand, arguments)

    def _member_index(self, parts: list[Any]) -> Expr:
        self._enter()
        function = "_[?_]" if len(parts) == 5 else "_[_]"
        built = [self.expr(parts[0]), self.expr(parts[-2])]
        self._depth -= 1
        return Call(parts[1].start_pos, function, built)

    def _member_object(self, parts: list[Any]) -> Expr:
        mark = parts[1].start_pos
        name = _name(parts[0])
        if name is None:
            return self._error(mark, "Syntax error: extraneous input '{' expecting <EOF>")
        fields = []
        inits = _flatten(parts[2:-1], "fieldinits")
        for init in inits:
            children = init.children
            optional = children[0] == "?"
            key, colon, value = children[1:] if optional else children
            if field := self._field(inits[0].children[0].start_pos, str(key)):
                fields.append((colon.start_pos, field, self.expr(value), optional))
        return StructLiteral(mark, name, fields)

    def _arguments(self, parts: list[Any]) -> list[Expr]:
        return [self.expr(arg) for arg in parts[0].children[::2]] if parts else []

    def _call(self, pos: int, function: str, target: Expr | None, args: list[Expr]) -> Expr:
        if function == "sortBy" and not self._sort_by:
            return Call(pos, function, args, target)
        try:
            expanded = expand(pos, function, target, args)
        except MacroError as error:
            return self._error(error.pos, error.message)
        return Call(pos, function, args, target) if expanded is None else expanded

    def _literal(self, parts: list[Any]) -> Expr:
        token = parts[0]
        try:
            return Literal(token.start_pos, _VALUES[token.type](str(token)))
        except ValueError as error:
            return self._error(token.start_pos, str(error))

    def _identifier(self, pos: int, name: Any, dot: str) -> Ident | None:
        if name in _RESERVED:
            self._error(pos, f"reserved identifier: {name}")
            return None
        return Ident(name.start_pos, dot + str(name))

    def _ident(self, parts: list[Any]) -> Expr:
        return self._identifier(parts[0].start_pos, parts[0], "") or Literal(parts[0].start_pos, None)

    def _dot_ident(self, parts: list[Any]) -> Expr:
        return self._identifier(parts[0].start_pos, parts[1], ".") or Literal(parts[0].start_pos, None)

    def _ident_arg(self, parts: list[Any]) -> Expr:
        ident = self._identifier(parts[0].start_pos, parts[0], "")
        if ident is None:
            return Literal(parts[0].start_pos, None)
        return self._call(parts[1].start_pos, ident.name, None, self._arguments(parts[2:-1]))

    def _dot_ident_arg(self, parts: list[Any]) -> Expr:
        ident = self._identifier(parts[0].start_pos, parts[1], ".")
        if ident is None:
            return Literal(parts[0].start_pos, None)
        return self._call(parts[2].start_pos, ident.name, None, self._arguments(parts[3:-1]))

    def _list_lit(self, parts: list[Any]) -> Expr:
        elements: list[Expr] = []
        optional: set[int] = set()
        for index, element in enumerate(_flatten(parts[1:-1], "listinit")):
            if len(element.children) == 2:
                optional.add(index)
            elements.append(self.expr(element.children[-1]))
        return ListLiteral(parts[0].start_pos, elements, frozenset(optional))

    def _map_lit(self, parts: list[Any]) -> Expr:
        entries: list[Entry] = []
        for init in _flatten(parts[1:-1], "mapinits"):
            children = init.children
            optional = len(children) == 4
            key, colon, value = children[1:] if optional else children
            entries.append(Entry(colon.start_pos, self.expr(key), self.expr(value), optional))
        return MapLiteral(parts[0].start_pos, entries)


def _unnest(tree: Any) -> tuple[Any, int]:
    """Descend to the first node with content. Return it and the number of parentheses around it."""
    parentheses = 0
    while True:
        children = tree.children
        if tree.data == "paren_expr":
            tree = children[1]
            parentheses += 1
        elif len(children) == 1 and hasattr(children[0], "children"):
            tree = children[0]
        else:
            return tree, parentheses


def _flatten(parts: list[Any], rule: str) -> list[Any]:
    """Return the items of a left-recursive, comma-separated list."""
    if not parts or not hasattr(parts[0], "children"):
        return []
    items: list[Any] = []
    tree = parts[0]
    while len(tree.children) == 3 and getattr(tree.children[0], "data", None) == rule:
        items.append(tree.children[2])
        tree = tree.children[0]
    items.append(tree.children[0])
    items.reverse()
    return items


def _leading_number(tree: Any) -> Any:
    """Return the numeric literal at the start of a chain of members, or None."""
    while True:
        if tree.data == "literal":
            return tree if tree.children[0].type in ("INT_LIT", "FLOAT_LIT") else None
        if tree.data not in ("member_dot", "member_dot_arg", "member_index"):
            return None
        below = tree.children[0]
        while below.data in ("member", "primary") and len(below.children) == 1:
            below = below.children[0]
        tree = below


def _negate(number: Any, pos: int) -> None:
    """Make the sign at ``pos`` part of the literal."""
    number.children[0] = number.children[0].update(value="-" + number.children[0])
    number.children[0].start_pos = pos


def _qualify(tree: Any) -> str | None:
    if tree.data == "ident":
        return str(tree.children[0])
    if tree.data == "dot_ident":
        return "." + str(tree.children[1])
    if tree.data == "member_dot" and len(tree.children) == 3:
        below = _name(tree.children[0])
        return None if below is None else f"{below}.{tree.children[2]}"
    return None


def _name(tree: Any) -> str | None:
    """Return the name if the tree is one without parentheses, else None."""
    tree, parentheses = _unnest(tree)
    return None if parentheses else _qualify(tree)


def _balance(function: str, terms: list[Expr], operators: list[int], low: int, high: int) -> Expr:
    middle = (low + high + 1) // 2
    left = terms[middle] if middle == low else _balance(function, terms, operators, low, middle - 1)
    right = terms[middle + 1] if middle == high else _balance(function, terms, operators, middle + 1, high)
    return Call(operators[middle], function, [left, right])
