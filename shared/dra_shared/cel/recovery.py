"""Recovery from syntax errors, as in parsers that ANTLR generates (`DefaultErrorStrategy`).

They drop a token, insert a missing one, or skip to a token that can follow.
"""

import contextlib
import re
from collections import Counter
from typing import Final, NamedTuple

from dra_shared.cel.depth import MAX_DEPTH
from dra_shared.cel.errors import Issue
from dra_shared.cel.recovered_tree import Node
from dra_shared.cel.tokens import END, Token, scan

# The token types in the order of their numbers. Messages list sets of tokens in this order.
_ORDER: Final = (
    END, "==", "!=", "in", "<", "<=", ">=", ">", "&&", "||", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?",
    ":", "+", "*", "/", "%", "true", "false", "null", "NUM_FLOAT", "NUM_INT", "NUM_UINT", "STRING", "BYTES",
    "IDENTIFIER", "ESC_IDENTIFIER",
)  # fmt: skip
_RANK: Final = {kind: rank for rank, kind in enumerate(_ORDER)}
_RESERVED_FIELD: Final = re.compile(r"no viable alternative at input '\.(true|false|null)'")
_MOST_RECOVERIES: Final = 30
_MOST_REPORTS: Final = 100


class Expecting(NamedTuple):
    """The tokens that can come next within the rule, and whether the rule can end here."""

    kinds: frozenset[str]
    end: bool = False


def one(kind: str) -> Expecting:
    return Expecting(frozenset((kind,)))


class Recognition(Exception):
    def __init__(self, message: str, token: Token) -> None:
        super().__init__(message)
        self.message = message
        self.token = token


class _GivenUp(Exception):
    pass


def _show(text: str) -> str:
    return "'" + text.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r") + "'"


def _set_text(kinds: frozenset[str]) -> str:
    names = [
        kind if kind == END or kind.isupper() else f"'{kind}'"
        for kind in sorted(kinds, key=_RANK.__getitem__)
    ]
    return names[0] if len(names) == 1 else f"{{{', '.join(names)}}}"


# Rules that are one rule in cel-go's grammar, which counts the nesting of each.
_KINDS: Final = {"relation2": "relation", "product": "calc", "unary_only": "calc"}


