"""Convert objects between the versions of a kind.

A kind's `conversions` have, by version, two functions that change an object in place: from that version to
the storage version, and back. A version without an entry differs from the storage version in its apiVersion
only.
"""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject

from dra_apiserver.kindkit.kind import Kind


def to_storage(kind: Kind, obj: JsonObject, version: str) -> JsonObject:
    """Convert `obj` from `version` to the storage version, in place."""
    found = kind.conversions.get(version)
    if found is not None:
        found[0](obj)
    obj["apiVersion"] = kind.storage_api_version
    return obj


def convert(kind: Kind, obj: JsonObject, version: str) -> JsonObject:
    """Convert a stored object to `version`, in place."""
    found = kind.conversions.get(version)
    if found is not None:
        found[1](obj)
    obj["apiVersion"] = kind.api_version(version)
    return obj
