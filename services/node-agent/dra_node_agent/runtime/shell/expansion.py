"""Expand words: variables, command substitution, arithmetic, quotes, field splitting and ``*``."""

import ast
import fnmatch
import operator
import re
from collections.abc import Callable, Container, Sequence
from typing import Protocol

from dra_node_agent.runtime.shell.files import Files
from dra_node_agent.runtime.shell.syntax import ShellSyntaxError, Word, quoted_end
from dra_node_agent.runtime.shell.world import absolute

_ARITHMETIC: dict[type[ast.AST], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda left, right: _quotient(left, right),
    ast.Mod: lambda left, right: left - right * _quotient(left, right),
}
_LONGEST_EXPRESSION = 200
_MOST_ITEMS = 10_000
_BRACES = re.compile(r"([^{}'\"\\$`]*)\{([^{}'\"\\$`]+(?:,|\.\.)[^{}'\"\\$`]*)\}([^{}'\"\\$`]*)")
_RANGE = re.compile(r"(-?\d{1,9})\.\.(-?\d{1,9})")
_BRACKETS = re.compile(r"\[[^\]]+\]")


class ExpandingShell(Protocol):
    """A shell as the expander of its words sees it."""

    name: str
    arguments: list[str]
    status: int
    directory: str
    files: Files

    @property
    def last_job(self) -> int:
        """The process ID of the last job in the background; 0 if there was none."""
        ...

    @property
    def options(self) -> Container[str]:
        """The options of ``set`` that are on."""
        ...

    def unset(self, name: str) -> str:
        """Return the value of a variable that is not set."""
        ...

    def lookup(self, name: str) -> str | None:
        """Return the value of a variable; None if it is not set."""
        ...

    def assign(self, name: str, value: str) -> None:
        """Set a variable."""
        ...

    async def capture(self, text: str) -> str:
        """Return the output of a command substitution."""
        ...


