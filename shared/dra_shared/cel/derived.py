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

# The kinds of value there are, as messages name them.
_KINDS: Final[dict[type, str]] = {bool: "bool", int: "int", str: "string", Semver: "semver"}
# Stands for Go's nil, which an optional without a value holds.
_NIL: Final = object()
# What Go holds of values, as %T prints it.
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
# Of lists that are an attribute's.
_LISTS: Final[dict[type, str]] = {bool: "[]bool", int: "[]int64", str: "[]string", Semver: "[]cel.Semver"}


def _held(value: Any) -> str:
    if type(value) is tuple and value:
        return _LISTS[type(value[0])]
    return _HELD.get(type(value)) or go_type(value)


def _native(value: Any) -> Any:
    """Return what Go holds of a value: the value of an optional, and the name of a type."""
    while type(value) is OptionalValue:
        value = value.value if value.present else _NIL
    return str(value) if type(value) is TypeValue else value


def attribute_of(value: Any) -> DeviceAttribute:
    """The attribute that an expression's value stands for. A list without elements has no values at all.

    Raises:
        EvaluationError: attributes have no such values.
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
    raise EvaluationError(f"unsupported CEL return type: {_held(native)}")


def _list(values: Sequence[Any]) -> DeviceAttribute:
    if not values:
        return DeviceAttribute()
    kind = type(values[0])
    if kind not in _KINDS:
        raise EvaluationError(f"unsupported list element type: {_held(values[0])}")
    for index, value in enumerate(values):
        if type(value) is not kind:
            text = f"expected list element at index {index} to be {_KINDS[kind]}, got {_held(value)}"
            raise EvaluationError(text)
    if kind is bool:
        return DeviceAttribute(bools=tuple(values))
    if kind is int:
        return DeviceAttribute(ints=tuple(values))
    if kind is str:
        return DeviceAttribute(strings=tuple(values))
    return DeviceAttribute(versions=tuple(map(str, values)))
