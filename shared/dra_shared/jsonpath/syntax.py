"""The syntax of JSONPath templates: nodes and parser (client-go/util/jsonpath: node.go, parser.go)."""

import re
from dataclasses import dataclass, field


class PathError(ValueError):
    """A template is malformed, or cannot be executed on an object. The messages are client-go's."""


@dataclass(frozen=True)
class Value:
    """A text outside of braces; a text, a number or a bool inside."""

    value: str | int | float | bool


@dataclass(frozen=True)
class Field:
    """``.name``."""

    name: str


@dataclass(frozen=True)
class Wildcard:
    """``.*``."""


@dataclass(frozen=True)
class Recursive:
    """``..``: a value and everything below it."""


@dataclass(frozen=True)
class Slice:
    """``[0]``, ``[*]`` or ``[start:end:step]``. ``derived`` if only an index was given, and the end follows from it."""

    start: int
    end: int | None
    step: int | None
    derived: bool


@dataclass(frozen=True)
class Word:
    """``range`` or ``end``. Any other word is an error when the template is executed."""

    name: str


@dataclass
class Action:
    """The nodes between two braces, from left to right."""

    nodes: "list[Node]" = field(default_factory=list)


@dataclass(frozen=True)
class Union:
    """``[0,2]``, ``['a','b']``."""

    parts: tuple[Action, ...]


@dataclass(frozen=True)
class Filter:
    """``[?(left operator right)]``. The operator ``exists`` has no right side."""

    left: Action
    operator: str
    right: Action


Node = Value | Field | Wildcard | Recursive | Slice | Word | Union | Filter

_TERMINATORS = frozenset(" \t\r\n.,[]$@{}")
_SLICE = re.compile(r"(-?\d*)(:-?\d*)?(:-?\d*)?")
_KEY = re.compile(r"'([^']*)'")
_COMPARISON = re.compile(r"([^!<>=]+)([!<>=]+)(.+)")
_NUMBER = re.compile(r"[+-]?[\d.]*")
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{3}|.?)", re.DOTALL)
_ESCAPED = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
}


def parse(text: str) -> list[Value | Action]:
    """Parse a template into texts and actions.

    Raises:
        PathError: it is malformed.
    """
    found: list[Value | Action] = []
    at = 0
    while at < len(text):
        brace = text.find("{", at)
        if brace != at:
            found.append(Value(text[at:] if brace < 0 else text[at:brace]))
        if brace < 0:
            break
        reader = _Reader(text, brace + 1)
        found.append(reader.action())
        at = reader.at
    return found


def _inner(text: str) -> Action:
    """Parse a part of an action like a separate action."""
    first = parse(f"{{{text}}}")[0]
    assert isinstance(first, Action)
    return first


