"""The tree of a template. Upstream: text/template/parse/parse.go and node.go."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from dra_kube.gotemplate.tokens import TemplateError as TemplateError
from dra_kube.gotemplate.tokens import Token, cut

FUNCTIONS = frozenset(
    [
        "and",
        "or",
        "not",
        "len",
        "index",
        "slice",
        "print",
        "println",
        "printf",
        "html",
        "js",
        "urlquery",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "exists",
        "base64decode",
    ]
)


@dataclass(frozen=True)
class Literal:
    """A constant; None is ``nil``."""

    value: str | float | int | bool | None


@dataclass(frozen=True)
class Operand:
    """A value and the fields to read from it.

    The value is ``.``, a variable (``$x``), a function's name or a pipeline in brackets.
    """

    of: "str | Pipe"
    fields: tuple[str, ...] = ()


Argument = Literal | Operand


@dataclass(frozen=True)
class Pipe:
    """Commands, each of which gets the result of the previous one, and the variables that get the final result."""

    commands: tuple[tuple[Argument, ...], ...]
    variables: tuple[str, ...] = ()
    declares: bool = False


@dataclass
class Action:
    """``if``, ``range``, ``with``, ``template``, ``break``, ``continue``, or a pipeline to print (an empty name)."""

    name: str
    pipe: Pipe | None = None
    target: str = ""
    body: "list[Node]" = field(default_factory=list)
    otherwise: "list[Node]" = field(default_factory=list)


Node = str | Action


def parse(template: str) -> dict[str, list[Node]]:
    """Return the trees of the template, whose name is empty, and of the templates that it defines.

    Raises:
        TemplateError: the template is malformed.
    """
    return _Parser(template).trees


class _Parser:
    def __init__(self, template: str) -> None:
        self.trees: dict[str, list[Node]] = {}
        self._parts = cut(template)
        self._loops = 0
        nodes, end = self._list()
        if end:
            raise TemplateError(f"unexpected {{{{{end}}}}}")
        self.trees[""] = nodes

    def _list(self) -> "tuple[list[Node], str]":
        """Parse up to ``end`` or ``else``. Return that word, and store the words after it in ``self._rest``."""
        nodes: list[Node] = []
        for part in self._parts:
            if isinstance(part, str):
                nodes.append(part)
                continue
            reader = _Reader(part)
            word = reader.peek().text if reader.peek().kind == "word" else ""
            if word in ("end", "else"):
                reader.take()
                self._rest = reader
                return nodes, word
            if word == "define":
                reader.take()
                self.trees[reader.name()] = self._body()
            else:
                nodes.append(self._action(word, reader))
        return nodes, ""

    def _body(self) -> list[Node]:
        nodes, end = self._list()
        if end != "end":
            raise TemplateError(f"unexpected {{{{{end}}}}}" if end else "unexpected EOF")
        return nodes

    def _action(self, word: str, reader: "_Reader") -> Action:
        if word in ("if", "range", "with"):
            reader.take()
            return self._control(word, reader)
        if word in ("break", "continue"):
            if not self._loops:
                raise TemplateError(f"{{{{{word}}}}} outside {{{{range}}}}")
            return Action(word)
        if word in ("template", "block"):
            reader.take()
            name = reader.name()
            made = Action("template", reader.pipe() if reader.more() else None, name)
            if word == "block":
                self.trees[name] = self._body()
            return made
        return Action("", reader.pipe())

    def _control(self, word: str, reader: "_Reader") -> Action:
        made = Action(word, reader.pipe())
        self._loops += word == "range"
        made.body, end = self._list()
        self._loops -= word == "range"
        if end == "else":
            rest = self._rest
            if rest.more() and rest.peek().text in ("if", "with"):
                made.otherwise = [self._control(rest.take().text, rest)]
                return made
            made.otherwise = self._body()
        elif end != "end":
            raise TemplateError("unexpected EOF")
        return made


class _Reader:
    """Reads an action's tokens."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._at = 0

    def more(self) -> bool:
        return self._at < len(self._tokens)

    def peek(self) -> Token:
        return self._tokens[self._at] if self.more() else Token("end", "", False)

    def take(self) -> Token:
        token = self.peek()
        self._at += 1
        return token

    def name(self) -> str:
        token = self.take()
        if token.kind != "string":
            raise TemplateError(f"unexpected {token.text!r} in template clause")
        return _unquote(token.text)

    def pipe(self, end: str = "") -> Pipe:
        variables, declares = self._variables()
        commands: list[tuple[Argument, ...]] = []
        while True:
            commands.append(tuple(self._command(end)))
            if self.peek().text != "|":
                break
            self.take()
        if end and self.take().text != end:
            raise TemplateError("unclosed left paren")
        if self.more() and not end:
            raise TemplateError(f"unexpected {self.peek().text!r} in operand")
        return Pipe(tuple(commands), variables, declares)

    def _variables(self) -> tuple[tuple[str, ...], bool]:
        """Read ``$x :=``, ``$i, $x :=`` or ``$x =``."""
        start = self._at
        names = []
        while self.peek().kind == "variable":
            names.append(self.take().text)
            if self.peek().text != ",":
                break
            self.take()
        if names and self.peek().text in (":=", "="):
            return tuple(names), self.take().text == ":="
        self._at = start
        return (), False

    def _command(self, end: str) -> Iterator[Argument]:
        read = False
        while self.more() and self.peek().text not in ("|", end or "|"):
            yield self._argument()
            read = True
        if not read:
            raise TemplateError("missing value for command")

    def _argument(self) -> Argument:
        token = self.take()
        match token.kind:
            case "string":
                return Literal(_unquote(token.text))
            case "char":
                return Literal(ord(ast.literal_eval(token.text)))
            case "number":
                return Literal(_number(token.text))
            case "field":
                return Operand(".", (token.text[1:], *self._fields()))
            case "variable":
                return Operand(token.text, tuple(self._fields()))
            case "word" if token.text in ("true", "false", "nil"):
                return Literal({"true": True, "false": False}.get(token.text))
            case "word" if token.text in FUNCTIONS:
                return Operand(token.text)
            case "word":
                raise TemplateError(f'function "{token.text}" not defined')
        if token.text == "(":
            return Operand(self.pipe(")"), tuple(self._fields()))
        if token.text == ".":
            return Operand(".", tuple(self._fields()))
        raise TemplateError(f"unexpected {token.text!r} in operand")

    def _fields(self) -> Iterator[str]:
        while self.peek().kind == "field" and self.peek().joined:
            yield self.take().text[1:]


def _unquote(text: str) -> str:
    if text.startswith("`"):
        return text[1:-1]
    try:
        value: str = ast.literal_eval(text)
    except (SyntaxError, ValueError) as error:
        raise TemplateError(f"bad string {text}") from error
    return value


def _number(text: str) -> int | float:
    try:
        return int(text, 0)
    except ValueError:
        return float(text.replace("_", ""))
