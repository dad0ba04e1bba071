"""Test OpenAPI documents in protobuf by reading them with OpenAPI's field numbers."""

import json
import struct
from collections.abc import Iterator
from typing import Any

from dra_apiserver.kinds import catalog
from dra_apiserver.openapi import OpenApi, protobuf3
from dra_apiserver.openapi.protobuf import encode


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return number, at


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        if key & 7 == 1:
            at += 8
            yield key >> 3, struct.unpack("<d", data[at - 8 : at])[0]
            continue
        value, at = _varint(data, at)
        if key & 7 == 2:
            at += value
            yield key >> 3, data[at - value : at]
        else:
            yield key >> 3, value


def _all(data: bytes, *path: int) -> list[Any]:
    found: list[Any] = [data]
    for number in path:
        found = [value for piece in found for key, value in _fields(piece) if key == number]
    return found


def _by_name(data: bytes, *path: int) -> dict[str, bytes]:
    return {_all(entry, 1)[0].decode(): _all(entry, 2)[0] for entry in _all(data, *path)}


def test_the_protobuf_form_of_openapi_v2_has_every_path_schema_and_field() -> None:
    api = OpenApi(catalog.registry("api/all=true"))
    plain, packed = json.loads(api.v2()), api.v2_protobuf()
    assert _all(packed, 1) == [b"2.0"]
    assert [piece.decode() for piece in _all(packed, 2, 2)] == [plain["info"]["version"]]
    schemas, paths = _by_name(packed, 9, 1), _by_name(packed, 8, 2)
    assert schemas.keys() == plain["definitions"].keys()
    assert paths.keys() == plain["paths"].keys()
    for name, schema in plain["definitions"].items():
        assert _by_name(schemas[name], 25, 1).keys() == schema.get("properties", {}).keys(), name
    pod = _by_name(schemas["io.k8s.api.core.v1.Pod"], 25, 1)
    assert _all(pod["spec"], 1) == [b"#/definitions/io.k8s.api.core.v1.PodSpec"]
    kinds = _by_name(schemas["io.k8s.api.core.v1.Pod"], 31)["x-kubernetes-group-version-kind"]
    assert json.loads(_all(kinds, 2)[0]) == [{"group": "", "kind": "Pod", "version": "v1"}]
    patch = _all(paths["/api/v1/namespaces/{namespace}/pods/{name}"], 8)[0]
    assert b"fieldValidation" in _all(patch, 8, 1, 2, 3, 4)


def test_rare_schema_fields_are_encoded() -> None:
    schema = {
        "type": "object",
        "required": ["a"],
        "default": {"x": 1},
        "additionalProperties": {"type": "string"},
        "properties": {
            "a": {"type": "array", "items": {"type": "integer", "format": "int64"}, "enum": [1, "b"]}
        },
    }
    (made,) = _by_name(encode({"definitions": {"d": schema}}), 9, 1).values()
    assert _all(made, 22, 1) == [b"object"]
    assert _all(made, 19) == [b"a"]
    assert [json.loads(text) for text in _all(made, 5, 2)] == [{"x": 1}]
    assert _all(made, 21, 1, 22, 1) == [b"string"]
    inner = _by_name(made, 25, 1)["a"]
    assert _all(inner, 23, 1, 2) == [b"int64"]
    assert [json.loads(text) for text in _all(inner, 20, 2)] == [1, "b"]


def test_the_protobuf_form_of_openapi_v3_has_every_path_schema_and_field() -> None:
    api = OpenApi(catalog.registry("api/all=true"))
    document, packed = api.v3("api/v1"), api.v3_protobuf("api/v1")
    assert document is not None
    assert packed is not None
    plain = json.loads(document)
    assert _all(packed, 1) == [b"3.0.0"]
    assert [piece.decode() for piece in _all(packed, 2, 6)] == [plain["info"]["version"]]
    schemas, paths = _by_name(packed, 5, 1, 1), _by_name(packed, 4, 1)
    assert schemas.keys() == plain["components"]["schemas"].keys()
    assert paths.keys() == plain["paths"].keys()
    for name, schema in plain["components"]["schemas"].items():
        assert _by_name(schemas[name], 1, 31, 1).keys() == schema.get("properties", {}).keys(), name
    item = _all(_by_name(schemas["io.k8s.api.core.v1.PodList"], 1, 31, 1)["items"], 1, 30, 1)[0]
    (whole,) = _all(item, 2, 1) or _all(item, 1, 26, 2, 1)
    assert whole == b"#/components/schemas/io.k8s.api.core.v1.Pod"
    path = "/api/v1/namespaces/{namespace}/pods"
    post = _all(paths[path], 6)[0]
    assert _by_name(post, 8, 2).keys() == plain["paths"][path]["post"]["responses"].keys()
    wanted = plain["paths"][path]["post"]["requestBody"]["content"]
    assert _by_name(post, 7, 1, 2, 1).keys() == wanted.keys()
    assert b"fieldValidation" in _all(post, 6, 1, 1)
    assert api.v3_protobuf("apis/none/v1") is None


def test_rare_schema_fields_of_v3_are_encoded() -> None:
    schema = {
        "type": "object",
        "default": {},
        "minimum": 0.5,
        "maxLength": 300,
        "additionalProperties": False,
        "not": {"required": ["b"]},
        "properties": {"a": {"default": False}, "b": {"default": 0}, "c": {"default": ""}},
    }
    (made,) = _by_name(protobuf3.encode({"components": {"schemas": {"s": schema}}}), 5, 1, 1).values()
    assert _all(made, 1, 25) == [b"object"]
    assert _all(made, 1, 33) == [b""]
    assert (_all(made, 1, 13), _all(made, 1, 15)) == ([0.5], [300])
    assert _all(made, 1, 32, 2) == [0]
    assert _all(made, 1, 29, 23) == [b"b"]
    inner = _by_name(made, 1, 31, 1)
    assert [_all(inner[name], 1, 33, number) for name, number in (("a", 2), ("b", 1), ("c", 3))] == [
        [0],
        [0.0],
        [b""],
    ]
