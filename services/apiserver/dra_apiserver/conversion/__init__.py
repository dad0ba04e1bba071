"""Conversion between the versions of a kind.

`CONVERTERS` has, by (group, plural) and version, a pair of functions that change an object in place: from that version
to the stored one, and back. A version without an entry differs from the stored one in its apiVersion only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dra_apiserver.conversion import autoscaling, events, resource
from dra_apiserver.registry import KindInfo

JsonObject = dict[str, Any]
Convert = Callable[[JsonObject], None]

CONVERTERS: dict[tuple[str, str], dict[str, tuple[Convert, Convert]]] = {
    **resource.CONVERTERS,
    **events.CONVERTERS,
    **autoscaling.CONVERTERS,
}


def to_storage(kind: KindInfo, obj: JsonObject, version: str) -> JsonObject:
    """`obj`, which is in `version`, in the form that is stored; changes it."""
    found = CONVERTERS.get((kind.group, kind.plural), {}).get(version)
    if found is not None:
        found[0](obj)
    obj["apiVersion"] = kind.storage_api_version
    return obj


def convert(kind: KindInfo, obj: JsonObject, version: str) -> JsonObject:
    """A stored object in `version`; changes it."""
    found = CONVERTERS.get((kind.group, kind.plural), {}).get(version)
    if found is not None:
        found[1](obj)
    obj["apiVersion"] = kind.api_version(version)
    return obj
