"""Estimate the highest cost of an expression (cel-go's checker/cost.go with Kubernetes' and DRA's estimators).

Costs and sizes are ranges of unsigned 64-bit numbers that saturate at the maximum.
"""

import re
from typing import Final

from dra_shared.cel.checker import NamedConstant
from dra_shared.cel.declarations import Estimate, Functions, Node
from dra_shared.cel.device_sizes import Path, path_size
from dra_shared.cel.library.costs import size_range
from dra_shared.cel.ranges import MAX, ONE, UNKNOWN, Range, add, exactly, multiply, union
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
)
from dra_shared.cel.types import Kind, Type
from dra_shared.version import DEFAULT, V1_38, Version

_ZERO: Final = exactly(0)
_STRUCT: Final = 40
_FIELD_KINDS: Final = frozenset((Kind.MAP, Kind.STRUCT, Kind.PARAM))
_SCALARS: Final = frozenset((Kind.BOOL, Kind.DOUBLE, Kind.DURATION, Kind.INT, Kind.TIMESTAMP, Kind.UINT))
#: Overloads whose result has the entries of both arguments.
_JOINING: Final = frozenset(("add_bytes", "add_list", "add_string"))

#: Overloads whose result has items of the receiver.
_REORDERING: Final = re.compile(r"list_(distinct|reverse|slice|\w+_sort|\w+_sortByAssociatedKeys)")

#: The sizes of a container's keys and values, and whether it is a list.
Entries = tuple[bool, Range, Range]


def estimate_cost(expr: Expr, functions: Functions, kubernetes: Version = DEFAULT) -> int:
    """Return the largest cost that the checked expression can have."""
    return _Coster(functions, kubernetes >= V1_38).cost(expr)[1]


class _Local:
    __slots__ = ("entries", "path", "size")

    def __init__(self, path: Path, size: Range | None, entries: Entries | None) -> None:
        self.path = path
        self.size = size
        self.entries = entries


