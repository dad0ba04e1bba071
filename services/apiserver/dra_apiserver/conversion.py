"""Conversion between the versions of a kind.

A kind's `conversions` have, by version, a pair of functions that change an object in place: from that version to the
stored one, and back. A version without an entry differs from the stored one in its apiVersion only.
"""

from __future__ import annotations

from typing import Any

from dra_apiserver.kindkit.kind import Kind

JsonObject = dict[str, Any]


def to_storage(kind: Kind, obj: JsonObject, version: str) -> JsonObject:
    """`obj`, which is in `version`, in the form that is stored; changes it."""
    found = kind.conversions.get(version)
    if found is not None:
        found[0](obj)
    obj["apiVersion"] = kind.storage_api_version
    return obj


def convert(kind: Kind, obj: JsonObject, version: str) -> JsonObject:
    """A stored object in `version`; changes it."""
    found = kind.conversions.get(version)
    if found is not None:
        found[1](obj)
    obj["apiVersion"] = kind.api_version(version)
    return obj
