"""Derived attributes: the value of an expression as the attribute that constraints compare.

Mirrors ``valToDeviceAttribute`` of k8s.io/dynamic-resource-allocation/cel/compile.go (1.37).
"""

from collections.abc import Sequence
from typing import Any, Final

from dra_shared.api.resource import DeviceAttribute
from dra_shared.cel.errors import EvaluationError
from dra_shared.cel.url import Url
from dra_shared.cel.values import DerivedQuantity, Duration, Timestamp, Uint, go_type, is_list
from dra_shared.quantity import Quantity
from dra_shared.semver import Semver

# The kinds of value there are, as messages name them.
_KINDS: Final[dict[type, str]] = {bool: "bool", int: "int", str: "string", Semver: "semver"}
# What Go holds of other values.
_HELD: Final[dict[type, str]] = {
    float: "float64",
    Uint: "uint64",
    bytes: "[]uint8",
    type(None): "structpb.NullValue",
    Duration: "time.Duration",
    Timestamp: "time.Time",
    Quantity: "*resource.Quantity",
    DerivedQuantity: "*resource.Quantity",
    Url: "*url.URL",
    dict: "map[ref.Val]ref.Val",
}


def _held(value: Any) -> str:
    return _HELD.get(type(value)) or go_type(value)


def attribute_of(value: Any) -> DeviceAttribute:
    """The attribute that an expression's value stands for. A list without elements has no values at all.

    Raises:
        EvaluationError: attributes have no such values.
    """
    kind = type(value)
    if kind is bool:
        return DeviceAttribute(bool_=value)
    if kind is int:
        return DeviceAttribute(int_=value)
    if kind is str:
        return DeviceAttribute(string=value)
    if kind is Semver:
        return DeviceAttribute(version=str(value))
    if is_list(value):
        return _list(list(value))
    raise EvaluationError(f"unsupported CEL return type: {_held(value)}")


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
