"""Values while an expression runs, and what CEL says about their equality, order and types.

Plain Python values stand for CEL's where they can: bool, int (64-bit), float, str, bytes, None, list, dict. The
rest are the classes here, ``dra_shared.quantity`` and ``dra_shared.semver``.
"""

import decimal
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from dra_shared.cel.authorization import Authorizer, Decision, GroupCheck, PathCheck, ResourceCheck
from dra_shared.cel.errors import EvaluationError, Panic
from dra_shared.cel.network import Cidr, Ip
from dra_shared.cel.url import Url
from dra_shared.quantity import Quantity
from dra_shared.semver import Semver

NO_OVERLOAD: Final = "no such overload"
_NAN: Final = "NaN values cannot be ordered"


class Uint(int):
    """An unsigned 64-bit number."""

    __slots__ = ()


class Duration(int):
    """A duration in nanoseconds."""

    __slots__ = ()


class Timestamp(int):
    """A time in nanoseconds since 1970 UTC, which is shown as so many seconds east of there."""

    offset: int = 0

    def shown_at(self, offset: int) -> "Timestamp":
        """The same time, shown elsewhere."""
        self.offset = offset
        return self


class TypeValue(str):
    """The name of a type, as ``type(x)`` gives it."""

    __slots__ = ()


class DerivedQuantity(Quantity):
    """A sum or difference: upstream hands those out as pointers, which nothing equals from the left."""

    __slots__ = ()


class NamedFormat:
    """A string format with its validator (``format.dns1123Label()``)."""

    __slots__ = ("max_regex_size", "name", "validate")

    def __init__(self, name: str, validate: Any, max_regex_size: int) -> None:
        self.name = name
        self.validate = validate
        self.max_regex_size = max_regex_size


def no_operator(left: Any, operator: str) -> EvaluationError:
    """The error of an operand whose type does not have the operator."""
    return EvaluationError(
        NO_OVERLOAD if type(left) in (Duration, str, Timestamp) else f"{NO_OVERLOAD}: {operator}"
    )


class OptionalValue:
    """A value that may be missing, or an error that is raised when it is read."""

    __slots__ = ("held", "present")

    def __init__(self, value: Any, present: bool = True) -> None:
        self.held = value
        self.present = present

    @property
    def value(self) -> Any:
        if isinstance(self.held, EvaluationError):
            raise EvaluationError(str(self.held))
        return self.held

    def get(self) -> Any:
        if not self.present:
            raise EvaluationError("optional.none() dereference")
        return self.value


NONE: Final = OptionalValue(None, present=False)


class StructValue:
    """An object that an expression made: `Object.spec{replicas: 3}`."""

    __slots__ = ("fields", "name")

    def __init__(self, name: str, fields: dict[str, Any]) -> None:
        self.name = name
        self.fields = fields


class LazyMap:
    """Named values, each computed when it is first asked for; an error is kept as well."""

    __slots__ = ("_compute", "_known")

    def __init__(self, compute: Mapping[str, Callable[[], Any]]) -> None:
        self._compute = compute
        self._known: dict[str, Any] = {}

    def find(self, key: Any) -> tuple[Any, bool]:
        """The value, and whether there is one. Raises EvaluationError where computing it fails."""
        if key not in self._compute:
            return None, False
        if key not in self._known:
            try:
                self._known[key] = self._compute[key]()
            except EvaluationError as error:
                self._known[key] = error
        value = self._known[key]
        if isinstance(value, EvaluationError):
            raise EvaluationError(str(value))
        return value, True


class DomainMap(dict[str, Any]):
    """``device.attributes``, ``device.capacity``: selecting an unknown domain gives an empty map, ``in`` is false."""

    __slots__ = ()


_EMPTY: Final[dict[str, Any]] = {}

