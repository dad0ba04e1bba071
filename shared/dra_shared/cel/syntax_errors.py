"""The syntax errors of a text that does not parse, as cel-go's parser reports them.

Mirrors cel-go's parser/gen/CEL.g4 and ANTLR's error recovery: drop a token, insert a missing one, or skip to a token
that can follow. The parser calls this only for texts that it has rejected. ``recovered_tree`` then looks for further
errors in the tree that the recovery leaves.
"""

import contextlib
import re
from collections import Counter
from typing import Final, NamedTuple

from dra_shared.cel.depth import MAX_DEPTH
from dra_shared.cel.errors import Issue
from dra_shared.cel.recovered_tree import Node, findings
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
    found = _Diagnosis(text)
    return found.issues + findings(found.tree, reserved) if found.issues else []


def _shown(text: str) -> str:
    return "'" + text.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r") + "'"


def _set_text(kinds: frozenset[str]) -> str:
    names = [
        kind if kind == END or kind.isupper() else f"'{kind}'"
        for kind in sorted(kinds, key=_RANK.__getitem__)
    ]
    return names[0] if len(names) == 1 else f"{{{', '.join(names)}}}"


# Rules that are one in cel-go's grammar, which counts how deep each is.
_KINDS: Final = {"relation2": "relation", "product": "calc", "unary_only": "calc"}