class Recognizer:
    """A parser that reports errors and continues, like ANTLR's. A grammar adds a method for each of its rules."""

    def __init__(self, text: str) -> None:
        self.issues: list[Issue] = []
        #: The tree made from the text; None if recovery was given up.
        self.tree: Node | None = None
        self._text = text
        scanned = scan(text)
        self._tokens = scanned.tokens
        self._gaps = scanned.gaps
        self._at = 0
        # The tokens that can follow each active rule, the innermost last.
        self._frames: list[Expecting] = []
        # How often each kind of rule is nested in itself.
        self._depths: Counter[str] = Counter()
        # The nodes of the active rules so far.
        self._nodes: list[Node] = []
        self._recovering = False
        self._state = ""
        self._last_at = -1
        self._last_states: set[str] = set()
        self._recoveries = 0

    def _run(self) -> None:
        """Report the parts of the text that are not tokens, and run the grammar's first rule."""
        with contextlib.suppress(_GivenUp):
            for start, stop in self._gaps:
                self._report(start, f"token recognition error at: '{self._text[start:stop]}'")
            self._start()

    def _start(self) -> None:
        raise NotImplementedError

    def _report(self, position: int, message: str) -> None:
        if len(self.issues) >= _MOST_REPORTS:
            self.issues.append(Issue(position, f"Syntax error: More than {_MOST_REPORTS} syntax errors"))
            raise _GivenUp
        message = _RESERVED_FIELD.sub(r"mismatched input '\1' expecting IDENTIFIER", message)
        self.issues.append(Issue(position, f"Syntax error: {message}"))

    @property
    def _token(self) -> Token:
        return self._tokens[self._at]

    @property
    def _next(self) -> str:
        return self._token.kind

    def _ahead(self, count: int) -> str:
        return self._tokens[min(self._at + count, len(self._tokens) - 1)].kind

    def _consume(self) -> None:
        if self._next != END:
            self._at += 1

    def _expect(self, here: Expecting, *, follow: bool = True) -> frozenset[str]:
        kinds, end = here
        for frame in reversed(self._frames if follow else ()):
            if not end:
                break
            kinds, end = kinds | frame.kinds, frame.end
        return kinds | {END} if end else kinds

    def _recovery_set(self) -> frozenset[str]:
        return frozenset().union(*(frame.kinds for frame in self._frames))

    def _error(self, position: int, message: str) -> None:
        if not self._recovering:
            self._recovering = True
            self._report(position, message)

    def _end_recovery(self) -> None:
        self._recovering = False
        self._last_states = set()
        self._last_at = -1

    def _report_unwanted(self, here: Expecting) -> None:
        token = self._token
        self._error(
            token.start, f"extraneous input {_show(token.text)} expecting {_set_text(self._expect(here))}"
        )

    def _delete(self, here: Expecting) -> bool:
        """Drop a token if the next one fits. Return whether it was dropped."""
        if self._ahead(1) not in self._expect(here):
            return False
        self._report_unwanted(here)
        self._consume()
        self._end_recovery()
        return True

    def _mismatch(self, here: Expecting) -> Recognition:
        token = self._token
        expected = _set_text(self._expect(here))
        return Recognition(f"mismatched input {_show(token.text)} expecting {expected}", token)

    def _no_alternative(self, count: int = 0) -> Recognition:
        """Return the error for a choice in which no alternative accepts the token ``count`` positions ahead."""
        first = self._token
        last = self._tokens[min(self._at + count, len(self._tokens) - 1)]
        if first.kind == END:
            shown = END
        else:
            end = len(self._text) if last.kind == END else last.start + len(last.text)
            shown, at = "", first.start
            for start, stop in (*self._gaps, (end, end)):
                if first.start <= start <= end:
                    shown += self._text[at:start]
                    at = stop
        return Recognition(f"no viable alternative at input {_show(shown)}", last)

    def _attempt(self) -> None:
        if self._recoveries == _MOST_RECOVERIES:
            self._recoveries += 1
            self._report(self._token.start, f"error recovery attempt limit exceeded: {_MOST_RECOVERIES}")
            raise _GivenUp
        self._recoveries += 1

    def _match(self, state: str, kind: str, after: Expecting) -> Token:
        """Consume one token. ``after`` are the tokens that can follow it."""
        self._state = state
        here = one(kind)
        if self._next == kind:
            self._end_recovery()
            return self._take()
        self._attempt()
        if self._delete(here):
            return self._take()
        if self._next in self._expect(after):
            token = self._token
            missing = _set_text(here.kinds)
            self._error(token.start, f"missing {missing} at {_show(token.text)}")
            return Token(kind, f"<missing {missing}>", token.start)
        raise self._mismatch(here)

    def _take(self) -> Token:
        token = self._token
        self._consume()
        return token

    def _sync(self, state: str, here: Expecting, *, back: bool = False) -> None:
        """Recover before a choice, or (``back``) after an iteration of a loop."""
        self._state = state
        if self._recovering or here.end or self._next in here.kinds:
            return
        if back:
            self._report_unwanted(here)
            self._skip_to(self._expect(here) | self._recovery_set())
        elif not self._delete(here):
            raise self._mismatch(here)

    def _skip_to(self, kinds: frozenset[str]) -> None:
        while self._next != END and self._next not in kinds:
            self._consume()

    def _rule(self, name: str, follow: Expecting) -> Node:
        """Run a rule. ``follow`` are the tokens that can follow it in the calling rule."""
        self._frames.append(follow)
        self._nodes.append(Node("", self._token.start))
        outer = self._state
        kind = _KINDS.get(name, name)
        self._depths[kind] += 1
        if self._depths[kind] > MAX_DEPTH:
            self.issues.append(Issue(-1, f"expression recursion limit exceeded: {MAX_DEPTH}"))
            raise _GivenUp
        try:
            getattr(self, f"_{name}")()
        except Recognition as problem:
            self._error(problem.token.start, problem.message)
            self._recover()
        self._depths[kind] -= 1
        self._frames.pop()
        self._state = outer
        return self._nodes.pop()

    def _become(self, kind: str, *parts: Node) -> Node:
        """Turn the current rule into one of its alternatives, or into the left part of a larger one."""
        node = self._nodes[-1] = Node(kind, self._nodes[-1].start, list(parts))
        return node

    def _recover(self) -> None:
        self._attempt()
        if self._last_at == self._at and self._state in self._last_states:
            self._consume()
        self._last_at = self._at
        self._last_states.add(self._state)
        self._skip_to(self._recovery_set())
