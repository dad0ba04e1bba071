"""JSON patches of webhooks and policies, with the messages of upstream's library."""

from __future__ import annotations

from dra_shared.jsontext import dumps
from dra_shared.jsontypes import JsonObject

from dra_apiserver.errors import invalid, invalid_object, quote
from dra_apiserver.kindkit.kind import api_version, split_api_version
from dra_apiserver.kinds.admissionregistration.dynamic.attributes import Attributes, Place
from dra_apiserver.patch.operations import OperationFailed, TestFailed, apply_operations
from dra_apiserver.schema import DecodeError, default, equal, object_type, sanitize
from dra_apiserver.schema.decode import claimed_type, unknown_conversion, unregistered_message
from dra_apiserver.schema.types import type_of
from dra_apiserver.schema.values import json_type

PatchFailed = OperationFailed
"""An operation fails, or its result is not of the kind. The message is Go's."""


class NotConvertible(Exception):
    """A patch created an object of another kind. The message is upstream's."""


def apply_patch(obj: JsonObject, operations: list[JsonObject]) -> JsonObject:
    """Return the object after the operations.

    Raises:
        PatchFailed: an operation fails.
    """
    try:
        patched = apply_operations(obj, operations)
    except TypeError as error:
        raise PatchFailed(str(error)) from None
    return patched if isinstance(patched, dict) else {}


def settle(patched: JsonObject, attributes: Attributes, place: Place, strict: bool = False) -> bool:
    """Replace the request's object by the patched one, checked against its types and with defaults.

    Returns: True if the patch changed the object. As upstream, changes by defaults do not count.

    Raises:
        PatchFailed: it is not an object of a known kind.
        NotConvertible: it is of another kind.
        StatusError: 422, a custom resource is of another kind.
    """
    kind, before = attributes.target.kind, attributes.convert(attributes.obj, place)
    if attributes.brings_other_kind or not kind.unstructured:
        place = _typed_place(patched, attributes, place)
    else:
        place = _unstructured_place(patched, attributes, place)
    group, version, name = place.kind
    other = attributes.brings_other_kind
    try:
        node = type_of(group, version, name) if other else object_type(kind, version)
        if node is not None:
            sanitize(node, patched, "Strict" if strict else "Ignore")
    except DecodeError as error:
        # Upstream's error only has the part of the message that is about the fields.
        text = str(error)
        at = max(text.rfind("json: cannot"), text.rfind("strict decoding error"), 0)
        raise PatchFailed(text[at:]) from None
    changed = patched != before and not (node is not None and node.native and equal(node, before, patched))
    if not other or "metadata" in (attributes.obj or {}):
        meta = patched["metadata"] = {} if patched.get("metadata") is None else patched["metadata"]
        if not isinstance(meta, dict):
            # The schema of a custom resource has no type for its metadata.
            raise PatchFailed(f"json: cannot unmarshal {json_type(meta)} into Go value of type v1.ObjectMeta")
    if not other:
        default(kind, version, patched, attributes.ctx.now)
    attributes.take(patched, place)
    return changed


def _typed_place(patched: JsonObject, attributes: Attributes, place: Place) -> Place:
    """Return the place for the apiVersion that the object states. Set its apiVersion and kind if they are missing.

    Upstream's decoder gets an object of the expected type. It uses that type for missing fields. Another
    registered type is decoded too, but cannot be converted afterwards.
    """
    group, version, kind = place.kind
    try:
        name, found = claimed_type(patched)
        claimed = split_api_version(name)
    except ValueError as error:
        raise PatchFailed(str(error)) from None
    found = found or kind
    if not claimed[1] and claimed[0] in ("", group):
        claimed = group, version
    patched["apiVersion"], patched["kind"] = api_version(*claimed), found
    for one in (place, *attributes.places):
        if one.kind == (*claimed, found):
            return one
    if attributes.registry.known_kind(*claimed, found) is None and type_of(*claimed, found) is None:
        raise PatchFailed(unregistered_message(api_version(*claimed), found))
    raise NotConvertible(unknown_conversion((claimed[1], found), (group, kind)))


def _unstructured_place(patched: JsonObject, attributes: Attributes, place: Place) -> Place:
    """Return the place for the apiVersion that a custom resource states."""
    group, _, kind = place.kind
    name, found = patched.get("apiVersion"), patched.get("kind")
    if not found or not isinstance(found, str):
        raise PatchFailed(f"Object 'Kind' is missing in '{dumps(patched).decode()}'")
    try:
        claimed = split_api_version(name if isinstance(name, str) else "")
    except ValueError:
        claimed = "", ""
    if claimed[0] != group:
        stated = f"{claimed[0]}/{claimed[1]}, Kind={found}"
        wanted = quote(api_version(group, attributes.target.version))
        raise NotConvertible(f"{stated} is unstructured and is not suitable for converting to {wanted}")
    if claimed[1] not in attributes.target.kind.all_versions:
        stated = api_version(*claimed)
        raise NotConvertible(f"request to convert CR from an invalid group/version: {stated}")
    if found != kind:
        wrong = invalid("kind", found, f"must be {kind}")
        meta = patched.get("metadata")
        raise invalid_object(
            group, found, (meta if isinstance(meta, dict) else {}).get("name") or "", [wrong]
        )
    return place._replace(version=claimed[1], kind=(group, claimed[1], kind))


__all__ = ["NotConvertible", "PatchFailed", "TestFailed", "apply_patch", "settle"]
