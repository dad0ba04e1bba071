"""`sed` in the dialect of GNU, without labels and files, so that scripts cannot loop."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dra_node_agent.runtime.shell.options import Given, Syntax, UsageError, declare, read
from dra_node_agent.runtime.shell.patterns import (
    BASIC,
    EXTENDED,
    PatternError,
    compile_pattern,
    decode,
    encode,
)
from dra_node_agent.runtime.shell.syntax import ShellSyntaxError
from dra_node_agent.runtime.shell.world import Process

# A limit of the text's length, because commands such as `G` can double it in each cycle.
_LONGEST_SPACE = 1 << 20
_SYNTAX = Syntax(
    flags="nEr" + "su",
    valued="ef",
    optional="i",
    leading=1,
    instead="ef",
    long={
        "quiet": "n",
        "silent": "n",
        "regexp-extended": "E",
        "expression": "e",
        "file": "f",
        "in-place": "i",
        "separate": "s",
        "unbuffered": "u",
    },
)
_SIMPLE = "dDpPqQ=nNhHgGxz"
_TEXT = "aic"
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}


@dataclass(frozen=True)
class _Address:
    """A line number, ``$`` (0), a pattern, or ``first~step``."""

    line: int = -1
    pattern: Any = None
    step: int = 0
    #: For ``addr,+N``: how many lines follow.
    more: int = -1


@dataclass
class _Command:
    name: str
    addresses: Sequence[_Address] = ()
    negated: bool = False
    text: str = ""
    pattern: Any = None
    pieces: Sequence[str | int] = ()
    every: bool = False
    occurrence: int = 1
    prints: bool = False
    table: dict[int, str] = field(default_factory=dict)
    block: "list[_Command]" = field(default_factory=list)
    #: For a range: its last line; 0 if it is not active, -1 while its end is not known.
    until: int = 0
    closed: bool = False


class _End(Exception):
    """The end of a cycle, or of the whole script if ``quits``."""

    def __init__(self, *, prints: bool, quits: bool = False, code: int = 0) -> None:
        super().__init__()
        self.prints, self.quits, self.code = prints, quits, code


class _Parser:
    def __init__(self, text: str, extended: bool) -> None:
        self._text, self._index = text, 0
        self._kind = EXTENDED if extended else BASIC
        self._last: Any = None

    def commands(self, nested: bool = False) -> list[_Command]:
        found: list[_Command] = []
        while True:
            self._skip(" \t\n;")
            if self._index >= len(self._text):
                if nested:
                    raise UsageError("unmatched `{'")
                return found
            if self._text[self._index] == "}":
                if not nested:
                    raise UsageError("unexpected `}'")
                self._index += 1
                return found
            if self._text[self._index] == "#":
                self._line()
                continue
            found.append(self._command())

    def _command(self) -> _Command:
        addresses = self._addresses()
        self._skip(" \t")
        negated = self._text.startswith("!", self._index)
        while self._text.startswith(("!", " "), self._index):
            self._index += 1
        name = self._take()
        if not name:
            raise UsageError("missing command")
        made = _Command(name, addresses, negated)
        if name == "{":
            made.block = self.commands(nested=True)
            return made
        if name == "s":
            self._substitution(made)
        elif name == "y":
            self._transliteration(made)
        elif name in _TEXT:
            self._skip(" \t")
            if self._text.startswith("\\", self._index):
                self._index += 1
                self._skip(" \t")
                self._index += self._text.startswith("\n", self._index)
            made.text = re.sub(r"\\(.)", r"\1", self._line(continued=True)) + "\n"
            return made
        elif name not in _SIMPLE:
            raise UsageError(f"command {name} is not simulated")
        if name in "qQ":
            if len(addresses) > 1:
                raise UsageError("command only uses one address")
            self._skip(" \t")
            made.text = self._digits()
        self._skip(" \t")
        if self._index < len(self._text) and self._text[self._index] not in ";\n}#":
            raise UsageError("extra characters after command")
        return made

    def _addresses(self) -> list[_Address]:
        first = self._address()
        if first is None:
            return []
        self._skip(" \t")
        if not self._text.startswith(",", self._index):
            return [first]
        self._index += 1
        self._skip(" \t")
        if first.line == 0 or first.step:
            raise UsageError("ranges that begin with $ or first~step are not simulated")
        if self._text.startswith("+", self._index):
            self._index += 1
            return [first, _Address(more=int(self._digits() or 0))]
        second = self._address()
        if second is None or second.step:
            raise UsageError("unexpected `,' or an address that is not simulated")
        return [first, second]

    def _address(self) -> _Address | None:
        char = self._text[self._index : self._index + 1]
        if char.isdigit():
            line = int(self._digits())
            if self._text.startswith("~", self._index):
                self._index += 1
                return _Address(line, step=int(self._digits() or 0) or 1)
            if not line:
                raise UsageError("line address 0 is not simulated")
            return _Address(line)
        if char == "$":
            self._index += 1
            return _Address(0)
        if char in ("/", "\\") and char:
            self._index += 1
            mark = self._take() if char == "\\" else "/"
            text = self._until(mark, pattern=True)
            ignore_case = self._text.startswith("I", self._index)
            self._index += ignore_case
            return _Address(pattern=self._compile(text, ignore_case))
        return None

    def _compile(self, text: str, ignore_case: bool) -> Any:
        if not text:
            if self._last is None:
                raise UsageError("no previous regular expression")
            return self._last
        try:
            self._last = compile_pattern(text, self._kind, ignore_case=ignore_case, escapes=True)
        except PatternError as error:
            raise UsageError(str(error)) from error
        return self._last

    def _substitution(self, made: _Command) -> None:
        mark = self._take()
        if mark in ("", "\n", "\\"):
            raise UsageError("unterminated `s' command")
        text = self._until(mark, pattern=True)
        replacement = self._until(mark, pattern=False)
        ignore_case = False
        while self._index < len(self._text) and self._text[self._index] not in "; \t\n}#":
            if self._text[self._index].isdigit():
                made.occurrence = int(self._digits()) or 1
                continue
            flag = self._take()
            if flag == "g":
                made.every = True
            elif flag == "p":
                made.prints = True
            elif flag in "iI":
                ignore_case = True
            else:
                raise UsageError(f"flag {flag} of `s' is not simulated")
        made.pattern = self._compile(text, ignore_case)
        made.pieces = _replacement(replacement)
        groups = max((piece for piece in made.pieces if isinstance(piece, int)), default=0)
        if groups > made.pattern.groups:
            raise UsageError(f"invalid reference \\{groups} on `s' command's RHS")

    def _transliteration(self, made: _Command) -> None:
        mark = self._take()
        old, new = (
            [_ESCAPES.get(c[1], c[1]) if len(c) > 1 else c for c in re.findall(r"\\.|[^\\]", text, re.DOTALL)]
            for text in (self._until(mark, pattern=True), self._until(mark, pattern=True))
        )
        if len(old) != len(new):
            raise UsageError("strings for `y' command are different lengths")
        made.table = {ord(a): b for a, b in zip(old, new, strict=True)}

    def _until(self, mark: str, *, pattern: bool) -> str:
        """Take the text up to the mark. A mark after a backslash or in brackets is part of the text."""
        pieces: list[str] = []
        in_brackets = False
        while True:
            char = self._take()
            if not char:
                raise UsageError("unterminated command or address")
            if char == "\\":
                following = self._take()
                # An escaped delimiter stands for itself.
                pieces.append(following if following == mark else f"\\{following}")
            elif char == mark and not in_brackets:
                return "".join(pieces)
            else:
                pieces.append(char)
                if pattern and char == "[" and not in_brackets:
                    in_brackets = True
                    # A closing bracket right after the opening one is a member of the set.
                    negated = self._take_if("^")
                    pieces += [negated, self._take_if("]")]
                elif char == "]":
                    in_brackets = False

    def _line(self, *, continued: bool = False) -> str:
        start = self._index
        while self._index < len(self._text) and self._text[self._index] != "\n":
            self._index += 2 if continued and self._text[self._index] == "\\" else 1
        self._index = min(self._index, len(self._text))
        return self._text[start : self._index]

    def _digits(self) -> str:
        start = self._index
        while self._index < len(self._text) and self._text[self._index] in "0123456789":
            self._index += 1
        return self._text[start : min(self._index, start + 9)]

    def _skip(self, chars: str) -> None:
        while self._index < len(self._text) and self._text[self._index] in chars:
            self._index += 1

    def _take_if(self, char: str) -> str:
        return self._take() if self._text.startswith(char, self._index) else ""

    def _take(self) -> str:
        char = self._text[self._index : self._index + 1]
        self._index += len(char)
        return char


def _replacement(text: str) -> list[str | int]:
    """Return the texts and group numbers of which a replacement consists."""
    pieces: list[str | int] = []
    index = 0
    while index < len(text):
        char = text[index]
        index += 1
        if char == "&":
            pieces.append(0)
        elif char == "\\" and index < len(text):
            following = text[index]
            index += 1
            if following in "LUElu":
                raise UsageError(f"\\{following} in a replacement is not simulated")
            pieces.append(int(following) if following.isdigit() else _ESCAPES.get(following, following))
        else:
            pieces.append(char)
    return pieces


class _Run:
    """A run of a script over the lines of some files."""

    def __init__(self, commands: list[_Command], out: Callable[[str], None], silent: bool, text: str) -> None:
        self._commands, self._out, self._silent = commands, out, silent
        self._lines = text.split("\n")
        # If the input has no newline at its end, the output has none either.
        self._ends = not self._lines[-1]
        if self._ends:
            self._lines.pop()
        self._number = 0
        self._space = self._hold = ""
        # True if the pattern space or the hold space is printed with a newline at its end.
        self._space_ends = self._hold_ends = True
        self._misses_newline = False
        self._appended: list[str] = []

    def run(self) -> int | None:
        """Run the script for every line. Return its exit code if it quits."""
        while self._number < len(self._lines):
            self._next()
            try:
                self._execute(self._commands)
                end = _End(prints=True)
            except _End as reached:
                end = reached
            if end.prints and not self._silent:
                self._print()
            self._flush()
            if end.quits:
                return end.code
        return None

    def _next(self) -> None:
        self._space = self._lines[self._number]
        self._number += 1
        self._space_ends = self._ends or self._number < len(self._lines)

    def _print(self) -> None:
        self._write(self._space + "\n" * self._space_ends)
        self._misses_newline = not self._space_ends

    def _print_first(self) -> None:
        line, newline, _ = self._space.partition("\n")
        if newline:
            self._write(f"{line}\n")
        else:
            self._print()

    def _write(self, text: str) -> None:
        if self._misses_newline:
            self._misses_newline = False
            self._out("\n")
        self._out(text)

    def _flush(self) -> None:
        for text in self._appended:
            self._write(text)
        self._appended = []

    def _execute(self, commands: list[_Command]) -> None:
        for command in commands:
            if self._selects(command) != command.negated:
                self._apply(command)
                if len(self._space) + len(self._hold) > _LONGEST_SPACE:
                    raise ShellSyntaxError("sed: out of memory")

    def _apply(self, command: _Command) -> None:
        match command.name:
            case "{":
                self._execute(command.block)
            case "s":
                self._substitute(command)
            case "y":
                self._space = self._space.translate(command.table)
            case "a":
                self._appended.append(command.text)
            case "i":
                self._write(command.text)
            case "c":
                self._change(command)
            case "p":
                self._print()
            case "P":
                self._print_first()
            case "=":
                self._write(f"{self._number}\n")
            case "z":
                self._space = ""
            case "h" | "H" | "g" | "G" | "x":
                self._exchange(command.name)
            case _:
                self._move(command)

    def _move(self, command: _Command) -> None:
        """Run the commands that end the cycle or take another line."""
        match command.name:
            case "d":
                raise _End(prints=False)
            case "D":
                if "\n" in self._space:
                    raise UsageError("command D of several lines is not simulated")
                raise _End(prints=False)
            case "q" | "Q":
                raise _End(prints=command.name == "q", quits=True, code=int(command.text or 0) & 0xFF)
        if self._number == len(self._lines):
            # As in GNU sed: if there is no other line, the current text is printed.
            raise _End(prints=True, quits=True)
        if command.name == "n":
            if not self._silent:
                self._print()
            self._flush()
            self._next()
        else:
            self._flush()
            before = self._space
            self._next()
            self._space = f"{before}\n{self._space}"

    def _exchange(self, name: str) -> None:
        space, hold = (self._space, self._space_ends), (self._hold, self._hold_ends)
        ends = space[1] or hold[1]
        self._space, self._space_ends = {"g": hold, "G": (f"{space[0]}\n{hold[0]}", ends), "x": hold}.get(
            name, space
        )
        self._hold, self._hold_ends = {"h": space, "H": (f"{hold[0]}\n{space[0]}", ends), "x": space}.get(
            name, hold
        )

    def _change(self, command: _Command) -> None:
        # If the addresses are a range, write the text only once, at the end of the range.
        if len(command.addresses) < 2 or command.negated or not command.until:
            self._write(command.text)
        raise _End(prints=False)

    def _selects(self, command: _Command) -> bool:
        if not command.addresses:
            return True
        if len(command.addresses) == 1:
            return self._is_at(command.addresses[0])
        first, last = command.addresses
        if not command.until:
            return self._begins(command, first, last)
        if command.until == -1:
            if last.pattern is not None and last.pattern.search(encode(self._space)):
                command.until = 0
            return True
        if self._number < command.until:
            return True
        passed = self._number > command.until
        command.until = 0
        # The last line of the range was consumed by other commands.
        return not passed or last.more >= 0 or (first.pattern is not None and self._is_at(first))

    def _begins(self, command: _Command, first: _Address, last: _Address) -> bool:
        """Begin a range if its first address is reached. Return True if this line is in the range."""
        if command.closed or not (
            self._is_at(first) if first.pattern is not None else self._number >= first.line
        ):
            return False
        # A line number begins a range only once.
        command.closed = first.pattern is None
        if last.more >= 0:
            command.until = self._number + last.more if last.more else 0
            return True
        if last.pattern is not None:
            command.until = -1
            return True
        end = last.line or len(self._lines)
        if self._number < end:
            command.until = end
            return True
        return first.pattern is not None or self._number in (end, first.line)

    def _is_at(self, address: _Address) -> bool:
        if address.pattern is not None:
            return address.pattern.search(encode(self._space)) is not None
        if address.step:
            return self._number >= address.line and (self._number - address.line) % address.step == 0
        return self._number == (address.line or len(self._lines))

    def _substitute(self, command: _Command) -> None:
        data = encode(self._space)
        made: list[str] = []
        position, copied, count, previous = 0, 0, 0, -1
        changed = False
        while position <= len(data) and (match := command.pattern.search(data, position)):
            start, end = match.span()
            if start == end == previous:
                # An empty match right after another match does not count.
                position = end + 1
                continue
            count, previous = count + 1, end
            if count >= command.occurrence:
                made.append(decode(data[copied:start]))
                made += [
                    piece if isinstance(piece, str) else decode(match.group(piece) or b"")
                    for piece in command.pieces
                ]
                copied, changed = end, True
                if not command.every:
                    break
            # An empty match must not hide a longer one that begins at the same place, so the search goes on
            # behind it.
            position = end if end > start else end + 1
        if not changed:
            return
        self._space = "".join(made) + decode(data[copied:])
        if command.prints:
            self._print()


async def _run_sed(process: Process, given: Given) -> int:
    operands = list(given.operands)
    texts = []
    for letter, value in given.options:
        if letter == "e":
            texts.append(value)
        elif letter == "f":
            content = read(process, value)
            if content is None:
                return 1
            texts.append(content.removesuffix("\n"))
    if not given.last("ef"):
        if not operands:
            raise UsageError("usage: sed [OPTION]... {script-only-if-no-other-script} [input-file]...")
        texts.append(operands.pop(0))
    script = "\n".join(texts)
    silent = "n" in given or script.startswith("#n\n")

    def parse_script() -> list[_Command]:
        return _Parser(script, bool(given.last("Er"))).commands()

    parse_script()
    if given.values("i"):
        return _in_place(process, parse_script, operands, given.value("i"), silent)
    read_texts, status = [], 0
    for name in operands or ["-"]:
        text = read(process, name)
        if text is None:
            status = 2
            continue
        read_texts.append(text)
    if "s" not in given:
        joined = "".join(
            t if t.endswith("\n") or t is read_texts[-1] or not t else f"{t}\n" for t in read_texts
        )
        read_texts = [joined]
    for text in read_texts:
        code = _Run(parse_script(), process.out, silent, text).run()
        if code is not None:
            return code or status
    return status


def _in_place(
    process: Process, parsed: Callable[[], list[_Command]], names: list[str], suffix: str, silent: bool
) -> int:
    if not names:
        raise UsageError("no input files")
    status = 0
    for name in names:
        text = read(process, name)
        if text is None:
            status = 4
            continue
        pieces: list[str] = []
        code = _Run(parsed(), pieces.append, silent, text).run()
        path = process.absolute(name)
        if suffix:
            backup = suffix.replace("*", path.rpartition("/")[2]) if "*" in suffix else f"{path}{suffix}"
            process.files.write(process.absolute(backup), text, append=False)
        process.files.write(path, "".join(pieces), append=False)
        if code is not None:
            return code or status
    return status


sed = declare(_SYNTAX)(_run_sed)
