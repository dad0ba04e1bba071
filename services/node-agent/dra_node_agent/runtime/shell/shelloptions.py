"""The options of shells: those of ``sh`` itself, and those of ``set``."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dra_node_agent.runtime.shell.world import absolute

_NAMES = {"errexit": "e", "nounset": "u", "xtrace": "x", "noglob": "f", "pipefail": "pipefail"}
_LETTERS = frozenset("euxf")
# These options are about the files that a shell reads at its start, which do not exist here.
_WITHOUT_EFFECT = frozenset("lis")
_LONG_WITHOUT_EFFECT = frozenset({"--login", "--noprofile", "--norc", "--posix", "--noediting"})


@dataclass
class ChosenOptions:
    """The result of parsing a command line.

    Args:
        rest: the words behind the options.
        options: those that are on.
        unknown: those that are not simulated.
        takes_script: whether there was ``-c``.
        ended: whether there was ``--``.
    """

    rest: list[str]
    options: set[str]
    unknown: list[str] = field(default_factory=list)
    takes_script: bool = False
    ended: bool = False


def parse_options(words: Sequence[str], options: Iterable[str], *, of_shell: bool) -> ChosenOptions:
    """Read options from the start of a command line. ``of_shell`` if the command starts a shell."""
    made = ChosenOptions(list(words), set(options))
    while made.rest and made.rest[0][:1] in ("-", "+") and len(made.rest[0]) > 1:
        word = made.rest.pop(0)
        if word == "--":
            made.ended = True
            break
        if word.startswith("--"):
            if not of_shell or word not in _LONG_WITHOUT_EFFECT:
                made.unknown.append(word)
            continue
        for letter in word[1:]:
            _note_option(made, word[0], letter, of_shell)
    return made


def _note_option(made: ChosenOptions, sign: str, letter: str, of_shell: bool) -> None:
    if of_shell and letter == "c":
        made.takes_script = True
        return
    if of_shell and letter in _WITHOUT_EFFECT:
        return
    name = letter if letter in _LETTERS else ""
    shown = f"{sign}{letter}"
    if letter == "o":
        text = made.rest.pop(0) if made.rest else ""
        name, shown = _NAMES.get(text, ""), f"{sign}o {text}".rstrip()
    if not name:
        made.unknown.append(shown)
    elif sign == "-":
        made.options.add(name)
    else:
        made.options.discard(name)


@dataclass(frozen=True)
class ShellCommand:
    """The parsed command line of a shell.

    Args:
        name: the value of ``$0``.
        script: None if the shell reads its standard input, or if the file of the script is missing.
        missing: the file of the script, if it is missing.
    """

    name: str
    script: str | None
    arguments: Sequence[str] = ()
    missing: str = ""
    options: frozenset[str] = frozenset()
    unknown: Sequence[str] = ()


def shell_command(argv: Sequence[str], files: Mapping[str, str], directory: str = "/") -> ShellCommand:
    """Read the command line of a shell."""
    name = argv[0].rpartition("/")[2]
    made = parse_options(argv[1:], (), of_shell=True)
    options, words = frozenset(made.options), made.rest
    if not words:
        return ShellCommand(name, None, (), "", options, made.unknown)
    if made.takes_script:
        return ShellCommand(
            words[1] if len(words) > 1 else name, words[0], words[2:], "", options, made.unknown
        )
    script = files.get(absolute(directory, words[0]))
    return ShellCommand(
        words[0], script, words[1:], words[0] if script is None else "", options, made.unknown
    )
