"""The type checker: annotates a tree with types and overloads, and reports cel-go's errors (checker/checker.go)."""

from collections.abc import Mapping as AnyMapping
from collections.abc import Sequence
from typing import Final

from dra_shared.cel import messages
from dra_shared.cel import types as t
from dra_shared.cel.declarations import Functions
from dra_shared.cel.environment import TYPE_IDENTS
from dra_shared.cel.errors import Issue
from dra_shared.cel.suggestions import Catalog
from dra_shared.cel.syntax import (
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
from dra_shared.cel.types import Kind, Mapping, Type, assignable, most_general, substitute
from dra_shared.cel.values import Uint

_LITERALS: Final[dict[type, Type]] = {
    bool: t.BOOL,
    bytes: t.BYTES,
    float: t.DOUBLE,
    int: t.INT,
    type(None): t.NULL,
    str: t.STRING,
    Uint: t.UINT,
}


class NamedConstant(Literal):
    """A constant with a name."""

    __slots__ = ()


class TypeIdent(NamedConstant):
    """A reference to a type by its name; ``value`` is the name."""

    __slots__ = ()


def check(
    expr: Expr,
    functions: Functions,
    device_fields: dict[str, Type],
    variables: dict[str, Type] | None = None,
    structs: AnyMapping[str, AnyMapping[str, Type]] | None = None,
    catalog: Catalog | None = None,
) -> tuple[Expr, list[Issue]]:
    """Return the annotated tree and its errors.

    The tree is rewritten if names turn out to be qualified. ``variables`` are declared besides the device.
    ``structs`` are the members of their types, by type name. ``catalog`` suggests names, which Kubernetes does since
    1.38.
    """
    checker = _Checker(functions, device_fields, variables or {}, structs or {}, catalog)
    checked = checker.check(expr)
    for node in walk(checked):
        node.type = substitute(checker.mapping, node.type, to_dyn=True)
    return checked, checker.issues


# Messages show these type parameters of ``list`` and ``map`` if a field is selected.
_ANYTHING: Final[Mapping] = {"A": t.DYN, "B": t.DYN}


class _Checker:
    def __init__(
        self,
        functions: Functions,
        device_fields: dict[str, Type],
        variables: dict[str, Type],
        structs: AnyMapping[str, AnyMapping[str, Type]],
        catalog: Catalog | None,
    ) -> None:
        self._catalog = catalog
        self.functions = functions
        self.device_fields = device_fields
        self.structs = structs if structs else {t.DEVICE.name: device_fields}
        self.mapping: Mapping = {}
        self.issues: list[Issue] = []
        self._scopes: list[dict[str, Type]] = [variables]
        self._variables = 0

    def _report(self, pos: int, message: str) -> None:
        self.issues.append(Issue(pos, message))

    def _report_missing(self, pos: int, name: str) -> None:
        hint = " (in container '')" if self._catalog is None else self._catalog.suggest(name)
        self._report(pos, f"undeclared reference to '{name}'{hint}")

    def _is_misspelled(self, pos: int, qualifiers: Sequence[str], name: str) -> bool:
        """Report a qualified name that is not declared, if there are similar ones."""
        prefixes = (".".join(qualifiers[:count]) for count in range(1, len(qualifiers) + 1))
        qualified = ".".join((*qualifiers, name))
        if self._catalog is None or not self._catalog.find(qualified):
            return False
        if any(self._resolve_name(pos, prefix) is not None for prefix in prefixes):
            return False
        self._report_missing(pos, qualified)
        return True

    def _mismatch(self, pos: int, expected: Type, actual: Type) -> None:
        self._report(pos, f"expected type '{expected}' but found '{actual}'")

    def _assignable(self, *pairs: tuple[Type, Type]) -> bool:
        extended = assignable(self.mapping, list(pairs))
        if extended is None:
            return False
        self.mapping = extended
        return True

    def _now(self, type_: Type) -> Type:
        return substitute(self.mapping, type_, to_dyn=False)

    def _new_variable(self) -> Type:
        self._variables += 1
        return t.param(f"_var{self._variables - 1}")

    def check(self, expr: Expr) -> Expr:
        """Check ``expr`` and return it, or its replacement."""
        match expr:
            case Literal():
                expr.type = _LITERALS[type(expr.value)]
                return expr
            case Ident():
                return self._ident(expr)
            case Select():
                return self._select(expr)
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

    def _local(self, name: str) -> Type | None:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return None

    def _global(self, pos: int, name: str) -> Expr | None:
        found: Expr
        if name == "device" and self.device_fields:
            found = Ident(pos, name)
            found.type = t.DEVICE
        elif name == messages.NULL_VALUE:
            found = NamedConstant(pos, 0)
            found.type = t.INT
        elif (named := self._type_named(name)) is not None:
            found = TypeIdent(pos, name)
            found.type = t.type_of(named)
        else:
            return None
        return found

    def _type_named(self, name: str) -> Type | None:
        if name in self.structs:
            return Type(Kind.STRUCT, name)
        return TYPE_IDENTS.get(name) or messages.TYPES.get(name)

    def _ident(self, expr: Ident) -> Expr:
        found = self._resolve_name(expr.pos, expr.name)
        if found is None:
            self._report_missing(expr.pos, expr.name)
            expr.type = t.ERROR
            return expr
        return found

    def _resolve_name(self, pos: int, name: str) -> Expr | None:
        """Return the expression that a name stands for. A name with a leading dot may still be a local variable."""
        name = name.removeprefix(".")
        local = self._local(name)
        if local is None:
            return self._global(pos, name)
        found = Ident(pos, name)
        found.type = local
        return found

    def _select(self, expr: Select) -> Expr:
        qualifiers = _qualifiers(expr)
        if qualifiers is not None:
            found = self._resolve_name(expr.pos, ".".join(qualifiers))
            if found is not None:
                return found
            if len(qualifiers) > 1 and self._is_misspelled(expr.pos, qualifiers[:-1], qualifiers[-1]):
                expr.type = t.ERROR
                return expr
        expr.operand = self.check(expr.operand)
        expr.name = self._escape_keyword(expr.operand.type, expr.name)
        result = self._field(expr.pos, expr.operand.type, expr.name, optional=False)
        expr.type = t.BOOL if expr.test_only else self._now(result)
        return expr

    def _field(self, pos: int, operand: Type, name: str, *, optional: bool) -> Type:
        target = self._now(operand)
        if target.is_optional:
            target, optional = target.params[0], True
        result = t.DYN
        if target.kind is Kind.MAP:
            result = target.params[1]
        elif target.kind is Kind.STRUCT:
            result = self._struct_field(pos, target.name, name)
        elif target.kind is Kind.PARAM:
            self._assignable((t.DYN, target))
        elif not target.is_dyn and target.kind is not Kind.ERROR:
            shown = substitute(_ANYTHING, target, to_dyn=False)
            self._report(pos, f"type '{shown}' does not support field selection")
        return t.optional_of(result) if optional else result

    def _escape_keyword(self, operand: Type, name: str) -> str:
        """Return the name of a field as its struct has it: a keyword, such as ``namespace``, as ``__namespace__``."""
        target = self._now(operand)
        target = target.params[0] if target.is_optional else target
        members = self._members(target.name) if target.kind is Kind.STRUCT else None
        escaped = f"__{name}__"
        return escaped if members and name not in members and escaped in members else name

    def _struct_field(self, pos: int, struct: str, name: str) -> Type:
        members = self._members(struct)
        if members is None:
            self._report(pos, f"unexpected failed resolution of '{struct}'")
            return t.ERROR
        field = members.get(name)
        if field is None:
            self._report(pos, f"undefined field '{name}'")
            return t.ERROR
        return field

    def _call(self, expr: Call) -> Expr:
        if expr.function == "_?._":
            return self._optional_select(expr)
        expr.args = [self.check(arg) for arg in expr.args]
        if expr.target is None:
            name = expr.function.removeprefix(".")
            if name not in self.functions:
                self._report_undeclared(expr)
                return expr
            expr.function = name
            return self._resolve(expr)
        qualifiers = _qualifiers(expr.target)
        if qualifiers is not None:
            name = ".".join((*qualifiers, expr.function)).removeprefix(".")
            if name in self.functions:
                expr.function, expr.target = name, None
                return self._resolve(expr)
            if self._is_misspelled(expr.pos, qualifiers, expr.function):
                expr.type = t.ERROR
                return expr
        expr.target = self.check(expr.target)
        if expr.function not in self.functions:
            self._report_undeclared(expr)
            return expr
        return self._resolve(expr)

    def _report_undeclared(self, expr: Call) -> None:
        self._report_missing(expr.pos, expr.function)
        expr.type = t.ERROR

    def _optional_select(self, expr: Call) -> Expr:
        operand, field = expr.args
        expr.args[0] = operand = self.check(operand)
        name = field.value if isinstance(field, Literal) else ""
        if isinstance(field, Literal):
            field.value = name = self._escape_keyword(operand.type, str(name))
        expr.type = self._now(self._field(expr.pos, operand.type, str(name), optional=True))
        expr.overloads = ["select_optional_field"]
        return expr

    def _resolve(self, expr: Call) -> Expr:
        types = [arg.type for arg in expr.args]
        if expr.target is not None:
            types.insert(0, expr.target.type)
        if expr.function in ("_&&_", "_||_"):
            return self._logic(expr)
        result: Type | None = None
        for overload in self.functions[expr.function].overloads:
            if overload.member != (expr.target is not None):
                continue
            args, returned = overload.args, overload.result
            if overload.params:
                fresh = {name: self._new_variable() for name in overload.params}
                returned = substitute(fresh, returned, to_dyn=False)
                args = tuple(substitute(fresh, arg, to_dyn=False) for arg in args)
            if len(args) != len(types) or not self._assignable(*zip(types, args, strict=True)):
                continue
            expr.overloads.append(overload.id)
            returned = self._now(returned)
            if result is None:
                result = returned
            elif not result.is_dyn and returned != result:
                result = t.DYN
        if result is None:
            shown = [substitute(self.mapping, type_, to_dyn=True) for type_ in types]
            applied = f"{shown.pop(0)}." if expr.target is not None else ""
            applied += f"({', '.join(map(str, shown))})"
            self._report(expr.pos, f"found no matching overload for '{expr.function}' applied to '{applied}'")
            result = t.ERROR
        expr.type = result
        return expr

    def _logic(self, expr: Call) -> Expr:
        expr.type = t.BOOL
        expr.overloads = ["logical_and" if expr.function == "_&&_" else "logical_or"]
        for arg in expr.args:
            if not self._assignable((arg.type, t.BOOL)):
                self._mismatch(arg.pos, t.BOOL, arg.type)
                expr.type = t.ERROR
        return expr

    def _element(self, expr: Expr, *, optional: bool) -> Type:
        if not optional:
            return expr.type
        if expr.type.is_optional:
            return expr.type.params[0]
        if not expr.type.is_dyn:
            self._mismatch(expr.pos, t.optional_of(expr.type), expr.type)
        return expr.type

    def _join(self, previous: Type | None, current: Type) -> Type:
        if previous is None:
            return current
        # The validators check that the elements of a literal are of one type.
        return most_general(previous, current) if self._assignable((previous, current)) else t.DYN

    def _list(self, expr: ListLiteral) -> Expr:
        element: Type | None = None
        for index, item in enumerate(expr.elements):
            expr.elements[index] = item = self.check(item)
            element = self._join(element, self._element(item, optional=index in expr.optional))
        expr.type = t.list_of(element if element is not None else self._new_variable())
        return expr

    def _map(self, expr: MapLiteral) -> Expr:
        key: Type | None = None
        value: Type | None = None
        for entry in expr.entries:
            entry.key = self.check(entry.key)
            key = self._join(key, entry.key.type)
            entry.value = self.check(entry.value)
            value = self._join(value, self._element(entry.value, optional=entry.optional))
        if key is None or value is None:
            key, value = self._new_variable(), self._new_variable()
        expr.type = t.map_of(key, value)
        return expr

    def _members(self, struct: str) -> AnyMapping[str, Type] | None:
        found = self.structs.get(struct)
        return messages.MEMBERS.get(struct) if found is None else found

    def _struct(self, expr: StructLiteral) -> Expr:
        name = expr.name.removeprefix(".")
        expr.type = t.ERROR
        variable = self._local(name)
        if variable is None and name == "device" and self.device_fields:
            variable = t.DEVICE
        named = None if variable is not None else self._type_named(name)
        if variable is not None:
            self._report(expr.pos, f"'{variable.declared_name}' is not a type")
        elif named is None:
            self._report_missing(expr.pos, expr.name)
            return expr
        elif self._members(name) is None:
            self._report(expr.pos, f"'{named.name}' is not a message type")
        else:
            expr.type = named
        for index, (pos, key, value, optional) in enumerate(expr.fields):
            value = self.check(value)
            expr.fields[index] = (pos, key, value, optional)
            wanted = self._field_type(pos, name, key, variable is None, expr.type is named)
            found = self._element(value, optional=optional)
            if not self._assignable((wanted, found)):
                text = f"expected type of field '{key}' is '{wanted}' but provided type is '{found}'"
                self._report(pos, text)
        return expr

    def _field_type(self, pos: int, name: str, key: str, is_type: bool, is_message: bool) -> Type:
        """Return the declared type of a field that a message literal sets."""
        if is_message:
            return self._struct_field(pos, name, key)
        self._report(
            pos, f"undefined field '{key}'" if is_type else f"unexpected failed resolution of '{name}'"
        )
        return t.ERROR

    def _comprehension(self, expr: Comprehension) -> Expr:
        expr.range = self.check(expr.range)
        expr.initial = self.check(expr.initial)
        ranged = self._now(expr.range.type)
        accumulated = expr.initial.type
        first: Type
        second: Type
        if ranged.kind is Kind.LIST:
            element = ranged.params[0]
            first, second = (t.INT, element) if expr.second is not None else (element, element)
        elif ranged.kind is Kind.MAP:
            first, second = ranged.params
        elif ranged.is_dyn or ranged.kind in (Kind.ERROR, Kind.PARAM):
            if ranged.kind is not Kind.ANY:
                self._assignable((t.DYN, ranged))
                first = second = t.DYN
            else:
                first = second = self._not_a_range(expr, ranged)
        else:
            first = second = self._not_a_range(expr, ranged)
        self._scopes.append({expr.accumulator: accumulated})
        loop = {expr.variable: first}
        if expr.second is not None:
            loop[expr.second] = second
        self._scopes.append(loop)
        expr.condition = self.check(expr.condition)
        self._assert(expr.condition, t.BOOL)
        expr.step = self.check(expr.step)
        self._assert(expr.step, accumulated)
        self._scopes.pop()
        expr.result = self.check(expr.result)
        self._scopes.pop()
        expr.type = self._now(expr.result.type)
        return expr

    def _not_a_range(self, expr: Comprehension, ranged: Type) -> Type:
        self._report(
            expr.range.pos,
            f"expression of type '{ranged}' cannot be range of a comprehension (must be list, map, or dynamic)",
        )
        return t.ERROR

    def _assert(self, expr: Expr, wanted: Type) -> None:
        if not self._assignable((wanted, expr.type)):
            self._mismatch(expr.pos, wanted, expr.type)


def _qualifiers(expr: Expr) -> tuple[str, ...] | None:
    """Return ``a.b.c`` as names, or None if it is not a chain of plain selections from an identifier."""
    names: list[str] = []
    while isinstance(expr, Select) and not expr.test_only:
        names.append(expr.name)
        expr = expr.operand
    if not isinstance(expr, Ident):
        return None
    names.append(expr.name)
    return tuple(reversed(names))
