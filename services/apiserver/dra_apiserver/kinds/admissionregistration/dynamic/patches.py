"""JSON patches from webhooks and policies, with the words of the library that upstream applies them with."""

from __future__ import annotations

from typing import Any

from dra_apiserver.kinds.admissionregistration.dynamic.attributes import Attributes, Place
from dra_apiserver.patch.operations import OperationFailed, TestFailed, apply_operations
from dra_apiserver.schema import DecodeError, default, object_type, sanitize

JsonObject = dict[str, Any]


PatchFailed = OperationFailed
"""An operation can't be done, or its result is not of the kind; the message is Go's."""


def apply_patch(obj: JsonObject, operations: list[JsonObject]) -> JsonObject:
    """The object after the operations.

    Raises:
        PatchFailed: one of them can't be done.
    """
    try:
        patched = apply_operations(obj, operations)
    except TypeError as error:
        raise PatchFailed(str(error)) from None
    return patched if isinstance(patched, dict) else {}


def settle(patched: JsonObject, attributes: Attributes, place: Place, strict: bool = False) -> None:
    """Have the request's object be the patched one, in its types and with defaults.

    Raises:
        PatchFailed: it is not of the kind.
    """
    if not attributes.brings_other_kind:
        kind = attributes.target.kind
        try:
            sanitize(object_type(kind, place.kind[1]), patched, "Strict" if strict else "Ignore")
        except DecodeError as error:
            # Of what a patch's error says, the part about the fields.
            text = str(error)
            at = max(text.rfind("json: cannot"), text.rfind("strict decoding error"), 0)
            raise PatchFailed(text[at:]) from None
        default(kind, place.kind[1], patched, attributes.ctx.now)
    attributes.take(patched, place)


__all__ = ["PatchFailed", "TestFailed", "apply_patch", "settle"]
