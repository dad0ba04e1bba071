"""Compile a checked tree to closures, with or without cost accounting.

Mirrors cel-go's interpreter/planner.go and interpretable.go.
"""

import operator
from collections.abc import Sequence
from typing import Any, Final

from dra_shared.cel import messages
from dra_shared.cel.attributes import (
    LOCALS,
    Attribute,
    Code,
    Frame,
    Qualifier,
    Run,
    attribute_code,
    charge,
    constant,
    plain,
    refund_attribute,
    resolver,
)
from dra_shared.cel.checker import TypeIdent
from dra_shared.cel.closures import (
    early_call,
    fail,
    for_text,
    logic,
    matcher,
    or_panic,
    or_value,
    strict_call,
    strict_operator,
    tracked_call,
    untracked_call,
)
from dra_shared.cel.comprehensions import Fold, fold_code
from dra_shared.cel.construction import hashable, map_builder, optional_list, plain_list, struct_builder
from dra_shared.cel.declarations import Functions
from dra_shared.cel.depth import room, with_room
from dra_shared.cel.dispatch import implementation
from dra_shared.cel.errors import EvaluationError
from dra_shared.cel.library.patterns import compile_regex
from dra_shared.cel.syntax import (
    ACCUMULATOR,
    Call,
    Comprehension,
    Expr,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    StructLiteral,
    walk,
)
from dra_shared.cel.types import DEVICE, DYN, Kind, Type
from dra_shared.cel.values import NO_OVERLOAD, TypeValue, Uint, go_type

_CONVERSIONS: Final = frozenset(
    ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"]
)
_PRIMITIVE: Final = frozenset((bool, float, int, str, Uint))
_NUMBERS: Final = frozenset((float, int, Uint))
_KEYS: Final = frozenset((bool, float, int, str, Uint))
# Operators that are charged even if an argument fails. cel-go 0.33 does so, because older versions did:
# expressions that are stored in a cluster must not change their cost.
_COSTLY_IF_FAILED: Final = frozenset(("_==_", "_!=_", "!_"))
_LIST_COST: Final = 10
_MAP_COST: Final = 30
_STRUCT_COST: Final = 40


def compile_tree(
    expr: Expr,
    functions: Functions,
    *,
    tracked: bool,
    variables: Sequence[str] = (),
    strict: bool = False,
) -> tuple[Run, int]:
    """Return the code of a checked expression, and the length of its frame.

    ``variables`` are the names of the first locals in the frame. ``strict`` selects the evaluation rules of
    cel-go 0.33: a call stops at its first argument that fails, and costs nothing then.

    Raises EvaluationError for constants that can't be converted, RegexError for patterns that don't compile.
    """
    nulls = any(type(node) is Literal and node.value is None for node in walk(expr))
    guesses = any(isinstance(node, Call) and _guesses_type(node, functions) for node in walk(expr))
    compiler = _Compiler(functions, tracked, nulls, strict, guesses)
    for name in variables:
        compiler.declare(name)
    with room():
        code = compiler.code(expr)
    return with_room(expr, code.run), LOCALS + compiler.slots


def may_panic(expr: Expr) -> bool:
    """True if upstream may fail where code without cost accounting would not.

    Upstream panics if the elements of a list cannot be compared. The cost of flattening to a negative depth
    exceeds all limits.
    """
    return any(
        isinstance(node, Call) and (_compares(node.overloads) or "list_flatten_int" in node.overloads)
        for node in walk(expr)
    )


