"""PATCH bodies, and who owns which field.

``load_operations``, ``json_patch``; ``load_merge``, ``merge_patch``; ``load_strategic``, ``strategic_merge_patch``
    Parse the patch in a body, and apply it to an object (which is modified). They raise :class:`PatchError`
    with code, reason and message. The result still has to be passed to ``schema.sanitize`` and ``default``.
``server_side_apply(kind, version, live, applied, *, manager, force, subresource, now) -> dict``
    ``live`` (None to create) after an apply; its managedFields are up to date. The result shares parts with
    ``live`` and ``applied``, which must not be used afterwards. Raises :class:`ApplyConflict` (409 Conflict
    with its ``causes``) where another manager owns a field and ``force`` is false.
``track_update(kind, version, old, new, *, manager, subresource, now) -> None``
    Writes ``new``'s managedFields after a create, update or patch by ``manager``; ``old`` is None on create.
``same_but_times(old, new) -> bool``
    True if a write only changes times in managedFields. Nothing is written in that case.
``reset_fields(kind, subresource) -> list[path]``
    The fields that a write through a subresource does not change.
``decode_apply(body) -> dict``
    An apply body: YAML or JSON.

``now`` is the RFC 3339 time that new managedFields entries carry.
"""

import re
from typing import Any

import orjson

from dra_apiserver import cbor
from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.patch.errors import ApplyConflict, PatchError
from dra_apiserver.patch.operations import copy_value
from dra_apiserver.patch.simple import (
    json_patch,
    large_as_floats,
    load_merge,
    load_operations,
    merge_patch,
    repeated_keys,
)
from dra_apiserver.patch.strategic import load_strategic, strategic_merge_patch
from dra_apiserver.patch.tracking import reset_fields, same_but_times, server_side_apply, track_update
from dra_apiserver.schema.errors import DecodeError
from dra_apiserver.schema.gotext import go_syntax

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
APPLY_CBOR_PATCH = "application/apply-patch+cbor"

_LONG_NUMBER = re.compile(rb"[0-9]{19}")


def patch_types(kind: Kind, *, with_cbor: bool = False) -> tuple[str, ...]:
    """Return the patch media types of a kind. Custom resources have no strategic merge."""
    strategic = (STRATEGIC_MERGE_PATCH,) if kind.types.strategic_merge else ()
    binary = (APPLY_CBOR_PATCH,) if with_cbor else ()
    return (JSON_PATCH, MERGE_PATCH, *strategic, APPLY_PATCH, *binary)


def apply_from_cbor(body: bytes) -> bytes:
    """Convert the configuration of an apply request in CBOR to JSON.

    Raises:
        PatchError: it is not accepted, or is not an object.
    """
    try:
        value = cbor.decode(body)
    except cbor.CborError as error:
        raise PatchError(f"error decoding patch: {error}") from error
    if not isinstance(value, dict | None):
        found = {list: "array", str: "byte string", int: "positive integer"}.get(type(value), "primitives")
        problem = f"cbor: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
        raise PatchError(f"error decoding patch: {problem}")
    return orjson.dumps(value)


def decode_apply(body: bytes) -> dict[str, Any]:
    """Decode the configuration of an apply request, in JSON or YAML.

    Raises:
        PatchError: it is malformed or not an object.
    """
    is_json = True
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        is_json = False
        from dra_shared.yamltext import YamlError

        from dra_apiserver.schema.yamlbody import document

        try:
            value = document(body).value
        except YamlError as error:
            raise PatchError(f"error decoding YAML: error converting YAML to JSON: yaml: {error}") from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        found = {list: "array", str: "string", bool: "bool"}.get(type(value), "number")
        problem = f"json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
        raise PatchError(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {problem}")
    # Skip the check for JSON without long numbers: only a number of at least 19 digits can be too large.
    if not is_json or _LONG_NUMBER.search(body):
        large_as_floats(value)
    return value


def repeated_in_apply(body: bytes) -> list[str]:
    """Return messages about repeated keys in a well-formed apply request, by line."""
    try:
        if not repeated_keys(body, orjson.loads(body)):
            return []
    except (DecodeError, orjson.JSONDecodeError):
        pass  # It is YAML, or JSON that only Go's decoder accepts.
    from dra_apiserver.schema.yamlbody import document

    return [
        f"line {one.line}: key {go_syntax(one.key)} already set in map" for one in document(body).repeated
    ]


__all__ = [
    "APPLY_PATCH",
    "JSON_PATCH",
    "MERGE_PATCH",
    "STRATEGIC_MERGE_PATCH",
    "ApplyConflict",
    "PatchError",
    "copy_value",
    "decode_apply",
    "json_patch",
    "load_merge",
    "load_operations",
    "load_strategic",
    "merge_patch",
    "patch_types",
    "repeated_in_apply",
    "repeated_keys",
    "reset_fields",
    "same_but_times",
    "server_side_apply",
    "strategic_merge_patch",
    "track_update",
]
