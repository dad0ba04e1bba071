"""Tools that scripts in GPU guides use with coreutils: `find`, `awk`, `cut`, `tr`, `sed`, `timeout` and the like.

Each knows what such scripts need, and says so where it is asked for more. Patterns are plain text or shell patterns:
one from a pod must not keep this process busy.
"""

import asyncio
import fnmatch
import re
from collections.abc import Callable, Mapping, Sequence

from dra_node_agent.runtime.shell.durations import duration
from dra_node_agent.runtime.shell.world import Process, Program

_FIELDS = re.compile(r"\{\s*print(?P<what>[^{}]*)\}")
_PIECE = re.compile(r'\s*(?:\$(?P<field>\d+|NF)|(?P<name>NR|NF)|"(?P<text>[^"]*)")\s*')
_LINE = re.compile(r"NR\s*(?P<operator>==|>=|<=|>|<|!=)\s*(?P<number>\d{1,9})")
_COMPARED: Mapping[str, Callable[[int, int], bool]] = {
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    ">=": lambda left, right: left >= right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    "<": lambda left, right: left < right,
}


async def _find(process: Process) -> int:
    words = list(process.argv[1:])
    roots = []
    while words and not words[0].startswith(("-", "!")):
        roots.append(words.pop(0))
    name, kind, depth = "*", "", 1 << 30
    while words:
        option = words.pop(0)
        if option in {"-print", "-follow", "-L"}:
            continue
        if option not in {"-name", "-iname", "-type", "-maxdepth"} or not words:
            return _unsupported(process, f"find: {option} is not simulated")
        value = words.pop(0)
        if option == "-type":
            kind = value
        elif option == "-maxdepth":
            depth = int(value) if value.isdigit() else depth
        else:
            name = value
    status = 0
    for root in roots or ["."]:
        found = _tree(process, root)
        if found is None:
            process.err(f"find: ‘{root}’: No such file or directory\n")
            status = 1
            continue
        for path, is_directory in found:
            below = path[len(root) :].strip("/")
            right_kind = not kind or (kind == "d") == is_directory
            if (
                right_kind
                and (below.count("/") + 1 if below else 0) <= depth
                and fnmatch.fnmatchcase(path.rpartition("/")[2] or path, name)
            ):
                process.out(f"{path}\n")
    return status


def _tree(process: Process, root: str) -> list[tuple[str, bool]] | None:
    """What is at and below the path, each with whether it is a directory."""
    files, place = process.files, process.absolute(root).rstrip("/") or "/"
    if place in files.content:
        return [(root, False)]
    if files.listing(place) is None:
        return None
    prefix = place.rstrip("/") + "/"
    below: dict[str, bool] = {}
    for path in (*files.content, *files.directories):
        if path.startswith(prefix) and path != prefix:
            parts = path[len(prefix) :].split("/")
            for end in range(1, len(parts)):
                below["/".join(parts[:end])] = True
            below.setdefault("/".join(parts), path in files.directories)
    shown = root.rstrip("/")
    return [(root, True), *((f"{shown}/{path}", folder) for path, folder in sorted(below.items()))]


async def _awk(process: Process) -> int:
    words, separator = list(process.argv[1:]), None
    while words and words[0].startswith("-") and len(words[0]) > 1:
        word = words.pop(0)
        if not word.startswith("-F"):
            return _unsupported(process, f"awk: {word} is not simulated")
        separator = word[2:] or (words.pop(0) if words else "")
    if not words:
        return _unsupported(process, "usage: awk [-F fs] 'prog' [file ...]")
    text = words.pop(0).strip()
    condition, brace, rest = text.partition("{")
    action = _FIELDS.fullmatch(brace + rest) if brace else _FIELDS.fullmatch("{print $0}")
    selects = _condition(condition.strip())
    if action is None or selects is None:
        return _unsupported(
            process, "awk: only { print … } is simulated, of all lines, /text/ or NR==1 and the like"
        )
    columns = [_columns(part) for part in action["what"].split(",")] if action["what"].strip() else [["$0"]]
    if any(column is None for column in columns):
        return _unsupported(process, f"awk: {action['what'].strip()} is not simulated")
    for number, line in enumerate(_input(process, words).splitlines(), 1):
        if selects(number, line):
            fields = line.split(separator) if separator else line.split()
            values = ["".join(_value(p, number, line, fields) for p in column or ()) for column in columns]
            process.out(" ".join(values) + "\n")
    return 0


