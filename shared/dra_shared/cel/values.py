"""Values of expressions, and their types. ``equality`` compares them, ``access`` reads their members.

Python's own types represent CEL's if possible: bool, int (64-bit), float, str, bytes, None, list, dict. Other
values are the classes here, ``dra_shared.quantity`` and ``dra_shared.semver``.
"""

import decimal
import math
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from dra_shared.cel.authorization import Authorizer, Decision, GroupCheck, PathCheck, ResourceCheck
from dra_shared.cel.errors import EvaluationError
from dra_shared.cel.network import Cidr, Ip
from dra_shared.cel.url import Url
from dra_shared.quantity import Quantity
from dra_shared.semver import Semver

NO_OVERLOAD: Final = "no such overload"


class Uint(int):
    """An unsigned 64-bit number."""

    __slots__ = ()


class Duration(int):
    """A duration in nanoseconds."""

    __slots__ = ()


class Timestamp(int):
    """A time in nanoseconds since 1970 UTC, printed with an offset of some seconds east of UTC."""

    offset: int = 0

    def at_offset(self, offset: int) -> "Timestamp":
        """Set the offset that the time is printed with, and return it."""
        self.offset = offset
        return self


class TypeValue(str):
    """The name of a type, as ``type(x)`` returns it."""

    __slots__ = ()


class DerivedQuantity(Quantity):
    """A sum or difference. Upstream returns it as a pointer, so no left operand equals it."""

    __slots__ = ()


class NamedFormat:
    """A string format with its validator (``format.dns1123Label()``)."""

    __slots__ = ("max_regex_size", "name", "validate")

    def __init__(self, name: str, validate: Any, max_regex_size: int) -> None:
        self.name = name
        self.validate = validate
        self.max_regex_size = max_regex_size


def no_operator(left: Any, operator: str) -> EvaluationError:
    """Return the error for an operand whose type does not support the operator."""
    return EvaluationError(
        NO_OVERLOAD if type(left) in (Duration, str, Timestamp) else f"{NO_OVERLOAD}: {operator}"
    )


class OptionalValue:
    """A value that may be missing, or an error that is raised on read."""

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
    """An object that an expression constructed: `Object.spec{replicas: 3}`."""

    __slots__ = ("fields", "name")

    def __init__(self, name: str, fields: dict[str, Any]) -> None:
        self.name = name
        self.fields = fields


class LazyMap:
    """Named values that are computed on first use. Errors are cached too."""

    __slots__ = ("_compute", "_known")

    def __init__(self, compute: Mapping[str, Callable[[], Any]]) -> None:
        self._compute = compute
        self._known: dict[str, Any] = {}

    def find(self, key: Any) -> tuple[Any, bool]:
        """Return the value, and whether the name exists. Raises EvaluationError if computing it fails."""
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


class InvalidValue(NamedTuple):
    """A member of a map whose value is invalid. Reading it is an error."""

    problem: str


EMPTY: Final[dict[str, Any]] = {}

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
#: The name of the Go type that upstream's value wraps, by our class of the value.
_WRAPPED: Final[dict[type, str]] = {
    Ip: "netip.Addr",
    Cidr: "netip.Prefix",
    Semver: "semver.Version",
    Quantity: "*resource.Quantity",
    DerivedQuantity: "*resource.Quantity",
    Url: "*url.URL",
    EvaluationError: "*errors.errorString",
}
NUMBERS: Final = frozenset((int, Uint, float))
LISTS: Final = frozenset((list, tuple))


def innermost(optional: OptionalValue) -> Any:
    """Return the value inside nested optionals, or None if there is none."""
    value: Any = optional
    while type(value) is OptionalValue:
        value = value.value if value.present else None
    return value


def reread(optional: OptionalValue) -> OptionalValue:
    """Return the optional that a variable or a branch gives for ``optional``.

    cel-go unwraps the value to a Go value and converts it back, which is only possible for plain values.
    """
    try:
        value = innermost(optional)
    except EvaluationError as error:
        value = error
    kind = type(value)
    if kind is TypeValue:
        return OptionalValue(str(value))
    return OptionalValue(_unreadable(value) if kind in _WRAPPED else value)


def unwrap(optional: OptionalValue) -> Any:
    """Return the value that selections from ``optional`` read."""
    value = innermost(optional)
    if type(value) in _WRAPPED:
        raise _unreadable(value)
    return value


def _unreadable(value: Any) -> EvaluationError:
    return EvaluationError(f"unsupported conversion to ref.Val: ({_WRAPPED[type(value)]}){value}")


def type_name(value: Any) -> str:
    """Return the name of the value's CEL type."""
    return str(value.name) if type(value) is StructValue else _TYPE_NAMES[type(value)]


def go_type(value: Any) -> str:
    """Return the value's Go type in the form of cel-go's messages."""
    return _GO_NAMES[type(value)]


def type_text(value: Any) -> str:
    """Return the type with its parameters, as Go prints it."""
    name = type_name(value)
    count = {"list": 1, "map": 2}.get(name, 0)
    return f"{name}({', '.join(['dyn'] * count)})" if count else name


def is_list(value: Any) -> bool:
    return type(value) in LISTS


def is_map(value: Any) -> bool:
    return type(value) is dict or type(value) is DomainMap


def size(value: Any) -> int | None:
    """Evaluate CEL's size(). Return None if the value has no size."""
    kind = type(value)
    if kind is str or kind is bytes or kind in LISTS or kind is dict or kind is DomainMap:
        return len(value)
    if kind is Ip:
        return int(value.byte_length)
    if kind is Cidr:
        return math.ceil(int(value.prefix) / 8)
    return None


def cost_size(value: Any) -> int:
    """Return the size that costs are computed from."""
    known = size(value)
    if known is not None:
        return known
    if type(value) is OptionalValue and value.present:
        return cost_size(value.held)
    return 1


def to_text(value: Any) -> str:
    """Format a value with Go's ``%v``, as cel-go's messages do."""
    kind = type(value)
    if kind is bool:
        return "true" if value else "false"
    if kind is float:
        return format_double(value)
    if kind in LISTS:
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
    """Format a float with Go's ``%g`` and the fewest digits."""
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
