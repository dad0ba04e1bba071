"""`awk` in the dialect of mawk, without user functions and without other files and programs."""

import asyncio
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dra_node_agent.runtime.shell.awksyntax import Node, Program, parse_program, unescape
from dra_node_agent.runtime.shell.awkvalues import (
    UNSET,
    Input,
    Value,
    calculate,
    compile_regex,
    compute,
    decimal,
    fill_replacement,
    is_numeric,
    key_order,
    number_of,
    round_number,
    truth_of,
)
from dra_node_agent.runtime.shell.options import Given, Syntax, UsageError, declare, read, split_lines
from dra_node_agent.runtime.shell.patterns import decode, encode
from dra_node_agent.runtime.shell.syntax import ShellSyntaxError
from dra_node_agent.runtime.shell.world import Process

# Limits of run time and memory, because awk programs run inside the agent's process.
_MOST_STEPS = 500_000
_STEPS_WITHOUT_PAUSE = 20_000
_LONGEST_TEXT = 1 << 20
_MOST_ELEMENTS = 1 << 16
_MOST_FIELDS = 1 << 14
_HOLE = re.compile(r"%(?:%|([-+ 0#]*)(\d{0,4}|\*)(?:\.(\d{0,3}|\*))?([a-zA-Z]))")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z_0-9]*)=(.*)", re.DOTALL)
_FIXED = frozenset({"RS"})


class _Next(Exception):
    """The statement ``next``."""


class _Loop(Exception):
    """The statement ``break``, or ``continue`` if ``again``."""

    def __init__(self, again: bool) -> None:
        super().__init__()
        self.again = again


class _Exit(Exception):
    """The statement ``exit``."""


