"""The worst case of what an expression costs (cel-go's checker/cost.go with Kubernetes' and DRA's estimators).

Costs and sizes are ranges of unsigned 64-bit numbers that stick at the maximum.
"""

from typing import Final

from dra_shared.cel.checker import NamedConstant
from dra_shared.cel.estimates import (
    MAX,
    ONE,
    UNKNOWN,
    Estimate,
    Node,
    Range,
    add,
    estimate_library_call,
    factor,
    fixed,
    multiply,
    union,
)
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

_ZERO: Final = fixed(0)
_STRING: Final = 0.1
_REGEX: Final = 0.25
_STRUCT: Final = 40
_FIELD_KINDS: Final = frozenset((Kind.MAP, Kind.STRUCT, Kind.PARAM))
_SCALARS: Final = frozenset((Kind.BOOL, Kind.DOUBLE, Kind.DURATION, Kind.INT, Kind.TIMESTAMP, Kind.UINT))
_COMPARED: Final = frozenset(
    [
        f"{order}_{kind}"
        for order in ("less", "greater", "less_equals", "greater_equals")
        for kind in ("string", "bytes")
    ]
    + ["equals", "not_equals"]
)

_ATTRIBUTE_SIZE: Final = 64
_MAP_SIZE: Final = 32
_DOMAIN_SIZE: Final = 63
_ID_SIZE: Final = 32

Path = tuple[str, ...]
#: The sizes of a container's keys and values, and whether it is a list.
Entries = tuple[bool, Range, Range]


def _attribute(path: Path) -> int | None:
    """The largest size below ``device.attributes``, ``path`` being what follows."""
    match path:
        case []:
            return _MAP_SIZE
        case ["@keys"]:
            return _DOMAIN_SIZE
        case ["@items" | "@values"]:
            return _MAP_SIZE
        case ["@items" | "@values", "@keys"]:
            return _ID_SIZE
        case ["@items" | "@values", last]:
            return None if last == "@indices" else _ATTRIBUTE_SIZE
    return None


def _capacity(path: Path) -> int | None:
    match path:
        case []:
            return _MAP_SIZE
        case ["@keys"]:
            return _DOMAIN_SIZE
        case ["@items" | "@values"]:
            return _MAP_SIZE
        case ["@items" | "@values", "@keys"]:
            return _ID_SIZE
        case ["@items" | "@values", "@items" | "@values"]:
            return 0
    return None


def path_size(path: Path) -> Range | None:
    """What is known of the size of something reached from the device."""
    size: int | None = None
    match path:
        case ["device"]:
            size = 0
        case ["device", "driver"]:
            size = _DOMAIN_SIZE
        case ["device", "allowMultipleAllocations"]:
            size = 1
        case ["device", "attributes", *rest]:
            size = _attribute(tuple(rest))
        case ["device", "capacity", *rest]:
            size = _capacity(tuple(rest))
    return None if size is None else (0, size)


def estimate_cost(expr: Expr) -> int:
    """The largest cost that the checked expression can have."""
    return _Coster().cost(expr)[1]


class _Local:
    __slots__ = ("entries", "path", "size")

    def __init__(self, path: Path, size: Range | None, entries: Entries | None) -> None:
        self.path = path
        self.size = size
        self.entries = entries


