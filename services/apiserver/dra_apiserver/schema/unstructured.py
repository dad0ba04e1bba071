"""Check objects created by a strategic merge patch, which upstream converts without a JSON encoding in between.

apimachinery's converter has its own messages for wrong types, accepts whole numbers in any notation as
integers, and names unknown fields without the keys of maps.
"""

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from typing import Any

from dra_shared.jsontypes import JsonObject

from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.schema.errors import DecodeError
from dra_apiserver.schema.gotext import go_value
from dra_apiserver.schema.reader import Reader, TypeMismatch
from dra_apiserver.schema.types import ListNode, MapNode, Node, Scalar, Struct, object_type
from dra_apiserver.schema.values import READERS, WrongType, json_type

_KINDS = {dict: "map", list: "slice", str: "string", bool: "bool", int: "int64", float: "float64"}
_GO_KINDS = {
    Scalar.STRING: "string",
    Scalar.BOOL: "bool",
    Scalar.INT32: "int32",
    Scalar.INT64: "int64",
    Scalar.FLOAT: "float64",
}


def _whole(bits: int) -> Any:
    def read(value: Any) -> int:
        if type(value) not in (int, float) or value != value // 1:
            raise WrongType(json_type(value))
        # Go's conversion to a smaller integer keeps the low bits. A float beyond 64 bits becomes the smallest
        # integer.
        number = int(value) if -(1 << 63) <= value < 1 << 63 else -(1 << 63)
        half = 1 << (bits - 1)
        return (number + half) % (1 << bits) - half

    return read


class _Converter(Reader):
    readers: Mapping[Scalar, Callable[[Any], Any]] = {
        **READERS,
        Scalar.INT32: _whole(32),
        Scalar.INT64: _whole(64),
    }

    def _location(self, name: str) -> str:
        text = "".join(part if part[0] == "[" else f".{part}" for part in self._path if part[:1] != "{")
        return f"{text}.{name}".removeprefix(".")


def sanitize_patched(
    kind: Kind,
    version: str,
    obj: JsonObject,
    touched: Collection[str],
    patch: Callable[[], Any],
    field_validation: str = "Ignore",
    problems: Sequence[str] = (),
) -> list[str]:
    """Prune and check ``obj``, the result of ``patch``, in place. Return texts for Warning headers.

    ``touched`` are the members of the patch, ``problems`` those of its decoding.

    Raises:
        DecodeError: 422, a value is of the wrong type or (``Strict``) a field is unknown.
    """
    node = object_type(kind, version)
    reader = _Converter()
    try:
        reader.read(node, obj, frozenset(touched))
    except TypeMismatch as error:
        raise _invalid(patch(), _problem(node, obj, error)) from error
    except RecursionError as error:
        raise DecodeError("exceeded max depth", 422, "Invalid") from error
    found = [*problems, *sorted(reader.strict)]
    if field_validation == "Strict" and found:
        raise _invalid(patch(), "strict decoding error: " + ", ".join(found))
    return found if field_validation == "Warn" else []


def convert_applied(kind: Kind, version: str, obj: JsonObject, touched: Container[str] | None = None) -> str:
    """Prune and check the result of a server-side apply, in place. Return the error, or "".

    Only the ``touched`` members (None: all) are checked.
    """
    node = object_type(kind, version)
    try:
        _Converter().read(node, obj, touched)
    except TypeMismatch as error:
        name = f"{kind.group}/{version}"
        problem = _problem(node, obj, error)
        return f"unable to convert unstructured object to {name}, Kind={kind.kind}: {problem}"
    return ""


def _invalid(patch: Any, problem: str) -> DecodeError:
    from dra_apiserver.errors import invalid

    message = invalid("patch", go_value(patch), problem).body()
    cause = {"reason": "FieldValueInvalid", "message": message, "field": "patch"}
    return DecodeError(f' "" is invalid: patch: {message}', 422, "Invalid", [cause])


def _problem(root: Node, obj: JsonObject, error: TypeMismatch) -> str:
    if not error.parts:
        text = str(error)
        return f"error decoding from json: {text}" if text.startswith("illegal base64") else text
    node: Node | None = root
    value: Any = obj
    for part in error.parts:
        if part[0] == "[":
            value = value[int(part[1:-1])]
        else:
            value = value[part.removeprefix("{") if isinstance(node, MapNode) else part]
        if isinstance(node, Struct):
            node = node.fields[part].node
        elif isinstance(node, ListNode):
            node = node.item
        elif isinstance(node, MapNode):
            node = node.value
    found = _KINDS[type(value)]
    if isinstance(node, Struct):
        return f"cannot restore struct from: {found}"
    if isinstance(node, MapNode):
        return f"cannot restore map from {found}"
    if isinstance(node, ListNode) or node is Scalar.BYTES:
        return f"cannot restore slice from {found}"
    wanted = _GO_KINDS.get(node) if isinstance(node, Scalar) else None
    if wanted is None:
        return f"json: cannot unmarshal {json_type(value)} into Go value of type {error.go}"
    # Go can convert an integer to a text, and an integer to a float. For impossible conversions, the type is
    # reported as unknown.
    if (found, wanted) == ("int64", "string") or (found == "float64" and wanted in ("int32", "int64")):
        return f"cannot convert {found} to {error.go}"
    return f"unrecognized type: {wanted}"