def _condition(text: str) -> Callable[[int, str], bool] | None:
    if not text:
        return lambda number, line: True
    if len(text) > 1 and text[0] == text[-1] == "/":
        return lambda number, line: text[1:-1] in line
    match = _LINE.fullmatch(text)
    if match is None:
        return None
    holds, wanted = _COMPARED[match["operator"]], int(match["number"])
    return lambda number, line: holds(number, wanted)


def _columns(text: str) -> list[str] | None:
    """The pieces that one argument of ``print`` joins: ``$1``, ``NR`` or a text behind a quotation mark."""
    pieces, index = [], 0
    while index < len(text):
        match = _PIECE.match(text, index)
        if match is None:
            return None
        field, name = match["field"], match["name"]
        pieces.append(f"${field}" if field else name or f'"{match["text"]}')
        index = match.end()
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
            return fields[-1] if fields else ""
    if piece.startswith('"'):
        return piece[1:].replace("\\t", "\t").replace("\\n", "\n")
    position = int(piece[1:])
    return fields[position - 1] if position <= len(fields) else ""


async def _cut(process: Process) -> int:
    words, separator, wanted, by_character = list(process.argv[1:]), "\t", "", False
    names = []
    while words:
        word = words.pop(0)
        if word[:2] in {"-d", "-f", "-c"}:
            value = word[2:] or (words.pop(0) if words else "")
            by_character = by_character or word[1] == "c"
            separator, wanted = (value, wanted) if word[1] == "d" else (separator, value)
        else:
            names.append(word)
    ranges = [part.partition("-") for part in wanted.split(",") if part]
    if not ranges or not separator or not all((first + last).isdigit() for first, _, last in ranges):
        return _unsupported(process, "cut: you must specify a list of bytes, characters, or fields")
    for line in _input(process, names).splitlines():
        parts = list(line) if by_character else line.split(separator)
        kept = [
            parts[place - 1]
            for first, dash, last in ranges
            for place in _places(first, dash, last, len(parts))
        ]
        whole = not by_character and separator not in line
        process.out((line if whole else ("" if by_character else separator).join(kept)) + "\n")
    return 0


def _places(first: str, dash: str, last: str, most: int) -> range:
    """The places, from 1, that `3`, `2-`, `-4` or `2-4` of at most ``most`` mean."""
    end = int(last or most) if dash else int(first)
    return range(max(int(first or 1), 1), min(end, most) + 1)


async def _tr(process: Process) -> int:
    words = [word for word in process.argv[1:] if not word.startswith("-") or word == "-"]
    flags = "".join(word[1:] for word in process.argv[1:] if word.startswith("-") and word != "-")
    if not words or (len(words) < 2 and not set(flags) & {"d", "s"}):
        return _unsupported(process, "tr: missing operand")
    first = _characters(words[0])
    if "d" in flags:
        process.out(process.stdin.translate({ord(char): None for char in first}))
        return 0
    second = _characters(words[1]) if len(words) > 1 else first
    padded = second + second[-1:] * (len(first) - len(second))
    text = process.stdin.translate({ord(old): new for old, new in zip(first, padded, strict=False)})
    if "s" in flags:
        squeezed = set(second)
        text = "".join(c for i, c in enumerate(text) if not (i and c == text[i - 1] and c in squeezed))
    process.out(text)
    return 0


def _characters(text: str) -> str:
    classes = {"[:upper:]": "A-Z", "[:lower:]": "a-z", "[:digit:]": "0-9", "[:space:]": " \t\n\r"}
    for name, members in classes.items():
        text = text.replace(name, members)
    text = text.replace("\\n", "\n").replace("\\t", "\t").replace("\\r", "\r")
    return re.sub(r"(.)-(.)", lambda m: "".join(map(chr, range(ord(m[1]), min(ord(m[2]), 0x3FF) + 1))), text)


