"""`grep` in the dialect of GNU."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from dra_node_agent.runtime.shell.options import (
    NO_LETTER,
    Given,
    Syntax,
    UsageError,
    declare,
    parse_number,
    read,
    split_lines,
)
from dra_node_agent.runtime.shell.patterns import (
    BASIC,
    EXTENDED,
    FIXED,
    PERL,
    PatternError,
    compile_pattern,
    decode,
    encode,
)
from dra_node_agent.runtime.shell.world import Process

_SYNTAX = Syntax(
    flags="EFGPiyvcqnowxlLhHsrRa",
    valued="efmABC",
    optional=NO_LETTER,
    number="C",
    status=2,
    leading=1,
    instead="ef",
    long={
        "extended-regexp": "E",
        "fixed-strings": "F",
        "basic-regexp": "G",
        "perl-regexp": "P",
        "ignore-case": "i",
        "invert-match": "v",
        "count": "c",
        "quiet": "q",
        "silent": "q",
        "line-number": "n",
        "only-matching": "o",
        "word-regexp": "w",
        "line-regexp": "x",
        "files-with-matches": "l",
        "files-without-match": "L",
        "no-filename": "h",
        "with-filename": "H",
        "no-messages": "s",
        "recursive": "r",
        "text": "a",
        "regexp": "e",
        "file": "f",
        "max-count": "m",
        "after-context": "A",
        "before-context": "B",
        "context": "C",
        "color": NO_LETTER,
        "colour": NO_LETTER,
    },
)
_KINDS = {"E": EXTENDED, "F": FIXED, "G": BASIC, "P": PERL, "": BASIC}

# Finds the spans in a line.
_Finder = Callable[[bytes], Iterator[tuple[int, int]]]


@dataclass
class _Search:
    process: Process
    given: Given
    find: _Finder
    named: bool
    before: int
    after: int
    most: int | None
    #: Whether lines were printed before. If so, a line of hyphens separates them from the next ones.
    printed: bool = False

    def lines(self, name: str, text: str) -> int:
        """Print the selected lines of one file. Return how many there were."""
        given, selected = self.given, 0
        shown_to, last = 0, 0
        lines = split_lines(text)
        quiet = not {"q", "l", "L", "c"}.isdisjoint(letter for letter, _ in given.options)
        for place, line in enumerate(lines, 1):
            if self.most is not None and selected >= self.most:
                break
            if any(True for _ in self.find(encode(line))) == ("v" in given):
                if not quiet and last and place <= last + self.after:
                    if "o" not in given:
                        self._line(name, place, line, "-")
                    shown_to = place
                continue
            selected += 1
            if "q" in given:
                break
            if not quiet:
                first = max(place - self.before, shown_to + 1)
                apart = first > shown_to + 1 or not shown_to
                if self.printed and apart and (self.before or self.after):
                    self.process.out("--\n")
                if "o" in given:
                    self._parts(name, place, line)
                else:
                    for earlier in range(first, place):
                        self._line(name, earlier, lines[earlier - 1], "-")
                    self._line(name, place, line, ":")
                shown_to, last, self.printed = place, place, True
        if self.most is not None and last and not quiet and "o" not in given:
            for place in range(shown_to + 1, min(last + self.after, len(lines)) + 1):
                self._line(name, place, lines[place - 1], "-")
        return selected

    def _parts(self, name: str, place: int, line: str) -> None:
        data = encode(line)
        for start, end in self.find(data) if "v" not in self.given else ():
            if end > start:
                self._line(name, place, decode(data[start:end]), ":")

    def _line(self, name: str, place: int, line: str, mark: str) -> None:
        prefix = (f"{name}{mark}" if self.named else "") + (f"{place}{mark}" if "n" in self.given else "")
        self.process.out(f"{prefix}{line}\n")


async def _grep(process: Process, given: Given) -> int:
    patterns, files = _patterns(process, given)
    find = _finder(process.name, patterns, given)
    if given.value(NO_LETTER, "auto") not in ("auto", "never", "no", "none", ""):
        raise UsageError("--color=always is not simulated")
    context = given.value("C", "0")
    recursive = given.last("rR")
    names, failed = _expand(process, files, bool(recursive), "s" in given)
    choice = given.last("hH")
    search = _Search(
        process,
        given,
        find,
        choice == "H" or (not choice and (len(files) > 1 or bool(recursive))),
        parse_number(given.value("B", context), "context length argument"),
        parse_number(given.value("A", context), "context length argument"),
        parse_number(given.value("m"), "max count") if given.values("m") else None,
    )
    if search.most == 0 and "L" not in given:
        return 1
    found = False
    for name in names:
        text = read(process, name)
        if text is None:
            failed = True
            continue
        shown = "(standard input)" if name == "-" else name
        selected = search.lines(shown, text)
        found = found or bool(selected)
        if "q" in given and selected:
            return 0
        if given.last("lL") and "q" not in given:
            if bool(selected) == (given.last("lL") == "l"):
                process.out(f"{shown}\n")
        elif "c" in given and "q" not in given:
            process.out(f"{shown}:{selected}\n" if search.named else f"{selected}\n")
    return 2 if failed else 0 if found else 1


def _patterns(process: Process, given: Given) -> tuple[list[str], list[str]]:
    """Return the patterns, and the operands that are files."""
    operands = list(given.operands)
    texts = given.values("e")
    for name in given.values("f"):
        content = read(process, name)
        if content is None:
            raise UsageError(f"cannot read the patterns in {name}")
        texts += split_lines(content)
    if not given.last("ef"):
        if not operands:
            raise UsageError("usage: grep [OPTION]... PATTERNS [FILE]...")
        texts = [operands.pop(0)]
    return [line for text in texts for line in text.split("\n")], operands


def _finder(name: str, patterns: list[str], given: Given) -> _Finder:
    kind = _KINDS[given.last("EFGP") or {"egrep": "E", "fgrep": "F"}.get(name, "")]
    words = "w" in given and "x" not in given
    try:
        compiled = [
            compile_pattern(text, kind, ignore_case=bool(given.last("iy")), words=words, lines="x" in given)
            for text in patterns
        ]
    except PatternError as error:
        raise UsageError(str(error)) from error
    return lambda data: _spans(compiled, data, 1 if words else 0)


def _spans(patterns: list[Any], data: bytes, group: int) -> Iterator[tuple[int, int]]:
    """Yield the spans from left to right. At each place the longest match of all patterns counts."""
    position = 0
    while position <= len(data):
        found = [match.span(group) for pattern in patterns if (match := pattern.search(data, position))]
        if not found:
            return
        start, end = min(found, key=lambda span: (span[0], -span[1]))
        yield start, end
        position = end if end > start else end + 1


def _expand(process: Process, files: list[str], recursive: bool, silent: bool) -> tuple[list[str], bool]:
    """Return the files to search, and whether a named file is missing without a message."""
    if not recursive:
        known = [
            name
            for name in files or ["-"]
            if not silent or name == "-" or process.absolute(name) in process.files.content
        ]
        return known, len(known) < len(files)
    names: list[str] = []
    for name in files or ["."]:
        path = process.absolute(name)
        if path in process.files.content or process.files.listing(path) is None:
            names.append(name)
            continue
        prefix = path.rstrip("/") + "/"
        below = sorted(known[len(prefix) :] for known in process.files.content if known.startswith(prefix))
        names += [f"{name.rstrip('/')}/{rest}" if files else rest for rest in below]
    return names, False


grep = declare(_SYNTAX)(_grep)