class Expander:
    """Expands the words of one shell."""

    def __init__(self, shell: ExpandingShell) -> None:
        self._shell = shell

    async def text(self, text: str) -> str:
        """Expand a word to one text, as an assignment does."""
        return "".join([piece for piece, _ in await self._pieces(text)])

    async def fields(self, word: Word) -> list[str]:
        """Expand a word to its fields: none, one or several."""
        if word.text in ('"$@"', "$@", "$*"):
            return list(self._shell.arguments)
        if self._shell.name.endswith("bash") and (match := _BRACES.fullmatch(word.text)):
            words = [f"{match[1]}{item}{match[3]}" for item in _items(match[2])]
            return [text for item in words for text in await self.fields(Word(item))]
        fields: list[str] = []
        current: str | None = None
        pattern = False
        for piece, quoted in await self._pieces(word.text):
            if quoted:
                current = (current or "") + piece
                continue
            pattern = pattern or _is_pattern(piece)
            parts = piece.split()
            if not parts:
                if piece and current is not None:
                    fields.append(current)
                    current = None
                continue
            if piece[0].isspace() and current is not None:
                fields.append(current)
                current = None
            for part in parts:
                current = (current or "") + part
                if part is not parts[-1] or piece[-1].isspace():
                    fields.append(current)
                    current = None
        if current is not None:
            fields.append(current)
        return [match for field in fields for match in self._glob(field)] if pattern else fields

    async def operands(self, words: Sequence[Word]) -> list[str]:
        """Expand the words of ``[[``, which are neither split nor taken as names of files."""
        made = []
        for place, word in enumerate(words):
            pieces = await self._pieces(word.text)
            if place and words[place - 1].text in ("=", "==", "!="):
                # Quoted text is not a pattern.
                pieces = [
                    (re.sub(r"[*?]", r"[\g<0>]", piece) if quoted else piece, quoted)
                    for piece, quoted in pieces
                ]
            made.append("".join(piece for piece, _ in pieces))
        return made

    def _glob(self, field: str) -> list[str]:
        if not _is_pattern(field) or "f" in self._shell.options:
            return [field]
        return self._matches(field) or [field]

    def _matches(self, pattern: str) -> list[str]:
        if pattern.endswith("/"):
            files, directory = self._shell.files, self._shell.directory
            return [
                f"{found}/"
                for found in self._matches(pattern.rstrip("/"))
                if absolute(directory, found) not in files.content
            ]
        folder, slash, name = pattern.rpartition("/")
        found = []
        for place in self._matches(folder) if _is_pattern(folder) else [folder]:
            directory = absolute(self._shell.directory, place + slash)
            names = self._shell.files.listing(directory) or []
            found += [
                f"{place}{slash}{known}"
                for known in names
                if fnmatch.fnmatchcase(known, name) and (name.startswith(".") or not known.startswith("."))
            ]
        return found

    async def _pieces(self, text: str) -> list[tuple[str, bool]]:
        """Yield the pieces of the expanded text, each with whether it is protected from splitting."""
        pieces: list[tuple[str, bool]] = []
        index = 0
        while index < len(text):
            char = text[index]
            if char == "'":
                end = quoted_end(text, index)
                pieces.append((text[index + 1 : end - 1], True))
            elif char == '"':
                end = quoted_end(text, index)
                pieces.append((await self._double_quoted(text[index + 1 : end - 1]), True))
            elif char == "\\":
                end = index + 2
                pieces.append((text[index + 1 : end], True))
            elif char in "$`":
                value, end = await self._expansion(text, index)
                pieces.append((value, False))
            else:
                end = index + 1
                while end < len(text) and text[end] not in "'\"\\$`":
                    end += 1
                literal = text[index:end]
                if index == 0 and (literal == "~" or literal.startswith("~/")):
                    literal = (self._shell.lookup("HOME") or "/root") + literal[1:]
                pieces.append((literal, not _is_pattern(literal)))
            index = end
        return pieces

    async def _double_quoted(self, text: str) -> str:
        result: list[str] = []
        index = 0
        while index < len(text):
            char = text[index]
            if char == "\\" and text[index + 1 : index + 2] in ("$", "`", '"', "\\", "\n"):
                result.append(text[index + 1].replace("\n", ""))
                index += 2
            elif char in "$`":
                value, index = await self._expansion(text, index)
                result.append(value)
            else:
                result.append(char)
                index += 1
        return "".join(result)

    async def _expansion(self, text: str, index: int) -> tuple[str, int]:
        shell = self._shell
        end = quoted_end(text, index)
        if text[index] == "`":
            return (await shell.capture(text[index + 1 : end - 1])).rstrip("\n"), end
        following = text[index + 1 : index + 2]
        if text.startswith("$((", index):
            return str(self._arithmetic(await self._double_quoted(text[index + 3 : end - 2]))), end
        if following == "(":
            return (await shell.capture(text[index + 2 : end - 1])).rstrip("\n"), end
        if following == "{":
            return await self._parameter(text[index + 2 : end - 1]), end
        if following and following in "?$!#@*0123456789":
            return self._special(following), index + 2
        end = index + 1
        while end < len(text) and (text[end].isalnum() or text[end] == "_"):
            end += 1
        if end == index + 1:
            return "$", end
        name = text[index + 1 : end]
        value = shell.lookup(name)
        return shell.unset(name) if value is None else value, end

    def _special(self, name: str) -> str:
        shell = self._shell
        match name:
            case "?":
                return str(shell.status)
            case "$":
                return "1"
            case "!":
                return str(shell.last_job) if shell.last_job else ""
            case "#":
                return str(len(shell.arguments))
            case "@" | "*":
                return " ".join(shell.arguments)
        value = self._positional(name)
        return shell.unset(name) if value is None else value

    def _positional(self, name: str) -> str | None:
        position, arguments = int(name[:9]), self._shell.arguments
        if not position:
            return self._shell.name
        return arguments[position - 1] if position <= len(arguments) else None

    async def _parameter(self, body: str) -> str:
        shell = self._shell
        if body.startswith("#"):
            return str(len(shell.lookup(body[1:]) or ""))
        length = 0
        while length < len(body) and (body[length].isalnum() or body[length] == "_"):
            length += 1
        name, rest = body[:length], body[length:]
        if not name:
            return self._special(body) if body in "?$!@*" else ""
        value = self._positional(name) if name.isdigit() else shell.lookup(name)
        if not rest:
            return shell.unset(name) if value is None else value
        colon = rest.startswith(":")
        action, word = rest[colon : colon + 1], rest[colon + 1 :]
        missing = value is None or (colon and not value)
        if action == "+":
            return "" if missing else await self._double_quoted(word)
        if action in ("-", "="):
            if not missing:
                return value or ""
            default = await self._double_quoted(word)
            if action == "=":
                shell.assign(name, default)
            return default
        if rest.startswith(("%", "#")):
            return _trim(value or "", rest)
        raise ShellSyntaxError(f"${{{body}}}: bad substitution")

    def _arithmetic(self, text: str) -> int:
        def value(node: ast.expr) -> int:
            match node:
                case ast.Constant(value=int(number)):
                    return int(number)
                case ast.Name(id=name):
                    return int(self._shell.lookup(name) or "0")
                case ast.UnaryOp(op=ast.USub(), operand=operand):
                    return -value(operand)
                case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                    return _wrap(_ARITHMETIC[type(op)](value(left), value(right)))
            raise ShellSyntaxError(f"{text}: syntax error in expression")

        if len(text) > _LONGEST_EXPRESSION:
            raise ShellSyntaxError("expression too long")
        try:
            return value(ast.parse(text.strip().replace("$", ""), mode="eval").body)
        except (SyntaxError, ValueError, ZeroDivisionError) as error:
            raise ShellSyntaxError(f"{text}: {error}") from error


def _is_pattern(text: str) -> bool:
    return "*" in text or "?" in text or _BRACKETS.search(text) is not None


def _items(text: str) -> list[str]:
    """Expand ``{a,b}`` and ``{1..3}`` as bash does. Any other text stays as it is."""
    if "," in text:
        return text.split(",")
    if match := _RANGE.fullmatch(text):
        first, last = int(match[1]), int(match[2])
        step = 1 if last >= first else -1
        last = max(min(last, first + _MOST_ITEMS), first - _MOST_ITEMS)
        return [str(number) for number in range(first, last + step, step)]
    if len(text) == 4 and text[1:3] == ".." and text[0].isalpha() and text[3].isalpha() and text.isascii():
        step = 1 if text[3] >= text[0] else -1
        return [chr(code) for code in range(ord(text[0]), ord(text[3]) + step, step)]
    return [f"{{{text}}}"]


def _quotient(left: int, right: int) -> int:
    """Divide as C does: the result is rounded towards zero."""
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _wrap(number: int) -> int:
    """Wrap a number to a signed integer of 64 bits."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def _trim(value: str, rule: str) -> str:
    kind = rule[0]
    greedy = rule[1:2] == kind
    pattern = rule[2:] if greedy else rule[1:]
    cuts = range(len(value) + 1)
    if kind == "#":
        for cut in reversed(cuts) if greedy else cuts:
            if fnmatch.fnmatchcase(value[:cut], pattern):
                return value[cut:]
    else:
        for cut in cuts if greedy else reversed(cuts):
            if fnmatch.fnmatchcase(value[cut:], pattern):
                return value[:cut]
    return value