class _Compiler:
    def __init__(self, functions: Functions, tracked: bool, nulls: bool, strict: bool, guesses: bool) -> None:
        self.functions = functions
        self._strict = strict
        self.tracked = tracked
        self.slots = 0
        self._scopes: dict[str, list[Run]] = {}
        #: Whether a value of a struct's type may be null.
        self._nulls = nulls
        #: Whether a value may be of another type than the checker found.
        self._guesses = guesses

    def declare(self, name: str) -> None:
        """Assign the next local of the frame to a variable."""
        self._scopes[name] = [operator.itemgetter(self._slot())]

    def code(self, expr: Expr) -> Code:
        match expr:
            case TypeIdent():
                if expr.value in messages.TYPES.keys() - messages.NAMED or expr.value == DEVICE.name:
                    raise EvaluationError(f"reference to undefined type: {expr.value}")
                return constant(TypeValue(expr.value))
            case Literal():
                return constant(expr.value)
            case Ident():
                if expr.type.kind is Kind.TYPE:
                    # Upstream treats every name of that type as the name of a type.
                    raise EvaluationError(f"reference to undefined type: {expr.name}")
                return self._attribute(Attribute(self._variable(expr.name)))
            case Select():
                operand = self._as_attribute(self.code(expr.operand))
                selected = self._attribute(operand.select(Qualifier(expr.name, test=expr.test_only)))
                if expr.test_only and self.tracked and operand.branches is not None:
                    selected.run = refund_attribute(selected.run)
                return selected
            case Call():
                return self._call(expr)
            case ListLiteral():
                return self._list(expr)
            case MapLiteral():
                return self._map(expr)
            case StructLiteral():
                return self._struct(expr)
            case Comprehension():
                return self._comprehension(expr)
        raise TypeError(f"unknown expression {expr!r}")

    def _variable(self, name: str) -> Run | None:
        scopes = self._scopes.get(name)
        return scopes[-1] if scopes else None

    def _attribute(self, attribute: Attribute) -> Code:
        return attribute_code(attribute, tracked=self.tracked)

    def _as_attribute(self, code: Code) -> Attribute:
        return code.attribute if code.attribute is not None else Attribute(code.run)

    def _call(self, expr: Call) -> Code:
        function = expr.function
        operands = expr.args if expr.target is None else [expr.target, *expr.args]
        args = [self.code(operand) for operand in operands]
        match function:
            case "_&&_":
                return plain(logic(args[0].run, args[1].run, False))
            case "_||_":
                return plain(logic(args[0].run, args[1].run, True))
            case "_?_:_":
                branches = (args[0].run, self._as_attribute(args[1]), self._as_attribute(args[2]))
                return self._attribute(Attribute(None, (), branches))
            case "_[_]":
                return self._index(args, optional=False)
            case "_?._" | "_[?_]":
                return self._index(args, optional=True)
            case "@not_strictly_false":
                return plain(self._accounted_not_false(args[0].run))
            case "or" | "orValue" if len(args) == 2:
                return plain(or_value(args[0].run, args[1].run, unwrap=function == "orValue"))
            case "@in" if expr.overloads == ["in_list"] and args[1].is_const:
                member = self._membership(args[0].run, args[1].value)
                if member is not None:
                    return member
        return self._function(
            expr,
            args,
            [DYN if self._guesses or _may_change_type(operand) else operand.type for operand in operands],
        )

    def _index(self, args: Sequence[Code], *, optional: bool) -> Code:
        key = args[1]
        if key.is_const:
            if type(key.value) not in _KEYS:
                raise EvaluationError(f"invalid qualifier type: {go_type(key.value)}")
            qualifier = Qualifier(key.value, optional=optional)
        elif key.attribute is not None:
            qualifier = Qualifier(None, resolver(key.attribute, tracked=self.tracked), optional=optional)
        else:
            qualifier = Qualifier(None, key.run, optional=optional)
        return self._attribute(self._as_attribute(args[0]).select(qualifier))

    def _membership(self, wanted: Run, values: list[Any]) -> Code | None:
        """Return code for ``in`` a constant list, which costs nothing; None if it needs the general code."""
        if not values:
            return constant(False)
        if any(type(value) not in _PRIMITIVE for value in values):
            return None
        strings = frozenset(value for value in values if type(value) is str)
        numbers = frozenset(value for value in values if type(value) in _NUMBERS)
        booleans = frozenset(value for value in values if type(value) is bool)

        def run(frame: Frame) -> Any:
            value = wanted(frame)
            kind = type(value)
            if kind is str:
                return value in strings
            if kind is bool:
                return value in booleans
            return kind in _NUMBERS and value in numbers

        return plain(run)

    def _function(self, expr: Call, args: Sequence[Code], types: Sequence[Any]) -> Code:
        function = expr.function
        declared = self.functions[function]
        run = implementation(declared, expr.overloads, types, nulls=self._nulls)
        if function in _CONVERSIONS and len(args) == 1 and args[0].is_const:
            return constant(run(args[0].value))
        pattern = args[1].value if len(args) > 1 and args[1].is_const else None
        compiled = function in ("matches", "find", "findAll") and isinstance(pattern, str)
        if compiled:
            compile_regex(str(pattern))
            run = matcher(str(pattern)) if function == "matches" else for_text(run)
        if _compares(expr.overloads) and not self._strict:
            # Upstream's cost accounting panics if the list fails. If there are two arguments, both come from the
            # same list and fail together, so only the last one is checked.
            args = [*args[:-1], plain(or_panic(args[-1].run))]
        if not self.tracked:
            return plain(untracked_call(function, run, args))
        overload = expr.overloads[0] if len(expr.overloads) == 1 else ""
        single = len(declared.overloads) == 1 or overload != "" or _by_value(function)
        early = len(args) > 2 or compiled or not single or function == "format"
        cost = declared.call_cost(overload)
        runs = [arg.run for arg in args]
        if self._strict:
            call = strict_operator if function in _COSTLY_IF_FAILED else strict_call
            return plain(call(run, runs, cost))
        return plain(early_call(run, runs, cost) if early else tracked_call(run, runs, cost))

    def _accounted_not_false(self, operand: Run) -> Run:
        tracked = self.tracked

        def run(frame: Frame) -> bool:
            try:
                value = operand(frame)
            except EvaluationError:
                value = True
            if tracked:
                charge(frame, 1)
            return value is not False

        return run

    def _list(self, expr: ListLiteral) -> Code:
        elements = [self.code(element) for element in expr.elements]
        if all(element.is_const for element in elements):
            return constant([element.value for element in elements])
        runs = [element.run for element in elements]
        build = optional_list(runs, expr.optional) if expr.optional else plain_list(runs)
        return plain(self._charge_construction(build, _LIST_COST))

    def _map(self, expr: MapLiteral) -> Code:
        entries = [(self.code(entry.key), self.code(entry.value), entry.optional) for entry in expr.entries]
        if all(key.is_const and value.is_const for key, value, _ in entries):
            return constant({hashable(key.value): value.value for key, value, _ in entries})
        build = map_builder([(key.run, value.run, optional) for key, value, optional in entries])
        return plain(self._charge_construction(build, _MAP_COST))

    def _struct(self, expr: StructLiteral) -> Code:
        fields = [(key, self.code(value).run, optional) for _, key, value, optional in expr.fields]
        return plain(
            self._charge_construction(struct_builder(expr.name.removeprefix("."), fields), _STRUCT_COST)
        )

    def _charge_construction(self, build: Run, cost: int) -> Run:
        if not self.tracked:
            return build
        strict = self._strict

        def run(frame: Frame) -> Any:
            try:
                value = build(frame)
            except EvaluationError:
                if not strict:
                    charge(frame, cost)
                raise
            charge(frame, cost)
            return value

        return run

    def _slot(self) -> int:
        self.slots += 1
        return LOCALS + self.slots - 1

    def _comprehension(self, expr: Comprehension) -> Code:
        ranged = self.code(expr.range).run
        initial = self.code(expr.initial).run
        accumulator = self._slot()
        fold = Fold(accumulator, self._slot(), self._slot() if expr.second is not None else None)
        self._scopes.setdefault(expr.accumulator, []).append(fold.read_accumulator(initial))
        self._scopes.setdefault(expr.variable, []).append(fold.read_first())
        if expr.second is not None:
            self._scopes.setdefault(expr.second, []).append(fold.read_second())
        # Each part is compiled once: compiling nested loops twice would take exponential time.
        predicate = self._quantify(expr)
        condition: Run = fail
        step: Run = fail
        if predicate is None:
            condition = self.code(expr.condition).run
            appended = _find_appended(expr)
            step = self.code(expr.step).run if appended is None else self._append(fold, initial, appended)
        self._scopes[expr.variable].pop()
        if expr.second is not None:
            self._scopes[expr.second].pop()
        result = self.code(expr.result).run
        self._scopes[expr.accumulator].pop()
        return plain(fold_code(fold, ranged, condition, step, result, predicate))

    def _quantify(self, expr: Comprehension) -> tuple[bool, Run] | None:
        """Return the predicate of an untracked ``all`` or ``exists``, which then runs as a plain loop; None for
        other loops.
        """
        step = expr.step
        if self.tracked or not isinstance(step, Call) or step.function not in ("_&&_", "_||_"):
            return None
        if not isinstance(expr.initial, Literal) or expr.accumulator != ACCUMULATOR:
            return None
        return step.function == "_||_", self.code(step.args[1]).run

    def _append(self, fold: Fold, initial: Run, appended: tuple[Expr | None, list[Expr]]) -> Run:
        """Return code that appends to the accumulated list in place, like cel-go's mutable lists."""
        predicate, elements = appended
        codes = [self.code(element) for element in elements]
        items = [code.run for code in codes]
        read = self._attribute(Attribute(fold.read_accumulator(initial))).run
        when = self.code(predicate).run if predicate is not None else None
        created = 0 if all(code.is_const for code in codes) else _LIST_COST
        tracked, strict = self.tracked, self._strict
        keep = fold.read_accumulator(initial)

        def append(frame: Frame) -> Any:
            if when is not None:
                chosen = when(frame)
                if chosen is False:
                    return keep(frame)
                if chosen is not True:
                    raise EvaluationError(NO_OVERLOAD)
            failure: EvaluationError | None = None
            target: list[Any] = []
            try:
                target = read(frame)
            except EvaluationError as error:
                if strict:
                    raise
                failure = error
            try:
                values = [item(frame) for item in items]
            except EvaluationError as error:
                if strict:
                    raise
                failure = failure or error
            if tracked:
                charge(frame, created + 1)
            if failure is not None:
                raise failure
            target.extend(values)
            return target

        return append


