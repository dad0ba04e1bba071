"""CEL's types, and the unification that decides whether a type is assignable (cel-go's checker/types.go)."""

import enum
from typing import Final


class Kind(enum.Enum):
    ANY = enum.auto()
    BOOL = enum.auto()
    BYTES = enum.auto()
    DOUBLE = enum.auto()
    DURATION = enum.auto()
    DYN = enum.auto()
    ERROR = enum.auto()
    INT = enum.auto()
    LIST = enum.auto()
    MAP = enum.auto()
    NULL = enum.auto()
    OPAQUE = enum.auto()
    PARAM = enum.auto()
    STRING = enum.auto()
    STRUCT = enum.auto()
    TIMESTAMP = enum.auto()
    TYPE = enum.auto()
    UINT = enum.auto()


_SHOWN: Final = {
    Kind.ANY: "any",
    Kind.DURATION: "duration",
    Kind.ERROR: "!error!",
    Kind.NULL: "null",
    Kind.TIMESTAMP: "timestamp",
}


class Type:
    """An immutable type. Types are equal if kind, name and parameters are."""

    __slots__ = ("_key", "_text", "kind", "name", "nullable", "params")

    _key: str

    def __init__(self, kind: Kind, name: str, *params: "Type", nullable: bool = False) -> None:
        self.kind = kind
        self.name = name
        self.params = params
        #: True for the type of a wrapper, whose value may be null.
        self.nullable = nullable
        if (shown := _SHOWN.get(kind)) is not None:
            self._text = shown
        elif params:
            self._text = f"{name}({', '.join(param._text for param in params)})"
        else:
            self._text = name
        # A wrapper type equals the type that it wraps.
        self._key = f"{name}({', '.join(param._key for param in params)})" if params else self._text
        if nullable:
            self._text = f"wrapper({self._text})"

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Type) and self.kind is other.kind and self._key == other._key
        )

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return self._text

    def __str__(self) -> str:
        """Return the text in the checker's messages."""
        return self._text

    @property
    def declared_name(self) -> str:
        """The name as the output type of a program (``google.protobuf.Any``, ``null_type``)."""
        if self.params:
            return f"{self.name}({', '.join(param.declared_name for param in self.params)})"
        return self._text if self.nullable else self.name

    @property
    def is_dyn(self) -> bool:
        return self.kind is Kind.DYN or self.kind is Kind.ANY

    @property
    def is_optional(self) -> bool:
        return self.kind is Kind.OPAQUE and self.name == "optional_type"


ANY: Final = Type(Kind.ANY, "google.protobuf.Any")
BOOL: Final = Type(Kind.BOOL, "bool")
BYTES: Final = Type(Kind.BYTES, "bytes")
DOUBLE: Final = Type(Kind.DOUBLE, "double")
DURATION: Final = Type(Kind.DURATION, "google.protobuf.Duration")
DYN: Final = Type(Kind.DYN, "dyn")
ERROR: Final = Type(Kind.ERROR, "!error!")
INT: Final = Type(Kind.INT, "int")
NULL: Final = Type(Kind.NULL, "null_type")
STRING: Final = Type(Kind.STRING, "string")
TIMESTAMP: Final = Type(Kind.TIMESTAMP, "google.protobuf.Timestamp")
TYPE: Final = Type(Kind.TYPE, "type")
UINT: Final = Type(Kind.UINT, "uint")
QUANTITY: Final = Type(Kind.STRUCT, "kubernetes.Quantity")
SEMVER: Final = Type(Kind.STRUCT, "kubernetes.Semver")
URL: Final = Type(Kind.STRUCT, "kubernetes.URL")
FORMAT: Final = Type(Kind.STRUCT, "kubernetes.NamedFormat")
IP: Final = Type(Kind.OPAQUE, "net.IP")
CIDR: Final = Type(Kind.OPAQUE, "net.CIDR")
DEVICE: Final = Type(Kind.STRUCT, "kubernetes.DRADevice")
AUTHORIZATION: Final = {
    name: Type(Kind.STRUCT, f"kubernetes.authorization.{name}")
    for name in ("Authorizer", "Decision", "GroupCheck", "PathCheck", "ResourceCheck")
}
AUTHORIZER: Final = AUTHORIZATION["Authorizer"]
RESOURCE_CHECK: Final = AUTHORIZATION["ResourceCheck"]


def list_of(element: Type) -> Type:
    return Type(Kind.LIST, "list", element)


def map_of(key: Type, value: Type) -> Type:
    return Type(Kind.MAP, "map", key, value)


def optional_of(value: Type) -> Type:
    return Type(Kind.OPAQUE, "optional_type", value)


