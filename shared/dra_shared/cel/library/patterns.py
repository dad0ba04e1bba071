"""Regular expressions with the syntax of Go's regexp package."""

import functools
import re
from typing import Any, Final


class RegexError(ValueError):
    """The pattern is not a valid regular expression. The message is Go's."""


_GO_WORDS: Final = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition size": "invalid repeat count",
    "trailing \\": "trailing backslash at end of expression",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}

_CATEGORIES: Final = {
    "other": "C", "control": "Cc", "cntrl": "Cc", "format": "Cf", "privateuse": "Co", "surrogate": "Cs",
    "letter": "L", "lowercaseletter": "Ll", "modifierletter": "Lm", "otherletter": "Lo", "titlecaseletter": "Lt",
    "uppercaseletter": "Lu", "mark": "M", "combiningmark": "M", "spacingmark": "Mc", "enclosingmark": "Me",
    "nonspacingmark": "Mn", "number": "N", "decimalnumber": "Nd", "digit": "Nd", "letternumber": "Nl",
    "othernumber": "No", "punctuation": "P", "punct": "P", "connectorpunctuation": "Pc", "dashpunctuation": "Pd",
    "closepunctuation": "Pe", "finalpunctuation": "Pf", "initialpunctuation": "Pi", "otherpunctuation": "Po",
    "openpunctuation": "Ps", "symbol": "S", "currencysymbol": "Sc", "modifiersymbol": "Sk", "mathsymbol": "Sm",
    "othersymbol": "So", "separator": "Z", "lineseparator": "Zl", "paragraphseparator": "Zp", "spaceseparator": "Zs",
}  # fmt: skip
_SHORT: Final = frozenset(_CATEGORIES.values())

# Syntax that RE2 in C++ reads differently than Go: any byte, lookbehind, group names beyond ASCII, huge
# counts.
_STRANGE: Final = re.compile(
    r"\\Q.*?(?:\\E|\Z)|\\[pP](?:\{\^?(?P<class>[^}]*)\}|(?P<letter>[a-z]))|\\(?P<escape>.)|\(\?(?P<look><[=!])|\(\?P?<(?P<name>[^>]*)>"
    r"|(?P<count>\{(?:[1-9][0-9]{9,}(?:,[0-9]*)?|[0-9]+,[1-9][0-9]{9,})\})",
    re.DOTALL,
)
# Each construct is replaced by text that makes RE2 in C++ report an error at the position where Go reports one.
_ANY_BYTE: Final = "\\y"
_LOOKBEHIND: Final = {"(?<=": "(?<\x01", "(?<!": "(?<\x02"}
_BAD_NAME: Final = "\x03"
_COUNT: Final = "{7654321}"


@functools.lru_cache(maxsize=1024)
def compile_regex(pattern: str) -> Any:
    """Compile an RE2 expression. Raises RegexError."""
    named = _STRANGE.sub(_class_of_go, pattern)
    refused = _STRANGE.sub(_replace_refused, named)
    try:
        if refused != named:
            _compile(refused)
        return _compile(named)
    except RegexError as error:
        raise RegexError(_restore(str(error), pattern)) from None


def _class_of_go(found: re.Match[str]) -> str:
    """Return a character class in RE2's spelling. Go ignores the case of class names and accepts the long ones."""
    text, name = found[0], found["class"]
    if found["letter"]:
        return text[:2] + text[2:].upper()
    if name is None:
        return text
    plain = re.sub("[ _-]", "", name).lower()
    known = _CATEGORIES.get(plain) or plain.title()
    return text if name in _SHORT else text.replace(name, known)


def _replace_refused(found: re.Match[str]) -> str:
    text = found[0]
    if found["escape"] == "C":
        return _ANY_BYTE
    if found["look"]:
        return _LOOKBEHIND[text]
    if found["name"] is not None and not found["name"].isascii():
        return text[:-1] + _BAD_NAME + ">"
    return _COUNT if found["count"] else text


def _restore(text: str, pattern: str) -> str:
    text = text.replace(_BAD_NAME, "")
    for found in _STRANGE.finditer(pattern):
        of_class = found["class"] is not None or found["letter"]
        other = _class_of_go(found) if of_class else _replace_refused(found)
        if other != found[0] and not found["name"]:
            text = text.replace(other, found[0])
    return text


def _compile(pattern: str) -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        head, _, tail = text.partition(": ")
        if head.endswith("repetition size"):
            tail = tail.removesuffix("?")
        raise RegexError(f"error parsing regexp: {_GO_WORDS.get(head, head)}: `{tail}`") from None
