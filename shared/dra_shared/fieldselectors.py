"""Parse and match field selectors as apimachinery's `fields` does, with its messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dra_shared.selectors import SelectorError


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """One term of a field selector: the field must equal the value, or differ from it."""

    field: str
    value: str
    equal: bool = True


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """A field selector. All of its terms must hold."""

    terms: tuple[FieldTerm, ...] = ()

    def matches(self, value_of: Callable[[str], str]) -> bool:
        """True if the selector matches an object whose field `f` has the value `value_of(f)`."""
        return all((value_of(term.field) == term.value) == term.equal for term in self.terms)

    @property
    def empty(self) -> bool:
        """True if the selector matches every object."""
        return not self.terms

    def exact(self, field: str) -> str | None:
        """Return the value that the field must have; None if the selector allows several."""
        return next((term.value for term in self.terms if term.field == field and term.equal), None)


def _split_terms(text: str) -> list[str]:
    terms, start, escaped = [], 0, False
    for index, char in enumerate(text):
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == ",":
            terms.append(text[start:index])
            start = index + 1
    terms.append(text[start:])
    return terms


def _unescape(text: str) -> str:
    out, escaped = [], False
    for char in text:
        if escaped:
            if char not in "\\,=":
                raise SelectorError(f"invalid field selector: invalid escape sequence: \\{char}")
            out.append(char)
            escaped = False
        elif char == "\\":
            escaped = True
        elif char in ",=":
            raise SelectorError(f"invalid field selector: unescaped character in value: {ord(char)}")
        else:
            out.append(char)
    if escaped:
        raise SelectorError("invalid field selector: invalid escape sequence: \\")
    return "".join(out)


def parse_field_selector(text: str) -> FieldSelector:
    """Parse a selector like `metadata.name=x,spec.nodeName!=y`.

    Raises:
        SelectorError: the text is malformed.
    """
    if not text:
        return FieldSelector()
    terms = []
    for part in sorted(_split_terms(text)):
        if not part:
            continue
        for index in range(len(part)):
            operator = next((op for op in ("!=", "==", "=") if part.startswith(op, index)), None)
            if operator is not None:
                value = _unescape(part[index + len(operator) :])
                terms.append(FieldTerm(part[:index], value, operator != "!="))
                break
        else:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{part}'")
    return FieldSelector(tuple(terms))