_TYPE_NAMES: Final[dict[type, str]] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    tuple: "list",
    dict: "map",
    DomainMap: "map",
    type(None): "null_type",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    TypeValue: "type",
    OptionalValue: "optional_type",
    Quantity: "kubernetes.Quantity",
    DerivedQuantity: "kubernetes.Quantity",
    Semver: "kubernetes.Semver",
    Url: "kubernetes.URL",
    NamedFormat: "kubernetes.NamedFormat",
    Ip: "net.IP",
    Cidr: "net.CIDR",
    LazyMap: "kubernetes.variables",
    Authorizer: "kubernetes.authorization.Authorizer",
    PathCheck: "kubernetes.authorization.PathCheck",
    GroupCheck: "kubernetes.authorization.GroupCheck",
    ResourceCheck: "kubernetes.authorization.ResourceCheck",
    Decision: "kubernetes.authorization.Decision",
}
_GO_NAMES: Final[dict[type, str]] = {
    bool: "types.Bool",
    int: "types.Int",
    Uint: "types.Uint",
    float: "types.Double",
    str: "types.String",
    bytes: "types.Bytes",
    type(None): "types.Null",
    Duration: "types.Duration",
    Timestamp: "types.Timestamp",
    TypeValue: "*types.Type",
    OptionalValue: "*types.Optional",
    Quantity: "cel.Quantity",
    DerivedQuantity: "*cel.Quantity",
    Semver: "cel.Semver",
    Url: "cel.URL",
    NamedFormat: "cel.Format",
    Ip: "cel.IP",
    Cidr: "cel.CIDR",
    list: "*types.baseList",
    tuple: "*types.baseList",
    dict: "*types.baseMap",
    DomainMap: "cel.mapper",
    StructValue: "*dynamic.ObjectVal",
    LazyMap: "*lazy.MapValue",
    Authorizer: "library.authorizerVal",
    PathCheck: "library.pathCheckVal",
    GroupCheck: "library.groupCheckVal",
    ResourceCheck: "library.resourceCheckVal",
    Decision: "library.decisionVal",
}
#: What Go's type is called that such a value wraps.
_WRAPPED: Final[dict[type, str]] = {
    Ip: "netip.Addr",
    Cidr: "netip.Prefix",
    Semver: "semver.Version",
    Quantity: "*resource.Quantity",
    DerivedQuantity: "*resource.Quantity",
    Url: "*url.URL",
    EvaluationError: "*errors.errorString",
}
_PLAIN: Final = frozenset((str, int, bool, Uint, bytes, Duration, Timestamp, TypeValue))
_NUMBERS: Final = frozenset((int, Uint, float))
_LISTS: Final = frozenset((list, tuple))
_STRICT: Final = frozenset((Quantity, DerivedQuantity, Semver, Url, Ip, Cidr, NamedFormat))


def innermost(optional: OptionalValue) -> Any:
    """What optionals in an optional hold, null for nothing."""
    value: Any = optional
    while type(value) is OptionalValue:
        value = value.value if value.present else None
    return value


def reread(optional: OptionalValue) -> OptionalValue:
    """What a variable or a branch gives that holds ``optional``.

    cel-go unwraps the value down to Go's own and makes a value of that again, which it can of plain ones only.
    """
    try:
        value = innermost(optional)
    except EvaluationError as error:
        value = error
    kind = type(value)
    if kind is TypeValue:
        return OptionalValue(str(value))
    return OptionalValue(_unreadable(value) if kind in _WRAPPED else value)


def opened(optional: OptionalValue) -> Any:
    """What is selected from where ``optional`` is."""
    value = innermost(optional)
    if type(value) in _WRAPPED:
        raise _unreadable(value)
    return value


def _unreadable(value: Any) -> EvaluationError:
    return EvaluationError(f"unsupported conversion to ref.Val: ({_WRAPPED[type(value)]}){value}")


def type_name(value: Any) -> str:
    """The name of the value's CEL type."""
    return str(value.name) if type(value) is StructValue else _TYPE_NAMES[type(value)]


def go_type(value: Any) -> str:
    """How Go prints the value's type in cel-go's messages."""
    return _GO_NAMES[type(value)]


def type_text(value: Any) -> str:
    """The type with its parameters, as Go prints it."""
    name = type_name(value)
    count = {"list": 1, "map": 2}.get(name, 0)
    return f"{name}({', '.join(['dyn'] * count)})" if count else name


def is_list(value: Any) -> bool:
    return type(value) in _LISTS


def is_map(value: Any) -> bool:
    return type(value) is dict or type(value) is DomainMap