class _Machine:
    """A program while it runs: its variables, its arrays and the current line."""

    def __init__(self, out: Callable[[str], None], environment: Mapping[str, str]) -> None:
        self._out = out
        self.variables: dict[str, Value] = {
            "FS": " ", "OFS": " ", "ORS": "\n", "RS": "\n", "NR": 0.0, "FNR": 0.0, "NF": 0.0, "SUBSEP": "\x1c",
            "CONVFMT": "%.6g", "OFMT": "%.6g", "RSTART": 0.0, "RLENGTH": -1.0, "FILENAME": "",
        }  # fmt: skip
        self._arrays: dict[str, dict[str, Value]] = {"ENVIRON": {k: Input(v) for k, v in environment.items()}}
        self._line: str = Input("")
        self._fields: list[str] | None = []
        self._steps = 0
        self._active: set[int] = set()
        self.code = 0

    # Lines and rules

    def take(self, line: str) -> None:
        """Make a line of the input the current line."""
        self.variables["NR"] = number_of(self.variables["NR"]) + 1
        self.variables["FNR"] = number_of(self.variables["FNR"]) + 1
        self._set_line(Input(line))

    def _set_line(self, line: str) -> None:
        self._line, self._fields = line, None

    def restart(self) -> None:
        """Count steps from zero again."""
        self._steps = 0

    def run_rules(self, program: Program) -> int:
        """Run the rules for the current line. Return how many steps they took."""
        self.restart()
        for place, (first, last, action) in enumerate(program.rules):
            if self._selects(place, first, last):
                try:
                    self.run(action)
                except _Next:
                    break
        return self._steps

    def _selects(self, place: int, first: Node | None, last: Node | None) -> bool:
        if first is None:
            return True
        if last is None:
            return truth_of(self._value(first))
        if place not in self._active:
            if not truth_of(self._value(first)):
                return False
            self._active.add(place)
        if truth_of(self._value(last)):
            self._active.discard(place)
        return True

    # Statements

    def run(self, node: Node) -> None:
        """Run a statement."""
        self._step()
        match node[0]:
            case "block":
                for statement in node[1]:
                    self.run(statement)
            case "expression":
                self._value(node[1])
            case "print":
                ofs, ors = self._text(self.variables["OFS"]), self._text(self.variables["ORS"])
                self._out(
                    ofs.join(self._output_text(self._value(one)) for one in node[1]) + ors
                    if node[1]
                    else self._line + ors
                )
            case "printf":
                self._out(self._format([self._value(one) for one in node[1]]))
            case "if":
                self.run(node[2] if truth_of(self._value(node[1])) else node[3])
            case "while" | "for" | "forin":
                self._repeat(node)
            case "next":
                raise _Next
            case "break" | "continue":
                raise _Loop(node[0] == "continue")
            case "exit":
                if node[1] is not None:
                    self.code = int(number_of(self._value(node[1]))) & 0xFF
                raise _Exit
            case "delete":
                array = self._array(node[1])
                if node[2] is None:
                    array.clear()
                else:
                    array.pop(self._key(node[2]), None)

    def _repeat(self, node: Node) -> None:
        match node[0]:
            case "while":
                _, condition, body, once = node
                while once or truth_of(self._value(condition)):
                    once = False
                    if not self._turn(body):
                        return
            case "for":
                _, first, condition, step, body = node
                self.run(first)
                while truth_of(self._value(condition)):
                    if not self._turn(body):
                        return
                    self.run(step)
            case _:
                _, key, name, body = node
                # The order differs between implementations of awk. Scripts often expect numeric order.
                for item in sorted(self._array(name), key=key_order):
                    self._assign(key, item)
                    if not self._turn(body):
                        return

    def _turn(self, body: Node) -> bool:
        """Run the body of a loop once. Return False if the loop ends."""
        try:
            self.run(body)
        except _Loop as loop:
            return loop.again
        return True

    def _step(self) -> None:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise ShellSyntaxError("awk: the program takes too long for a simulated container")

    # Expressions

    def _value(self, node: Node) -> Value:
        self._step()
        match node:
            case ("number" | "text", constant):
                return constant if isinstance(constant, float) else str(constant)
            case ("regex", text):
                return float(self._contains(text, self._line))
            case ("variable", name):
                return self._variable(name)
            case ("element", name, keys):
                return self._element(name, self._key(keys))
            case ("field", inner):
                return self._field(self._index(self._value(inner)))
            case ("group", [inner]):
                return self._value(inner)
            case ("assign", place, operator, right):
                value = self._value(right)
                if operator:
                    value = calculate(operator, number_of(self._value(place)), number_of(value))
                return self._assign(place, value)
            case ("step", place, sign, before):
                old = number_of(self._value(place))
                self._assign(place, old + sign)
                return old + sign if before else old
            case ("arithmetic", operator, left, right):
                return calculate(operator, number_of(self._value(left)), number_of(self._value(right)))
            case ("sign", operator, inner):
                number = number_of(self._value(inner))
                return -number if operator == "-" else number
            case ("join", left, right):
                return self._limit(self._text(self._value(left)) + self._text(self._value(right)))
            case ("call", name, arguments):
                return self._call(name, arguments)
            case ("choice", condition, first, second):
                return self._value(first if truth_of(self._value(condition)) else second)
        return float(self._condition(node))

    def _condition(self, node: Node) -> bool:
        match node:
            case ("not", _, inner):
                return not truth_of(self._value(inner))
            case ("and", left, right):
                return truth_of(self._value(left)) and truth_of(self._value(right))
            case ("or", left, right):
                return truth_of(self._value(left)) or truth_of(self._value(right))
            case ("in", keys, name):
                return self._key(keys) in self._array(name)
            case ("match", left, right, negated):
                text = self._text(self._value(left))
                return self._contains(self._pattern(right), text) != bool(negated)
            case ("compare", operator, left, right):
                return self._compare(operator, self._value(left), self._value(right))
        raise UsageError("a list of values is not simulated here")

    def _compare(self, operator: str, left: Value, right: Value) -> bool:
        a: Any
        b: Any
        if is_numeric(left) and is_numeric(right):
            a, b = number_of(left), number_of(right)
        else:
            a, b = encode(self._text(left)), encode(self._text(right))
        return bool(
            {"<": a < b, "<=": a <= b, "==": a == b, "!=": a != b, ">": a > b, ">=": a >= b}[operator]
        )

    # Variables

    def _variable(self, name: str) -> Value:
        if name in self._arrays:
            raise UsageError(f"{name} is an array")
        if name == "NF":
            return float(len(self._split_line()))
        return self.variables.get(name, UNSET)

    def _assign(self, place: Node, value: Value) -> Value:
        match place:
            case ("variable", name):
                self.set(name, value)
            case ("element", name, keys):
                key = self._key(keys)
                self._element(name, key)
                self._array(name)[key] = value
            case ("field", inner):
                self._set_field(self._index(self._value(inner)), self._text(value))
        return value

    def set(self, name: str, value: Value) -> None:
        """Set a variable."""
        if name in _FIXED and value != "\n":
            raise UsageError(f"{name} other than a newline is not simulated")
        if name in self._arrays:
            raise UsageError(f"{name} is an array")
        if name == "NF":
            fields = self._split_line()
            count = self._index(value)
            self._fields = (fields + [""] * (count - len(fields)))[:count]
            self._join_line()
        elif len(self.variables) < _MOST_ELEMENTS:
            self.variables[name] = value

    def _array(self, name: str) -> dict[str, Value]:
        if name in self.variables:
            raise UsageError(f"{name} is no array")
        return self._arrays.setdefault(name, {})

    def _element(self, name: str, key: str) -> Value:
        """Return an element, which exists from then on."""
        array = self._array(name)
        if key not in array:
            if len(array) >= _MOST_ELEMENTS:
                raise ShellSyntaxError("awk: out of memory")
            array[key] = UNSET
        return array[key]

    def _key(self, keys: Sequence[Node]) -> str:
        separator = self._text(self.variables["SUBSEP"])
        return separator.join(self._text(self._value(key)) for key in keys)

    def _index(self, value: Value) -> int:
        number = number_of(value)
        if not 0 <= number < _MOST_FIELDS:
            raise UsageError(f"there is no field {self._text(value)}")
        return int(number)

    def _split_line(self) -> list[str]:
        if self._fields is None:
            self._fields = list(self._split(self._line, self.variables["FS"]))
        return self._fields

    def _field(self, index: int) -> Value:
        if not index:
            return self._line
        fields = self._split_line()
        return fields[index - 1] if index <= len(fields) else UNSET

    def _set_field(self, index: int, text: str) -> None:
        if not index:
            self._set_line(Input(text))
            return
        fields = self._split_line()
        fields += [Input("")] * (index - len(fields))
        fields[index - 1] = Input(text)
        self._join_line()

    def _join_line(self) -> None:
        fields = self._fields or []
        self._line = Input(self._limit(self._text(self.variables["OFS"]).join(fields)))

    # Texts

    def _text(self, value: Value) -> str:
        return value if isinstance(value, str) else decimal(value, self.variables["CONVFMT"])

    def _output_text(self, value: Value) -> str:
        return value if isinstance(value, str) else decimal(value, self.variables["OFMT"])

    def _limit(self, text: str) -> str:
        self._steps += len(text) >> 6
        if len(text) > _LONGEST_TEXT:
            raise ShellSyntaxError("awk: out of memory")
        return text

    def _pattern(self, node: Node) -> str:
        return node[1] if node[0] == "regex" else self._text(self._value(node))

    def _contains(self, pattern: str, text: str) -> bool:
        self._steps += len(text) >> 4
        return compile_regex(pattern).search(encode(text)) is not None

    def _split(self, text: str, separator: Value, *, is_pattern: bool = False) -> Iterator[str]:
        mark = self._text(separator)
        self._steps += len(text) >> 4
        if mark == " " and not is_pattern:
            for field in re.split(r"[ \t\n]+", text):
                if field:
                    yield Input(field)
        elif len(mark) == 1 and not is_pattern:
            yield from map(Input, text.split(mark) if text else ())
        elif not mark:
            yield from map(Input, text)
        elif text:
            data, position, search, regex = encode(text), 0, 0, compile_regex(mark)
            while search <= len(data) and (match := regex.search(data, search)):
                start, end = match.span()
                if start == end:
                    search = end + 1
                    continue
                yield Input(decode(data[position:start]))
                position = search = end
            yield Input(decode(data[position:]))

    # Functions

    def _call(self, name: str, arguments: Sequence[Node]) -> Value:
        match name:
            case "split":
                return self._call_split(arguments)
            case "sub" | "gsub":
                return self._substitute(name == "gsub", arguments)
            case "match":
                return self._call_match(arguments)
            case "length":
                if arguments and arguments[0][0] == "variable" and arguments[0][1] in self._arrays:
                    return float(len(self._arrays[arguments[0][1]]))
        values = [self._value(one) for one in arguments]
        match name:
            case "length":
                return float(len(encode(self._text(values[0]) if values else self._line)))
            case "substr":
                return self._part(values)
            case "index":
                return float(encode(self._text(values[0])).find(encode(self._text(values[1]))) + 1)
            case "sprintf":
                return self._format(values)
            case "tolower":
                return decode(encode(self._text(values[0])).lower())
            case "toupper":
                return decode(encode(self._text(values[0])).upper())
        return compute(name, number_of(values[0]))

    def _part(self, values: Sequence[Value]) -> str:
        data = encode(self._text(values[0]))
        first = round_number(number_of(values[1]))
        end = (
            len(data) + 1.0 if len(values) < 3 else round_number(number_of(values[1]) + number_of(values[2]))
        )
        low, high = max(first, 1.0), min(end, len(data) + 1.0)
        return decode(data[int(low) - 1 : int(high) - 1]) if high > low else ""

    def _call_split(self, arguments: Sequence[Node]) -> float:
        text = self._text(self._value(arguments[0]))
        array = self._array(arguments[1][1])
        if len(arguments) > 2:
            is_pattern = arguments[2][0] == "regex"
            parts = list(self._split(text, self._pattern(arguments[2]), is_pattern=is_pattern))
        else:
            parts = list(self._split(text, self.variables["FS"]))
        if len(parts) > _MOST_ELEMENTS:
            raise ShellSyntaxError("awk: out of memory")
        array.clear()
        array.update({str(place): part for place, part in enumerate(parts, 1)})
        return float(len(parts))

    def _call_match(self, arguments: Sequence[Node]) -> float:
        data = encode(self._text(self._value(arguments[0])))
        self._steps += len(data) >> 4
        match = compile_regex(self._pattern(arguments[1])).search(data)
        start, end = match.span() if match else (-1, -2)
        self.variables["RSTART"], self.variables["RLENGTH"] = float(start + 1), float(end - start)
        return float(start + 1)

    def _substitute(self, every: bool, arguments: Sequence[Node]) -> float:
        place: Node = arguments[2] if len(arguments) > 2 else ("field", ("number", 0.0))
        regex = compile_regex(self._pattern(arguments[0]))
        replacement = self._text(self._value(arguments[1]))
        data = encode(self._text(self._value(place)))
        made: list[bytes] = []
        position = copied = count = 0
        previous = -1
        while position <= len(data) and (match := regex.search(data, position)):
            self._step()
            start, end = match.span()
            if start == end == previous:
                position = end + 1
                continue
            previous, count = end, count + 1
            made += [data[copied:start], fill_replacement(replacement, match.group(0))]
            copied = end
            position = end if end > start else end + 1
            if not every:
                break
        if count:
            self._assign(place, self._limit(decode(b"".join([*made, data[copied:]]))))
        return float(count)

    def _format(self, values: Sequence[Value]) -> str:
        rest = list(values[1:])

        def take() -> Value:
            if not rest:
                raise UsageError("not enough arguments passed to sprintf")
            return rest.pop(0)

        def fill(match: re.Match[str]) -> str:
            if match[0] == "%%":
                return "%"
            flags, width, precision, kind = match.groups()
            width = str(int(number_of(take()))) if width == "*" else width
            precision = str(int(number_of(take()))) if precision == "*" else precision
            form = f"%{flags}{width}" + ("" if precision is None else f".{precision}")
            if not re.fullmatch(r"%[-+ 0#]*-?\d{0,4}(?:\.\d{0,3})?", form):
                raise UsageError(f"{match[0]} is not simulated")
            if kind in "diouxX":
                number = number_of(take())
                whole = int(number) if math.isfinite(number) else 0
                return str(f"{form}{'d' if kind in 'iu' else kind}" % whole)
            if kind in "eEfFgG":
                return str(f"{form}{kind}" % number_of(take()))
            if kind == "c":
                value = take()
                char = value[:1] if isinstance(value, str) else chr(int(value) & 0xFF)
                return str(f"{form}s" % char)
            if kind == "s":
                return str(f"{form}s" % self._text(take()))
            raise UsageError(f"{match[0]} is not simulated")

        return self._limit(_HOLE.sub(fill, self._text(values[0])))


