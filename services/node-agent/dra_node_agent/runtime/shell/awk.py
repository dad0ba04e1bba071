"""`awk`, as far as one-line filters need it; it reports what is more than that."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dra_node_agent.runtime.shell.options import Given, Syntax, UsageError, declared, read, split_lines
from dra_node_agent.runtime.shell.patterns import (
    EXTENDED,
    PatternError,
    compile_pattern,
    decoded,
    encoded,
)
from dra_node_agent.runtime.shell.world import Process

_FIELDS = re.compile(r"\{\s*print(?:\s+(?P<what>[^{};]*))?;?\s*\}")
_PIECE = re.compile(r'\s*(?:\$(?P<field>\d{1,9}|NF)|(?P<name>NR|NF)|"(?P<text>(?:[^"\\]|\\.)*)")\s*')
_NUMBER = re.compile(r"NR\s*(?P<operator>==|>=|<=|>|<|!=)\s*(?P<number>\d{1,9})")
_REGEX = re.compile(
    r"(?:\$(?P<field>\d{1,9}|NF)\s*(?P<operator>!?~)\s*|(?P<negated>!?)\s*)/(?P<text>(?:[^/\\]|\\.)+)/"
)
_EQUAL = re.compile(r'\$(?P<field>\d{1,9}|NF)\s*(?P<operator>==|!=)\s*"(?P<text>(?:[^"\\]|\\.)*)"')
_COMPARED: Mapping[str, Callable[[int, int], bool]] = {
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    ">=": lambda left, right: left >= right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    "<": lambda left, right: left < right,
}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "/": "/"}

_Condition = Callable[[int, str, Sequence[str]], bool]


@declared(Syntax(valued="F", status=2, leading=1, ordered=True))
async def awk(process: Process, given: Given) -> int:
    """Run `CONDITION { print … }`."""
    if not given.operands:
        raise UsageError("usage: awk [-F fs] 'prog' [file ...]")
    text, *names = given.operands
    holds, columns = _program(text.strip())
    split = _splitter(given.value("F"))
    status = number = 0
    for name in names or ["-"]:
        content = read(process, name)
        if content is None:
            status = 2
            continue
        for line in split_lines(content):
            number += 1
            fields = split(line)
            if holds(number, line, fields):
                values = ["".join(_value(p, number, line, fields) for p in column) for column in columns]
                process.out(" ".join(values) + "\n")
    return status


def _program(text: str) -> tuple[_Condition, Sequence[Sequence[str]]]:
    """Return the condition, and the arguments of print."""
    condition, action = text, "{print}"
    if match := re.search(r"\{[^{}]*\}\Z", text):
        condition, action = text[: match.start()].strip(), match[0]
    print_ = _FIELDS.fullmatch(action)
    holds = _condition(condition)
    if print_ is None or holds is None:
        raise UsageError(
            "this program is not simulated: only { print … } is, of all lines, /regex/, $1 ~ /regex/, "
            '$1 == "text", NR==1 and the like'
        )
    what = (print_["what"] or "").strip()
    return holds, [_columns(part) for part in _arguments(what)] if what else [["$0"]]


def _arguments(text: str) -> list[str]:
    """Split at commas outside of quotation marks."""
    return re.findall(r'((?:[^",]|"(?:[^"\\]|\\.)*")+|(?<=,)(?=,|\Z)|\A(?=,))', text)


def _condition(text: str) -> _Condition | None:
    if not text:
        return lambda number, line, fields: True
    if match := _NUMBER.fullmatch(text):
        compared, wanted = _COMPARED[match["operator"]], int(match["number"])
        return lambda number, line, fields: compared(number, wanted)
    if match := _REGEX.fullmatch(text):
        regex = _compiled(match["text"].replace("\\/", "/"))
        piece = f"${match['field'] or 0}"
        wanted_match = match["operator"] == "~" if match["field"] else not match["negated"]
        return lambda number, line, fields: (
            (regex.search(encoded(_value(piece, number, line, fields))) is not None) == wanted_match
        )
    if match := _EQUAL.fullmatch(text):
        piece, value, equal = f"${match['field']}", _unescaped(match["text"]), match["operator"] == "=="
        return lambda number, line, fields: (_value(piece, number, line, fields) == value) == equal
    return None


def _compiled(text: str) -> Any:
    try:
        return compile_pattern(text, EXTENDED, escapes=True)
    except PatternError as error:
        raise UsageError(str(error)) from error


def _splitter(separator: str) -> Callable[[str], list[str]]:
    """Return what splits a line into fields: at blanks, at a character, or at a regular expression."""
    separator = _unescaped(separator)
    if separator in ("", " "):
        return lambda line: [field for field in re.split(r"[ \t\n]+", line) if field]
    if separator == "t":
        separator = "\t"
    if len(separator) == 1:
        return lambda line: line.split(separator) if line else []
    regex = _compiled(separator)

    def split(line: str) -> list[str]:
        data = encoded(line)
        fields, position, search = [], 0, 0
        while search <= len(data) and (match := regex.search(data, search)):
            start, end = match.span()
            if start == end:
                search = end + 1
                continue
            fields.append(decoded(data[position:start]))
            position = search = end
        return [*fields, decoded(data[position:])] if data else []

    return split


def _columns(text: str) -> list[str]:
    """Return the pieces that one argument of print joins: ``$1``, ``NR`` or a text behind a quotation mark."""
    pieces, index = [], 0
    while index < len(text):
        match = _PIECE.match(text, index)
        if match is None:
            raise UsageError(f"{text.strip()} is not simulated")
        field, name = match["field"], match["name"]
        pieces.append(f"${field}" if field else name or f'"{_unescaped(match["text"])}')
        index = match.end()
    if not pieces:
        raise UsageError("an empty argument of print is not simulated")
    return pieces


def _value(piece: str, number: int, line: str, fields: Sequence[str]) -> str:
    match piece:
        case "NR":
            return str(number)
        case "NF":
            return str(len(fields))
        case "$0":
            return line
        case "$NF":
            return fields[-1] if fields else line
    if piece.startswith('"'):
        return piece[1:]
    position = int(piece[1:])
    if not position:
        return line
    return fields[position - 1] if position <= len(fields) else ""


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[0]), text)
