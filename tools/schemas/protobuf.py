"""The protobuf messages of the API types: field numbers, JSON names and wire types."""

from __future__ import annotations

import re
from typing import Any

from tools.schemas.gotypes import GoPackage
from tools.schemas.openapi import FOREIGN, SIMPLE, definition_name, resolve
from tools.schemas.sources import META, Source

_SPECIAL = {
    f"{META}.Time": "time",
    f"{META}.MicroTime": "micro",
    f"{META}.FieldsV1": "raw",
    f"{META}.Duration": "duration",
    "k8s.io/apimachinery/pkg/api/resource.Quantity": "quantity",
    "k8s.io/apimachinery/pkg/util/intstr.IntOrString": "either",
    "k8s.io/apimachinery/pkg/runtime.RawExtension": "raw",
    "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSON": "raw",
}
_SIMPLE = {"string": "string", "bool": "bool", "float64": "double", "[]byte": "bytes"}


def _wire_type(source: Source, package: GoPackage, text: str) -> Any:
    """Return the protobuf layout of a Go type: a word, a type's full name, ["list", item] or ["map", value]."""
    text = text.removeprefix("*")
    if text in _SIMPLE:
        return _SIMPLE[text]
    if text in SIMPLE:
        return "int"
    if text.startswith("[]"):
        return ["list", _wire_type(source, package, text[2:])]
    match = re.match(r"map\[[\w.]+\](.+)", text)
    if match:
        return ["map", _wire_type(source, package, match.group(1))]
    path, name, found = resolve(source, package, text)
    full = f"{path}.{name}"
    if full in _SPECIAL:
        return _SPECIAL[full]
    if name in FOREIGN.get(path, {}):
        return "string"
    if found is None:
        return "string"
    if name in ("ExtraValue", "Verbs"):
        return "strings"
    if found.underlying:
        return _wire_type(source, source.package(path), found.underlying)
    return f"{definition_name(path)}.{name}"


def layouts(source: Source, package: GoPackage) -> dict[str, Any]:
    """Return the protobuf messages of a package: for each field number the JSON name (empty if inlined) and the
    type.
    """
    made: dict[str, Any] = {}
    for name, found in package.types.items():
        fields = {}
        for one in found.fields:
            tag = one.tags.get("protobuf", "").split(",")
            if len(tag) > 1:
                fields[tag[1]] = [one.json, _wire_type(source, package, one.type)]
        if fields:
            made[name] = fields
    return made
