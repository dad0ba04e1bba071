"""Parse the text of an awk program to a tree. Features that are not simulated are rejected before the program runs."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dra_node_agent.runtime.shell.options import UsageError

#: A node: its kind, followed by what belongs to it.
Node = tuple[Any, ...]

_TOKEN = re.compile(
    r"(?P<blank>(?:[ \t\r]|\\\n)+|\#[^\n]*)"
    r"|(?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z_0-9]*)"
    r'|(?P<text>"(?:[^"\\\n]|\\.|\\\n)*")'
    r"|(?P<operator>\+\+|--|\+=|-=|\*=|/=|%=|\^=|==|<=|>=|!=|!~|&&|\|\||>>|[-+*/%^!<>|?:~$=(){}\[\],;\n])"
)
_WORDS = frozenset(
    {"BEGIN", "END", "if", "else", "while", "do", "for", "in", "next", "exit", "break", "continue", "delete"}
    | {"print", "printf"}
)
_UNKNOWN = frozenset(
    {
        "function",
        "func",
        "getline",
        "return",
        "nextfile",
        "system",
        "close",
        "fflush",
        "rand",
        "srand",
        "atan2",
    }
    | {"gensub", "strftime", "systime", "asort", "asorti", "ARGC", "ARGV", "RT", "FPAT", "FIELDWIDTHS"}
)
#: Functions by name, with the least and the greatest number of arguments.
FUNCTIONS = {
    "length": (0, 1), "substr": (2, 3), "index": (2, 2), "split": (2, 3), "sub": (2, 3), "gsub": (2, 3),
    "match": (2, 2), "sprintf": (1, 99), "int": (1, 1), "sqrt": (1, 1), "exp": (1, 1), "log": (1, 1),
    "sin": (1, 1), "cos": (1, 1), "tolower": (1, 1), "toupper": (1, 1),
}  # fmt: skip
_ASSIGNMENTS = frozenset({"=", "+=", "-=", "*=", "/=", "%=", "^="})
_ESCAPES = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "f": "\f",
    "v": "\v",
    "a": "\a",
    "b": "\b",
    "\\": "\\",
    '"': '"',
    "/": "/",
}
_MOST_NESTED = 60


@dataclass
class Program:
    """The rules of a program: ``BEGIN``, those for lines (first and last pattern, and statements), and ``END``."""

    begin: list[Node] = field(default_factory=list)
    rules: list[tuple[Node | None, Node | None, Node]] = field(default_factory=list)
    end: list[Node] = field(default_factory=list)


def unescape(text: str) -> str:
    """Convert a string to what awk reads between quotation marks."""
    return re.sub(r"\\(?:([0-7]{1,3})|(.))", _escape, text, flags=re.DOTALL)


def _escape(match: re.Match[str]) -> str:
    if match[1]:
        return chr(int(match[1], 8) & 0xFF)
    return "" if match[2] == "\n" else _ESCAPES.get(match[2], match[0])


def parse_program(text: str) -> Program:
    """Parse a program.

    Raises:
        UsageError: the program is wrong, or uses a feature that is not simulated.
    """
    return _Parser(text).program()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._kind, self._value = "", ""
        self._in_print = False
        self._depth = 0
        self._next()

    def _next(self) -> None:
        while True:
            if self._at >= len(self._text):
                self._kind, self._value = "end", ""
                return
            match = _TOKEN.match(self._text, self._at)
            if match is None:
                raise UsageError(f"syntax error at {self._text[self._at :][:20]!r}, or not simulated")
            self._at = match.end()
            if match["blank"] is None:
                break
        kind, value = str(match.lastgroup), match[0]
        if kind == "name":
            if value in _UNKNOWN:
                raise UsageError(f"{value} is not simulated")
            kind = "word" if value in _WORDS else "function" if value in FUNCTIONS else "variable"
        self._kind, self._value = kind, value

    def _is(self, *values: str) -> bool:
        return self._kind in ("operator", "word") and self._value in values

    def _take(self, value: str) -> bool:
        if not self._is(value):
            return False
        self._next()
        return True

    def _expect(self, value: str) -> None:
        if not self._take(value):
            raise UsageError(f"syntax error near {self._value or 'the end'!r}, or not simulated")

    def _lines(self) -> None:
        while self._is("\n"):
            self._next()

    # Rules

    def program(self) -> Program:
        made = Program()
        while True:
            while self._is("\n", ";"):
                self._next()
            if self._kind == "end":
                return made
            if self._is("BEGIN", "END"):
                rules = made.begin if self._value == "BEGIN" else made.end
                self._next()
                rules.append(self._block())
                continue
            first = last = None
            if not self._is("{"):
                first = self._expression()
                if self._take(","):
                    self._lines()
                    last = self._expression()
            action: Node = self._block() if self._is("{") else ("print", [])
            made.rules.append((first, last, action))
            if not self._is("\n", ";") and self._kind != "end" and action == ("print", []):
                raise UsageError(f"syntax error near {self._value!r}, or not simulated")

    def _block(self) -> Node:
        self._expect("{")
        statements: list[Node] = []
        while not self._is("}"):
            if self._kind == "end":
                raise UsageError("syntax error: a brace is not closed")
            if self._is("\n", ";"):
                self._next()
                continue
            statements.append(self._statement())
        self._next()
        return ("block", statements)

    def _body(self) -> Node:
        self._depth += 1
        if self._depth > _MOST_NESTED:
            raise UsageError("nested too deeply")
        self._lines()
        made: Node = ("block", []) if self._take(";") else self._statement()
        self._depth -= 1
        return made

    def _statement(self) -> Node:
        if self._is("{"):
            self._depth += 1
            if self._depth > _MOST_NESTED:
                raise UsageError("nested too deeply")
            made = self._block()
            self._depth -= 1
            return made
        if self._take("if"):
            return self._if()
        if self._take("while"):
            self._expect("(")
            condition = self._expression()
            self._expect(")")
            return ("while", condition, self._body(), False)
        if self._take("do"):
            body = self._body()
            while self._is("\n", ";"):
                self._next()
            self._expect("while")
            self._expect("(")
            condition = self._expression()
            self._expect(")")
            self._ends()
            return ("while", condition, body, True)
        if self._take("for"):
            return self._for()
        made = self._simple()
        self._ends()
        return made

    def _ends(self) -> None:
        if self._is(";", "\n"):
            self._next()
        elif not self._is("}") and self._kind != "end":
            raise UsageError(f"syntax error near {self._value!r}, or not simulated")

    def _if(self) -> Node:
        self._expect("(")
        condition = self._expression()
        self._expect(")")
        body = self._body()
        at, kind, value = self._at, self._kind, self._value
        while self._is("\n", ";"):
            self._next()
        if self._take("else"):
            return ("if", condition, body, self._body())
        self._at, self._kind, self._value = at, kind, value
        return ("if", condition, body, ("block", []))

    def _for(self) -> Node:
        self._expect("(")
        first: Node = ("block", [])
        if not self._is(";"):
            first = self._simple()
            if first[0] == "expression" and first[1][0] == "in" and self._take(")"):
                (key,), array = first[1][1], first[1][2]
                if key[0] != "variable":
                    raise UsageError("syntax error in for")
                return ("forin", key, array, self._body())
        self._expect(";")
        condition: Node = ("number", 1.0) if self._is(";") else self._expression()
        self._expect(";")
        step: Node = ("block", []) if self._is(")") else self._simple()
        self._expect(")")
        return ("for", first, condition, step, self._body())

    def _simple(self) -> Node:
        if self._is("next", "break", "continue"):
            word = self._value
            self._next()
            return (word,)
        if self._take("exit"):
            return ("exit", None if self._is(";", "\n", "}") or self._kind == "end" else self._expression())
        if self._take("delete"):
            name = self._value
            if self._kind != "variable":
                raise UsageError("syntax error after delete")
            self._next()
            keys = self._subscript() if self._is("[") else None
            return ("delete", name, keys)
        if self._is("print", "printf"):
            return self._print()
        return ("expression", self._expression())

    def _print(self) -> Node:
        word = self._value
        self._next()
        arguments: list[Node] = []
        self._in_print = True
        if not self._is(";", "\n", "}", ">", ">>", "|") and self._kind != "end":
            arguments = self._list()
            if len(arguments) == 1 and arguments[0][0] == "group":
                arguments = list(arguments[0][1])
        self._in_print = False
        if self._is(">", ">>", "|"):
            raise UsageError(f"{word} to a file or a program is not simulated")
        if word == "printf" and not arguments:
            raise UsageError("printf: no format")
        return (word, arguments)

    # Expressions, from the loosest to the tightest

    def _list(self) -> list[Node]:
        found = [self._expression()]
        while self._take(","):
            self._lines()
            found.append(self._expression())
        return found

    def _expression(self) -> Node:
        self._depth += 1
        if self._depth > _MOST_NESTED:
            raise UsageError("nested too deeply")
        made = self._ternary()
        if self._is(*_ASSIGNMENTS):
            if made[0] not in ("variable", "element", "field"):
                raise UsageError("syntax error: this cannot be assigned to, or not simulated")
            operator = self._value
            self._next()
            self._lines()
            made = ("assign", made, operator[:-1], self._expression())
        self._depth -= 1
        return made

    def _ternary(self) -> Node:
        condition = self._or()
        if not self._take("?"):
            return condition
        self._lines()
        first = self._expression()
        self._lines()
        self._expect(":")
        self._lines()
        return ("choice", condition, first, self._expression())

    def _or(self) -> Node:
        left = self._and()
        while self._take("||"):
            self._lines()
            left = ("or", left, self._and())
        return left

    def _and(self) -> Node:
        left = self._in()
        while self._take("&&"):
            self._lines()
            left = ("and", left, self._in())
        return left

    def _in(self) -> Node:
        left = self._match()
        while self._take("in"):
            if self._kind != "variable":
                raise UsageError("syntax error after in")
            keys = left[1] if left[0] == "group" else [left]
            left = ("in", keys, self._value)
            self._next()
        return left

    def _match(self) -> Node:
        left = self._comparison()
        while self._is("~", "!~"):
            negated = self._value == "!~"
            self._next()
            left = ("match", left, self._comparison(), negated)
        return left

    def _comparison(self) -> Node:
        left = self._concatenation()
        if self._is("<", "<=", "==", "!=", ">=") or (self._is(">") and not self._in_print):
            operator = self._value
            self._next()
            return ("compare", operator, left, self._concatenation())
        return left

    def _concatenation(self) -> Node:
        left = self._additive()
        while self._kind in ("number", "text", "variable", "function") or self._is("$", "(", "!", "++", "--"):
            if self._is("!"):
                # `a !b` is ambiguous, and awks differ.
                raise UsageError("a concatenation with ! is not simulated")
            left = ("join", left, self._additive())
        return left

    def _additive(self) -> Node:
        left = self._multiplicative()
        while self._is("+", "-"):
            operator = self._value
            self._next()
            left = ("arithmetic", operator, left, self._multiplicative())
        return left

    def _multiplicative(self) -> Node:
        left = self._unary()
        while self._is("*", "/", "%"):
            operator = self._value
            self._next()
            left = ("arithmetic", operator, left, self._unary())
        return left

    def _unary(self) -> Node:
        if self._is("!", "-", "+"):
            operator = self._value
            self._next()
            self._depth += 1
            if self._depth > _MOST_NESTED:
                raise UsageError("nested too deeply")
            made = ("not" if operator == "!" else "sign", operator, self._unary())
            self._depth -= 1
            return made
        return self._power()

    def _power(self) -> Node:
        left = self._postfix()
        if self._take("^"):
            right = self._unary() if self._is("-", "+", "!") else self._power()
            return ("arithmetic", "^", left, right)
        return left

    def _postfix(self) -> Node:
        if self._is("++", "--"):
            sign = 1 if self._value == "++" else -1
            self._next()
            return ("step", self._place(self._primary()), sign, True)
        made = self._primary()
        if self._is("++", "--") and made[0] in ("variable", "element", "field"):
            sign = 1 if self._value == "++" else -1
            self._next()
            return ("step", made, sign, False)
        return made

    def _place(self, node: Node) -> Node:
        if node[0] not in ("variable", "element", "field"):
            raise UsageError("syntax error: this cannot be assigned to, or not simulated")
        return node

    def _primary(self) -> Node:
        kind, value = self._kind, self._value
        if self._is("/", "/="):
            return self._regex(value)
        if kind == "number":
            if value[:2] in ("0x", "0X"):
                raise UsageError("hexadecimal numbers are not simulated")
            self._next()
            return ("number", float(value))
        if kind == "text":
            self._next()
            return ("text", unescape(value[1:-1]))
        if kind == "variable":
            self._next()
            if self._is("["):
                return ("element", value, self._subscript())
            if self._is("(") and self._text[self._at - 2 : self._at - 1].isalnum():
                raise UsageError(f"the function {value} is not simulated")
            return ("variable", value)
        if kind == "function":
            return self._call(value)
        if self._take("$"):
            if self._is("++", "--"):
                return ("field", self._postfix())
            if self._is("-"):
                self._next()
                return ("field", ("sign", "-", self._primary()))
            return ("field", self._primary())
        if self._take("("):
            in_print, self._in_print = self._in_print, False
            found = self._list()
            self._lines()
            self._expect(")")
            self._in_print = in_print
            return ("group", found)
        raise UsageError(f"syntax error near {value or 'the end'!r}, or not simulated")

    def _subscript(self) -> list[Node]:
        self._expect("[")
        in_print, self._in_print = self._in_print, False
        keys = self._list()
        self._in_print = in_print
        self._expect("]")
        return keys

    def _call(self, name: str) -> Node:
        self._next()
        arguments: Sequence[Node] = []
        if self._take("("):
            in_print, self._in_print = self._in_print, False
            if not self._is(")"):
                arguments = self._list()
            self._in_print = in_print
            self._expect(")")
        elif name != "length":
            raise UsageError(f"syntax error after {name}")
        least, most = FUNCTIONS[name]
        if not least <= len(arguments) <= most:
            raise UsageError(f"{name}: wrong number of arguments")
        if name == "split" and arguments[1][0] != "variable":
            raise UsageError("split: the second argument must be an array")
        if name in ("sub", "gsub") and len(arguments) == 3:
            self._place(arguments[2])
        return ("call", name, list(arguments))

    def _regex(self, opening: str) -> Node:
        start = self._at - (len(opening) - 1)
        end, in_brackets = start, False
        while end < len(self._text) and (self._text[end] != "/" or in_brackets):
            if self._text[end] == "\n":
                break
            if self._text[end] == "\\":
                end += 1
            elif self._text[end] == "[" and not in_brackets:
                in_brackets = True
                end += self._text.startswith("^", end + 1)
                end += self._text.startswith("]", end + 1)
            elif self._text[end] == "]":
                in_brackets = False
            end += 1
        if end >= len(self._text) or self._text[end] != "/":
            raise UsageError("a regular expression is not closed")
        text = self._text[start:end].replace("\\/", "/")
        self._at, self._kind, self._value = end + 1, "regex", text
        self._next()
        return ("regex", text)