def _compares(overloads: Sequence[str]) -> bool:
    """True if the call compares the elements of a list with each other."""
    return len(overloads) == 1 and (
        overloads[0] == "list_distinct" or overloads[0].endswith(("_sort", "_sortByAssociatedKeys"))
    )


def _guesses_type(expr: Call, functions: Functions) -> bool:
    """True if a dynamic argument may make the result differ from the type that the checker found.

    For example, the checker's type of ``dyn(["a"]) + [1]`` is ``list(int)``, although the list has a string.
    """
    if len(expr.overloads) != 1 or _has_dynamic_part(expr.type):
        return False
    overload = functions[expr.function].overload(expr.overloads[0])
    if overload is None or not overload.params or not overload.result.params:
        return False
    operands = expr.args if expr.target is None else [expr.target, *expr.args]
    return any(operand.type.is_dyn for operand in operands)


def _has_dynamic_part(type_: Type) -> bool:
    return type_.is_dyn or any(map(_has_dynamic_part, type_.params))


def _by_value(function: str) -> bool:
    """True for operators with one implementation for all overloads."""
    return not function[0].isalpha() or function in ("size", "type", "dyn", "sort")


def _find_appended(expr: Comprehension) -> tuple[Expr | None, list[Expr]] | None:
    """Return the predicate and elements of a step that appends to the accumulated list."""
    if not isinstance(expr.initial, ListLiteral) or expr.initial.elements or expr.accumulator != ACCUMULATOR:
        return None
    step = expr.step
    predicate: Expr | None = None
    if isinstance(step, Call) and step.function == "_?_:_":
        predicate, step = step.args[0], step.args[1]
    if not isinstance(step, Call) or step.function != "_+_" or len(step.args) != 2:
        return None
    target, added = step.args
    if not isinstance(target, Ident) or target.name != ACCUMULATOR or not isinstance(added, ListLiteral):
        return None
    return None if added.optional else (predicate, added.elements)


def _may_change_type(expr: Expr) -> bool:
    """True if values may be of another type than the expression. orValue returns values that are not optional
    unchanged.
    """
    if not isinstance(expr, Call):
        return False
    match expr.function:
        case "or" | "orValue" if expr.target is not None:
            return expr.target.type.is_dyn or _may_change_type(expr.target)
        case "_?_:_" | "_[_]":
            return any(map(_may_change_type, expr.args))
    return False
