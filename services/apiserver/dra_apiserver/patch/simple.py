"""JSON patch and JSON merge patch."""

from __future__ import annotations

import functools
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import orjson

from dra_apiserver.patch.errors import PatchError
from dra_apiserver.schema.jsontext import syntax_error

if TYPE_CHECKING:
    import jsonpatch

_MOST_OPERATIONS = 10_000
_UNPROCESSABLE = "the server rejected our request due to an error in our request"


def load(body: bytes, prefix: str = "error decoding patch: ") -> Any:
    """The JSON value of a patch body.

    Raises:
        PatchError: the JSON is malformed.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise PatchError(f"{prefix}{syntax_error(body)}") from error


def json_patch(obj: dict[str, Any], body: bytes) -> dict[str, Any]:
    """``obj`` after the operations of a JSON patch (RFC 6902).

    Raises:
        PatchError: malformed (400), too many operations (413), or an operation failed (422).
    """
    # Imported late: only JSON patches need it.
    import jsonpatch

    operations = load(body)
    if not isinstance(operations, list):
        found = {dict: "object", str: "string", bool: "bool"}.get(type(operations), "number")
        raise PatchError(
            f"error decoding patch: json: cannot unmarshal {found} into Go value of type []handlers.jsonPatchOp"
        )
    if len(operations) > _MOST_OPERATIONS:
        raise PatchError(
            f"The allowed maximum operations in a JSON patch is {_MOST_OPERATIONS}, got {len(operations)}",
            413,
            "RequestEntityTooLarge",
        )
    for operation in operations:
        if isinstance(operation, dict) and isinstance(operation.get("path"), str):
            operation["path"] = _rooted(operation["path"])
    try:
        patched = _lenient()(operations).apply(obj)
    except (
        jsonpatch.JsonPatchException,
        jsonpatch.JsonPointerException,
        TypeError,
        KeyError,
        AttributeError,
    ) as error:
        raise PatchError(_UNPROCESSABLE, 422, "Invalid") from error
    if not isinstance(patched, dict):
        raise PatchError(_UNPROCESSABLE, 422, "Invalid")
    return patched


@functools.cache
def _lenient() -> type[jsonpatch.JsonPatch]:
    """Patches in which `replace` may name a member that is not there, as in Kubernetes' library."""
    import jsonpatch

    class Replace(jsonpatch.ReplaceOperation):
        def apply(self, obj: Any) -> Any:
            below, part = self.pointer.to_last(obj)
            if isinstance(below, dict) and part is not None and part not in below:
                below[part] = self.operation["value"]
                return obj
            return super().apply(obj)

    class Patch(jsonpatch.JsonPatch):
        operations = MappingProxyType({**jsonpatch.JsonPatch.operations, "replace": Replace})

    return Patch


def _rooted(path: str) -> str:
    return path if not path or path.startswith("/") else "/" + path


def merge_patch(obj: dict[str, Any], body: bytes) -> dict[str, Any]:
    """``obj`` after a JSON merge patch (RFC 7386).

    Raises:
        PatchError: the body is no JSON object.
    """
    patch = load(body)
    if not isinstance(patch, dict):
        found = {list: "array", str: "string", bool: "bool", type(None): "null"}.get(type(patch), "number")
        if found == "null":
            raise PatchError("Invalid JSON Patch")
        raise PatchError(
            f"error decoding patch: json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
        )
    return merge(obj, patch)


def merge(target: Any, patch: dict[str, Any]) -> dict[str, Any]:
    """The merge patch algorithm; neither argument is changed, parts may be shared."""
    made: dict[str, Any] = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        current = made.get(key)
        if value is None:
            made.pop(key, None)
        elif isinstance(value, dict) and isinstance(current, dict):
            made[key] = merge(current, value)
        elif isinstance(current, dict):
            made[key] = value
        else:
            made[key] = _without_nulls(value)
    # Upstream's encoder sorts what it took apart, which shows where a patch's result is refused.
    return dict(sorted(made.items()))


def _without_nulls(value: Any) -> Any:
    """What takes a place that no object had: members that are null are none, also those of a list's items."""
    if isinstance(value, dict):
        return {key: _without_nulls(one) for key, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value
