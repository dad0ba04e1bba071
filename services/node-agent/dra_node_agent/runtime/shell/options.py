"""The command lines of simulated programs. A program declares its options, and all others are reported."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from dra_node_agent.runtime.shell.world import Process, Program

STDIN = frozenset({"-", "/dev/stdin"})
#: Stand for options without a letter in declarations. A user cannot type these characters.
NO_LETTER, NO_LETTER_2 = "\1", "\2"


class UsageError(Exception):
    """A command line is wrong or not simulated. The program prints the message and fails with ``status``."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Syntax:
    """The options of a program.

    An option without effect in a simulated container is declared and ignored. Undeclared options are
    rejected, so that none is ignored by mistake.

    Args:
        flags: letters of options without a value.
        valued: letters of options with a value.
        optional: letters of options whose value, if there is one, is part of the same word.
        long: the letters of options by their long names.
        number: the letter that stands for ``-5``.
        status: the exit code for a wrong command line.
        leading: the number of operands before the files.
        instead: letters of options that replace the leading operands.
        ordered: whether the first operand ends the options.
    """

    flags: str = ""
    valued: str = ""
    optional: str = ""
    long: Mapping[str, str] = field(default_factory=dict)
    number: str = ""
    status: int = 1
    leading: int = 0
    instead: str = ""
    ordered: bool = False


@dataclass(frozen=True)
class Given:
    """The options of a command line, in order, and its operands."""

    options: Sequence[tuple[str, str]]
    operands: Sequence[str]

    def __contains__(self, letter: str) -> bool:
        return any(letter == known for known, _ in self.options)

    def values(self, letter: str) -> list[str]:
        """Return the values of an option."""
        return [value for known, value in self.options if known == letter]

    def value(self, letter: str, default: str = "") -> str:
        """Return the last value of an option."""
        return next(reversed(self.values(letter)), default)

    def last(self, letters: str) -> str:
        """Return the option of ``letters`` that came last; empty if none was given."""
        return next((letter for letter, _ in reversed(self.options) if letter in letters), "")


def parse(words: Sequence[str], syntax: Syntax) -> Given:
    """Parse a command line without the name of the program, as getopt_long does.

    Raises:
        UsageError: an option is not declared or lacks its value.
    """
    options: list[tuple[str, str]] = []
    operands: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            operands += rest
            break
        if word == "-" or not word.startswith("-"):
            operands.append(word)
            if syntax.ordered:
                operands += rest
                break
        elif word.startswith("--"):
            options.append(_long(word, rest, syntax))
        elif syntax.number and word[1:].isdigit():
            options.append((syntax.number, word[1:]))
        else:
            options += _short(word, rest, syntax)
    return Given(options, operands)


def _long(word: str, rest: list[str], syntax: Syntax) -> tuple[str, str]:
    name, equals, value = word[2:].partition("=")
    letter = syntax.long.get(name)
    if letter is None:
        raise UsageError(f"option --{name} is not simulated")
    if letter in syntax.valued and not equals:
        if not rest:
            raise UsageError(f"option '--{name}' requires an argument")
        value = rest.pop(0)
    if equals and letter not in syntax.valued + syntax.optional:
        raise UsageError(f"option '--{name}' doesn't allow an argument")
    return letter, value


def _short(word: str, rest: list[str], syntax: Syntax) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for place, letter in enumerate(word[1:], 2):
        if letter in syntax.valued:
            if not word[place:] and not rest:
                raise UsageError(f"option requires an argument -- '{letter}'")
            return [*found, (letter, word[place:] or rest.pop(0))]
        if letter in syntax.optional:
            return [*found, (letter, word[place:])]
        if letter not in syntax.flags:
            raise UsageError(f"option -{letter} is not simulated")
        found.append((letter, ""))
    return found


@dataclass(frozen=True)
class DeclaredProgram:
    """A program whose options are declared."""

    syntax: Syntax
    run: Callable[[Process, Given], Awaitable[int]]

    async def __call__(self, process: Process) -> int:
        try:
            return await self.run(process, parse(process.argv[1:], self.syntax))
        except UsageError as error:
            process.complain(f"{process.name}: {error}\n")
            return self.syntax.status if error.status is None else error.status

    def files(self, given: Given) -> Sequence[str]:
        """Return the operands that are files."""
        return given.operands[0 if given.last(self.syntax.instead) else self.syntax.leading :]

    def reads_input(self, argv: Sequence[str]) -> bool:
        """Return True if the program reads its standard input with this command line."""
        try:
            files = self.files(parse(argv[1:], self.syntax))
        except UsageError:
            return False
        return not files or not STDIN.isdisjoint(files)


def declare(syntax: Syntax) -> Callable[[Callable[[Process, Given], Awaitable[int]]], DeclaredProgram]:
    """Make a program from a function that takes its options."""
    return lambda run: DeclaredProgram(syntax, run)


def call(process: Process, argv: Sequence[str], env: Mapping[str, str] | None = None) -> Awaitable[int]:
    """Run another program with these arguments and environment, as if it replaced this one."""
    world = process.shell.world
    inner = Process(
        argv,
        dict(process.env if env is None else env),
        process.out,
        process.err,
        process.stdin,
        process.shell,
    )
    found: Program = world.programs.get(inner.name, world.fallback)
    return found(inner)


def read(process: Process, name: str) -> str | None:
    """Return the text of a file. If it cannot be read, report that and return None."""
    if name in STDIN:
        return process.stdin
    path = process.absolute(name)
    content = process.files.content.get(path)
    if content is None:
        is_directory = process.files.listing(path) is not None
        why = "Is a directory" if is_directory else "No such file or directory"
        process.err(f"{process.name}: {name}: {why}\n")
    return content


def split_lines(text: str) -> list[str]:
    """Return the lines without their ends. Only a newline ends a line, unlike in ``str.splitlines``."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def keep_ends(text: str) -> list[str]:
    """Return the lines with their ends. The last one may have none."""
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def parse_number(text: str, what: str, *, least: int = 0) -> int:
    """Parse a whole number.

    Raises:
        UsageError: the text is not a whole number, or less than ``least``.
    """
    if not text.isascii() or not text.isdigit() or len(text) > 18 or int(text) < least:
        raise UsageError(f"invalid {what}: ‘{text}’")
    return int(text)
