"""CEL expressions with renamed texts.

Names of attributes and drivers stay. Other texts are replaced by their new names. A part of a text, as in
``startsWith``, has no new name. Such a call is replaced by a match of the new names of all texts for which it
is true.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping

from dra_shared.cel.library.patterns import RegexError, compile_regex
from dra_shared.cel.literals import unquote
from dra_shared.cel.tokens import END, Token, scan

_INVALID = "("
_PARTS: Mapping[str, Callable[[str, str], bool]] = {
    "contains": lambda text, part: part in text,
    "endsWith": str.endswith,
    "matches": lambda text, part: compile_regex(part).search(text) is not None,
    "startsWith": str.startswith,
}
_AMOUNT = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+|[numkKMGTPE]i?)?|\d+(?:\.\d+){1,2}")
_AMOUNT_FUNCTIONS = frozenset({"isQuantity", "isSemver", "quantity", "semver"})
_ENDS_OPERAND = frozenset({"IDENTIFIER", "ESC_IDENTIFIER", "STRING", "]", ")"})
_SPECIAL = re.compile(r"([\\.+*?()|\[\]{}^$])")

Rename = Callable[[str], str]


def texts_of(expression: str) -> Iterator[str]:
    """Yield the texts of an expression that are to be renamed."""
    tokens = scan(expression).tokens
    for at, token in enumerate(tokens):
        if token.kind in ("STRING", "BYTES") and not _stays(tokens, at) and not _is_part(tokens, at):
            yield _text(token)


def drivers_of(expression: str) -> Iterator[str]:
    """Yield the drivers that an expression compares a device's driver with."""
    tokens = scan(expression).tokens
    for at, token in enumerate(tokens):
        before = [one.text for one in tokens[max(at - 4, 0) : at]]
        if token.kind == "STRING" and before in (
            ["device", ".", "driver", "=="],
            ["device", ".", "driver", "!="],
        ):
            yield _text(token)


def rewrite(expression: str, rename: Rename, texts: Mapping[str, str]) -> str:
    """Return the expression with renamed texts, without comments.

    ``texts`` maps the texts that an expression can see, such as values of attributes, to their new names.
    """
    found = scan(expression)
    if found.gaps:
        # It is not a valid expression, so its replacement must be invalid, too.
        return _INVALID
    tokens = found.tokens
    made: list[str] = []
    end = 0
    for at, token in enumerate(tokens):
        if token.kind == END:
            break
        if made and token.start > end:
            made.append(" ")
        end = token.start + len(token.text)
        made.append(_replacement(tokens, at, rename, texts))
    return "".join(made)


def _replacement(tokens: list[Token], at: int, rename: Rename, texts: Mapping[str, str]) -> str:
    token = tokens[at]
    if token.text in _PARTS and _is_part(tokens, at + 2) and _pattern(token.text, tokens[at + 2], texts):
        return "matches"
    if token.kind not in ("STRING", "BYTES") or _stays(tokens, at):
        return token.text
    if _is_part(tokens, at):
        pattern = _pattern(tokens[at - 2].text, token, texts)
        return _quote(pattern) if pattern else token.text
    prefix = "b" if token.kind == "BYTES" else ""
    return prefix + _quote(rename(_text(token)))


def _pattern(function: str, part: Token, texts: Mapping[str, str]) -> str:
    """Return a pattern that matches the new names of all texts for which the call is true.

    Return "" if the call can stay, because it is true only for texts that are not renamed.
    """
    text = _text(part)
    try:
        true_of = {new for old, new in _forms(texts) if _PARTS[function](old, text)}
        kept = [old for old, new in texts.items() if old == new]
        if any(text in old for old in kept) and true_of == {
            new for _, new in _forms(texts) if _PARTS[function](new, text)
        }:
            return ""
    except RegexError:
        true_of = set()
    return f"^(?:{'|'.join(_SPECIAL.sub(_ESCAPED, one) for one in sorted(true_of))})$" if true_of else "^$a"


_ESCAPED = r"\\\1"


def _forms(texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield old and new texts, as they are and as `lowerAscii` and `upperAscii` return them."""
    for old, new in texts.items():
        yield old, new
        yield old.lower(), new.lower()
        yield old.upper(), new.upper()


def _is_part(tokens: list[Token], at: int) -> bool:
    """True for the argument of a call such as ``.startsWith("a")``."""
    if at < 3 or at + 1 >= len(tokens) or tokens[at].kind != "STRING":
        return False
    dot, function, opening = tokens[at - 3 : at]
    called = dot.text == "." and function.text in _PARTS and opening.text == "("
    return called and tokens[at + 1].text == ")"


def _stays(tokens: list[Token], at: int) -> bool:
    """True for amounts, and for an index with the name of a driver or an attribute. These texts are not renamed."""
    opening = at - 2 if tokens[at - 1].text == "?" else at - 1
    if opening >= 1 and tokens[opening].text == "[" and tokens[opening - 1].kind in _ENDS_OPERAND:
        return True
    if [one.text for one in tokens[at + 1 : at + 4]] == ["in", "device", "."]:
        return True
    if at >= 2 and tokens[at - 1].text == "(" and tokens[at - 2].text in _AMOUNT_FUNCTIONS:
        return _AMOUNT.fullmatch(_text(tokens[at])) is not None
    return False


def _text(token: Token) -> str:
    text = token.text
    try:
        return unquote(text[1:] if token.kind == "BYTES" else text)
    except ValueError:
        return text


def _quote(text: str) -> str:
    return json.dumps(text)
