"""What is wrong with a text that does not parse, in the words of cel-go's parser.

cel-go's parser is made by ANTLR, goes on after an error and reports all that it meets. This walks through the same
decisions (cel-go's parser/gen/CEL.g4) with the same strategy: drop a token, take one as if it were there, or skip to
something that can follow. It builds nothing; it is asked only once the text is known to be malformed.
"""

import contextlib
import math
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from dra_shared.cel.errors import Issue
from dra_shared.cel.tokens import END, Token, scan

# In the order of the token types, in which sets are written.
_ORDER: Final = (
    END, "==", "!=", "in", "<", "<=", ">=", ">", "&&", "||", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?",
    ":", "+", "*", "/", "%", "true", "false", "null", "NUM_FLOAT", "NUM_INT", "NUM_UINT", "STRING", "BYTES",
    "IDENTIFIER", "ESC_IDENTIFIER",
)  # fmt: skip
_RANK: Final = {kind: rank for rank, kind in enumerate(_ORDER)}
_RESERVED_FIELD: Final = re.compile(r"no viable alternative at input '\.(true|false|null)'")
_MOST_RECOVERIES: Final = 30
_MOST_REPORTS: Final = 100

_LITERALS: Final = frozenset(("true", "false", "null", "NUM_FLOAT", "NUM_INT", "NUM_UINT", "STRING", "BYTES"))
_PRIMARY: Final = _LITERALS | frozenset((".", "IDENTIFIER", "(", "[", "{", "-"))
_EXPR: Final = _PRIMARY | {"!"}
_OPT_EXPR: Final = _EXPR | {"?"}
_NAME: Final = frozenset(("IDENTIFIER", "ESC_IDENTIFIER"))
_FIELD: Final = _NAME | {"?"}
_RELATIONS: Final = frozenset(("<", "<=", ">=", ">", "==", "!=", "in"))
_SUMS: Final = frozenset("+-")
_PRODUCTS: Final = frozenset("*/%")
_MEMBERS: Final = frozenset(".[")


class _Expecting(NamedTuple):
    """What can come next within the rule, and whether the rule can end here."""

    kinds: frozenset[str]
    end: bool = False


def _one(kind: str) -> _Expecting:
    return _Expecting(frozenset((kind,)))


class _Recognition(Exception):
    def __init__(self, message: str, token: Token) -> None:
        super().__init__(message)
        self.message = message
        self.token = token


class _GivenUp(Exception):
    pass


def diagnose(text: str, reserved: frozenset[str]) -> list[Issue]:
    """The findings, in the order in which they are met; none if the text is well-formed after all."""
    return _Diagnosis(text, reserved).issues


def _shown(text: str) -> str:
    return "'" + text.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r") + "'"


def _set_text(kinds: frozenset[str]) -> str:
    names = [
        kind if kind == END or kind.isupper() else f"'{kind}'"
        for kind in sorted(kinds, key=_RANK.__getitem__)
    ]
    return names[0] if len(names) == 1 else f"{{{', '.join(names)}}}"


