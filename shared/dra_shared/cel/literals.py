"""Parse literals. Raise ValueError with cel-go's message.

Mirrors cel-go's parser/unescape.go and the literals of parser/parser.go.
"""

import math
import re
from typing import Final

from dra_shared.cel.values import Uint

_ESCAPES: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "`": "`", "?": "?",
}  # fmt: skip
_ESCAPED: Final = re.compile(
    r"\\(?:[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7][0-7])|([abfnrtv\\'\"`?]))"
)


def integer(text: str) -> int:
    number = _number(text)
    if -(1 << 63) <= number < 1 << 63:
        return number
    raise ValueError("invalid int literal")


def parse_unsigned(text: str) -> Uint:
    number = _number(text[:-1])
    if 0 <= number < 1 << 64:
        return Uint(number)
    raise ValueError("invalid uint literal")


def double(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError("invalid double literal")
    return number


def _number(text: str) -> int:
    negative = text.startswith("-")
    digits = text[1:] if negative else text
    number = (
        int(digits[2:], 16) if digits.startswith("0x") else int(digits) if len(digits) < 4000 else 1 << 70
    )
    return -number if negative else number


def _body(text: str) -> tuple[str, bool]:
    """Return the text between the quotes, and whether it is raw."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    raw = text[0] in "rR"
    if raw:
        text = text[1:]
    if len(text) >= 6 and text[:3] in ("'''", '"""'):
        return text[3:-3], raw
    return text[1:-1], raw


def unquote(text: str) -> str:
    body, raw = _body(text)
    if raw or "\\" not in body:
        return body

    def replace(match: re.Match[str]) -> str:
        short, four, eight, octal, char = match.groups()
        if char is not None:
            return _ESCAPES[char]
        code = int(octal, 8) if octal is not None else int(short or four or eight, 16)
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise ValueError("invalid unicode code point")
        return chr(code)

    return _ESCAPED.sub(replace, body)


def text_bytes(text: str) -> bytes:
    body, raw = _body(text[1:])
    if raw or "\\" not in body:
        return body.encode()
    out = bytearray()
    at = 0
    for match in _ESCAPED.finditer(body):
        out += body[at : match.start()].encode()
        short, four, eight, octal, char = match.groups()
        if four is not None or eight is not None:
            raise ValueError("unable to unescape string")
        if char is not None:
            out += _ESCAPES[char].encode()
        elif short is not None or octal is not None:
            out.append(int(octal, 8) & 0xFF if octal is not None else int(short, 16))
        at = match.end()
    return bytes(out + body[at:].encode())