def nullable(wrapped: Type) -> Type:
    return Type(wrapped.kind, wrapped.name, nullable=True)


def type_of(value: Type) -> Type:
    return Type(Kind.TYPE, "type", value)


def param(name: str) -> Type:
    return Type(Kind.PARAM, name)


Mapping = dict[str, Type]

#: The kinds of types that accept null, including the kind of null itself.
NULLABLE: Final = frozenset((Kind.ANY, Kind.DURATION, Kind.NULL, Kind.OPAQUE, Kind.STRUCT, Kind.TIMESTAMP))
_EXACT: Final = frozenset(
    (
        Kind.BOOL,
        Kind.BYTES,
        Kind.DOUBLE,
        Kind.INT,
        Kind.STRING,
        Kind.UINT,
        Kind.DURATION,
        Kind.TIMESTAMP,
        Kind.STRUCT,
    )
)
_CONTAINER: Final = frozenset((Kind.OPAQUE, Kind.LIST, Kind.MAP))


def assignable(mapping: Mapping, pairs: list[tuple[Type, Type]]) -> Mapping | None:
    """Extend the mapping so that each first type is assignable to the second. Return None if that is impossible."""
    extended = dict(mapping)
    for first, second in pairs:
        if not _assignable(extended, first, second):
            return None
    return extended


def _assignable(mapping: Mapping, first: Type, second: Type) -> bool:
    if second.kind is Kind.PARAM:
        valid, substituted = _substitutes(mapping, first, second)
        if valid:
            return True
        if substituted:
            return False
    if first.kind is Kind.PARAM:
        return _substitutes(mapping, second, first)[0]
    if first.is_dyn or second.is_dyn or first.kind is Kind.ERROR or second.kind is Kind.ERROR:
        return True
    if first.kind is Kind.NULL:
        return second.nullable or second.kind in NULLABLE
    if second.kind is Kind.NULL:
        return first.nullable or first.kind in NULLABLE
    if first.kind in _EXACT:
        return first == second
    if first.kind is Kind.TYPE:
        return second.kind is Kind.TYPE
    if first.kind in _CONTAINER:
        return (
            first.kind is second.kind
            and first.name == second.name
            and len(first.params) == len(second.params)
            and all(_assignable(mapping, a, b) for a, b in zip(first.params, second.params, strict=True))
        )
    return False


def _substitutes(mapping: Mapping, first: Type, second: Type) -> tuple[bool, bool]:
    """Return whether ``second`` (a parameter) can be substituted for ``first``, and whether it is bound already."""
    if first == second:
        return True, True
    bound = mapping.get(str(second))
    if bound is not None:
        if first == bound:
            return True, True
        if _assignable(mapping, first, bound):
            general = most_general(first, bound)
            if _absent(mapping, second, general):
                mapping[str(second)] = general
            return True, True
        return False, True
    if _absent(mapping, second, first):
        mapping[str(second)] = first
        return True, False
    return False, False


def _absent(mapping: Mapping, wanted: Type, within: Type) -> bool:
    """True if a type does not occur in another one (the occurs check)."""
    if wanted == within:
        return False
    if within.kind is Kind.PARAM:
        bound = mapping.get(str(within))
        return bound is None or _absent(mapping, wanted, bound)
    if within.kind in _CONTAINER or within.kind is Kind.TYPE:
        return all(_absent(mapping, wanted, part) for part in within.params)
    return True


def most_general(first: Type, second: Type) -> Type:
    """Return the more general of two types that unify."""
    return first if _less_specific(first, second) else second


def _less_specific(first: Type, second: Type) -> bool:
    if first.is_dyn or first.kind is Kind.PARAM:
        return True
    if second.is_dyn or second.kind is Kind.PARAM:
        return False
    if first.kind is not second.kind:
        return False
    if first.kind in _CONTAINER:
        return (
            first.name == second.name
            and len(first.params) == len(second.params)
            and all(_less_specific(a, b) for a, b in zip(first.params, second.params, strict=True))
        )
    return first.kind is Kind.TYPE or first == second


def substitute(mapping: Mapping, type_: Type, *, to_dyn: bool) -> Type:
    """Replace every bound parameter of ``type_``. Unbound ones become dyn with ``to_dyn``."""
    bound = mapping.get(str(type_))
    if bound is not None:
        return substitute(mapping, bound, to_dyn=to_dyn)
    if type_.kind is Kind.PARAM:
        return DYN if to_dyn else type_
    if type_.params:
        params = tuple(substitute(mapping, part, to_dyn=to_dyn) for part in type_.params)
        return type_ if params == type_.params else Type(type_.kind, type_.name, *params)
    return type_
