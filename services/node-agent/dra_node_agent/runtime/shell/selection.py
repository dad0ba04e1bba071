"""Programs that print parts of their input: `head`, `tail`, `cut`, `uniq` and `wc` of coreutils."""

import re
from collections.abc import Sequence

from dra_node_agent.runtime.shell.durations import FOREVER
from dra_node_agent.runtime.shell.options import (
    NO_LETTER,
    NO_LETTER_2,
    STDIN,
    Given,
    Syntax,
    UsageError,
    declare,
    keep_ends,
    parse_number,
    read,
    split_lines,
)
from dra_node_agent.runtime.shell.patterns import decode, encode
from dra_node_agent.runtime.shell.world import Process

_UNITS = {
    "": 1,
    "b": 512,
    "kB": 1000,
    "k": 1024,
    "K": 1024,
    "MB": 10**6,
    "M": 1 << 20,
    "m": 1 << 20,
    "G": 1 << 30,
}
_ENDS = Syntax(
    flags="qv",
    valued="nc",
    number="n",
    long={"lines": "n", "bytes": "c", "quiet": "q", "silent": "q", "verbose": "v"},
)
_TAIL = Syntax(
    flags=f"qvfF{NO_LETTER_2}",
    valued="ncs",
    number="n",
    optional=NO_LETTER,
    long={**_ENDS.long, "follow": NO_LETTER, "retry": NO_LETTER_2, "sleep-interval": "s"},
)


def _amount(given: Given) -> tuple[str, str, int]:
    """Return whether lines (n) or bytes (c) count, the sign before their number, and the number."""
    kind = given.last("nc") or "n"
    text = given.value(kind, "10")
    sign = text[:1] if text[:1] in ("-", "+") else ""
    digits = text[len(sign) :].rstrip("bkKMBmG")
    unit = text[len(sign) + len(digits) :]
    if unit not in _UNITS:
        raise UsageError(f"invalid number of {'lines' if kind == 'n' else 'bytes'}: ‘{text}’")
    return kind, sign, parse_number(digits, f"number of {'lines' if kind == 'n' else 'bytes'}") * _UNITS[unit]


def _start(text: str, kind: str, sign: str, count: int) -> str:
    if kind == "c":
        data = encode(text)
        return decode(data[: len(data) - min(count, len(data))] if sign == "-" else data[:count])
    lines = keep_ends(text)
    return "".join(lines[: len(lines) - min(count, len(lines))] if sign == "-" else lines[:count])


def _end(text: str, kind: str, sign: str, count: int) -> str:
    if kind == "c":
        data = encode(text)
        return decode(data[max(count - 1, 0) :] if sign == "+" else data[max(len(data) - count, 0) :])
    lines = keep_ends(text)
    return "".join(lines[max(count - 1, 0) :] if sign == "+" else lines[max(len(lines) - count, 0) :])


def _print_files(process: Process, given: Given, whole: bool) -> int:
    """Print the start, or else the end, of each file; below its name if there are several files."""
    kind, sign, count = _amount(given)
    names = given.operands or ["-"]
    titled = given.last("qv") == "v" or (len(names) > 1 and "q" not in given)
    if not whole and not count and not sign:
        return 0
    status, first = 0, True
    for name in names:
        text = read(process, name)
        if text is None:
            status = 1
            continue
        if titled:
            shown = "standard input" if name == "-" else name
            process.out(f"{'' if first else chr(10)}==> {shown} <==\n")
        first = False
        process.out((_start if whole else _end)(text, kind, sign, count))
    return status


@declare(_ENDS)
async def head(process: Process, given: Given) -> int:
    """Print the first lines or bytes."""
    return _print_files(process, given, True)


@declare(_TAIL)
async def tail(process: Process, given: Given) -> int:
    """Print the last lines or bytes. With ``-f`` continue with added text, until the program is ended."""
    if given.values(NO_LETTER):
        if given.value(NO_LETTER) not in ("", "name", "descriptor"):
            raise UsageError(f"invalid argument ‘{given.value('k')}’ for ‘--follow’")
    elif not given.last("fF"):
        return _print_files(process, given, False)
    paths = [process.absolute(name) for name in given.operands if name not in STDIN]
    seen = {path: process.files.content.get(path, "") for path in paths}
    status = _print_files(process, given, False)
    if not paths and process.stdin:
        # A pipe is not followed.
        return status
    if paths and "F" not in given and all(path not in process.files.content for path in paths):
        process.err("tail: no files remaining\n")
        return status
    if len(paths) > 1:
        process.complain("tail: additions to several files are not simulated\n")
        await process.shell.world.sleep(FOREVER)
    with process.files.changes() as changes:
        while True:
            for path in paths:
                text = process.files.content.get(path, "")
                if text == seen[path]:
                    continue
                if not text.startswith(seen[path]):
                    process.err(f"tail: {path}: file truncated\n")
                    seen[path] = ""
                process.out(text[len(seen[path]) :])
                seen[path] = text
            await changes.wait()
            changes.clear()


