"""Derived attributes: the value of an expression as the attribute that constraints compare.

Mirrors ``valToDeviceAttribute`` of k8s.io/dynamic-resource-allocation/cel/compile.go (1.37).
"""

from collections.abc import Sequence
from typing import Any, Final

from dra_shared.api.resource import DeviceAttribute
from dra_shared.cel.errors import EvaluationError
from dra_shared.cel.network import Cidr, Ip
from dra_shared.cel.url import Url
from dra_shared.cel.values import (
    DerivedQuantity,
    DomainMap,
    Duration,
    OptionalValue,
    Timestamp,
    TypeValue,
    Uint,
    go_type,
    is_list,
)
from dra_shared.quantity import Quantity
from dra_shared.semver import Semver

# The kinds of values, as messages name them.
_KINDS: Final[dict[type, str]] = {bool: "bool", int: "int", str: "string", Semver: "semver"}
# Represents Go's nil, which an optional without a value holds.
_NIL: Final = object()
# The Go types of values, in the format of %T.
_HELD: Final[dict[type, str]] = {
    bool: "bool",
    int: "int64",
    str: "string",
    Semver: "semver.Version",
    float: "float64",
    Uint: "uint64",
    bytes: "[]uint8",
    type(None): "structpb.NullValue",
    Duration: "time.Duration",
    Timestamp: "time.Time",
    Quantity: "*resource.Quantity",
    DerivedQuantity: "*resource.Quantity",
    Url: "*url.URL",
    Ip: "netip.Addr",
    Cidr: "netip.Prefix",
    list: "[]ref.Val",
    dict: "map[ref.Val]ref.Val",
    DomainMap: "map[string]interface {}",
    object: "<nil>",
}
# The Go types of lists that attributes can have.
_LISTS: Final[dict[type, str]] = {bool: "[]bool", int: "[]int64", str: "[]string", Semver: "[]cel.Semver"}


def _describe_go_value(value: Any) -> str:
    if type(value) is tuple and value:
        return _LISTS[type(value[0])]
    return _HELD.get(type(value)) or go_type(value)


def _native(value: Any) -> Any:
    """Return the value that Go holds for a CEL value: of an optional its content, of a type its name."""
    while type(value) is OptionalValue:
        value = value.value if value.present else _NIL
    return str(value) if type(value) is TypeValue else value


def attribute_of(value: Any) -> DeviceAttribute:
    """Convert an expression's value to an attribute. An empty list has no values at all.

    Raises:
        EvaluationError: the value is of a type that attributes cannot have.
    """
    native = _native(value)
    kind = type(native)
    if kind is bool:
        return DeviceAttribute(bool_=native)
    if kind is int:
        return DeviceAttribute(int_=native)
    if kind is str:
        return DeviceAttribute(string=native)
    if kind is Semver:
        return DeviceAttribute(version=str(native))
    if is_list(value):
        return _list([_native(item) for item in value])
    raise EvaluationError(f"unsupported CEL return type: {_describe_go_value(native)}")


def _list(values: Sequence[Any]) -> DeviceAttribute:
    if not values:
        return DeviceAttribute()
    kind = type(values[0])
    if kind not in _KINDS:
        raise EvaluationError(f"unsupported list element type: {_describe_go_value(values[0])}")
    for index, value in enumerate(values):
        if type(value) is not kind:
            text = f"expected list element at index {index} to be {_KINDS[kind]}, got {_describe_go_value(value)}"
            raise EvaluationError(text)
    if kind is bool:
        return DeviceAttribute(bools=tuple(values))
    if kind is int:
        return DeviceAttribute(ints=tuple(values))
    if kind is str:
        return DeviceAttribute(strings=tuple(values))
    return DeviceAttribute(versions=tuple(map(str, values)))
