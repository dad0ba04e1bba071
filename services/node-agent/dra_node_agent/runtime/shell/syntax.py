"""Parse shell text to a tree: lists, pipelines, if, while, until and for, without case. Words keep their quotes."""

from collections.abc import Sequence
from dataclasses import dataclass

_OPERATORS = ("&&", "||", ";;", ">>", ">&", "<&", "&>", "<<<", ";", "&", "|", ">", "<", "(", ")", "\n")
_RESERVED_ENDS = frozenset(("then", "do", "done", "fi", "else", "elif", "}"))


class ShellSyntaxError(Exception):
    """The text is not a script that this shell understands."""


@dataclass(frozen=True)
class Word:
    """A word as written, with its quotes and expansions."""

    text: str


@dataclass(frozen=True)
class Operator:
    """An operator, or the end of a line."""

    text: str
    descriptor: int | None = None


@dataclass(frozen=True)
class Redirect:
    """``descriptor operator target``."""

    descriptor: int | None
    operator: str
    target: Word


@dataclass(frozen=True)
class Command:
    """A simple command with its redirections."""

    words: Sequence[Word]
    redirects: Sequence[Redirect] = ()


@dataclass(frozen=True)
class Pipeline:
    """Commands joined by ``|``; ``negated`` by a leading ``!``."""

    commands: Sequence["Node"]
    negated: bool = False


@dataclass(frozen=True)
class AndOr:
    """Pipelines joined by ``&&`` and ``||``: the first, then pairs of operator and pipeline."""

    first: "Node"
    rest: Sequence[tuple[str, "Node"]]
    background: bool = False


@dataclass(frozen=True)
class Script:
    """Commands, one after the other."""

    items: Sequence["Node"]


@dataclass(frozen=True)
class If:
    """Conditions with their bodies, and the body that runs when no condition holds."""

    branches: Sequence[tuple[Script, Script]]
    otherwise: Script | None


@dataclass(frozen=True)
class Loop:
    """The loop ``while`` (or ``until``) condition ``do`` body."""

    condition: Script
    body: Script
    until: bool


@dataclass(frozen=True)
class For:
    """The loop ``for name in words do`` body."""

    name: str
    words: Sequence[Word]
    body: Script


@dataclass(frozen=True)
class Group:
    """A group ``{ ... }``, or a subshell ``( ... )``."""

    body: Script
    subshell: bool
    redirects: Sequence[Redirect] = ()


Node = Command | Pipeline | AndOr | Script | If | Loop | For | Group
Token = Word | Operator


def tokenize(text: str) -> list[Token]:
    """Split a text into words and operators."""
    tokens: list[Token] = []
    index = 0
    while index < len(text):
        char = text[index]
        if char in " \t\r":
            index += 1
        elif text.startswith("\\\n", index):
            index += 2
        elif char == "#":
            end = text.find("\n", index)
            index = len(text) if end < 0 else end
        else:
            operator = next((known for known in _OPERATORS if text.startswith(known, index)), None)
            if operator is not None:
                tokens.append(Operator(operator))
                index += len(operator)
                continue
            end = _word_end(text, index)
            word = text[index:end]
            if word.isdigit() and end < len(text) and text[end] in "<>":
                operator = next(known for known in _OPERATORS if text.startswith(known, end))
                tokens.append(Operator(operator, int(word)))
                end += len(operator)
            else:
                tokens.append(Word(word))
            index = end
    return tokens


def _word_end(text: str, index: int) -> int:
    while index < len(text):
        char = text[index]
        if char in " \t\r\n;&|<>()":
            break
        index = quoted_end(text, index) if char in "'\"\\$`" else index + 1
    return index


def quoted_end(text: str, index: int) -> int:
    """Return the index after the quoted piece or expansion that starts at ``index``."""
    char = text[index]
    if char == "\\":
        return min(index + 2, len(text))
    if char == "'":
        end = text.find("'", index + 1)
        if end < 0:
            raise ShellSyntaxError("unexpected EOF while looking for matching `''")
        return end + 1
    if char == '"' or char == "`":
        cursor = index + 1
        while cursor < len(text):
            if text[cursor] == char:
                return cursor + 1
            cursor = quoted_end(text, cursor) if text[cursor] in "\\$" else cursor + 1
        raise ShellSyntaxError(f"unexpected EOF while looking for matching `{char}'")
    opening = text[index + 1 : index + 2]
    if opening in ("(", "{"):
        closing = ")" if opening == "(" else "}"
        depth, cursor = 0, index + 1
        while cursor < len(text):
            here = text[cursor]
            if here in "'\"\\`":
                cursor = quoted_end(text, cursor)
                continue
            depth += (here == opening) - (here == closing)
            cursor += 1
            if depth == 0:
                return cursor
        raise ShellSyntaxError(f"unexpected EOF while looking for matching `{closing}'")
    return index + 1


def parse(text: str) -> Script:
    """Parse a script.

    Raises:
        ShellSyntaxError: the text is not a script, or uses a feature that this shell lacks.
    """
    parser = _Parser(tokenize(text))
    script = parser.script(frozenset())
    if parser.peek() is not None:
        raise ShellSyntaxError(f"syntax error near unexpected token `{parser.text()}'")
    return script


