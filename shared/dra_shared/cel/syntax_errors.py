"""The syntax errors of a text, as cel-go's parser reports them.

Mirrors cel-go's parser/gen/CEL.g4; ``recovery`` has ANTLR's error recovery. The parser calls this only for
texts that it has rejected. ``recovered_tree`` then looks for further errors in the recovered tree.
"""

from typing import Final

from dra_shared.cel.errors import Issue
from dra_shared.cel.recovered_tree import Node, findings
from dra_shared.cel.recovery import Expecting, Recognition, Recognizer, one
from dra_shared.cel.tokens import END

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


def diagnose(text: str, reserved: frozenset[str]) -> list[Issue]:
    """Return the issues in the order in which they are found. There are none if the text is well-formed."""
    found = _Diagnosis(text)
    return found.issues + findings(found.tree, reserved) if found.issues else []


class _Diagnosis(Recognizer):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._run()

    def _start(self) -> None:
        tree = self._rule("expr", one(END))
        try:
            self._match("start", END, Expecting(frozenset(), True))
        except Recognition as problem:
            self._error(problem.token.start, problem.message)
        self.tree = tree

    def _expr(self) -> None:
        node = self._become("conditional")
        node.parts.append(self._rule("or", Expecting(frozenset("?"), True)))
        self._sync("expr?", Expecting(frozenset("?"), True))
        if self._next == "?":
            node.mark("operator", self._match("expr1", "?", Expecting(_EXPR)))
            node.parts.append(self._rule("or", one(":")))
            self._match("expr2", ":", Expecting(_EXPR))
            node.parts.append(self._rule("expr", Expecting(frozenset(), True)))

    def _chain(self, rule: str, operator: str) -> None:
        loop = Expecting(frozenset((operator,)), True)
        node = self._become("chain")
        node.parts.append(self._rule(rule, loop))
        self._sync(f"{operator}*", loop)
        while self._next == operator:
            node.mark("operator", self._match(operator, operator, Expecting(_EXPR)))
            node.parts.append(self._rule(rule, loop))
            self._sync(f"{operator}+", loop, back=True)

    def _or(self) -> None:
        self._chain("and", "||")

    def _and(self) -> None:
        self._chain("relation", "&&")

    def _relation(self) -> None:
        loop = Expecting(_RELATIONS, True)
        node = self._become("chain")
        node.parts.append(self._rule("calc", loop))
        while self._next in _RELATIONS:
            self._end_recovery()
            self._state = "relationoperator"
            node.mark("operator", self._take())
            node.parts.append(self._rule("relation2", loop))

    def _relation2(self) -> None:
        self._become("chain").parts.append(self._rule("calc", Expecting(_RELATIONS, True)))

    def _calc(self) -> None:
        self._terms(_SUMS | _PRODUCTS)

    def _product(self) -> None:
        self._terms(_PRODUCTS)

    def _terms(self, operators: frozenset[str]) -> None:
        loop = Expecting(_SUMS | _PRODUCTS, True)
        node = self._become("chain")
        node.parts.append(self._rule("unary", loop))
        while self._next in operators:
            tight = self._next in _PRODUCTS
            self._end_recovery()
            node.mark("operator", self._take())
            node.parts.append(self._rule("unary_only" if tight else "product", loop))

    def _unary_only(self) -> None:
        self._become("chain").parts.append(self._rule("unary", Expecting(_SUMS | _PRODUCTS, True)))

    def _unary(self) -> None:
        end = Expecting(frozenset(), True)
        node = self._become("unary")
        self._sync("unary", Expecting(_EXPR))
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
        loop = Expecting(_PRIMARY | {sign})
        self._sync(f"{sign}+", one(sign))
        while True:
            node.mark("operator", self._match(sign, sign, loop))
            self._sync(f"{sign}+again", loop, back=True)
            if self._next != sign:
                return
            if sign == "-" and self._ahead(1) not in _PRIMARY:
                raise self._no_alternative(1)

    def _member(self) -> None:
        loop = Expecting(_MEMBERS, True)
        node = self._become("wrapped")
        node.parts.append(self._rule("primary", loop))
        while self._next in _MEMBERS:
            if self._next == "[":
                node = self._become("index", node)
                node.mark("operator", self._match("index1", "[", Expecting(_OPT_EXPR)))
                self._sync("index?", Expecting(_OPT_EXPR))
                if self._next == "?":
                    self._match("index2", "?", Expecting(_EXPR))
                node.parts.append(self._rule("expr", one("]")))
                self._match("index3", "]", loop)
            elif self._ahead(1) == "IDENTIFIER" and self._ahead(2) == "(":
                node = self._become("call", node)
                self._match("call1", ".", one("IDENTIFIER"))
                node.mark("name", self._match("call2", "IDENTIFIER", one("(")))
                self._arguments(node, "call3", loop)
            elif self._ahead(1) in _FIELD:
                node = self._become("select", node)
                node.mark("operator", self._match("select1", ".", Expecting(_FIELD)))
                self._sync("select?", Expecting(_FIELD))
                if self._next == "?":
                    node.mark("optional", self._match("select2", "?", Expecting(_NAME)))
                node.parts.append(self._rule("name", loop))
            else:
                self._state = "member|"
                raise self._no_alternative(1)

    def _arguments(self, node: Node, state: str, after: Expecting) -> None:
        node.mark("operator", self._match(state, "(", Expecting(_EXPR | {")"})))
        self._sync(f"{state}?", Expecting(_EXPR | {")"}))
        if self._next in _EXPR:
            node.items = self._rule("expr_list", one(")")).parts
        self._match(f"{state})", ")", after)

    def _expr_list(self) -> None:
        loop = Expecting(frozenset(","), True)
        node = self._become("list")
        node.parts.append(self._rule("expr", loop))
        self._sync("list*", loop)
        while self._next == ",":
            self._match("list,", ",", Expecting(_EXPR))
            node.parts.append(self._rule("expr", loop))
            self._sync("list+", loop, back=True)

    def _name(self) -> None:
        self._sync("name", Expecting(_NAME))
        if self._next not in _NAME:
            raise self._no_alternative()
        self._become("name").mark("name", self._match("name1", self._next, Expecting(frozenset(), True)))

    def _primary(self) -> None:
        end = Expecting(frozenset(), True)
        self._sync("primary", Expecting(_PRIMARY))
        match self._next:
            case "(":
                node = self._become("wrapped")
                self._match("nested1", "(", Expecting(_EXPR))
                node.parts.append(self._rule("expr", one(")")))
                self._match("nested2", ")", end)
            case "[":
                node = self._become("elements")
                node.mark("operator", self._match("list1", "[", Expecting(_OPT_EXPR | {",", "]"})))
                self._entries(node, "list", "list_items", _OPT_EXPR, "]")
            case "{":
                node = self._become("entries")
                node.mark("operator", self._match("map1", "{", Expecting(_OPT_EXPR | {",", "}"})))
                self._entries(node, "map", "map_items", _OPT_EXPR, "}")
            case "." | "IDENTIFIER":
                self._parse_name()
            case _ if self._next in _PRIMARY:
                node = self._become("wrapped")
                node.parts.append(self._rule("literal", end))
            case _:
                raise self._no_alternative()

    def _parse_name(self) -> None:
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
            node.mark("dot", self._match("named.", ".", one("IDENTIFIER")))
        node.mark("name", self._match("named", "IDENTIFIER", Expecting(frozenset(".({"), True)))
        if message:
            while self._next == ".":
                self._match("message.", ".", one("IDENTIFIER"))
                node.mark("name", self._match("message", "IDENTIFIER", Expecting(frozenset(".{"))))
            node.mark("operator", self._match("message{", "{", Expecting(_FIELD | {",", "}"})))
            self._entries(node, "message", "field_items", _FIELD, "}")
        elif self._next == "(":
            self._arguments(node, "function", Expecting(frozenset(), True))

    def _entries(self, node: Node, state: str, rule: str, first: frozenset[str], closing: str) -> None:
        last = frozenset((closing,))
        self._sync(f"{state}?", Expecting(first | {","} | last))
        if self._next in first:
            node.parts.append(self._rule(rule, Expecting(last | {","})))
        self._sync(f"{state},?", Expecting(last | {","}))
        if self._next == ",":
            self._match(f"{state},", ",", Expecting(last))
        self._match(f"{state}end", closing, Expecting(frozenset(), True))

    def _list_items(self) -> None:
        loop = Expecting(frozenset(","), True)
        node = self._become("list")
        node.parts.append(self._rule("opt_expr", loop))
        while self._next == "," and self._ahead(1) in _OPT_EXPR:
            self._match("item,", ",", Expecting(_OPT_EXPR))
            node.parts.append(self._rule("opt_expr", loop))

    def _map_items(self) -> None:
        self._pairs("opt_expr", _OPT_EXPR)

    def _field_items(self) -> None:
        self._pairs("opt_field", _FIELD)

    def _pairs(self, key: str, first: frozenset[str]) -> None:
        loop = Expecting(frozenset(","), True)
        node = self._become("pairs")
        while True:
            node.parts.append(self._rule(key, one(":")))
            node.mark("operator", self._match(f"{key}:", ":", Expecting(_EXPR)))
            node.items.append(self._rule("expr", loop))
            if self._next != "," or self._ahead(1) not in first:
                return
            self._match(f"{key},", ",", Expecting(first))

    def _opt_expr(self) -> None:
        node = self._become("optional")
        self._sync("opt?", Expecting(_OPT_EXPR))
        if self._next == "?":
            node.mark("optional", self._match("opt", "?", Expecting(_EXPR)))
        node.parts.append(self._rule("expr", Expecting(frozenset(), True)))

    def _opt_field(self) -> None:
        node = self._become("optional")
        self._sync("field?", Expecting(_FIELD))
        if self._next == "?":
            node.mark("optional", self._match("field", "?", Expecting(_NAME)))
        node.parts.append(self._rule("name", Expecting(frozenset(), True)))

    def _literal(self) -> None:
        end = Expecting(frozenset(), True)
        self._sync("literal", Expecting(_LITERALS | {"-"}))
        if self._next == "-":
            if self._ahead(1) not in ("NUM_INT", "NUM_FLOAT"):
                raise self._no_alternative(1)
            node = self._become("literal")
            node.mark("sign", self._match("sign", "-", Expecting(frozenset((self._ahead(1),)))))
        elif self._next in _LITERALS:
            node = self._become("literal")
        else:
            raise self._no_alternative()
        node.mark("value", self._match("literal1", self._next, end))
