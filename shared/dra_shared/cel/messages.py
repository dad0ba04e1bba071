"""Messages that an expression can construct by name: protobuf's well-known types, which become plain values
at once.
"""

import base64
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

from dra_shared.cel import types as t
from dra_shared.cel.errors import EvaluationError
from dra_shared.cel.library.times import duration_text, timestamp_text
from dra_shared.cel.types import Kind, Type
from dra_shared.cel.values import (
    Duration,
    OptionalValue,
    StructValue,
    Timestamp,
    Uint,
    is_list,
    is_map,
    type_name,
)
from dra_shared.quoting import go_quote

_PACKAGE: Final = "google.protobuf."
_JSON: Final = t.map_of(t.STRING, t.DYN)
_LIST: Final = t.list_of(t.DYN)
_ENTRY: Final = f"{_PACKAGE}Struct.FieldsEntry"
_WRAPPERS: Final = {
    "BoolValue": (t.BOOL, "bool"),
    "BytesValue": (t.BYTES, "[]uint8"),
    "DoubleValue": (t.DOUBLE, "float64"),
    "FloatValue": (t.DOUBLE, "float32"),
    "Int32Value": (t.INT, "int32"),
    "Int64Value": (t.INT, "int64"),
    "StringValue": (t.STRING, "string"),
    "UInt32Value": (t.UINT, "uint32"),
    "UInt64Value": (t.UINT, "uint64"),
}
#: The type of an expression that creates a message, by the message's name.
TYPES: Final[dict[str, Type]] = {
    f"{_PACKAGE}Any": t.ANY,
    f"{_PACKAGE}Duration": t.DURATION,
    f"{_PACKAGE}Empty": Type(Kind.STRUCT, f"{_PACKAGE}Empty"),
    f"{_PACKAGE}ListValue": _LIST,
    f"{_PACKAGE}Struct": _JSON,
    _ENTRY: Type(Kind.STRUCT, _ENTRY),
    f"{_PACKAGE}Timestamp": t.TIMESTAMP,
    f"{_PACKAGE}Value": t.DYN,
    **{_PACKAGE + name: t.nullable(wrapped) for name, (wrapped, _) in _WRAPPERS.items()},
    # Kubernetes also declares Duration and Timestamp by these names. Only the checker uses them.
    "duration": t.DURATION,
    "timestamp": t.TIMESTAMP,
}
_MOMENT: Final = {"seconds": t.INT, "nanos": t.INT}
#: The fields of each message, with their types.
MEMBERS: Final[dict[str, dict[str, Type]]] = {
    f"{_PACKAGE}Any": {"type_url": t.STRING, "value": t.BYTES},
    f"{_PACKAGE}Duration": _MOMENT,
    f"{_PACKAGE}Empty": {},
    f"{_PACKAGE}ListValue": {"values": _LIST},
    f"{_PACKAGE}Struct": {"fields": _JSON},
    _ENTRY: {"key": t.STRING, "value": t.DYN},
    f"{_PACKAGE}Timestamp": _MOMENT,
    f"{_PACKAGE}Value": {
        "null_value": t.INT,
        "number_value": t.DOUBLE,
        "string_value": t.STRING,
        "bool_value": t.BOOL,
        "struct_value": _JSON,
        "list_value": _LIST,
    },
    **{_PACKAGE + name: {"value": wrapped} for name, (wrapped, _) in _WRAPPERS.items()},
    "duration": _MOMENT,
    "timestamp": _MOMENT,
}
#: Messages whose names can be used as the name of a type in an expression.
NAMED: Final = frozenset((f"{_PACKAGE}Duration", f"{_PACKAGE}Empty", _ENTRY, f"{_PACKAGE}Timestamp"))
NULL_VALUE: Final = f"{_PACKAGE}NullValue.NULL_VALUE"

_GO: Final = {
    (f"{_PACKAGE}Any", "type_url"): "string",
    (f"{_PACKAGE}Any", "value"): "[]uint8",
    **{(_PACKAGE + name, "seconds"): "int64" for name in ("Duration", "Timestamp")},
    **{(_PACKAGE + name, "nanos"): "int32" for name in ("Duration", "Timestamp")},
    (_ENTRY, "key"): "string",
    (_ENTRY, "value"): "*structpb.Value",
    (f"{_PACKAGE}Value", "null_value"): "protoreflect.EnumNumber",
    (f"{_PACKAGE}Value", "number_value"): "float64",
    (f"{_PACKAGE}Value", "string_value"): "string",
    (f"{_PACKAGE}Value", "bool_value"): "bool",
    (f"{_PACKAGE}Value", "struct_value"): "*structpb.Struct",
    (f"{_PACKAGE}Value", "list_value"): "*structpb.ListValue",
    **{(_PACKAGE + name, "value"): go for name, (_, go) in _WRAPPERS.items()},
}
_ZEROS: Final[dict[str, Any]] = {
    "bool": False, "[]uint8": b"", "float64": 0.0, "float32": 0.0, "int32": 0, "int64": 0, "string": "",
    "uint32": Uint(0), "uint64": Uint(0),
}  # fmt: skip
_EXACT: Final = {
    (bool, "bool"), (bytes, "[]uint8"), (float, "float64"), (int, "int64"), (str, "string"), (Uint, "uint64"),
}  # fmt: skip
_REFUSALS: Final = {
    "bool": "type conversion error from bool to '{}'",
    "int": "unsupported type conversion from 'int' to {}",
    "uint": "unsupported type conversion from 'uint' to {}",
    "double": "type conversion error from Double to '{}'",
    "string": "unsupported native conversion from string to '{}'",
    "bytes": "type conversion error from Bytes to '{}'",
    "list": "type conversion error from list to '{}'",
    "map": "type conversion error from map to '{}'",
    "null_type": "type conversion error from 'null_type' to '{}'",
    "kubernetes.Quantity": "type conversion error from 'Quantity' to '{}'",
    "kubernetes.Semver": "type conversion error from 'Semver' to '{}'",
    "kubernetes.URL": "type conversion error from 'URL' to '{}'",
    "kubernetes.NamedFormat": "type conversion error from 'Format' to '{}'",
    "net.IP": "type conversion error from 'IP' to '{}'",
    "net.CIDR": "type conversion error from 'CIDR' to '{}'",
    "google.protobuf.Duration": "type conversion error from 'Duration' to '{}'",
    "google.protobuf.Timestamp": "type conversion error from 'Timestamp' to '{}'",
    "type": "type conversion not supported for 'type'",
    "optional_type": "optional.none() dereference",
}
_LARGEST: Final = (1 << 53) - 1
_NANOS: Final = 1_000_000_000