async def _sed(process: Process) -> int:
    words = [word for word in process.argv[1:] if word not in {"-e", "-E", "-r"}]
    if not words or words[0].startswith("-") or not words[0].startswith("s") or len(words[0]) < 4:
        return _unsupported(process, "sed: only s/text/other/[g] is simulated")
    mark = words[0][1]
    _, old, new, flags = [*words[0].split(mark, 3), "", ""][:4]
    for line in _input(process, words[1:]).splitlines():
        process.out(_substituted(line, old, new, -1 if "g" in flags else 1) + "\n")
    return 0


def _substituted(line: str, old: str, new: str, count: int) -> str:
    if old.startswith("^"):
        return new + line[len(old) - 1 :] if line.startswith(old[1:]) else line
    if old.endswith("$"):
        return line[: len(line) - len(old) + 1] + new if line.endswith(old[:-1]) else line
    return line.replace(old, new, count) if old else line


async def _uniq(process: Process) -> int:
    lines = process.stdin.splitlines()
    kept = [i for i, line in enumerate(lines) if i == 0 or line != lines[i - 1]]
    for place, following in zip(kept, [*kept[1:], len(lines)], strict=True):
        count = f"{following - place:>7} " if "-c" in process.argv else ""
        process.out(f"{count}{lines[place]}\n")
    return 0


async def _timeout(process: Process) -> int:
    words = [word for word in process.argv[1:] if not word.startswith("-")]
    seconds = duration(words[0]) if words else None
    if seconds is None or len(words) < 2:
        return _unsupported(process, "usage: timeout DURATION COMMAND [ARG]...")
    world = process.shell.world
    command = process.argv[process.argv.index(words[0]) + 1 :]
    inner = Process(command, process.env, process.out, process.err, process.stdin, process.shell)
    program = world.programs.get(command[0].rpartition("/")[2], world.fallback)
    work = asyncio.ensure_future(program(inner))
    timer = asyncio.ensure_future(world.sleep(seconds))
    try:
        await asyncio.wait((work, timer), return_when=asyncio.FIRST_COMPLETED)
        return work.result() if work.done() else 124
    finally:
        work.cancel()
        timer.cancel()


async def _which(process: Process) -> int:
    words = [word for word in process.argv[1:] if not word.startswith("-")]
    status = 0
    for name in words:
        if name in process.shell.world.programs:
            process.out(f"/usr/bin/{name}\n")
        else:
            status = 1
    return status


async def _command(process: Process) -> int:
    if "-v" in process.argv[1:2]:
        return await _which(process)
    world = process.shell.world
    inner = Process(process.argv[1:], process.env, process.out, process.err, process.stdin, process.shell)
    if not inner.argv:
        return 0
    return await world.programs.get(inner.argv[0].rpartition("/")[2], world.fallback)(inner)


def _path_part(last: bool) -> Program:
    async def program(process: Process) -> int:
        if len(process.argv) < 2:
            return _unsupported(process, f"{process.argv[0]}: missing operand")
        head, slash, tail = process.argv[1].rstrip("/").rpartition("/")
        shown = tail if last else head or (slash or ".")
        if last and len(process.argv) > 2:
            shown = shown.removesuffix(process.argv[2])
        process.out(f"{shown}\n")
        return 0

    return program


def _input(process: Process, names: Sequence[str]) -> str:
    if not names:
        return process.stdin
    return "".join(process.files.content.get(process.absolute(name), "") for name in names)


def _unsupported(process: Process, text: str) -> int:
    process.err(f"{text}\n")
    return 2


async def _nproc(process: Process) -> int:
    process.out("64\n")
    return 0


#: By name.
TOOLS: Mapping[str, Program] = {
    "awk": _awk,
    "basename": _path_part(True),
    "command": _command,
    "cut": _cut,
    "dirname": _path_part(False),
    "find": _find,
    "nproc": _nproc,
    "sed": _sed,
    "timeout": _timeout,
    "tr": _tr,
    "uniq": _uniq,
    "which": _which,
}