class _Diagnosis:
    def __init__(self, text: str) -> None:
        self.issues: list[Issue] = []
        #: What was made of the text; None if that was given up.
        self.tree: Node | None = None
        self._text = text
        scanned = scan(text)
        self._tokens = scanned.tokens
        self._gaps = scanned.gaps
        self._at = 0
        # What can follow each rule that is under way, the innermost last.
        self._frames: list[_Expecting] = []
        # How often each kind is inside of itself.
        self._depths: Counter[str] = Counter()
        # What has been made so far of each.
        self._nodes: list[Node] = []
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

    def _match(self, state: str, kind: str, after: _Expecting) -> Token:
        """Takes one token; ``after`` is what can come then."""
        self._state = state
        here = _one(kind)
        if self._next == kind:
            self._matched()
            return self._take()
        self._attempt()
        if self._delete(here):
            return self._take()
        if self._next in self._expected(after):
            token = self._token
            missing = _set_text(here.kinds)
            self._error(token.start, f"missing {missing} at {_shown(token.text)}")
            return Token(kind, f"<missing {missing}>", token.start)
        raise self._mismatch(here)

    def _take(self) -> Token:
        token = self._token
        self._consume()
        return token

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

    def _rule(self, name: str, follow: _Expecting) -> Node:
        """Runs a rule, after which ``follow`` can come in the rule that asked for it."""
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
        except _Recognition as problem:
            self._error(problem.token.start, problem.message)
            self._recover()
        self._depths[kind] -= 1
        self._frames.pop()
        self._state = outer
        return self._nodes.pop()

    def _become(self, kind: str, *parts: Node) -> Node:
        """The rule under way turns out to be an alternative of it, or the left part of a greater one."""
        node = self._nodes[-1] = Node(kind, self._nodes[-1].start, list(parts))
        return node

    def _recover(self) -> None:
        self._attempt()
        if self._last_at == self._at and self._state in self._last_states:
            self._consume()
        self._last_at = self._at
        self._last_states.add(self._state)
        self._skip_to(self._recovery_set())

    def _start(self) -> None:
        tree = self._rule("expr", _one(END))
        try:
            self._match("start", END, _Expecting(frozenset(), True))
        except _Recognition as problem:
            self._error(problem.token.start, problem.message)
        self.tree = tree

    def _expr(self) -> None:
        node = self._become("conditional")
        node.parts.append(self._rule("or", _Expecting(frozenset("?"), True)))
        self._sync("expr?", _Expecting(frozenset("?"), True))
        if self._next == "?":
            node.mark("operator", self._match("expr1", "?", _Expecting(_EXPR)))
            node.parts.append(self._rule("or", _one(":")))
            self._match("expr2", ":", _Expecting(_EXPR))
            node.parts.append(self._rule("expr", _Expecting(frozenset(), True)))

    def _chain(self, rule: str, operator: str) -> None:
        loop = _Expecting(frozenset((operator,)), True)
        node = self._become("chain")
        node.parts.append(self._rule(rule, loop))
        self._sync(f"{operator}*", loop)
        while self._next == operator:
            node.mark("operator", self._match(operator, operator, _Expecting(_EXPR)))
            node.parts.append(self._rule(rule, loop))
            self._sync(f"{operator}+", loop, back=True)

    def _or(self) -> None:
        self._chain("and", "||")

    def _and(self) -> None:
        self._chain("relation", "&&")

    def _relation(self) -> None:
        loop = _Expecting(_RELATIONS, True)
        node = self._become("chain")
        node.parts.append(self._rule("calc", loop))
        while self._next in _RELATIONS:
            self._matched()
            self._state = "relationoperator"
            node.mark("operator", self._take())
            node.parts.append(self._rule("relation2", loop))

    def _relation2(self) -> None:
        self._become("chain").parts.append(self._rule("calc", _Expecting(_RELATIONS, True)))

    def _calc(self) -> None:
        self._terms(_SUMS | _PRODUCTS)

    def _product(self) -> None:
        self._terms(_PRODUCTS)

    def _terms(self, operators: frozenset[str]) -> None:
        loop = _Expecting(_SUMS | _PRODUCTS, True)
        node = self._become("chain")
        node.parts.append(self._rule("unary", loop))
        while self._next in operators:
            tight = self._next in _PRODUCTS
            self._matched()
            node.mark("operator", self._take())
            node.parts.append(self._rule("unary_only" if tight else "product", loop))

    def _unary_only(self) -> None:
        self._become("chain").parts.append(self._rule("unary", _Expecting(_SUMS | _PRODUCTS, True)))

    def _unary(self) -> None:
        end = _Expecting(frozenset(), True)
        node = self._become("unary")
        self._sync("unary", _Expecting(_EXPR))
        if self._next == "-" and self._ahead(1) not in ("NUM_INT", "NUM_FLOAT"):
            if self._ahead(1) not in _PRIMARY:
                raise self._no_alternative(1)
            node = self._become("signed")
            self._repeat(node, "-")
        elif self._next == "!":
            node = self._become("signed")
            self._repeat(node, "!")
        elif self._next not in _PRIMARY:
            raise self._no_alternative()
        else:
            node = self._become("wrapped")
        node.parts.append(self._rule("member", end))

    def _repeat(self, node: Node, sign: str) -> None:
        loop = _Expecting(_PRIMARY | {sign})
        self._sync(f"{sign}+", _one(sign))
        while True:
            node.mark("operator", self._match(sign, sign, loop))
            self._sync(f"{sign}+again", loop, back=True)
            if self._next != sign:
                return
            if sign == "-" and self._ahead(1) not in _PRIMARY:
                raise self._no_alternative(1)

    def _member(self) -> None:
        loop = _Expecting(_MEMBERS, True)
        node = self._become("wrapped")
        node.parts.append(self._rule("primary", loop))
        while self._next in _MEMBERS:
            if self._next == "[":
                node = self._become("index", node)
                node.mark("operator", self._match("index1", "[", _Expecting(_OPT_EXPR)))
                self._sync("index?", _Expecting(_OPT_EXPR))
                if self._next == "?":
                    self._match("index2", "?", _Expecting(_EXPR))
                node.parts.append(self._rule("expr", _one("]")))
                self._match("index3", "]", loop)
            elif self._ahead(1) == "IDENTIFIER" and self._ahead(2) == "(":
                node = self._become("call", node)
                self._match("call1", ".", _one("IDENTIFIER"))
                node.mark("name", self._match("call2", "IDENTIFIER", _one("(")))
                self._arguments(node, "call3", loop)
            elif self._ahead(1) in _FIELD:
                node = self._become("select", node)
                node.mark("operator", self._match("select1", ".", _Expecting(_FIELD)))
                self._sync("select?", _Expecting(_FIELD))
                if self._next == "?":
                    node.mark("optional", self._match("select2", "?", _Expecting(_NAME)))
                node.parts.append(self._rule("name", loop))
            else:
                self._state = "member|"
                raise self._no_alternative(1)

    def _arguments(self, node: Node, state: str, after: _Expecting) -> None:
        node.mark("operator", self._match(state, "(", _Expecting(_EXPR | {")"})))
        self._sync(f"{state}?", _Expecting(_EXPR | {")"}))
        if self._next in _EXPR:
            node.items = self._rule("expr_list", _one(")")).parts
        self._match(f"{state})", ")", after)

    def _expr_list(self) -> None:
        loop = _Expecting(frozenset(","), True)
        node = self._become("list")
        node.parts.append(self._rule("expr", loop))
        self._sync("list*", loop)
        while self._next == ",":
            self._match("list,", ",", _Expecting(_EXPR))
            node.parts.append(self._rule("expr", loop))
            self._sync("list+", loop, back=True)

    def _name(self) -> None:
        self._sync("name", _Expecting(_NAME))
        if self._next not in _NAME:
            raise self._no_alternative()
        self._become("name").mark("name", self._match("name1", self._next, _Expecting(frozenset(), True)))

    def _primary(self) -> None:
        end = _Expecting(frozenset(), True)
        self._sync("primary", _Expecting(_PRIMARY))
        match self._next:
            case "(":
                node = self._become("wrapped")
                self._match("nested1", "(", _Expecting(_EXPR))
                node.parts.append(self._rule("expr", _one(")")))
                self._match("nested2", ")", end)
            case "[":
                node = self._become("elements")
                node.mark("operator", self._match("list1", "[", _Expecting(_OPT_EXPR | {",", "]"})))
                self._entries(node, "list", "list_items", _OPT_EXPR, "]")
            case "{":
                node = self._become("entries")
                node.mark("operator", self._match("map1", "{", _Expecting(_OPT_EXPR | {",", "}"})))
                self._entries(node, "map", "map_items", _OPT_EXPR, "}")
            case "." | "IDENTIFIER":
                self._named()
            case _ if self._next in _PRIMARY:
                node = self._become("wrapped")
                node.parts.append(self._rule("literal", end))
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
        node = self._become("message" if message else "named")
        if dot:
            node.mark("dot", self._match("named.", ".", _one("IDENTIFIER")))
        node.mark("name", self._match("named", "IDENTIFIER", _Expecting(frozenset(".({"), True)))
        if message:
            while self._next == ".":
                self._match("message.", ".", _one("IDENTIFIER"))
                node.mark("name", self._match("message", "IDENTIFIER", _Expecting(frozenset(".{"))))
            node.mark("operator", self._match("message{", "{", _Expecting(_FIELD | {",", "}"})))
            self._entries(node, "message", "field_items", _FIELD, "}")
        elif self._next == "(":
            self._arguments(node, "function", _Expecting(frozenset(), True))

    def _entries(self, node: Node, state: str, rule: str, first: frozenset[str], closing: str) -> None:
        last = frozenset((closing,))
        self._sync(f"{state}?", _Expecting(first | {","} | last))
        if self._next in first:
            node.parts.append(self._rule(rule, _Expecting(last | {","})))
        self._sync(f"{state},?", _Expecting(last | {","}))
        if self._next == ",":
            self._match(f"{state},", ",", _Expecting(last))
        self._match(f"{state}end", closing, _Expecting(frozenset(), True))

    def _list_items(self) -> None:
        loop = _Expecting(frozenset(","), True)
        node = self._become("list")
        node.parts.append(self._rule("opt_expr", loop))
        while self._next == "," and self._ahead(1) in _OPT_EXPR:
            self._match("item,", ",", _Expecting(_OPT_EXPR))
            node.parts.append(self._rule("opt_expr", loop))

    def _map_items(self) -> None:
        self._pairs("opt_expr", _OPT_EXPR)

    def _field_items(self) -> None:
        self._pairs("opt_field", _FIELD)

    def _pairs(self, key: str, first: frozenset[str]) -> None:
        loop = _Expecting(frozenset(","), True)
        node = self._become("pairs")
        while True:
            node.parts.append(self._rule(key, _one(":")))
            node.mark("operator", self._match(f"{key}:", ":", _Expecting(_EXPR)))
            node.items.append(self._rule("expr", loop))
            if self._next != "," or self._ahead(1) not in first:
                return
            self._match(f"{key},", ",", _Expecting(first))

    def _opt_expr(self) -> None:
        node = self._become("optional")
        self._sync("opt?", _Expecting(_OPT_EXPR))
        if self._next == "?":
            node.mark("optional", self._match("opt", "?", _Expecting(_EXPR)))
        node.parts.append(self._rule("expr", _Expecting(frozenset(), True)))

    def _opt_field(self) -> None:
        node = self._become("optional")
        self._sync("field?", _Expecting(_FIELD))
        if self._next == "?":
            node.mark("optional", self._match("field", "?", _Expecting(_NAME)))
        node.parts.append(self._rule("name", _Expecting(frozenset(), True)))

    def _literal(self) -> None:
        end = _Expecting(frozenset(), True)
        self._sync("literal", _Expecting(_LITERALS | {"-"}))
        if self._next == "-":
            if self._ahead(1) not in ("NUM_INT", "NUM_FLOAT"):
                raise self._no_alternative(1)
            node = self._become("literal")
            node.mark("sign", self._match("sign", "-", _Expecting(frozenset((self._ahead(1),)))))
        elif self._next in _LITERALS:
            node = self._become("literal")
        else:
            raise self._no_alternative()
        node.mark("value", self._match("literal1", self._next, end))
