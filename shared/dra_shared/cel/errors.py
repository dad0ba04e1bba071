"""Errors of expressions, at compilation and at evaluation."""

import enum
from dataclasses import dataclass
from typing import Final


class ErrorKind(enum.StrEnum):
    """Upstream's kind of a compile error (k8s.io/apiserver/pkg/cel.ErrorType)."""

    INVALID = "RuleInvalid"
    INTERNAL = "InternalError"


class CompileError(Exception):
    """The expression does not compile. ``text`` is upstream's message; ``issues`` are its parts."""

    def __init__(
        self, text: str, kind: ErrorKind = ErrorKind.INVALID, issues: "tuple[Issue, ...]" = ()
    ) -> None:
        super().__init__(text)
        self.text = text
        self.kind = kind
        self.issues = issues


class EvaluationError(Exception):
    """The evaluation fails for a device. The message is cel-go's."""


class CostLimitExceeded(Exception):
    """The evaluation was stopped because it exceeded the cost limit."""


class Panic(Exception):
    """Upstream's code panics here, which ends the evaluation. The message is Go's."""


#: The offset of an error whose position upstream's parser has lost. Messages show it before the start of the
#: text.
NOWHERE: Final = -2


@dataclass(frozen=True, slots=True)
class Issue:
    """One error. ``offset`` is a position in code points, or -1."""

    offset: int
    message: str


_MAX_SNIPPET = 16384
_MAX_ISSUES = 100


def render_issues(source: str, issues: list[Issue]) -> str:
    """Format every issue with its line and a caret, sorted by position, as cel-go prints them."""
    starts = [0]
    starts.extend(index + 1 for index, char in enumerate(source) if char == "\n")
    if not source:
        # In an empty text, cel-go's column is one before the start.
        return "\n".join(f"ERROR: <input>:1:0: {issue.message}" for issue in issues)
    located = [(*_locate(starts, issue.offset), issue.message) for issue in issues[:_MAX_ISSUES]]
    located.sort(key=lambda entry: entry[:2])
    lines = source.split("\n")
    shown = [_render(lines, line, column, message) for line, column, message in located]
    if len(issues) > _MAX_ISSUES:
        shown.append(f"{len(issues) - _MAX_ISSUES} more errors were truncated")
    return "\n".join(shown)


def _locate(starts: list[int], offset: int) -> tuple[int, int]:
    if offset < 0:
        return (1, -1) if offset == NOWHERE else (-1, -1)
    line = 0
    while line + 1 < len(starts) and starts[line + 1] <= offset:
        line += 1
    return line + 1, offset - starts[line]


def _render(lines: list[str], line: int, column: int, message: str) -> str:
    text = f"ERROR: <input>:{line}:{column + 1}: {message}"
    if not 1 <= line <= len(lines):
        return text
    snippet = lines[line - 1].replace("\t", " ")
    if len(snippet.encode("utf-8", "replace")) > _MAX_SNIPPET:
        return text
    column = max(column, 0)
    dots = "".join("．" if ord(char) > 127 else "." for char in snippet[:column])
    wide = column < len(snippet) and ord(snippet[column]) > 127
    return f"{text}\n | {snippet}\n | {dots}{'＾' if wide else '^'}"