def size(value: Any) -> int | None:
    """CEL's size(), None for what has none."""
    kind = type(value)
    if kind is str or kind is bytes or kind in _LISTS or kind is dict or kind is DomainMap:
        return len(value)
    if kind is Ip:
        return int(value.byte_length)
    if kind is Cidr:
        return math.ceil(int(value.prefix) / 8)
    return None


def cost_size(value: Any) -> int:
    """The size that costs are computed from."""
    known = size(value)
    if known is not None:
        return known
    if type(value) is OptionalValue and value.present:
        return cost_size(value.held)
    return 1


def equal(left: Any, right: Any) -> bool:
    """CEL's ``==``. Raises EvaluationError where cel-go's equality is an error."""
    kind = type(left)
    if kind is type(right) and kind in _PLAIN:
        return bool(left == right)
    if left is None or right is None:
        return left is right
    if kind in _NUMBERS:
        return type(right) in _NUMBERS and _numbers_equal(left, right)
    if kind in _LISTS:
        return type(right) in _LISTS and len(left) == len(right) and all(map(_lenient, left, right))
    if kind is dict or kind is DomainMap:
        return is_map(right) and _maps_equal(left, right)
    if kind in _STRICT:
        return _strict_equal(kind, left, right)
    if kind is OptionalValue:
        if type(right) is not OptionalValue or left.present != right.present:
            return False
        return not left.present or equal(left.value, right.value)
    if kind is StructValue:
        return (
            type(right) is StructValue and left.name == right.name and _maps_equal(left.fields, right.fields)
        )
    return False


def _lenient(left: Any, right: Any) -> bool:
    """Inside lists and maps, an error does not make a difference."""
    try:
        return equal(left, right)
    except EvaluationError:
        return True


def _numbers_equal(left: Any, right: Any) -> bool:
    if type(left) is float or type(right) is float:
        return float(left) == float(right)
    return int(left) == int(right)


def _maps_equal(left: dict[Any, Any], right: dict[Any, Any]) -> bool:
    if len(left) != len(right):
        return False
    for key, value in left.items():
        other, found = find(right, key)
        if not found or not _lenient(value, other):
            return False
    return True


def _strict_equal(kind: type[Any], left: Any, right: Any) -> bool:
    if issubclass(kind, Quantity):
        if type(right) is not Quantity:
            raise EvaluationError(NO_OVERLOAD)
        return bool(left == right)
    if type(right) is not kind:
        raise EvaluationError(NO_OVERLOAD)
    if kind is NamedFormat:
        return bool(left.name == right.name)
    return bool(left == right)


def same(left: Any, right: Any) -> bool:
    """Equal, errors counting as different."""
    try:
        return equal(left, right)
    except EvaluationError:
        return False


_ORDERED: Final = frozenset((bool, bytes, float, Duration, int, str, Timestamp, Uint))


def comparable(value: Any) -> bool:
    return type(value) in _ORDERED


def compare(left: Any, right: Any) -> int:
    """CEL's order of two values: -1, 0 or 1. Raises EvaluationError for what has no order."""
    kind, other = type(left), type(right)
    if kind is other and kind in _ORDERED:
        if kind is float and (math.isnan(left) or math.isnan(right)):
            raise EvaluationError(_NAN)
        return int(left > right) - int(left < right)
    if kind is float and math.isnan(left):
        raise EvaluationError(_NAN)
    if kind in _NUMBERS and other in _NUMBERS:
        if kind is float or other is float:
            a, b = float(left), float(right)
            if math.isnan(a) or math.isnan(b):
                raise EvaluationError(_NAN)
            return (a > b) - (a < b)
        return (int(left) > int(right)) - (int(left) < int(right))
    raise EvaluationError(NO_OVERLOAD)


_KEYED: Final = frozenset((type(None), Duration, TypeValue, Ip, Cidr))
#: What Go's maps do not take for a key.
UNHASHABLE: Final = frozenset((NamedFormat, Semver, bytes))


def unhashable(key: Any) -> Panic:
    return Panic(f"runtime error: hash of unhashable type {go_type(key)}")