class _Reader:
    """Reads an action that starts after the brace. ``at`` is the current position."""

    def __init__(self, text: str, at: int) -> None:
        self._text = text
        self.at = at
        self._nodes: list[Node] = []

    def action(self) -> Action:
        while not self._text.startswith("}", self.at):
            self._step()
        self.at += 1
        return Action(self._nodes)

    def _step(self) -> None:
        char = self._text[self.at : self.at + 1]
        if self._text.startswith("[?(", self.at):
            self._filter()
        elif self._text.startswith("..", self.at):
            self._recursive()
        elif char in ("", "\r", "\n"):
            raise PathError("unclosed action")
        elif char in " @$":
            self.at += 1
        elif char == "[":
            self._array()
        elif char in "\"'":
            self._string(char)
        elif char == ".":
            self.at += 1
            self._field()
        elif char in "+-" or char.isdigit():
            self._number()
        elif char == "_" or char.isalpha():
            word = self._until_terminator()
            self._nodes.append(Value(word == "true") if word in ("true", "false") else Word(word))
        else:
            raise PathError(f"unrecognized character in action: U+{ord(char):04X} '{char}'")

    def _until_terminator(self) -> str:
        begin = self.at
        while self.at < len(self._text) and self._text[self.at] not in _TERMINATORS:
            self.at += 1
        return self._text[begin : self.at]

    def _field(self) -> None:
        begin = self.at
        while self.at < len(self._text) and self._text[self.at] not in _TERMINATORS:
            self.at += 2 if self._text[self.at] == "\\" else 1
        name = self._text[begin : self.at]
        self._nodes.append(Wildcard() if name == "*" else Field(name.replace("\\", "")))

    def _recursive(self) -> None:
        if self._nodes and isinstance(self._nodes[-1], Recursive):
            raise PathError("invalid multiple recursive descent")
        self.at += 2
        self._nodes.append(Recursive())
        char = self._text[self.at : self.at + 1]
        if char == "_" or char.isalnum():
            self._field()

    def _number(self) -> None:
        match = _NUMBER.match(self._text, self.at)
        assert match is not None
        self.at = match.end()
        try:
            self._nodes.append(Value(float(match[0]) if "." in match[0] else int(match[0])))
        except ValueError:
            raise PathError(f"cannot parse number {match[0]}") from None

    def _string(self, quote: str) -> None:
        begin = self.at
        while True:
            self.at += 1
            char = self._text[self.at : self.at + 1]
            if char in ("", "\n"):
                raise PathError("unterminated quoted string")
            if char == quote and self._text[self.at - 1] != "\\":
                break
        self.at += 1
        self._nodes.append(Value(_unquote(self._text[begin : self.at])))

    def _array(self) -> None:
        end = self._text.find("]", self.at)
        line = self._text.find("\n", self.at)
        if end < 0 or 0 <= line < end:
            raise PathError("unterminated array")
        text = self._text[self.at + 1 : end]
        self.at = end + 1
        text = ":" if text == "*" else text
        if "," in text:
            self._nodes.append(Union(tuple(_inner(f"[{part.strip(' ')}]") for part in text.split(","))))
        elif key := _KEY.fullmatch(text):
            self._nodes += _inner(f".{key[1]}").nodes
        else:
            self._nodes.append(_slice(text))

    def _filter(self) -> None:
        begin = self.at = self.at + 3
        quote, closed = "", False
        while True:
            char = self._text[self.at : self.at + 1]
            if char in ("", "\n"):
                raise PathError("unterminated filter")
            if char in "\"'" and not quote:
                quote = char
            elif char == quote and self._text[self.at - 1] != "\\":
                closed = True
            elif char == ")" and bool(quote) == closed:
                break
            self.at += 1
        text = self._text[begin : self.at]
        if not self._text.startswith("]", self.at + 1):
            raise PathError("unclosed array expect ]")
        self.at += 2
        comparison = _COMPARISON.fullmatch(text)
        if comparison is None:
            self._nodes.append(Filter(_inner(text), "exists", Action()))
        else:
            self._nodes.append(Filter(_inner(comparison[1]), comparison[2], _inner(comparison[3])))


def _slice(text: str) -> Slice:
    match = _SLICE.fullmatch(text)
    if match is None:
        raise PathError(f"invalid array index {text}")
    try:
        start = int(match[1]) if match[1] else None
        end = int(match[2][1:]) if match[2] and match[2] != ":" else None
        step = int(match[3][1:]) if match[3] and match[3] != ":" else None
    except ValueError:
        raise PathError(f"array index {text} is not a number") from None
    if match[2]:
        return Slice(start or 0, end, step, derived=False)
    return Slice(start or 0, (start or 0) + 1, step, derived=True)


def _unquote(text: str) -> str:
    inside = text[1:-1]

    def plain(match: re.Match[str]) -> str:
        code = match[1]
        if code in _ESCAPED:
            return _ESCAPED[code]
        if code == text[0]:
            return code
        if len(code) == 3 and code.isdigit():
            return chr(int(code, 8))
        if len(code) > 2:
            return chr(int(code[1:], 16))
        raise PathError(f"unquote string {text} error invalid syntax")

    return _ESCAPE.sub(plain, inside)