class _Parser:
    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._at = 0

    def peek(self) -> Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def text(self) -> str:
        token = self.peek()
        return "newline" if token is None or token.text == "\n" else token.text

    def script(self, ends: frozenset[str]) -> Script:
        items: list[Node] = []
        while True:
            while self._operator("\n", ";"):
                self._at += 1
            token = self.peek()
            if token is None or (isinstance(token, Word) and token.text in ends):
                return Script(items)
            if isinstance(token, Operator) and token.text in (")", ";;"):
                return Script(items)
            items.append(self._and_or())

    def _and_or(self) -> Node:
        first = self._pipeline()
        rest: list[tuple[str, Node]] = []
        while self._operator("&&", "||"):
            operator = self._next().text
            self._skip_lines()
            rest.append((operator, self._pipeline()))
        background = self._operator("&")
        if background:
            self._at += 1
        return AndOr(first, rest, background) if rest or background else first

    def _pipeline(self) -> Node:
        negated = False
        while self._word("!"):
            self._at += 1
            negated = not negated
        commands = [self._command()]
        while self._operator("|"):
            self._at += 1
            self._skip_lines()
            commands.append(self._command())
        return Pipeline(commands, negated) if negated or len(commands) > 1 else commands[0]

    def _command(self) -> Node:
        node = self._compound()
        if isinstance(node, If | Loop | For) and (redirects := self._redirects()):
            return Group(Script([node]), False, redirects)
        return node

    def _compound(self) -> Node:
        token = self.peek()
        if token is None:
            raise ShellSyntaxError("syntax error: unexpected end of file")
        if isinstance(token, Operator) and token.text == "(":
            self._at += 1
            body = self.script(frozenset())
            self._expect_operator(")")
            return Group(body, True, self._redirects())
        if isinstance(token, Word):
            if token.text == "{":
                self._at += 1
                body = self.script(frozenset(("}",)))
                self._expect("}")
                return Group(body, False, self._redirects())
            if token.text == "if":
                return self._if()
            if token.text in ("while", "until"):
                return self._loop(token.text == "until")
            if token.text == "for":
                return self._for()
            if token.text in _RESERVED_ENDS:
                raise ShellSyntaxError(f"syntax error near unexpected token `{token.text}'")
            if token.text in ("case", "function", "select"):
                raise ShellSyntaxError(f"`{token.text}' is not supported in a simulated container")
        return self._simple()

    def _simple(self) -> Command:
        words: list[Word] = []
        redirects: list[Redirect] = []
        while (token := self.peek()) is not None:
            if isinstance(token, Word):
                words.append(token)
                self._at += 1
                if len(words) == 1 and token.text == "[[":
                    words += self._double_test()
            elif token.text in (">", ">>", "<", ">&", "<&", "&>", "<<<"):
                redirects.extend(self._redirects())
            else:
                break
        if not words and not redirects:
            raise ShellSyntaxError(f"syntax error near unexpected token `{self.text()}'")
        return Command(words, redirects)

    def _double_test(self) -> list[Word]:
        """Take the words up to ``]]``. Operators between them belong to the condition."""
        words: list[Word] = []
        while not self._word("]]"):
            token = self._next()
            if token.text == "\n":
                raise ShellSyntaxError("syntax error in conditional expression")
            words.append(token if isinstance(token, Word) else Word(f"'{token.text}'"))
        return [*words, self._next_word()]

    def _next_word(self) -> Word:
        token = self._next()
        assert isinstance(token, Word)
        return token

    def _redirects(self) -> list[Redirect]:
        found: list[Redirect] = []
        while isinstance(token := self.peek(), Operator) and token.text in (
            ">",
            ">>",
            "<",
            ">&",
            "<&",
            "&>",
            "<<<",
        ):
            self._at += 1
            target = self.peek()
            if not isinstance(target, Word):
                raise ShellSyntaxError(f"syntax error near unexpected token `{self.text()}'")
            self._at += 1
            found.append(Redirect(token.descriptor, token.text, target))
        return found

    def _if(self) -> If:
        branches: list[tuple[Script, Script]] = []
        otherwise = None
        self._at += 1
        while True:
            condition = self.script(frozenset(("then",)))
            self._expect("then")
            branches.append((condition, self.script(frozenset(("elif", "else", "fi")))))
            if self._word("elif"):
                self._at += 1
                continue
            if self._word("else"):
                self._at += 1
                otherwise = self.script(frozenset(("fi",)))
            self._expect("fi")
            return If(branches, otherwise)

    def _loop(self, until: bool) -> Loop:
        self._at += 1
        condition = self.script(frozenset(("do",)))
        self._expect("do")
        body = self.script(frozenset(("done",)))
        self._expect("done")
        return Loop(condition, body, until)

    def _for(self) -> For:
        self._at += 1
        name = self._next()
        words: list[Word] = []
        if self._word("in"):
            self._at += 1
            while isinstance(token := self.peek(), Word):
                words.append(token)
                self._at += 1
        else:
            words.append(Word('"$@"'))
        while self._operator("\n", ";"):
            self._at += 1
        self._expect("do")
        body = self.script(frozenset(("done",)))
        self._expect("done")
        return For(name.text, words, body)

    def _next(self) -> Token:
        token = self.peek()
        if token is None:
            raise ShellSyntaxError("syntax error: unexpected end of file")
        self._at += 1
        return token

    def _operator(self, *texts: str) -> bool:
        token = self.peek()
        return isinstance(token, Operator) and token.text in texts

    def _word(self, text: str) -> bool:
        return self.peek() == Word(text)

    def _expect(self, text: str) -> None:
        if not self._word(text):
            end = self.peek() is None
            raise ShellSyntaxError(
                "syntax error: unexpected end of file"
                if end
                else f"syntax error near unexpected token `{self.text()}'"
            )
        self._at += 1

    def _expect_operator(self, text: str) -> None:
        if not self._operator(text):
            raise ShellSyntaxError(f"syntax error near unexpected token `{self.text()}'")
        self._at += 1

    def _skip_lines(self) -> None:
        while self._operator("\n"):
            self._at += 1
