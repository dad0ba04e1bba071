"""Find the attributes of a device that an expression may read."""

from collections.abc import Iterable

from dra_shared.cel.syntax import (
    Call,
    Comprehension,
    Expr,
    Ident,
    ListLiteral,
    Literal,
    Select,
    children,
    walk,
)

#: (domain, id) as written in the expression.
Read = tuple[str, str]

_Path = tuple[str, ...]


class _Unknown(Exception):
    """The attributes that the expression reads are only known at evaluation."""


def reads(expr: Expr) -> dict[str, frozenset[Read]] | None:
    """Return the entries of ``attributes`` and of ``capacity`` that are read; None if they are only known at
    evaluation.
    """
    found: dict[str, set[Read]] = {"attributes": set(), "capacity": set()}
    try:
        _visit(expr, {}, found)
    except _Unknown:
        return None
    return {field: frozenset(entries) for field, entries in found.items()}


def _path(expr: Expr, bound: dict[str, _Path | None]) -> _Path | None:
    """Return the constant selections from the device that form the expression, or None."""
    match expr:
        case Ident(name=name):
            if name in bound:
                return bound[name]
            return () if name == "device" else None
        case Select(operand=operand, name=name):
            base = _path(operand, bound)
            return None if base is None else (*base, name)
        case Call(function="_[_]" | "_[?_]" | "_?._", args=[operand, Literal(value=str(key))]):
            base = _path(operand, bound)
            return None if base is None else (*base, key)
    return None


def _visit(expr: Expr, bound: dict[str, _Path | None], found: dict[str, set[Read]]) -> None:
    path = _path(expr, bound)
    if path is not None:
        _record(path, found)
        return
    match expr:
        case Call(function="@in", args=[Literal(value=str(key)), container]):
            base = _path(container, bound)
            if base is not None:
                _record((*base, key), found)
                return
        case Comprehension():
            _comprehension(expr, bound, found)
            return
    _visit_all(children(expr), bound, found)


def _visit_all(parts: Iterable[Expr], bound: dict[str, _Path | None], found: dict[str, set[Read]]) -> None:
    for part in parts:
        _visit(part, bound, found)


def _comprehension(expr: Comprehension, bound: dict[str, _Path | None], found: dict[str, set[Read]]) -> None:
    is_binding = isinstance(expr.range, ListLiteral) and not expr.range.elements
    path = _path(expr.initial, bound) if is_binding else None
    _visit(expr.range, bound, found)
    if path is None:
        _visit(expr.initial, bound, found)
    inner = {**bound, expr.accumulator: path}
    loop = {**inner, expr.variable: None}
    if expr.second is not None:
        loop[expr.second] = None
    if not is_binding:
        _visit_all((expr.condition, expr.step), loop, found)
    _visit(expr.result, inner, found)


def _record(path: _Path, found: dict[str, set[Read]]) -> None:
    if not path or path[0] not in found:
        if not path:
            raise _Unknown
        return
    if len(path) < 3:
        raise _Unknown
    found[path[0]].add((path[1], path[2]))


def comparisons(expr: Expr) -> list[tuple[_Path, tuple[object, ...]]]:
    """Return the paths of a device that are compared with constants, such as ``("attributes", "example.com",
    "model")``.

    Each path has the values of its comparison: that of ``==``, or those of the list of ``in``.
    """
    found: list[tuple[_Path, tuple[object, ...]]] = []
    for node in walk(expr):
        match node:
            case Call(function="_==_", args=[Literal(value=value), other]):
                found.append((_path(other, {}) or (), (value,)))
            case Call(function="_==_", args=[other, Literal(value=value)]):
                found.append((_path(other, {}) or (), (value,)))
            case Call(function="@in", args=[other, ListLiteral(elements=elements)]):
                values = tuple(element.value for element in elements if isinstance(element, Literal))
                found.append((_path(other, {}) or (), values))
    return [(path, values) for path, values in found if path]