class _Coster:
    def __init__(self, functions: Functions, newer: bool) -> None:
        """Use the rules of cel-go 0.33 if ``newer`` is set.

        Types have a size then, and sorted lists keep the sizes of their items.
        """
        self._functions = functions
        self._scalars = _SCALARS | {Kind.TYPE} if newer else _SCALARS
        self._keeps_elements = newer
        self._paths: dict[Expr, Path] = {}
        self._sizes: dict[Expr, Range] = {}
        self._entries: dict[Expr, Entries] = {}
        self._locals: dict[str, list[_Local]] = {}

    def cost(self, expr: Expr) -> Range:
        match expr:
            case NamedConstant():
                return ONE
            case Literal():
                return _ZERO
            case Ident():
                local = self._local(expr.name)
                self._paths[expr] = local.path if local is not None else (expr.name,)
                return ONE
            case Select():
                return self._select(expr)
            case Call():
                return self._call(expr)
            case ListLiteral():
                return self._list(expr)
            case MapLiteral():
                return self._map(expr)
            case Comprehension():
                return self._bind(expr) if _is_bind(expr) else self._fold(expr)
            case StructLiteral():
                return self._struct(expr)
        return _ZERO

    def _struct(self, expr: StructLiteral) -> Range:
        total = exactly(_STRUCT)
        for _, _, value, _ in expr.fields:
            total = add(total, self.cost(value))
        return total

    def _local(self, name: str) -> _Local | None:
        stack = self._locals.get(name)
        return stack[-1] if stack else None

    def _push(self, name: str, local: _Local) -> None:
        self._locals.setdefault(name, []).append(local)

    def _select(self, expr: Select) -> Range:
        cost = self.cost(expr.operand)
        if expr.test_only:
            return cost
        if expr.operand.type.kind in _FIELD_KINDS:
            cost = add(cost, ONE)
        self._paths[expr] = (*self._path(expr.operand), expr.name)
        return cost

    def _call(self, expr: Call) -> Range:
        if expr.function == "dyn":
            argument = self.cost(expr.args[0])
            self._copy(expr, expr.args[0])
            return add(ONE, argument)
        costs = [self.cost(arg) for arg in expr.args]
        args = [self._node(arg) for arg in expr.args]
        if not expr.overloads:
            return _ZERO
        total = _ZERO
        target: Node | None = None
        if expr.target is not None:
            total = self.cost(expr.target)
            target = self._node(expr.target)
        cost: Range = (MAX, 0)
        size: Range | None = None
        for overload in expr.overloads:
            estimate = self._function(expr, overload, target, args, costs)
            cost = union(cost, estimate.cost)
            if estimate.size is not None:
                size = estimate.size if size is None else union(size, estimate.size)
            if overload in ("index_list", "index_map"):
                entries = self._entry_sizes(expr.args[0])
                size = entries[2] if entries is not None else None
                step = "@items" if overload == "index_list" else "@values"
                self._paths[expr] = (*self._path(expr.args[0]), step)
            if size is None:
                size = self._size(expr)
        if size is not None:
            self._sizes[expr] = size
        return add(total, cost)

    def _function(
        self, expr: Call, overload: str, target: Node | None, args: list[Node], costs: list[Range]
    ) -> Estimate:
        """Estimate a call with its arguments. Logical operators may skip some of them."""
        if overload in ("logical_or", "logical_and"):
            return Estimate((costs[0][0], add(costs[0], costs[1])[1]))
        if overload == "conditional":
            self._join_entries(expr, args[1].expr, args[2].expr)
            return Estimate(
                add(costs[0], union(costs[1], costs[2])), union(size_range(args[1]), size_range(args[2]))
            )
        if overload in _JOINING:
            self._join_entries(expr, args[0].expr, args[1].expr)
        if self._keeps_elements and target is not None and _REORDERING.fullmatch(overload):
            self._copy_entries(expr, target.expr)
        summed = _ZERO
        for cost in costs:
            summed = add(summed, cost)
        estimate = self._functions[expr.function].estimate_call(overload, target, args)
        return Estimate(add(estimate.cost, summed), estimate.size)

    def _join_entries(self, expr: Expr, first: Expr | None, second: Expr | None) -> None:
        if first is None or second is None:
            return
        a, b = self._entry_sizes(first), self._entry_sizes(second)
        if a is not None and b is not None:
            self._entries[expr] = (a[0], union(a[1], b[1]), union(a[2], b[2]))

    def _copy_entries(self, expr: Expr, source: Expr | None) -> None:
        entries = None if source is None else self._entry_sizes(source)
        if entries is not None:
            self._entries[expr] = entries

    def _list(self, expr: ListLiteral) -> Range:
        cost = _ZERO
        item: Range = (MAX if expr.elements else 0, 0)
        for element in expr.elements:
            cost = add(cost, self.cost(element))
            item = union(item, self._size(element) or UNKNOWN)
        self._entries[expr] = (True, ONE, item)
        return add(cost, exactly(10))

    def _map(self, expr: MapLiteral) -> Range:
        cost = _ZERO
        low = MAX if expr.entries else 0
        keys: Range = (low, 0)
        values: Range = (low, 0)
        for entry in expr.entries:
            cost = add(add(cost, self.cost(entry.key)), self.cost(entry.value))
            keys = union(keys, self._size(entry.key) or UNKNOWN)
            values = union(values, self._size(entry.value) or UNKNOWN)
        self._entries[expr] = (False, keys, values)
        return add(cost, exactly(30))

    def _iterate(self, name: str, ranged: Expr, which: str) -> None:
        """Declare a loop variable over ``ranged``: the key, the value, or (with one variable) a list's value or
        a map's key.
        """
        entries = self._entry_sizes(ranged)
        is_list = entries[0] if entries is not None else ranged.type.kind is Kind.LIST
        keyed = which == "key" or (which == "single" and not is_list)
        size = None if entries is None else entries[1] if keyed else entries[2]
        step = ("@indices" if is_list else "@keys") if keyed else ("@items" if is_list else "@values")
        path = self._path(ranged)
        if which == "key" and not _power_of_two(len(path)):
            # Upstream appends the paths of both variables to the same Go slice, so the second path overwrites
            # the first.
            step = "@items" if is_list else "@values"
        self._push(name, _Local((*path, step), size, None))

    def _fold(self, expr: Comprehension) -> Range:
        total = add(self.cost(expr.range), self.cost(expr.initial))
        self._bind_local(expr.accumulator, expr.initial)
        if expr.second is not None:
            self._iterate(expr.variable, expr.range, "key")
            self._iterate(expr.second, expr.range, "value")
        else:
            self._iterate(expr.variable, expr.range, "single")
        condition = self.cost(expr.condition)
        step = self.cost(expr.step)
        self._locals[expr.variable].pop()
        if expr.second is not None:
            self._locals[expr.second].pop()
        total = add(total, self.cost(expr.result))
        self._locals[expr.accumulator].pop()
        count = self._size(expr.range) or UNKNOWN
        total = add(total, multiply(count, add(step, condition)))
        if isinstance(expr.initial, Literal):
            size = self._size(expr.initial)
            if size is not None:
                self._sizes[expr] = size
        elif isinstance(expr.initial, ListLiteral | MapLiteral):
            self._sizes[expr] = count
            entries = self._entry_sizes(expr.step)
            if entries is not None:
                self._entries[expr] = entries
        return total

    def _bind(self, expr: Comprehension) -> Range:
        total = add(self.cost(expr.range), self.cost(expr.initial))
        self._bind_local(expr.accumulator, expr.initial)
        total = add(total, self.cost(expr.result))
        self._locals[expr.accumulator].pop()
        self._copy(expr, expr.result)
        return total

    def _bind_local(self, name: str, expr: Expr) -> None:
        self._push(name, _Local(self._path(expr), self._size(expr), self._entry_sizes(expr)))

    def _copy(self, expr: Expr, source: Expr) -> None:
        size = self._size(source)
        if size is not None:
            self._sizes[expr] = size
        self._copy_entries(expr, source)

    def _path(self, expr: Expr) -> Path:
        if isinstance(expr, Ident) and (local := self._local(expr.name)) is not None:
            return local.path
        return self._paths.get(expr, ())

    def _node(self, expr: Expr) -> Node:
        path = self._path(expr)
        if path and path[0] in (ACCUMULATOR, "__result__"):
            path = ()
        return Node(expr.type, expr, path, self._size(expr))

    def _size(self, expr: Expr) -> Range | None:
        known = self._sizes.get(expr)
        if known is not None:
            return known
        written = _literal_size(expr)
        if written is not None:
            return exactly(written)
        reached = path_size(self._path(expr))
        if reached is not None:
            self._sizes[expr] = reached
            return reached
        if self._is_scalar(expr.type):
            return ONE
        if isinstance(expr, Ident) and (local := self._local(expr.name)) is not None:
            return local.size
        return None

    def _is_scalar(self, type_: Type) -> bool:
        return type_.kind in self._scalars or (type_.is_optional and self._is_scalar(type_.params[0]))

    def _entry_sizes(self, expr: Expr) -> Entries | None:
        known = self._entries.get(expr)
        if known is not None:
            return known
        if isinstance(expr, Ident) and (local := self._local(expr.name)) is not None:
            return local.entries
        return None


def _power_of_two(length: int) -> bool:
    """True if a Go slice of that length has no free capacity."""
    return length & (length - 1) == 0


def _literal_size(expr: Expr) -> int | None:
    match expr:
        case Literal():
            if type(expr) is not Literal:
                return None
            return len(expr.value) if isinstance(expr.value, str | bytes) else 1
        case ListLiteral():
            return len(expr.elements)
        case MapLiteral():
            return len(expr.entries)
    return None


def _is_bind(expr: Comprehension) -> bool:
    return (
        isinstance(expr.range, ListLiteral)
        and not expr.range.elements
        and isinstance(expr.condition, Literal)
        and expr.condition.value is False
        and expr.accumulator != "__result__"
    )