@declare(Syntax(valued="Fvf", status=2, leading=1, instead="f", ordered=True))
async def awk(process: Process, given: Given) -> int:
    """Run a program over the lines of files."""
    operands = list(given.operands)
    texts = []
    for name in given.values("f"):
        content = read(process, name)
        if content is None:
            return 2
        texts.append(content)
    if not texts:
        if not operands:
            raise UsageError("usage: awk [-F fs] [-v var=value] 'prog' [file ...]")
        texts = [operands.pop(0)]
    program = parse_program("\n".join(texts))
    pieces: list[str] = []
    machine = _Machine(pieces.append, process.env)
    for letter, value in given.options:
        if letter == "F":
            machine.set("FS", "\t" if value == "t" else unescape(value))
        elif letter == "v":
            _set(machine, value)
    try:
        status = await _run(process, machine, program, operands, pieces)
    finally:
        process.out("".join(pieces))
    return status


def _set(machine: _Machine, text: str) -> bool:
    match = _ASSIGNMENT.fullmatch(text)
    if match is None:
        return False
    machine.set(match[1], Input(unescape(match[2])))
    return True


async def _run(
    process: Process, machine: _Machine, program: Program, operands: Sequence[str], pieces: list[str]
) -> int:
    status = 0
    try:
        for block in program.begin:
            machine.run(block)
        if program.rules or program.end:
            status = await _read_files(process, machine, program, operands, pieces)
    except _Exit:
        return _run_end(machine, program)
    except (_Next, _Loop) as error:
        raise UsageError("next, break or continue outside of its place") from error
    return _run_end(machine, program) or status


def _run_end(machine: _Machine, program: Program) -> int:
    machine.restart()
    try:
        for block in program.end:
            machine.run(block)
    except _Exit:
        pass
    except (_Next, _Loop) as error:
        raise UsageError("next, break or continue outside of its place") from error
    return machine.code


async def _read_files(
    process: Process, machine: _Machine, program: Program, operands: Sequence[str], pieces: list[str]
) -> int:
    status = files = steps = 0
    for operand in [*operands, None]:
        if operand is None:
            if files:
                break
            operand = "-"
        elif _ASSIGNMENT.fullmatch(operand):
            _set(machine, operand)
            continue
        files += 1
        text = read(process, operand)
        if text is None:
            status = 2
            continue
        machine.set("FILENAME", "" if operand == "-" else operand)
        machine.variables["FNR"] = 0.0
        for line in split_lines(text):
            machine.take(line)
            steps += machine.run_rules(program)
            if steps > _STEPS_WITHOUT_PAUSE:
                process.out("".join(pieces))
                pieces.clear()
                steps = 0
                await asyncio.sleep(0)
    return status