@declare(
    Syntax(
        flags=f"sn{NO_LETTER}",
        valued=f"dfcb{NO_LETTER_2}",
        long={
            "delimiter": "d",
            "fields": "f",
            "characters": "c",
            "bytes": "b",
            "only-delimited": "s",
            "output-delimiter": NO_LETTER_2,
            "complement": NO_LETTER,
        },
    )
)
async def cut(process: Process, given: Given) -> int:
    """Print chosen fields or characters of each line, in the order of the line."""
    kinds = {letter for letter, _ in given.options if letter in "fcb"}
    if len(kinds) != 1:
        raise UsageError("you must specify a list of bytes, characters, or fields")
    kind = kinds.pop()
    if kind != "f" and given.last("ds"):
        raise UsageError("an input delimiter may be specified only when operating on fields")
    separator = given.value("d", "\t") or "\0"
    if len(separator) > 1:
        raise UsageError("the delimiter must be a single character")
    ranges = _ranges(given.value(kind))
    joint = given.value(NO_LETTER_2, separator if kind == "f" else "")
    status = 0
    for name in given.operands or ["-"]:
        text = read(process, name)
        if text is None:
            status = 1
            continue
        for line in split_lines(text):
            # Containers have the C locale, in which a character is a byte.
            parts = line.split(separator) if kind == "f" else [decode(bytes((b,))) for b in encode(line)]
            if kind == "f" and len(parts) == 1:
                process.out("" if "s" in given else f"{line}\n")
                continue
            kept = [
                part
                for place, part in enumerate(parts, 1)
                if any(first <= place <= last for first, last in ranges) != (NO_LETTER in given)
            ]
            if kind != "f" and joint:
                raise UsageError("--output-delimiter of characters is not simulated")
            process.out(decode(encode(joint.join(kept))) + "\n")
    return status


def _ranges(text: str) -> list[tuple[int, int]]:
    """Return the ranges in `3`, `2-`, `-4` or `2-4`, or in a list of these."""
    ranges = []
    for part in text.replace(" ", ",").split(","):
        first, dash, last = part.partition("-")
        if not (first or last) or not all(
            not edge or (edge.isascii() and edge.isdigit()) for edge in (first, last)
        ):
            raise UsageError(f"invalid field value ‘{part}’")
        low = int(first or 1)
        high = int(last) if last else (1 << 62) if dash else low
        if low < 1 or high < low:
            raise UsageError("invalid decreasing range" if low > 0 else "fields are numbered from 1")
        ranges.append((low, high))
    return ranges


@declare(
    Syntax(
        flags="cdui",
        long={"count": "c", "repeated": "d", "unique": "u", "ignore-case": "i"},
    )
)
async def uniq(process: Process, given: Given) -> int:
    """Print one of each run of equal lines."""
    if len(given.operands) > 2:
        raise UsageError(f"extra operand ‘{given.operands[2]}’")
    text = read(process, given.operands[0] if given.operands else "-")
    if text is None:
        return 1
    runs: list[tuple[str, int]] = []
    fold = str.lower if "i" in given else str
    for line in split_lines(text):
        if runs and fold(runs[-1][0]) == fold(line):
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((line, 1))
    made = "".join(
        f"{count:>7} {line}\n" if "c" in given else f"{line}\n"
        for line, count in runs
        if not ("d" in given and count == 1) and not ("u" in given and count > 1)
    )
    if len(given.operands) == 2 and given.operands[1] != "-":
        process.files.write(process.absolute(given.operands[1]), made, append=False)
    else:
        process.out(made)
    return 0


_COUNTS = "lwmcL"


@declare(
    Syntax(
        flags=_COUNTS,
        long={"lines": "l", "words": "w", "chars": "m", "bytes": "c", "max-line-length": "L"},
    )
)
async def wc(process: Process, given: Given) -> int:
    """Print the numbers of lines, words and bytes."""
    wanted = [letter for letter in _COUNTS if letter in given] or ["l", "w", "c"]
    names = given.operands or ["-"]
    rows: list[tuple[list[int], str]] = []
    status = 0
    sizes = 0
    for name in names:
        text = read(process, name)
        if text is None:
            status = 1
            continue
        counts = _counts(text)
        sizes += counts["c"]
        rows.append(([counts[letter] for letter in wanted], name if given.operands else ""))
    if len(names) > 1:
        total = [
            max(c) if w == "L" else sum(c) for w, *c in zip(wanted, *(row for row, _ in rows), strict=True)
        ]
        rows.append((total if rows else [0] * len(wanted), "total"))
    width = len(str(sizes))
    if len(wanted) == 1 and len(names) == 1:
        width = 1
    elif not STDIN.isdisjoint(names):
        width = max(width, 7)
    for numbers, name in rows:
        process.out(" ".join(f"{count:>{width}}" for count in numbers) + (f" {name}" if name else "") + "\n")
    return status


def _width(line: str) -> int:
    """Return the width of a line in columns. A tab goes to the next multiple of 8."""
    return len(re.sub(rb"[^ -~]", b"", encode(line).expandtabs(8)))


def _counts(text: str) -> dict[str, int]:
    data = encode(text)
    lines: Sequence[str] = split_lines(text)
    return {
        "l": data.count(b"\n"),
        "w": len(data.split()),
        # In the C locale, which containers have, a character is a byte.
        "m": len(data),
        "c": len(data),
        "L": max((_width(line) for line in lines), default=0),
    }
