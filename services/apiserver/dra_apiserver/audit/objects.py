"""The objects of requests and responses as JSON values, decoded from any encoding."""

from __future__ import annotations

from typing import Any

import orjson
from dra_shared.jsontypes import JsonObject
from dra_shared.yamltext import YamlError
from dra_shared.yamltext import load as load_yaml

from dra_apiserver import cbor
from dra_apiserver.equality import copy_object
from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.protobuf import MEDIA_TYPE, META
from dra_apiserver.schema import default
from dra_apiserver.schema.packages import package_name
from dra_apiserver.schema.protobuf import ProtobufError, envelope, read_message
from dra_apiserver.schema.reader import Reader, TypeMismatch, complete, strip
from dra_apiserver.schema.types import Struct, definition, object_type

# The start of the JSON of a Status.
_HEAD = 256
_META_GROUP = "meta.k8s.io"
_META_KINDS = frozenset({"DeleteOptions", "Status"})


def decode_body(body: bytes, media_type: str) -> Any:
    """Return the object in a body, or None if it has none."""
    try:
        if "yaml" in media_type:
            return load_yaml(body).value
        if "cbor" in media_type:
            return cbor.decode(body)
        if MEDIA_TYPE in media_type:
            return _decode_protobuf(body)
        return orjson.loads(body) if "json" in media_type or not media_type else None
    except (
        orjson.JSONDecodeError,
        YamlError,
        cbor.CborError,
        ProtobufError,
        TypeMismatch,
        KeyError,
        RecursionError,
    ):
        return None


def as_decoded(kind: Kind, version: str, obj: JsonObject, now: str) -> JsonObject:
    """Return a request's object as decoded upstream: with apiVersion, kind and defaults, but without any later change.

    Upstream calls ``LogRequestObject`` at that point in the handlers for create and update.
    """
    made = copy_object(obj)
    default(kind, version, made, now)
    if not kind.unstructured:
        node = object_type(kind, version)
        complete(node, made)
        strip(node, made)
    return {"kind": kind.kind, "apiVersion": kind.api_version(version), **_without_type(made)}


def delete_options(obj: Any) -> Any:
    """Return the DeleteOptions in a delete's body, with apiVersion and kind."""
    if not isinstance(obj, dict):
        return obj
    api_version = obj.get("apiVersion") or f"{_META_GROUP}/v1"
    return {"kind": "DeleteOptions", "apiVersion": api_version, **_without_type(obj)}


def _without_type(obj: JsonObject) -> JsonObject:
    return {name: value for name, value in obj.items() if name not in ("kind", "apiVersion")}


def may_be_status(body: bytes, media_type: str) -> bool:
    """True if a response may be a Status. In JSON, this is decided by the first bytes."""
    return b"Status" in body[:_HEAD] or "yaml" in media_type


def _decode_protobuf(body: bytes) -> JsonObject:
    """Decode a protobuf object. Empty fields are removed, which Go omits in JSON but not in protobuf."""
    api_version, kind, raw = envelope(body)
    group, _, version = api_version.rpartition("/")
    package = META if kind in _META_KINDS or group == _META_GROUP else package_name(group, version)
    obj = read_message(f"{package}.{kind}", raw)
    reader = Reader()
    if kind.endswith("List"):
        metadata = {name: value for name, value in (obj.get("metadata") or {}).items() if value}
        obj = {"metadata": metadata, "items": obj.get("items") or []}
    one_kind = kind.removesuffix("List")
    for one in obj["items"] if kind.endswith("List") else (obj,):
        if one_kind == "PartialObjectMetadata":
            _read(reader, f"{META}.ObjectMeta", one["metadata"])
        else:
            _read(reader, f"{package}.{one_kind}", one)
    return {"kind": kind, "apiVersion": api_version, **obj}


def _read(reader: Reader, name: str, obj: JsonObject) -> None:
    node = definition(name)
    if isinstance(node, Struct):
        reader.read(node, obj)