def find(container: dict[Any, Any], key: Any) -> tuple[Any, bool]:
    """A map's value for a key, and whether there is one. Numbers match across types, bools only bools."""
    kind = type(key)
    if kind is str:
        if key in container:
            return container[key], True
    elif kind in _NUMBERS or kind is bool:
        for mine, value in container.items():
            if (type(mine) is bool) is (kind is bool) and mine == key:
                return value, True
    if type(container) is DomainMap:
        return _EMPTY, True
    for mine, value in container.items():
        if type(mine) is kind and _same_key(mine, key):
            return value, True
    if container and kind in UNHASHABLE:
        raise unhashable(key)
    return None, False


def _same_key(mine: Any, key: Any) -> bool:
    """Whether Go takes the two, which are no numbers, for one key of a map; most are pointers to it."""
    if type(key) is Timestamp:
        return bool(mine == key and mine.offset == key.offset)
    return mine is NONE is key or (type(key) in _KEYED and bool(mine == key))


def contains(container: Any, wanted: Any) -> bool:
    """CEL's ``in``."""
    kind = type(container)
    if kind in _LISTS:
        return any(same(wanted, element) for element in container)
    if kind is DomainMap:
        return type(wanted) is str and wanted in container
    if kind is dict:
        return find(container, wanted)[1]
    raise EvaluationError(NO_OVERLOAD)


def list_index(index: Any) -> int:
    """A value as a list index."""
    kind = type(index)
    if kind is int:
        return int(index)
    if kind is float:
        if index.is_integer() and abs(index) < 1 << 63:
            return int(index)
        raise EvaluationError(f"unsupported index value {to_text(index)} in list")
    if kind is Uint:
        if index < 1 << 63:
            return int(index)
        raise EvaluationError(f"unsupported index value {to_text(index)} in list")
    raise EvaluationError(f"unsupported index type '{type_name(index)}' in list")


def qualify(container: Any, key: Any) -> Any:
    """``container[key]``, with the errors of a selection."""
    value, found = lookup(container, key)
    if found:
        return value
    if type(container) in _LISTS:
        raise EvaluationError(f"index out of bounds: {to_text(key)}")
    raise EvaluationError(f"no such key: {to_text(key)}")


def lookup(container: Any, key: Any) -> tuple[Any, bool]:
    """``container[key]`` and whether it is there."""
    kind = type(container)
    if kind is dict or kind is DomainMap:
        return find(container, key)
    if kind in _LISTS:
        index = list_index(key)
        if 0 <= index < len(container):
            return container[index], True
    if kind is LazyMap:
        found: tuple[Any, bool] = container.find(key)
        return found
    if kind is StructValue:
        return container.fields.get(key), key in container.fields
    return None, False


def to_text(value: Any) -> str:
    """Go's ``%v`` of a value, where cel-go puts one into a message."""
    kind = type(value)
    if kind is bool:
        return "true" if value else "false"
    if kind is float:
        return format_double(value)
    if kind in _LISTS:
        return "[" + ", ".join(map(to_text, value)) + "]"
    if kind is dict or kind is DomainMap:
        return "{" + ", ".join(f"{to_text(key)}: {to_text(item)}" for key, item in value.items()) + "}"
    if kind is bytes:
        return "[" + " ".join(map(str, value)) + "]"
    if value is None:
        return "0"
    if kind is Uint or kind is int:
        return str(int(value))
    return str(value)


def format_double(value: float) -> str:
    """Go's ``%g`` with the shortest digits."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    shortest = repr(value)
    digits, _, _ = shortest.partition("e")
    sign = "-" if shortest.startswith("-") else ""
    whole, _, fraction = digits.lstrip("-").partition(".")
    figures = (whole + fraction).lstrip("0").rstrip("0") or "0"
    power = decimal.Decimal(shortest).adjusted()
    if power < -4 or power >= 6:
        rest = "." + figures[1:] if len(figures) > 1 else ""
        return f"{sign}{figures[0]}{rest}e{'-' if power < 0 else '+'}{abs(power):02d}"
    if power < 0:
        return f"{sign}0.{'0' * (-power - 1)}{figures}"
    if len(figures) <= power + 1:
        return sign + figures + "0" * (power + 1 - len(figures))
    return f"{sign}{figures[: power + 1]}.{figures[power + 1 :]}"
