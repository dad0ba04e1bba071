"""Convert base64 texts to bytes, and whole numbers to floats, in the fields where CBOR distinguishes them.

Upstream encodes Go structs, whose field types have this information. Here it comes from the types of protobuf
messages. Custom resources have no such types, here and upstream.
"""

from __future__ import annotations

import base64
import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from dra_shared.jsontypes import JsonObject

from dra_apiserver.protobuf import layouts

_MARKED: Mapping[str, Callable[[Any], Any]] = {"bytes": base64.b64decode, "double": float}
# Their Go types encode themselves to JSON, which has no types.
_OWN_JSON = ("OrArray", "OrBool", "OrStringArray")


class _Mark(NamedTuple):
    is_map: bool
    kind: str


def mark(message: str, obj: JsonObject) -> JsonObject:
    """Convert the fields of an object that are bytes or floats in its protobuf message ("" for none).

    The object is changed in place.
    """
    for member, mark in _marks(message).items():
        value = obj.get(member)
        if value is not None:
            obj[member] = _apply(mark, value)
    return obj


def _apply(mark: _Mark, value: Any) -> Any:
    if mark.is_map:
        return {key: _one(mark.kind, item) for key, item in value.items()}
    if isinstance(value, list):
        return [_one(mark.kind, item) for item in value]
    return _one(mark.kind, value)


def _one(kind: str, value: Any) -> Any:
    convert = _MARKED.get(kind)
    if convert is None:
        return mark(kind, value)
    return None if value is None else convert(value)


@functools.cache
def _marks(message: str) -> Mapping[str, _Mark]:
    """Return the members of a protobuf message that are bytes or floats, or that contain such members."""
    found: dict[str, _Mark] = {}
    for member, kind in _fields(message):
        inner = _inner(kind)
        if inner in _MARKED or inner in _with_marks():
            if member:
                found[member] = _Mark(isinstance(kind, list) and kind[0] == "map", inner)
            else:
                found.update(_marks(inner))
    return found


def _fields(message: str) -> list[list[Any]]:
    package, _, short = message.rpartition(".")
    return list(layouts().get(package, {}).get(short, {}).values())


def _inner(kind: Any) -> str:
    while isinstance(kind, list):
        kind = kind[1]
    return str(kind)


@functools.cache
def _with_marks() -> frozenset[str]:
    """Return the messages that contain bytes or floats at any level."""
    below = {
        f"{package}.{short}": {_inner(kind) for _, kind in fields.values()}
        for package, messages in layouts().items()
        for short, fields in messages.items()
        if not short.endswith(_OWN_JSON)
    }
    found: set[str] = set()
    while True:
        more = {name for name, kinds in below.items() if not kinds.isdisjoint(found | _MARKED.keys())}
        if more == found:
            return frozenset(found)
        found = more
