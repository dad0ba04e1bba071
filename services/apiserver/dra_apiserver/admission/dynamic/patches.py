"""JSON patches from webhooks and policies, with the words of the library that upstream applies them with."""

from __future__ import annotations

from typing import Any

from dra_apiserver.admission.dynamic.attributes import Attributes, Place
from dra_apiserver.errors import quote
from dra_apiserver.schema import DecodeError, default, sanitize

JsonObject = dict[str, Any]


class PatchFailed(Exception):
    """An operation can't be done, or its result is not of the kind; the message is Go's."""


class TestFailed(PatchFailed):
    """An operation of the patch tests, and what it tests is not so."""


def apply_patch(obj: JsonObject, operations: list[JsonObject]) -> JsonObject:
    """The object after the operations.

    Raises:
        PatchFailed: one of them can't be done.
    """
    # Imported late: only JSON patches need it.
    import jsonpatch

    for operation in operations:
        if operation.get("op") == "replace" and _lacks(obj, operation):
            # Upstream's library sets a member that there is none to replace of.
            operation = {**operation, "op": "add"}
        try:
            obj = jsonpatch.JsonPatch([operation]).apply(obj)
        except jsonpatch.JsonPatchTestFailed:
            raise TestFailed(f"testing value {operation.get('path')} failed: test failed") from None
        except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError, KeyError) as error:
            raise PatchFailed(_problem(obj, operation, error)) from None
    return obj


def _lacks(obj: Any, operation: JsonObject) -> bool:
    """Whether the path ends in a member that its object has not."""
    *parents, key = str(operation.get("path") or "").split("/")[1:] or [""]
    parent = _at(obj, parents)
    return isinstance(parent, dict) and _unescaped(key) not in parent


_NOTHING = object()


def _at(obj: Any, steps: list[str]) -> Any:
    for one in steps:
        try:
            obj = obj[int(one)] if isinstance(obj, list) else obj[_unescaped(one)]
        except (KeyError, ValueError, IndexError, TypeError):
            return _NOTHING
    return obj


def _problem(obj: Any, operation: JsonObject, error: Exception) -> str:
    kind, path = operation.get("op"), str(operation.get("path") or "")
    *parents, key = path.split("/")[1:] or [""]
    if _at(obj, parents) is _NOTHING:
        return f"{kind} operation does not apply: doc is missing path: {quote(path)}: missing value"
    match kind:
        case "remove":
            why = f"Unable to remove nonexistent key: {_unescaped(key)}: missing value"
            return f"error in remove for path: '{path}': {why}"
        case "replace":
            return f"replace operation does not apply: doc is missing key: {path}: missing value"
        case "add" | "move" | "copy" | "test":
            return f"{kind} operation does not apply: doc is missing path: {quote(path)}: missing value"
    return f"Unexpected kind: {kind}" if kind else str(error)


def _unescaped(key: str) -> str:
    return key.replace("~1", "/").replace("~0", "~")


def settle(patched: JsonObject, attributes: Attributes, place: Place, strict: bool = False) -> None:
    """Have the request's object be the patched one, in its types and with defaults.

    Raises:
        PatchFailed: it is not of the kind.
    """
    if not attributes.brings_other_kind:
        kind = attributes.target.kind
        try:
            sanitize(kind, place.kind[1], patched, "Strict" if strict else "Ignore")
        except DecodeError as error:
            # Of what a patch's error says, the part about the fields.
            text = str(error)
            at = max(text.rfind("json: cannot"), text.rfind("strict decoding error"), 0)
            raise PatchFailed(text[at:]) from None
        default(kind, place.kind[1], patched, attributes.ctx.now)
    attributes.take(patched, place)
