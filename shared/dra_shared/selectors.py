"""Parse, check and match label selectors as apimachinery's `labels` does, with its messages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dra_shared.names import label_key, label_value
from dra_shared.numerals import integer


class SelectorError(ValueError):
    """The selector is invalid. The message is upstream's."""


class _ExpressionLike(Protocol):
    @property
    def key(self) -> str: ...
    @property
    def operator(self) -> str: ...
    @property
    def values(self) -> Sequence[str]: ...


class LabelSelectorLike(Protocol):
    """A `metav1.LabelSelector`, such as `dra_shared.api.meta.LabelSelector`."""

    @property
    def match_labels(self) -> Mapping[str, str]: ...
    @property
    def match_expressions(self) -> Sequence[_ExpressionLike]: ...


@dataclass(frozen=True, slots=True)
class Requirement:
    """One term of a label selector; `operator` is in, notin, =, ==, !=, exists, !, gt or lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """True if the labels satisfy the term."""
        value = labels.get(self.key)
        match self.operator:
            case "in" | "=" | "==":
                return value is not None and value in self.values
            case "notin" | "!=":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
        number = None if value is None else _parse_int64(value)
        limit = _parse_int64(self.values[0])
        if number is None or limit is None:
            return False
        return number > limit if self.operator == "gt" else number < limit

    def __str__(self) -> str:
        match self.operator:
            case "exists":
                return self.key
            case "!":
                return f"!{self.key}"
            case "in" | "notin":
                return f"{self.key} {self.operator} ({','.join(sorted(self.values))})"
            case "gt" | "lt":
                return f"{self.key}{'>' if self.operator == 'gt' else '<'}{self.values[0]}"
        return f"{self.key}{self.operator}{self.values[0]}"


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """A label selector. All of its requirements must hold; without any it matches everything."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """True if the selector matches an object with these labels."""
        if self.nothing:
            return False
        found = labels or {}
        return all(requirement.matches(found) for requirement in self.requirements)

    @property
    def empty(self) -> bool:
        """True if the selector matches everything."""
        return not self.requirements and not self.nothing

    def __str__(self) -> str:
        return ",".join(str(requirement) for requirement in self.requirements)


EVERYTHING = LabelSelector()
NOTHING = LabelSelector(nothing=True)

_SPECIAL = frozenset("=!(),><")
_WHITESPACE = frozenset(" \t\r\n")
_OPERATORS = {"=": "=", "==": "==", "!=": "!=", ">": "gt", "<": "lt"}
_TOKENS = frozenset({")", ",", "!", "==", "=", ">", "in", "<", "!=", "notin", "("})
_EXPECTED = "in, notin, =, ==, !=, gt, lt"


def _parse_int64(text: str) -> int | None:
    digits = text[1:] if text[:1] in {"+", "-"} else text
    if not digits.isascii() or not digits.isdigit():
        return None
    number = integer(text)
    return number if -(2**63) <= number < 2**63 else None


def _scan(text: str) -> list[tuple[str, str]]:
    """Split a text into (token, literal) pairs.

    The token is "" at the end, "identifier", "error", or the symbol itself.
    """
    items = []
    position, size = 0, len(text)
    while True:
        while position < size and text[position] in _WHITESPACE:
            position += 1
        if position == size:
            items.append(("", ""))
            return items
        start = position
        if text[position] in _SPECIAL:
            token = ""
            end = start
            while end < size and text[end] in _SPECIAL:
                end += 1
                if text[start:end] in _TOKENS:
                    token, position = text[start:end], end
                elif token:
                    break
            if not token:
                items.append(("error", f"error expected: keyword found '{text[start:end]}'"))
                position = end
            else:
                items.append((token, token))
        else:
            while position < size and text[position] not in _SPECIAL and text[position] not in _WHITESPACE:
                position += 1
            word = text[start:position]
            items.append((word if word in {"in", "notin"} else "identifier", word))


class _Parser:
    def __init__(self, text: str) -> None:
        self._items = _scan(text)
        self._position = 0

    def _peek(self, operator: bool = False) -> tuple[str, str]:
        token, literal = self._items[min(self._position, len(self._items) - 1)]
        if token in {"in", "notin"} and not operator:
            token = "identifier"
        return token, literal

    def _next(self, operator: bool = False) -> tuple[str, str]:
        item = self._peek(operator)
        self._position += 1
        return item

    def parse(self) -> list[Requirement]:
        requirements: list[Requirement] = []
        while True:
            token, literal = self._peek()
            if token == "":
                return requirements
            if token not in {"identifier", "!"}:
                raise SelectorError(f"found '{literal}', expected: !, identifier, or 'end of string'")
            try:
                requirements.append(self._requirement())
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from None
            token, literal = self._next()
            if token == "":
                return requirements
            if token != ",":
                raise SelectorError(f"found '{literal}', expected: ',' or 'end of string'")
            token, literal = self._peek()
            if token not in {"identifier", "!"}:
                raise SelectorError(f"found '{literal}', expected: identifier after ','")

    def _requirement(self) -> Requirement:
        token, key = self._next()
        absent = token == "!"
        if absent:
            token, key = self._next()
        if token != "identifier":
            raise SelectorError(f"found '{key}', expected: identifier")
        if errors := label_key(key):
            raise SelectorError(f"<nil>: Invalid value: {_quote(key)}: {'; '.join(errors)}")
        if absent:
            return Requirement(key, "!")
        if self._peek()[0] in {"", ","}:
            return Requirement(key, "exists")
        token, literal = self._next(operator=True)
        if token in {"in", "notin"}:
            return new_requirement(key, token, sorted(self._set()))
        if token not in _OPERATORS:
            raise SelectorError(f"found '{literal}', expected: {_EXPECTED}")
        return new_requirement(key, _OPERATORS[token], [self._exact()])

    def _exact(self) -> str:
        if self._peek()[0] in {"", ","}:
            return ""
        token, literal = self._next()
        if token != "identifier":
            raise SelectorError(f"found '{literal}', expected: identifier")
        return literal

    def _set(self) -> set[str]:
        token, literal = self._next()
        if token != "(":
            raise SelectorError(f"found '{literal}' expected: '('")
        token, first = self._peek()
        if token == ")":
            self._next()
            return {""}
        if token not in {"identifier", ","}:
            raise SelectorError(f"found '{first}', expected: ',', ')' or identifier")
        values = self._identifiers()
        if self._next()[0] != ")":
            raise SelectorError(f"found '{first}', expected: ')'")
        return values

    def _identifiers(self) -> set[str]:
        values: set[str] = set()
        while True:
            token, literal = self._next()
            if token == "identifier":
                values.add(literal)
                token, literal = self._peek()
                if token == ")":
                    return values
                if token != ",":
                    raise SelectorError(f"found '{literal}', expected: ',' or ')'")
            elif token == ",":
                if not values:
                    values.add("")
                following = self._peek()[0]
                if following in {")", ","}:
                    values.add("")
                if following == ")":
                    return values
            else:
                raise SelectorError(f"found '{literal}', expected: ',', or identifier")


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _go_list(values: Sequence[str]) -> str:
    if not values:
        return "null"
    return json.dumps(list(values), separators=(",", ":"), ensure_ascii=False)


def requirement_problems(key: str, operator: str, values: Sequence[str], path: str = "") -> list[str]:
    """Return the errors of the key, and of the number or form of the values, each with its field."""
    at = f"{path}." if path else ""
    errors = []
    if problems := label_key(key):
        errors.append(f"{at}key: Invalid value: {_quote(key)}: {'; '.join(problems)}")
    match operator:
        case "in" | "notin" if not values:
            text = "for 'in', 'notin' operators, values set can't be empty"
            errors.append(f"{at}values: Invalid value: {_go_list(values)}: {text}")
        case "=" | "==" | "!=" if len(values) != 1:
            text = "exact-match compatibility requires one single value"
            errors.append(f"{at}values: Invalid value: {_go_list(values)}: {text}")
        case "exists" | "!" if values:
            text = "values set must be empty for exists and does not exist"
            errors.append(f"{at}values: Invalid value: {_go_list(values)}: {text}")
        case "gt" | "lt":
            if len(values) != 1:
                text = "for 'Gt', 'Lt' operators, exactly one value is required"
                errors.append(f"{at}values: Invalid value: {_go_list(values)}: {text}")
            for index, value in enumerate(values):
                if _parse_int64(value) is None:
                    text = "for 'Gt', 'Lt' operators, the value must be an integer"
                    errors.append(f"{at}values[{index}]: Invalid value: {_quote(value)}: {text}")
    for index, value in enumerate(values):
        if problems := label_value(value):
            where = f"{at}values[{index}][{key}]"
            errors.append(f"{where}: Invalid value: {_quote(value)}: {'; '.join(problems)}")
    return errors


def new_requirement(key: str, operator: str, values: Sequence[str], path: str = "") -> Requirement:
    """Return a checked requirement.

    Raises:
        SelectorError: the key, or the number or form of the values is wrong.
    """
    errors = requirement_problems(key, operator, values, path)
    if errors:
        raise SelectorError(errors[0] if len(errors) == 1 else f"[{', '.join(dict.fromkeys(errors))}]")
    return Requirement(key, operator, tuple(values))


def parse_label_selector(text: str) -> LabelSelector:
    """Parse a selector like `a=b,c in (d,e),!f`.

    Raises:
        SelectorError: the text is malformed.
    """
    if not text:
        return EVERYTHING
    return LabelSelector(tuple(sorted(_Parser(text).parse(), key=lambda requirement: requirement.key)))


_EXPRESSION_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


def label_selector(selector: LabelSelectorLike | Mapping[str, Any] | None) -> LabelSelector:
    """Convert a `metav1.LabelSelector`, as a struct or a JSON object. None selects nothing.

    Raises:
        SelectorError: an operator is unknown or the values don't suit it.
    """
    if selector is None:
        return NOTHING
    terms: list[tuple[str, str, Sequence[str]]]
    if isinstance(selector, Mapping):
        pairs = selector.get("matchLabels") or {}
        terms = [
            (item.get("key", ""), item.get("operator", ""), item.get("values") or ())
            for item in selector.get("matchExpressions") or ()
        ]
    else:
        pairs = selector.match_labels or {}
        terms = [(item.key, item.operator, item.values or ()) for item in selector.match_expressions or ()]
    requirements = [new_requirement(key, "=", [value]) for key, value in pairs.items()]
    for key, operator, values in terms:
        if operator not in _EXPRESSION_OPERATORS:
            raise SelectorError(f"{_quote(operator)} is not a valid label selector operator")
        requirements.append(new_requirement(key, _EXPRESSION_OPERATORS[operator], tuple(values)))
    return LabelSelector(tuple(sorted(requirements, key=lambda requirement: requirement.key)))
