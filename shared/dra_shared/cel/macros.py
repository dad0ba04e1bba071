"""Macros: calls that expand to another expression (cel-go's parser/macro.go, ext/ and the optional library)."""

from collections.abc import Callable, Sequence
from typing import Final

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
    copy,
)

UNUSED: Final = "#unused"
_OVERWRITES: Final = "iteration variable overwrites accumulator variable"
_SORT_INPUT: Final = "@__sortBy_input__"


class MacroError(Exception):
    """The arguments of a macro are invalid."""

    def __init__(self, pos: int, message: str) -> None:
        super().__init__(message)
        self.pos = pos
        self.message = message


Expander = Callable[[int, Expr, Sequence[Expr]], Expr | None]


def expand(pos: int, function: str, target: Expr | None, args: Sequence[Expr]) -> Expr | None:
    """Return the expansion of a call, or None if it is not a macro. Generated nodes have the position ``pos``."""
    if target is None:
        return _has(pos, args) if function == "has" and len(args) == 1 else None
    expander = _RECEIVER.get((function, len(args)))
    return expander(pos, target, args) if expander is not None else None


def _has(pos: int, args: Sequence[Expr]) -> Expr:
    arg = args[0]
    if not isinstance(arg, Select):
        raise MacroError(arg.pos, "invalid argument to has() macro")
    return Select(pos, arg.operand, arg.name, test_only=True)


def _accu(pos: int) -> Ident:
    return Ident(pos, ACCUMULATOR)


def _variables(args: Sequence[Expr], count: int, message: str) -> tuple[str, str | None]:
    names: list[str] = []
    for arg in args[:count]:
        if not isinstance(arg, Ident):
            raise MacroError(arg.pos, message)
        names.append(arg.name)
    if count == 2 and names[0] == names[1]:
        raise MacroError(args[1].pos, f"duplicate variable name: {names[0]}")
    for name, arg in zip(names, args, strict=False):
        if name in (ACCUMULATOR, "__result__"):
            raise MacroError(arg.pos, _OVERWRITES)
    return names[0], names[1] if count == 2 else None


def _quantifier(kind: str, count: int) -> Expander:
    def expander(pos: int, target: Expr, args: Sequence[Expr]) -> Expr:
        first, second = _variables(args, count, "argument must be a simple name")
        predicate = args[count]
        result: Expr = _accu(pos)
        initial: Expr
        if kind == "all":
            initial = Literal(pos, True)
            condition: Expr = Call(pos, "@not_strictly_false", [_accu(pos)])
            step = Call(pos, "_&&_", [_accu(pos), predicate])
        elif kind == "exists":
            initial = Literal(pos, False)
            condition = Call(pos, "@not_strictly_false", [Call(pos, "!_", [_accu(pos)])])
            step = Call(pos, "_||_", [_accu(pos), predicate])
        else:
            initial = Literal(pos, 0)
            condition = Literal(pos, True)
            more = Call(pos, "_+_", [_accu(pos), Literal(pos, 1)])
            step = Call(pos, "_?_:_", [predicate, more, _accu(pos)])
            result = Call(pos, "_==_", [_accu(pos), Literal(pos, 1)])
        return Comprehension(pos, target, first, second, ACCUMULATOR, initial, condition, step, result)

    return expander


def _map(pos: int, target: Expr, args: Sequence[Expr]) -> Expr:
    name, _ = _variables(args, 1, "argument is not an identifier")
    predicate = args[1] if len(args) == 3 else None
    step = Call(pos, "_+_", [_accu(pos), ListLiteral(pos, [args[-1]])])
    return _collect(pos, target, (name, None), ListLiteral(pos, []), predicate, step)


def _filter(pos: int, target: Expr, args: Sequence[Expr]) -> Expr:
    name, _ = _variables(args, 1, "argument is not an identifier")
    step = Call(pos, "_+_", [_accu(pos), ListLiteral(pos, [args[0]])])
    return _collect(pos, target, (name, None), ListLiteral(pos, []), args[1], step)


def _transform_list(pos: int, target: Expr, args: Sequence[Expr]) -> Expr:
    names = _variables(args, 2, "argument must be a simple name")
    predicate = args[2] if len(args) == 4 else None
    step = Call(pos, "_+_", [_accu(pos), ListLiteral(pos, [args[-1]])])
    return _collect(pos, target, names, ListLiteral(pos, []), predicate, step)