class _Coster:
    def __init__(self) -> None:
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
        total = fixed(_STRUCT)
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
        summed = _ZERO
        for cost in costs:
            summed = add(summed, cost)
        library = estimate_library_call(expr.function, overload, target, args)
        if library is not None:
            return Estimate(add(library.cost, summed), library.size)
        special = self._special(expr, overload, args, costs)
        if special is not None:
            return special
        own, size = self._standard(overload, target, args)
        return Estimate(add(own, summed), size)

    def _special(self, expr: Call, overload: str, args: list[Node], costs: list[Range]) -> Estimate | None:
        """Calls that do not evaluate all their arguments, or hand entries through."""
        if overload in ("logical_or", "logical_and"):
            return Estimate((costs[0][0], add(costs[0], costs[1])[1]), None)
        if overload == "conditional":
            size = union(_known(args[1]), _known(args[2]))
            self._join_entries(expr, args[1].expr, args[2].expr)
            return Estimate(add(costs[0], union(costs[1], costs[2])), size)
        if overload in ("add_string", "add_bytes", "add_list"):
            size = add(_known(args[0]), _known(args[1]))
            self._join_entries(expr, args[0].expr, args[1].expr)
            own = ONE if overload == "add_list" else factor(size, _STRING)
            return Estimate(add(own, add(costs[0], costs[1])), size)
        return None

    def _join_entries(self, expr: Expr, first: Expr | None, second: Expr | None) -> None:
        if first is None or second is None:
            return
        a, b = self._entry_sizes(first), self._entry_sizes(second)
        if a is not None and b is not None:
            self._entries[expr] = (a[0], union(a[1], b[1]), union(a[2], b[2]))

    def _standard(self, overload: str, target: Node | None, args: list[Node]) -> tuple[Range, Range | None]:
        match overload:
            case "string_format" if target is not None:
                return factor(_known(target), _STRING), None
            case "string_to_bytes":
                low, high = _known(args[0])
                return factor((low, high), _STRING), (
                    low,
                    min(high * 4, MAX) if high < MAX else high * 4 & MAX,
                )
            case "bytes_to_string":
                low, high = _known(args[0])
                return factor((low, high), _STRING), (low // 4, high)
            case "strings_quote":
                low, high = _known(args[0])
                return factor((low, high), _STRING), (low + 2 & MAX, high * 2 + 2 & MAX)
            case "starts_with_string" | "ends_with_string":
                return factor(_known(args[0]), _STRING), None
            case "in_list":
                return factor(_known(args[1]), 1), None
            case "matches_string" if target is not None:
                text = factor(add(_known(target), ONE), _STRING)
                return multiply(text, factor(_known(args[0]), _REGEX)), None
            case "contains_string" if target is not None:
                return multiply(factor(_known(target), _STRING), factor(_known(args[0]), _STRING)), None
        if overload in _COMPARED:
            smallest = min(_known(args[0])[1], _known(args[1])[1])
            return factor((1 if smallest > 0 else 0, smallest), _STRING), None
        return ONE, None

    def _list(self, expr: ListLiteral) -> Range:
        cost = _ZERO
        item: Range = (MAX if expr.elements else 0, 0)
        for element in expr.elements:
            cost = add(cost, self.cost(element))
            item = union(item, self._size(element) or UNKNOWN)
        self._entries[expr] = (True, ONE, item)
        return add(cost, fixed(10))

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
        return add(cost, fixed(30))

    def _iterate(self, name: str, ranged: Expr, which: str) -> None:
        """Declares a loop variable over ``ranged``: its key, its value or (one variable) what the kind gives."""
        entries = self._entry_sizes(ranged)
        is_list = entries[0] if entries is not None else ranged.type.kind is Kind.LIST
        keyed = which == "key" or (which == "single" and not is_list)
        size = None if entries is None else entries[1] if keyed else entries[2]
        step = ("@indices" if is_list else "@keys") if keyed else ("@items" if is_list else "@values")
        path = self._path(ranged)
        if which == "key" and not _power_of_two(len(path)):
            # The second variable's path, appended to the same slice, overwrites the first one's.
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
        entries = self._entry_sizes(source)
        if entries is not None:
            self._entries[expr] = entries

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
            return fixed(written)
        reached = path_size(self._path(expr))
        if reached is not None:
            self._sizes[expr] = reached
            return reached
        if _is_scalar(expr.type):
            return ONE
        if isinstance(expr, Ident) and (local := self._local(expr.name)) is not None:
            return local.size
        return None

    def _entry_sizes(self, expr: Expr) -> Entries | None:
        known = self._entries.get(expr)
        if known is not None:
            return known
        if isinstance(expr, Ident) and (local := self._local(expr.name)) is not None:
            return local.entries
        return None


def _power_of_two(length: int) -> bool:
    """Whether a Go slice that grew to that length has no room left."""
    return length & (length - 1) == 0


def _known(node: Node) -> Range:
    return node.size if node.size is not None else UNKNOWN


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


def _is_scalar(type_: Type) -> bool:
    return type_.kind in _SCALARS or (type_.is_optional and _is_scalar(type_.params[0]))


def _is_bind(expr: Comprehension) -> bool:
    return (
        isinstance(expr.range, ListLiteral)
        and not expr.range.elements
        and isinstance(expr.condition, Literal)
        and expr.condition.value is False
        and expr.accumulator != "__result__"
    )