def refusal(value: Any, go: str) -> str:
    """Return the error of converting a value to a Go type."""
    name = type_name(value)
    return _REFUSALS.get(name, f"type conversion error from '{name}' to '{{}}'").format(go)


def maker(name: str) -> Callable[[dict[str, Any]], Any] | None:
    """Return the constructor of a message, or None if the name is not one of these types."""
    if name not in TYPES and name != t.DEVICE.name:
        return None
    if name not in MEMBERS or not name.startswith(_PACKAGE):

        def fail(fields: dict[str, Any]) -> Any:
            raise EvaluationError(f"unknown type '{name}'")

        return fail

    def make(fields: dict[str, Any]) -> Any:
        return _construct(name, {key: _field(name, key, value) for key, value in fields.items()})

    return make


def _field(message: str, key: str, value: Any) -> Any:
    go = _GO.get((message, key))
    if go is None:
        if not (is_list(value) if key == "values" else is_map(value)):
            raise EvaluationError(f"unsupported field type for {message}.{key}: {type_name(value)}")
        go = "*structpb.Value"
    try:
        return _native(value, go)
    except EvaluationError as error:
        raise EvaluationError(
            f"field type conversion error for {message}.{key} value type: {error}"
        ) from None


def _native(value: Any, go: str) -> Any:
    kind = type(value)
    if (kind, go) in _EXACT:
        return value
    if kind is int and go in ("int32", "protoreflect.EnumNumber"):
        if -(1 << 31) <= value < 1 << 31:
            return value
        raise EvaluationError("integer overflow")
    if kind is Uint and go == "uint32":
        if value < 1 << 32:
            return value
        raise EvaluationError("unsigned integer overflow")
    if kind is float and go == "float32":
        return _single(value)
    if go == "*structpb.Value" or (go == "*structpb.Struct" and is_map(value)):
        return _json(value)
    if go == "*structpb.ListValue" and is_list(value):
        return _json(value)
    raise EvaluationError(refusal(value, go))


def _single(value: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _json(value: Any) -> Any:
    """Convert a value to JSON. All numbers become doubles, and values that JSON lacks become text."""
    kind = type(value)
    if value is None or kind in (bool, float, str):
        return value
    if kind is int or kind is Uint:
        return float(value) if -_LARGEST <= value <= _LARGEST else str(int(value))
    if kind is bytes:
        return base64.b64encode(value).decode()
    if kind is Duration:
        return duration_text(value)
    if kind is Timestamp:
        return timestamp_text(value)
    if kind is OptionalValue and value.present:
        return _json(value.value)
    if is_list(value):
        return [_json(item) for item in value]
    if is_map(value):
        return {_native(key, "string"): _json(item) for key, item in value.items()}
    raise EvaluationError(refusal(value, "*structpb.Value"))


def _construct(name: str, fields: Mapping[str, Any]) -> Any:
    match name.removeprefix(_PACKAGE):
        case "Struct":
            return fields.get("fields", {})
        case "ListValue":
            return fields.get("values", [])
        case "Value":
            key, value = next(reversed([*fields.items()]), ("null_value", None))
            return None if key == "null_value" else value
        case "Duration":
            nanos = fields.get("seconds", 0) * _NANOS + fields.get("nanos", 0)
            return Duration(min(max(nanos, -(1 << 63)), (1 << 63) - 1))
        case "Timestamp":
            return Timestamp(fields.get("seconds", 0) * _NANOS + fields.get("nanos", 0))
        case "Any":
            text = " ".join(
                f"{key}:{go_quote(value if isinstance(value, str) else value.decode('latin-1'))}"
                for key, value in fields.items()
                if value
            )
            raise EvaluationError(f"unsupported conversion to ref.Val: (*dynamicpb.Message){text}")
        case "Empty":
            return StructValue(name, {})
        case "Struct.FieldsEntry":
            return StructValue(name, {"key": "", "value": None, **fields})
    return fields.get("value", _ZEROS[_GO[name, "value"]])
