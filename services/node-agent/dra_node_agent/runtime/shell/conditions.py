"""Conditions of scripts: `test`, `[` and `[[`."""

import fnmatch
from collections.abc import Mapping

from dra_node_agent.runtime.shell.options import UsageError
from dra_node_agent.runtime.shell.patterns import EXTENDED, PatternError, compile_pattern, encode
from dra_node_agent.runtime.shell.world import Process, Program

_NUMBERS = {
    "-eq": lambda left, right: left == right,
    "-ne": lambda left, right: left != right,
    "-lt": lambda left, right: left < right,
    "-le": lambda left, right: left <= right,
    "-gt": lambda left, right: left > right,
    "-ge": lambda left, right: left >= right,
}
_OF_FILES = frozenset("efsrwxdcLhbpSgku")
_BINARY = frozenset({"=", "==", "!=", "=~", "<", ">", "-nt", "-ot", "-ef", *_NUMBERS})


async def _test(process: Process) -> int:
    words = list(process.argv[1:])
    if process.name in ("[", "[["):
        closing = "]" * len(process.name)
        if not words or words[-1] != closing:
            process.err(f"{process.name}: missing `{closing}'\n")
            return 2
        words.pop()
    try:
        return 0 if _Test(process, words).holds() else 1
    except UsageError as error:
        process.complain(f"{process.name}: {error}\n")
        return 2


class _Test:
    """An expression of ``test``. POSIX decides by the number of words, so that a value may look like an operator."""

    def __init__(self, process: Process, words: list[str]) -> None:
        self._process, self._words = process, words
        self._is_double = process.name == "[["

    def holds(self) -> bool:
        """Evaluate the expression.

        Raises:
            UsageError: the expression is wrong, or uses a feature that is not simulated.
        """
        return self._holds(self._words)

    def _holds(self, words: list[str]) -> bool:
        match words:
            case []:
                return False
            case [value]:
                return bool(value)
            case ["!", value]:
                return not value
            case [left, operator, right] if operator in _BINARY:
                return self._binary(left, operator, right)
        for joint, combine in (("||", any), ("-o", any), ("&&", all), ("-a", all)):
            depth = 0
            for place, word in enumerate(words):
                depth += (word == "(") - (word == ")")
                if word == joint and not depth and 0 < place < len(words) - 1:
                    return combine((self._holds(words[:place]), self._holds(words[place + 1 :])))
        match words:
            case ["!", *rest]:
                return not self._holds(rest)
            case ["(", *inner, ")"]:
                return self._holds(inner)
            case [operator, value] if operator.startswith("-") and len(operator) == 2:
                return self._unary(operator, value)
        if len(words) == 2:
            raise UsageError(f"{words[0]}: unary operator expected, or not simulated")
        if len(words) == 3:
            raise UsageError(f"{words[1]}: binary operator expected, or not simulated")
        raise UsageError("too many arguments")

    def _unary(self, operator: str, value: str) -> bool:
        letter = operator[1]
        if letter in "zn":
            return bool(value) == (letter == "n")
        if letter == "v":
            return self._process.shell.lookup(value) is not None
        if letter == "t":
            return self._process.shell.world.terminal is not None
        if letter not in _OF_FILES:
            raise UsageError(f"{operator} is not simulated")
        files, path = self._process.files, self._process.absolute(value)
        content, listing = files.content.get(path), files.listing(path)
        is_directory = content is None and listing is not None
        is_device = path.startswith("/dev/") and content is not None
        match letter:
            case "d":
                return is_directory
            case "f":
                return content is not None and not is_device
            case "c":
                return is_device
            case "s":
                return is_directory or bool(content)
            case "L" | "h":
                return path in files.links
            case "b" | "p" | "S" | "g" | "k" | "u":
                return False
        # The user of the container is root, who may do everything.
        return content is not None or is_directory

    def _binary(self, left: str, operator: str, right: str) -> bool:
        match operator:
            case "=" | "==" | "!=":
                # In `[[` the right side is a pattern.
                same = fnmatch.fnmatchcase(left, right) if self._is_double else left == right
                return same == (operator != "!=")
            case "<":
                return left < right
            case ">":
                return left > right
            case "=~":
                return self._matches(left, right)
            case "-nt" | "-ot" | "-ef":
                raise UsageError(f"{operator} is not simulated")
        return bool(_NUMBERS[operator](_integer(left), _integer(right)))

    def _matches(self, text: str, pattern: str) -> bool:
        if not self._is_double:
            raise UsageError("=~: binary operator expected")
        try:
            return compile_pattern(pattern, EXTENDED).search(encode(text)) is not None
        except PatternError as error:
            raise UsageError(str(error)) from error


def _integer(text: str) -> int:
    stripped = text.strip()
    if not stripped.lstrip("+-").isdigit() or not stripped.isascii() or len(stripped) > 19:
        raise UsageError(f"{text}: integer expression expected")
    return int(stripped)


#: By name.
CONDITIONS: Mapping[str, Program] = {"test": _test, "[": _test, "[[": _test}
