"""Split a text into tokens as cel-go's ANTLR lexer does, for error messages."""

import re
from typing import Final, NamedTuple

END: Final = "<EOF>"
_ESCAPE: Final = r"\\(?:[abfnrtv\"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})"
_TEXT: Final = (
    rf"(?:[rR](?:\"\"\"[\s\S]*?\"\"\"|'''[\s\S]*?'''|\"[^\"\n\r]*\"|'[^'\n\r]*')"
    rf"|\"\"\"(?:{_ESCAPE}|[^\\])*?\"\"\"|'''(?:{_ESCAPE}|[^\\])*?'''"
    rf"|\"(?:{_ESCAPE}|[^\\\"\n\r])*\"|'(?:{_ESCAPE}|[^\\'\n\r])*')"
)
_PATTERNS: Final = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        ("NUM_FLOAT", r"[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?"),
        ("NUM_UINT", r"0x[0-9a-fA-F]+[uU]|[0-9]+[uU]"),
        ("NUM_INT", r"0x[0-9a-fA-F]+|[0-9]+"),
        ("BYTES", rf"[bB]{_TEXT}"),
        ("STRING", _TEXT),
        ("IDENTIFIER", r"[a-zA-Z_][a-zA-Z0-9_]*"),
        ("ESC_IDENTIFIER", r"`[a-zA-Z0-9_.\-/ ]+`"),
        ("", r"==|!=|<=|>=|&&|\|\||[<>\[\]{}().,\-!?:+*/%]"),
    )
)  # fmt: skip
_HIDDEN: Final = re.compile(r"[\t \r\n\f]+|//[^\n]*")
_ESCAPE_AT: Final = re.compile(_ESCAPE)
_WORDS: Final = frozenset(("in", "true", "false", "null"))


class Token(NamedTuple):
    """A token: its type (or its text, if the token has only one spelling), its text and its position."""

    kind: str
    text: str
    start: int


class Scan(NamedTuple):
    """The tokens, the last of which marks the end, and the ranges of the text that begin no token."""

    tokens: list[Token]
    gaps: list[tuple[int, int]]


def scan(text: str) -> Scan:
    """Split the text into tokens. Of all tokens that can begin at a position, the longest is chosen."""
    found = Scan([], [])
    at = 0
    while at < len(text):
        if hidden := _HIDDEN.match(text, at):
            at = hidden.end()
            continue
        best: Token | None = None
        for kind, pattern in _PATTERNS:
            match = pattern.match(text, at)
            if match and (best is None or len(match[0]) > len(best.text)):
                best = Token(kind or match[0], match[0], at)
        if best is None:
            end = min(_gap_end(text, at) + 1, len(text) + 1)
            found.gaps.append((at, end))
            at = end
            continue
        if best.kind == "IDENTIFIER" and best.text in _WORDS:
            best = best._replace(kind=best.text)
        found.tokens.append(best)
        at += len(best.text)
    found.tokens.append(Token(END, END, len(text)))
    return found


def _gap_end(text: str, at: int) -> int:
    """Return the index of the character that shows that no token begins at ``at``, or the end of the text."""
    quote, end = text[at], at
    if quote in "\"'":
        end += 1
        while end < len(text) and text[end] not in "\n\r":
            if text[end] != "\\":
                end += 1
            elif escape := _ESCAPE_AT.match(text, end):
                end = escape.end()
            else:
                return _escape_end(text, end)
    elif quote == "`":
        end += 1
        while end < len(text) and re.match(r"[a-zA-Z0-9_.\-/ ]", text[end]):
            end += 1
    elif quote in "&|=":
        end += 1
    return end


def _escape_end(text: str, at: int) -> int:
    """Return the index at which an escape sequence ends."""
    kind = text[at + 1 : at + 2]
    digits = {"x": 2, "X": 2, "u": 4, "U": 8}.get(kind)
    if digits is not None:
        at += 2
        while digits and text[at : at + 1] and text[at] in "0123456789abcdefABCDEF":
            at, digits = at + 1, digits - 1
        return at
    if kind and kind in "0123":
        at += 2
        return at + 1 if text[at : at + 1] and text[at] in "01234567" else at
    return at + 1
