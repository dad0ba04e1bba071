"""The Swagger document in protocol buffers, read back by its field numbers."""

import json
from collections.abc import Iterator
from typing import Any

from dra_apiserver.kinds import catalog
from dra_apiserver.openapi import OpenApi
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


def _named(data: bytes, *path: int) -> dict[str, bytes]:
    return {_all(entry, 1)[0].decode(): _all(entry, 2)[0] for entry in _all(data, *path)}


def test_everything_of_the_document_is_in_it() -> None:
    api = OpenApi(catalog.registry("api/all=true"))
    plain, packed = json.loads(api.v2()), api.v2_protobuf()
    assert _all(packed, 1) == [b"2.0"]
    assert [piece.decode() for piece in _all(packed, 2, 2)] == [plain["info"]["version"]]
    schemas, paths = _named(packed, 9, 1), _named(packed, 8, 2)
    assert schemas.keys() == plain["definitions"].keys()
    assert paths.keys() == plain["paths"].keys()
    for name, schema in plain["definitions"].items():
        assert _named(schemas[name], 25, 1).keys() == schema.get("properties", {}).keys(), name
    pod = _named(schemas["io.k8s.api.core.v1.Pod"], 25, 1)
    assert _all(pod["spec"], 1) == [b"#/definitions/io.k8s.api.core.v1.PodSpec"]
    kinds = _named(schemas["io.k8s.api.core.v1.Pod"], 31)["x-kubernetes-group-version-kind"]
    assert json.loads(_all(kinds, 2)[0]) == [{"group": "", "kind": "Pod", "version": "v1"}]
    patch = _all(paths["/api/v1/namespaces/{namespace}/pods/{name}"], 8)[0]
    assert b"fieldValidation" in _all(patch, 8, 1, 2, 3, 4)


def test_small_things() -> None:
    schema = {
        "type": "object",
        "required": ["a"],
        "default": {"x": 1},
        "additionalProperties": {"type": "string"},
        "properties": {
            "a": {"type": "array", "items": {"type": "integer", "format": "int64"}, "enum": [1, "b"]}
        },
    }
    (made,) = _named(encode({"definitions": {"d": schema}}), 9, 1).values()
    assert _all(made, 22, 1) == [b"object"]
    assert _all(made, 19) == [b"a"]
    assert [json.loads(text) for text in _all(made, 5, 2)] == [{"x": 1}]
    assert _all(made, 21, 1, 22, 1) == [b"string"]
    inner = _named(made, 25, 1)["a"]
    assert _all(inner, 23, 1, 2) == [b"int64"]
    assert [json.loads(text) for text in _all(inner, 20, 2)] == [1, "b"]
