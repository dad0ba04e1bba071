"""POSIX regular expressions. RE2 evaluates them in linear time, so that one from a pod cannot block this process.

Basic and extended expressions with the extensions of GNU. Features that RE2 lacks, such as back-references,
are rejected.
"""

import functools
import string
from typing import Any

import re2

BASIC, EXTENDED, FIXED, PERL = "basic", "extended", "fixed", "perl"

_WORD = frozenset(string.ascii_letters + string.digits + "_")
_CLASSES = frozenset(
    {
        "alnum",
        "alpha",
        "blank",
        "cntrl",
        "digit",
        "graph",
        "lower",
        "print",
        "punct",
        "space",
        "upper",
        "xdigit",
    }
)
_WORD_CLASSES = frozenset({"alnum", "alpha", "digit", "lower", "upper", "xdigit"})
_SETS = {"w": "[0-9A-Za-z_]", "W": "[^0-9A-Za-z_]", "s": r"[ \t\n\r\f\v]", "S": r"[^ \t\n\r\f\v]"}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
# The limit of RE2. POSIX demands no more than 255.
_MOST_REPEATED = 1000
_MEMORY = 8 << 20


class PatternError(ValueError):
    """The pattern is wrong or not simulated; the message is for the user."""


@functools.lru_cache(maxsize=256)
def compile_pattern(
    text: str,
    kind: str,
    *,
    ignore_case: bool = False,
    escapes: bool = False,
    words: bool = False,
    lines: bool = False,
) -> Any:
    """Compile a pattern to an RE2 expression for bytes.

    Args:
        escapes: whether ``\\n`` and the like are control characters, as in sed and awk.
        words: whether matches must be whole words; group 1 is the match.
        lines: whether the pattern must match the whole text.

    Raises:
        PatternError: the pattern is wrong or not simulated.
    """
    if kind == FIXED:
        made = re2.escape(text)
    else:
        made = text if kind == PERL else _Translation(text, kind == EXTENDED, escapes).result()
    if lines:
        made = f"^(?:{made})$"
    elif words:
        made = f"(?:^|[^0-9A-Za-z_])({made})(?:[^0-9A-Za-z_]|$)"
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not ignore_case
    options.dot_nl = kind != PERL
    options.longest_match = kind != PERL
    options.max_mem = _MEMORY
    try:
        return re2.compile(made.encode(errors="surrogateescape"), options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        reason = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise PatternError(f"regular expression {text!r} is wrong or not simulated: {reason}") from error


def encode(text: str) -> bytes:
    """Convert a text to the bytes to which patterns apply."""
    return text.encode(errors="surrogateescape")


def decode(data: bytes) -> str:
    """Convert bytes that a pattern found to a text."""
    return data.decode(errors="surrogateescape")


class _Translation:
    """Translates one expression to the syntax of RE2, token by token."""

    def __init__(self, text: str, extended: bool, escapes: bool) -> None:
        self._text, self._extended, self._escapes = text, extended, escapes
        self._index = 0
        self._out: list[str] = []
        # Where the last atom begins in the output; None if there is nothing to repeat.
        self._atom: int | None = None
        self._groups: list[int] = []
        self._at_start = True
        self._is_word = False
        self._needs_word = False

    def result(self) -> str:
        """Return the translation.

        Raises:
            PatternError: the expression is wrong or not simulated.
        """
        while self._index < len(self._text):
            char = self._text[self._index]
            self._index += 1
            if char == "\\":
                self._escape()
            elif char == "[":
                self._bracket()
            elif char == ".":
                self._add(".", is_word=False)
            elif char == "*":
                self._repeat("*")
            elif char == "^" and (self._extended or self._at_start):
                self._anchor("^")
            elif char == "$" and (self._extended or self._ends_branch()):
                self._anchor("$")
            elif self._extended and char in "(){}+?|":
                self._operator(char)
            else:
                self._literal(char)
        if self._groups:
            raise PatternError("Unmatched ( or \\(")
        if self._needs_word:
            raise PatternError("\\< before anything but a word is not simulated")
        return "".join(self._out)

    def _ends_branch(self) -> bool:
        rest = self._text[self._index :]
        return not rest or rest.startswith(("\\)", "\\|"))

    def _literal(self, char: str) -> None:
        self._add(re2.escape(char), is_word=char in _WORD)

    def _add(self, atom: str, *, is_word: bool) -> None:
        if self._needs_word and not is_word:
            raise PatternError("\\< before anything but a word is not simulated")
        self._needs_word = False
        self._atom = len(self._out)
        self._out.append(atom)
        self._at_start, self._is_word = False, is_word

    def _anchor(self, text: str) -> None:
        self._out.append(text)
        self._atom = None
        self._is_word = False
        self._at_start = self._at_start and text == "^"

    def _escape(self) -> None:
        if self._index == len(self._text):
            raise PatternError("Trailing backslash")
        char = self._text[self._index]
        self._index += 1
        if char in "123456789":
            raise PatternError("back-references are not simulated")
        if char in _SETS:
            self._add(_SETS[char], is_word=char == "w")
        elif char in "bB":
            self._anchor(f"\\{char}")
        elif char == "<":
            self._anchor("\\b")
            self._needs_word = True
        elif char == ">":
            if not self._is_word:
                raise PatternError("\\> after anything but a word is not simulated")
            self._anchor("\\b")
        elif char in "`'":
            self._anchor("\\A" if char == "`" else "\\z")
        elif not self._extended and char in "(){}+?|":
            self._operator(char)
        elif self._escapes and char in _ESCAPES:
            self._literal(_ESCAPES[char])
        else:
            self._literal(char)

    def _operator(self, char: str) -> None:
        match char:
            case "(":
                if self._needs_word:
                    raise PatternError("\\< before anything but a word is not simulated")
                self._groups.append(len(self._out))
                self._out.append("(")
                self._at_start, self._atom = True, None
            case ")":
                if not self._groups:
                    raise PatternError("Unmatched ) or \\)")
                self._out.append(")")
                self._atom = self._groups.pop()
                self._at_start = self._is_word = False
            case "|":
                self._anchor("|")
                self._at_start = True
            case "{":
                self._interval()
            case "}":
                self._literal("}")
            case _:
                self._repeat(char)

    def _repeat(self, operator: str) -> None:
        if self._atom is None:
            if self._extended or operator != "*" or not self._at_start:
                raise PatternError(f"{operator} with nothing to repeat before it is not simulated")
            self._literal(operator)
            return
        # In a group, because RE2 refuses one operator after another.
        atom = "".join(self._out[self._atom :])
        self._out[self._atom :] = [f"(?:{atom}{operator})"]
        self._is_word = self._is_word and operator not in ("*", "?") and not operator.startswith("{0")

    def _interval(self) -> None:
        closing = "}" if self._extended else "\\}"
        end = self._text.find(closing, self._index)
        content = self._text[self._index : end] if end >= 0 else ""
        least, comma, most = content.partition(",")
        valid = (
            end >= 0
            and (least or comma)
            and all(not p or (p.isascii() and p.isdigit()) for p in (least, most))
        )
        if not valid:
            if not self._extended:
                raise PatternError("Invalid content of \\{\\}")
            self._literal("{")
            return
        if max(int(least or 0), int(most or 0)) > _MOST_REPEATED:
            raise PatternError(f"repetition counts above {_MOST_REPEATED} are not simulated")
        self._index = end + len(closing)
        self._repeat(f"{{{least or 0}{comma}{most}}}")

    def _bracket(self) -> None:
        text, unmatched = self._text, PatternError("Unmatched [, [^, [:, [., or [=")
        negated = text.startswith("^", self._index)
        self._index += negated
        members: list[str] = []
        is_word = not negated
        first = True
        while True:
            if self._index >= len(text):
                raise unmatched
            if text[self._index] == "]" and not first:
                self._index += 1
                break
            first = False
            if text.startswith("[:", self._index):
                end = text.find(":]", self._index)
                if end < 0:
                    raise unmatched
                name = text[self._index + 2 : end]
                if name not in _CLASSES:
                    raise PatternError("Invalid character class name")
                members.append(f"[:{name}:]")
                is_word = is_word and name in _WORD_CLASSES
                self._index = end + 2
                continue
            low = high = self._member(unmatched)
            following = text[self._index + 1 : self._index + 2]
            if text.startswith("-", self._index) and following not in ("]", ""):
                self._index += 1
                high = self._member(unmatched)
                if high < low:
                    raise PatternError("Invalid range end")
            is_word = is_word and _is_word_range(low, high)
            members.append(_in_class(low) if low == high else f"{_in_class(low)}-{_in_class(high)}")
        self._add(f"[{'^' if negated else ''}{''.join(members)}]", is_word=is_word)

    def _member(self, unmatched: PatternError) -> str:
        text = self._text
        if text.startswith(("[.", "[="), self._index):
            closing = f"{text[self._index + 1]}]"
            end = text.find(closing, self._index + 2)
            if end != self._index + 3:
                raise unmatched if end < 0 else PatternError("Invalid collation character")
            self._index = end + 2
            return text[end - 1]
        char = text[self._index]
        self._index += 1
        if self._escapes and char == "\\" and text[self._index : self._index + 1] in _ESCAPES:
            char = _ESCAPES[text[self._index]]
            self._index += 1
        return char


def _is_word_range(low: str, high: str) -> bool:
    return low in _WORD and high in _WORD and (low == high or any(low in s and high in s for s in _RANGES))


_RANGES = (string.ascii_lowercase, string.ascii_uppercase, string.digits)


def _in_class(char: str) -> str:
    return f"\\{char}" if char in "\\]^-[" else char
