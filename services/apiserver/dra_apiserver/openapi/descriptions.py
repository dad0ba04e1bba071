"""Descriptions of types and their members, for `kubectl explain`."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from dra_shared.api.schema import descriptions_document
from dra_shared.jsontypes import JsonObject

_PACKAGE = "io.k8s.api.resource."
# Types of older versions whose members have their descriptions under another type.
_ELSEWHERE = {"BasicDevice": "Device", "DeviceRequest": "ExactDeviceRequest"}
_COMMON = {
    "apiVersion": "The group and version that this object is written in.",
    "kind": "What this object is.",
    "metadata": "What all lists have.",
}


@functools.cache
def texts() -> Mapping[str, Mapping[str, str]]:
    """Return the descriptions by type: that of the type (`type`) and those of its members."""
    # Imported here because few clients request documents.
    import yaml

    loaded: dict[str, dict[str, str]] = yaml.safe_load(descriptions_document())
    return loaded


def add_descriptions(name: str, schema: JsonObject) -> JsonObject:
    """Return the schema of the type `name` with its descriptions, if it has any."""
    if not name.startswith(_PACKAGE):
        return schema
    short = name.rpartition(".")[2]
    own = texts().get(short) or {}
    other = texts().get(_ELSEWHERE.get(short, "")) or {}
    made = dict(schema)
    about = own.get("type") or other.get("type")
    if about:
        made["description"] = about
    members: JsonObject = {}
    for key, member in (schema.get("properties") or {}).items():
        text = own.get(key) or other.get(key) or _COMMON.get(key)
        members[key] = {"description": text, **member} if text else member
    return {**made, "properties": members} if members else made