def _transform_map(pos: int, target: Expr, args: Sequence[Expr]) -> Expr:
    names = _variables(args, 2, "argument must be a simple name")
    predicate = args[2] if len(args) == 4 else None
    step = Call(pos, "cel.@mapInsert", [_accu(pos), Ident(pos, names[0]), args[-1]])
    return _collect(pos, target, names, MapLiteral(pos, []), predicate, step)


def _transform_map_entry(pos: int, target: Expr, args: Sequence[Expr]) -> Expr:
    names = _variables(args, 2, "argument must be a simple name")
    predicate = args[2] if len(args) == 4 else None
    step = Call(pos, "cel.@mapInsert", [_accu(pos), args[-1]])
    return _collect(pos, target, names, MapLiteral(pos, []), predicate, step)


def _collect(
    pos: int, target: Expr, names: tuple[str, str | None], initial: Expr, predicate: Expr | None, step: Expr
) -> Expr:
    if predicate is not None:
        step = Call(pos, "_?_:_", [predicate, step, _accu(pos)])
    return Comprehension(pos, target, *names, ACCUMULATOR, initial, Literal(pos, True), step, _accu(pos))


def _binding(pos: int, name: str, initial: Expr, result: Expr) -> Comprehension:
    return Comprehension(
        pos, ListLiteral(pos, []), UNUSED, None, name, initial, Literal(pos, False), Ident(pos, name), result
    )


def _bind(pos: int, target: Expr, args: Sequence[Expr]) -> Expr | None:
    if not isinstance(target, Ident) or target.name != "cel":
        return None
    name = args[0]
    if not isinstance(name, Ident):
        raise MacroError(name.pos, "cel.bind() variable names must be simple identifiers")
    return _binding(pos, name.name, args[1], args[2])


def _optional_map(flat: bool) -> Expander:
    def expander(pos: int, target: Expr, args: Sequence[Expr]) -> Expr:
        name = args[0]
        if not isinstance(name, Ident):
            macro = "optFlatMap" if flat else "optMap"
            raise MacroError(name.pos, f"{macro}() variable name must be a simple identifier")
        value = Call(pos, "value", [], copy(target))
        bound: Expr = _binding(pos, name.name, value, args[1])
        if not flat:
            bound = Call(pos, "optional.of", [bound])
        present = Call(pos, "hasValue", [], target)
        return Call(pos, "_?_:_", [present, bound, Call(pos, "optional.none", [])])

    return expander


def _sort_by(pos: int, target: Expr, args: Sequence[Expr]) -> Expr:
    if not isinstance(target, ListLiteral | Select | Ident | Comprehension | Call):
        raise MacroError(
            target.pos,
            "sortBy can only be applied to a list, identifier, comprehension, call or select expression",
        )
    keys = _map(pos, Ident(pos, _SORT_INPUT), args)
    call = Call(pos, "@sortByAssociatedKeys", [keys], Ident(pos, _SORT_INPUT))
    return _binding(pos, _SORT_INPUT, target, call)


_RECEIVER: Final[dict[tuple[str, int], Expander]] = {
    ("all", 2): _quantifier("all", 1),
    ("exists", 2): _quantifier("exists", 1),
    ("exists_one", 2): _quantifier("one", 1),
    ("all", 3): _quantifier("all", 2),
    ("exists", 3): _quantifier("exists", 2),
    ("exists_one", 3): _quantifier("one", 2),
    ("existsOne", 3): _quantifier("one", 2),
    ("map", 2): _map,
    ("map", 3): _map,
    ("filter", 2): _filter,
    ("transformList", 3): _transform_list,
    ("transformList", 4): _transform_list,
    ("transformMap", 3): _transform_map,
    ("transformMap", 4): _transform_map,
    ("transformMapEntry", 3): _transform_map_entry,
    ("transformMapEntry", 4): _transform_map_entry,
    ("bind", 3): _bind,
    ("optMap", 2): _optional_map(False),
    ("optFlatMap", 2): _optional_map(True),
    ("sortBy", 2): _sort_by,
}
