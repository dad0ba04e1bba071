"""`sort` of coreutils, in the C locale, which containers have."""

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from dra_node_agent.runtime.shell.options import Given, Syntax, UsageError, declare, read, split_lines
from dra_node_agent.runtime.shell.patterns import encode
from dra_node_agent.runtime.shell.world import Process

_KEY = re.compile(
    r"(?P<first>\d{1,9})(?:\.(?P<first_char>\d{1,9}))?(?P<first_flags>[a-zA-Z]*)"
    r"(?:,(?P<last>\d{1,9})(?:\.(?P<last_char>\d{1,9}))?(?P<last_flags>[a-zA-Z]*))?"
)
_NUMBER = re.compile(r"\s*(-?\d{0,99}(?:\.\d{0,99})?)")
_SIZE = re.compile(r"\s*(-?)(\d{0,99}(?:\.\d{0,99})?)([kKMGTPEZY]?)")
_FIELD = re.compile(r"[ \t]*[^ \t]*")
_ORDERS = "nhbfr"
_SYNTAX = Syntax(
    flags=_ORDERS + "usc",
    valued="kto",
    status=2,
    long={
        "numeric-sort": "n",
        "human-numeric-sort": "h",
        "ignore-leading-blanks": "b",
        "ignore-case": "f",
        "reverse": "r",
        "unique": "u",
        "stable": "s",
        "check": "c",
        "key": "k",
        "field-separator": "t",
        "output": "o",
    },
)


@dataclass(frozen=True)
class _Key:
    """A part of each line, from one position to another. 0 as ``last`` means the end of the line."""

    flags: frozenset[str]
    first: int = 1
    first_char: int = 1
    last: int = 0
    last_char: int = 0
    first_blanks: bool = False
    last_blanks: bool = False


async def _sort(process: Process, given: Given) -> int:
    general = frozenset(letter for letter, _ in given.options if letter in _ORDERS)
    keys = [_key(text, general) for text in given.values("k")] or [_Key(general, first_blanks="b" in general)]
    separator = given.value("t")
    if len(separator) > 1 and separator != "\\0":
        raise UsageError(f"multi-character tab ‘{separator}’")
    for key in keys:
        if {"n", "h"} <= key.flags:
            raise UsageError("options '-hn' are incompatible")
    if "c" in given and len(given.operands) > 1:
        raise UsageError(f"extra operand ‘{given.operands[1]}’ not allowed with -c")
    lines: list[str] = []
    for name in given.operands or ["-"]:
        text = read(process, name)
        if text is None:
            return 2
        lines += split_lines(text)

    def compare(left: str, right: str) -> int:
        for key in keys:
            a, b = _value(left, key, separator), _value(right, key, separator)
            if a != b:
                return (1 if a > b else -1) * (-1 if "r" in key.flags else 1)
        if "u" in given or "s" in given:
            return 0
        a, b = encode(left), encode(right)
        return 0 if a == b else (1 if a > b else -1) * (-1 if "r" in general else 1)

    if "c" in given:
        return _check(process, given, lines, compare)
    ordered = sorted(lines, key=functools.cmp_to_key(compare))
    if "u" in given:
        ordered = [line for i, line in enumerate(ordered) if i == 0 or compare(ordered[i - 1], line)]
    made = "".join(f"{line}\n" for line in ordered)
    if given.values("o"):
        process.files.write(process.absolute(given.value("o")), made, append=False)
    else:
        process.out(made)
    return 0


def _check(process: Process, given: Given, lines: list[str], compare: Callable[[str, str], int]) -> int:
    """Report the first line that is out of order."""
    for place in range(1, len(lines)):
        if compare(lines[place - 1], lines[place]) > (-1 if "u" in given else 0):
            name = given.operands[0] if given.operands else "-"
            process.err(f"{process.name}: {name}:{place + 1}: disorder: {lines[place]}\n")
            return 1
    return 0


def _key(text: str, general: frozenset[str]) -> _Key:
    match = _KEY.fullmatch(text)
    if match is None or int(match["first"]) < 1:
        raise UsageError(f"invalid key ‘{text}’")
    own = frozenset(match["first_flags"] + (match["last_flags"] or ""))
    if unknown := own - set(_ORDERS):
        raise UsageError(f"key option {min(unknown)} is not simulated")
    return _Key(
        own or general,
        int(match["first"]),
        int(match["first_char"] or 1),
        int(match["last"] or 0),
        int(match["last_char"] or 0),
        "b" in (match["first_flags"] if own else general),
        "b" in ((match["last_flags"] or "") if own else general),
    )


def _part(line: str, key: _Key, separator: str) -> str:
    spans = _spans(line, separator)
    start = len(line)
    if key.first <= len(spans):
        start = spans[key.first - 1][0]
        if key.first_blanks:
            start += len(line[start:]) - len(line[start:].lstrip(" \t"))
        start = min(start + key.first_char - 1, len(line))
    end = len(line)
    if key.last and key.last <= len(spans):
        low, high = spans[key.last - 1]
        end = high
        if key.last_char:
            if key.last_blanks:
                low += len(line[low:]) - len(line[low:].lstrip(" \t"))
            end = min(low + key.last_char, len(line))
    return line[start:end]


def _spans(line: str, separator: str) -> list[tuple[int, int]]:
    spans = []
    if separator:
        position = 0
        for part in line.split("\0" if separator == "\\0" else separator):
            spans.append((position, position + len(part)))
            position += len(part) + 1
        return spans
    # A field begins with the blanks before it.
    position = 0
    while position < len(line):
        match = _FIELD.match(line, position)
        end = match.end() if match else len(line)
        spans.append((position, end))
        position = end
    return spans or [(0, 0)]


def _value(line: str, key: _Key, separator: str) -> Any:
    part = _part(line, key, separator)
    if "n" in key.flags:
        return _number(part)
    if "h" in key.flags:
        return _size(part)
    # In the C locale only ASCII letters have cases.
    data = encode(part)
    return data.upper() if "f" in key.flags else data


def _number(text: str) -> Decimal:
    match = _NUMBER.match(text)
    digits = match[1] if match else ""
    return Decimal(digits) if digits.strip("-.") else Decimal(0)


def _size(text: str) -> tuple[int, Decimal]:
    """Parse a size such as ``1.5K`` to the value that sort compares: first by unit."""
    match = _SIZE.match(text)
    if match is None or not match[2].strip("."):
        return 0, Decimal(0)
    value = Decimal(match[2])
    power = " KMGTPEZY".index(match[3].upper() or " ")
    if not value:
        return 0, Decimal(0)
    return (-power - 1, -value) if match[1] else (power + 1, value)


sort = declare(_SYNTAX)(_sort)