class _Diagnosis:
    def __init__(self, text: str, reserved: frozenset[str]) -> None:
        self.issues: list[Issue] = []
        self._text = text
        self._reserved = reserved
        scanned = scan(text)
        self._tokens = scanned.tokens
        self._gaps = scanned.gaps
        self._at = 0
        # What can follow each rule that is under way, the innermost last.
        self._frames: list[_Expecting] = []
        self._recovering = False
        self._state = ""
        self._last_at = -1
        self._last_states: set[str] = set()
        self._recoveries = 0
        with contextlib.suppress(_GivenUp):
            for start, stop in self._gaps:
                self._report(start, f"token recognition error at: '{text[start:stop]}'")
            self._start()

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

    def _expected(self, here: _Expecting, *, follow: bool = True) -> frozenset[str]:
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

    def _matched(self) -> None:
        self._recovering = False
        self._last_states = set()
        self._last_at = -1

    def _unwanted(self, here: _Expecting) -> None:
        token = self._token
        self._error(
            token.start, f"extraneous input {_shown(token.text)} expecting {_set_text(self._expected(here))}"
        )

    def _delete(self, here: _Expecting) -> bool:
        """Drops a token if the one behind it fits."""
        if self._ahead(1) not in self._expected(here):
            return False
        self._unwanted(here)
        self._consume()
        self._matched()
        return True

    def _mismatch(self, here: _Expecting) -> _Recognition:
        token = self._token
        expected = _set_text(self._expected(here))
        return _Recognition(f"mismatched input {_shown(token.text)} expecting {expected}", token)

    def _no_alternative(self, count: int = 0) -> _Recognition:
        """None of the alternatives goes on with the token that far ahead."""
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
        return _Recognition(f"no viable alternative at input {_shown(shown)}", last)

    def _attempt(self) -> None:
        if self._recoveries == _MOST_RECOVERIES:
            self._recoveries += 1
            self._report(self._token.start, f"error recovery attempt limit exceeded: {_MOST_RECOVERIES}")
            raise _GivenUp
        self._recoveries += 1

    def _match(self, state: str, kind: str, after: _Expecting) -> None:
        """Takes one token; ``after`` is what can come then."""
        self._state = state
        here = _one(kind)
        if self._next == kind:
            self._matched()
            self._consume()
            return
        self._attempt()
        if self._delete(here):
            self._consume()
            return
        if self._next in self._expected(after):
            token = self._token
            self._error(token.start, f"missing {_set_text(here.kinds)} at {_shown(token.text)}")
            return
        raise self._mismatch(here)

    def _sync(self, state: str, here: _Expecting, *, back: bool = False) -> None:
        """Before a choice, or (``back``) behind a turn of a loop."""
        self._state = state
        if self._recovering or here.end or self._next in here.kinds:
            return
        if back:
            self._unwanted(here)
            self._skip_to(self._expected(here) | self._recovery_set())
        elif not self._delete(here):
            raise self._mismatch(here)

    def _skip_to(self, kinds: frozenset[str]) -> None:
        while self._next != END and self._next not in kinds:
            self._consume()

    def _rule(self, name: str, follow: _Expecting) -> bool:
        """Runs a rule, after which ``follow`` can come in the rule that asked for it; whether it came to its end."""
        ended = True
        self._frames.append(follow)
        outer = self._state
        try:
            getattr(self, f"_{name}")()
        except _Recognition as problem:
            self._error(problem.token.start, problem.message)
            self._recover()
            ended = False
        self._frames.pop()
        self._state = outer
        return ended

    def _recover(self) -> None:
        self._attempt()
        if self._last_at == self._at and self._state in self._last_states:
            self._consume()
        self._last_at = self._at
        self._last_states.add(self._state)
        self._skip_to(self._recovery_set())

    def _start(self) -> None:
        try:
            self._rule("expr", _one(END))
            self._match("start", END, _Expecting(frozenset(), True))
        except _Recognition as problem:
            self._error(problem.token.start, problem.message)

    def _expr(self) -> None:
        self._rule("or", _Expecting(frozenset("?"), True))
        self._sync("expr?", _Expecting(frozenset("?"), True))
        if self._next == "?":
            self._match("expr1", "?", _Expecting(_EXPR))
            self._rule("or", _one(":"))
            self._match("expr2", ":", _Expecting(_EXPR))
            self._rule("expr", _Expecting(frozenset(), True))

    def _chain(self, rule: str, operator: str) -> None:
        loop = _Expecting(frozenset((operator,)), True)
        self._rule(rule, loop)
        self._sync(f"{operator}*", loop)
        while self._next == operator:
            self._match(operator, operator, _Expecting(_EXPR))
            self._rule(rule, loop)
            self._sync(f"{operator}+", loop, back=True)

    def _or(self) -> None:
        self._chain("and", "||")

    def _and(self) -> None:
        self._chain("relation", "&&")

    def _relation(self) -> None:
        self._binary("relation", "calc", _RELATIONS, "relation2")

    def _relation2(self) -> None:
        self._rule("calc", _Expecting(_RELATIONS, True))

    def _binary(self, name: str, operand: str, operators: frozenset[str], right: str) -> None:
        loop = _Expecting(operators, True)
        self._rule(operand, loop)
        while self._next in operators:
            self._matched()
            self._state = f"{name}operator"
            self._consume()
            self._rule(right, loop)

    def _calc(self) -> None:
        loop = _Expecting(_SUMS | _PRODUCTS, True)
        self._rule("unary", loop)
        while self._next in loop.kinds:
            tight = self._next in _PRODUCTS
            self._matched()
            self._consume()
            self._rule("unary_only" if tight else "product", loop)

    def _product(self) -> None:
        loop = _Expecting(_SUMS | _PRODUCTS, True)
        self._rule("unary", loop)
        while self._next in _PRODUCTS:
            self._matched()
            self._consume()
            self._rule("unary_only", loop)

    def _unary_only(self) -> None:
        self._rule("unary", _Expecting(_SUMS | _PRODUCTS, True))

    def _unary(self) -> None:
        end = _Expecting(frozenset(), True)
        self._sync("unary", _Expecting(_EXPR))
        if self._next == "-" and self._ahead(1) not in ("NUM_INT", "NUM_FLOAT"):
            if self._ahead(1) not in _PRIMARY:
                raise self._no_alternative(1)
            self._repeat("-")
        elif self._next == "!":
            self._repeat("!")
        elif self._next not in _PRIMARY:
            raise self._no_alternative()
        self._rule("member", end)

    def _repeat(self, sign: str) -> None:
        loop = _Expecting(_PRIMARY | {sign})
        self._sync(f"{sign}+", _one(sign))
        while True:
            self._match(sign, sign, loop)
            self._sync(f"{sign}+again", loop, back=True)
            if self._next != sign or (sign == "-" and self._ahead(1) in ("NUM_INT", "NUM_FLOAT")):
                return
            if sign == "-" and self._ahead(1) not in _PRIMARY:
                raise self._no_alternative(1)

    def _member(self) -> None:
        loop = _Expecting(_MEMBERS, True)
        self._rule("primary", loop)
        while self._next in _MEMBERS:
            if self._next == "[":
                self._match("index1", "[", _Expecting(_OPT_EXPR))
                self._sync("index?", _Expecting(_OPT_EXPR))
                if self._next == "?":
                    self._match("index2", "?", _Expecting(_EXPR))
                self._rule("expr", _one("]"))
                self._match("index3", "]", loop)
            elif self._ahead(1) == "IDENTIFIER" and self._ahead(2) == "(":
                self._match("call1", ".", _one("IDENTIFIER"))
                self._match("call2", "IDENTIFIER", _one("("))
                self._arguments("call3", loop)
            elif self._ahead(1) in _FIELD:
                self._match("select1", ".", _Expecting(_FIELD))
                self._sync("select?", _Expecting(_FIELD))
                if self._next == "?":
                    self._match("select2", "?", _Expecting(_NAME))
                self._select_name(loop)
            else:
                self._state = "member|"
                raise self._no_alternative(1)

    def _select_name(self, loop: _Expecting) -> None:
        position = self._token.start
        if not self._rule("name", loop):
            self.issues.append(Issue(position, "unsupported ident kind"))

    def _arguments(self, state: str, after: _Expecting) -> None:
        self._match(state, "(", _Expecting(_EXPR | {")"}))
        self._sync(f"{state}?", _Expecting(_EXPR | {")"}))
        if self._next in _EXPR:
            self._rule("expr_list", _one(")"))
        self._match(f"{state})", ")", after)

    def _expr_list(self) -> None:
        loop = _Expecting(frozenset(","), True)
        self._rule("expr", loop)
        self._sync("list*", loop)
        while self._next == ",":
            self._match("list,", ",", _Expecting(_EXPR))
            self._rule("expr", loop)
            self._sync("list+", loop, back=True)

    def _name(self) -> None:
        self._sync("name", _Expecting(_NAME))
        if self._next not in _NAME:
            raise self._no_alternative()
        self._match("name1", self._next, _Expecting(frozenset(), True))

    def _primary(self) -> None:
        end = _Expecting(frozenset(), True)
        self._sync("primary", _Expecting(_PRIMARY))
        match self._next:
            case "(":
                self._match("nested1", "(", _Expecting(_EXPR))
                self._rule("expr", _one(")"))
                self._match("nested2", ")", end)
            case "[":
                self._match("list1", "[", _Expecting(_OPT_EXPR | {",", "]"}))
                self._entries("list", "list_items", _OPT_EXPR, "]")
            case "{":
                self._match("map1", "{", _Expecting(_OPT_EXPR | {",", "}"}))
                self._entries("map", "map_items", _OPT_EXPR, "}")
            case "." | "IDENTIFIER":
                self._named()
            case _ if self._next in _PRIMARY:
                self._rule("literal", end)
            case _:
                raise self._no_alternative()

    def _named(self) -> None:
        dot = self._next == "."
        if dot and self._ahead(1) != "IDENTIFIER":
            self._state = "primary"
            raise self._no_alternative(1)
        at = 2 if dot else 1
        while self._ahead(at) == "." and self._ahead(at + 1) == "IDENTIFIER":
            at += 2
        message = self._ahead(at) == "{"
        position = self._token.start
        if dot:
            self._match("named.", ".", _one("IDENTIFIER"))
        name = self._token.text
        self._match("named", "IDENTIFIER", _Expecting(frozenset(".({"), True))
        if message:
            while self._next == ".":
                self._match("message.", ".", _one("IDENTIFIER"))
                self._match("message", "IDENTIFIER", _Expecting(frozenset(".{")))
            self._match("message{", "{", _Expecting(_FIELD | {",", "}"}))
            self._entries("message", "field_items", _FIELD, "}")
            return
        if name in self._reserved:
            self.issues.append(Issue(position, f"reserved identifier: {name}"))
        if self._next == "(":
            self._arguments("function", _Expecting(frozenset(), True))

    def _entries(self, state: str, rule: str, first: frozenset[str], closing: str) -> None:
        last = frozenset((closing,))
        self._sync(f"{state}?", _Expecting(first | {","} | last))
        if self._next in first:
            self._rule(rule, _Expecting(last | {","}))
        self._sync(f"{state},?", _Expecting(last | {","}))
        if self._next == ",":
            self._match(f"{state},", ",", _Expecting(last))
        self._match(f"{state}end", closing, _Expecting(frozenset(), True))

    def _list_items(self) -> None:
        loop = _Expecting(frozenset(","), True)
        self._rule("opt_expr", loop)
        while self._next == "," and self._ahead(1) in _OPT_EXPR:
            self._match("item,", ",", _Expecting(_OPT_EXPR))
            self._rule("opt_expr", loop)

    def _map_items(self) -> None:
        self._pairs("opt_expr", _OPT_EXPR)

    def _field_items(self) -> None:
        self._pairs("opt_field", _FIELD)

    def _pairs(self, key: str, first: frozenset[str]) -> None:
        loop = _Expecting(frozenset(","), True)
        while True:
            self._rule(key, _one(":"))
            self._match(f"{key}:", ":", _Expecting(_EXPR))
            self._rule("expr", loop)
            if self._next != "," or self._ahead(1) not in first:
                return
            self._match(f"{key},", ",", _Expecting(first))

    def _opt_expr(self) -> None:
        self._sync("opt?", _Expecting(_OPT_EXPR))
        if self._next == "?":
            self._match("opt", "?", _Expecting(_EXPR))
        self._rule("expr", _Expecting(frozenset(), True))

    def _opt_field(self) -> None:
        self._sync("field?", _Expecting(_FIELD))
        if self._next == "?":
            self._match("field", "?", _Expecting(_NAME))
        self._rule("name", _Expecting(frozenset(), True))

    def _literal(self) -> None:
        end = _Expecting(frozenset(), True)
        self._sync("literal", _Expecting(_LITERALS | {"-"}))
        position, sign = self._token.start, ""
        if self._next == "-":
            if self._ahead(1) not in ("NUM_INT", "NUM_FLOAT"):
                raise self._no_alternative(1)
            sign = "-"
            self._match("sign", "-", _Expecting(frozenset((self._ahead(1),))))
        elif self._next not in _LITERALS:
            raise self._no_alternative()
        number = self._token
        self._match("literal1", number.kind, end)
        if number.kind in _NUMBERS and not _NUMBERS[number.kind](sign + number.text):
            kind = {"NUM_INT": "int", "NUM_UINT": "uint"}.get(number.kind, "double")
            self.issues.append(Issue(position, f"invalid {kind} literal"))


def _whole(text: str) -> int:
    return int(text, 16) if "0x" in text else int(text) if len(text) < 40 else 1 << 70


_NUMBERS: Final[dict[str, Callable[[str], bool]]] = {
    "NUM_INT": lambda text: -(1 << 63) <= _whole(text) < 1 << 63,
    "NUM_UINT": lambda text: _whole(text[:-1]) < 1 << 64,
    "NUM_FLOAT": lambda text: math.isfinite(float(text)),
}
