"""Test that requests in protobuf mean the same as in JSON."""

import contextlib
import struct
from typing import Any

import orjson
import pytest
from dra_apiserver import schema
from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.kinds import catalog
from dra_apiserver.schema.protobuf import MAGIC, ProtobufError, envelope, read_message

from tests.support.cases import each_case

REGISTRY = catalog.registry("api/all=true")
PROTOBUF = "application/vnd.kubernetes.protobuf"


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    made = b""
    while number > 0x7F:
        made += bytes([number & 0x7F | 0x80])
        number >>= 7
    return made + bytes([number])


def field(number: int, value: bytes | str | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def entry(key: str, value: bytes | str) -> bytes:
    return field(1, key) + field(2, value)


def request(api_version: str, kind: str, raw: bytes) -> bytes:
    return MAGIC + field(1, field(1, api_version) + field(2, kind)) + field(2, raw)


def kind_of(group: str, plural: str) -> Kind:
    kind = REGISTRY.get(group, plural)
    assert kind is not None
    return kind


METADATA = field(1, "name") + field(3, "") + field(5, "") + field(8, b"") + field(11, entry("a", "b"))


def test_maps_and_bytes_are_decoded() -> None:
    raw = field(1, METADATA) + field(2, entry("text", "x")) + field(3, entry("data", b"\x00\xff"))
    maps = kind_of("", "configmaps")
    decoded = schema.decode(REGISTRY, maps, "v1", request("v1", "ConfigMap", raw), PROTOBUF, "Strict")
    assert decoded.obj == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "name", "labels": {"a": "b"}},
        "data": {"text": "x"},
        "binaryData": {"data": "AP8="},
    }


def test_quantities_times_and_inlined_structs_are_decoded() -> None:
    resources = field(1, entry("memory", field(1, "1024Mi")))
    port = field(1, "http") + field(2, 0) + field(3, 8080) + field(4, "TCP") + field(5, "")
    action = field(1, "/x") + field(2, field(1, 1) + field(2, 0) + field(3, "http")) + field(4, "HTTP")
    probe = field(1, field(2, action)) + field(2, 0) + field(3, 1)
    container = field(1, "c") + field(2, "i") + field(6, port) + field(8, resources) + field(11, probe)
    volume = field(1, "v") + field(2, field(2, field(1, "")))
    spec = field(1, volume) + field(2, container) + field(4, 30)
    status = field(7, field(1, 1_763_652_340) + field(2, 0))
    raw = field(1, METADATA) + field(2, spec) + field(3, status)
    pods = kind_of("", "pods")
    made = schema.decode(REGISTRY, pods, "v1", request("v1", "Pod", raw), PROTOBUF, "Strict").obj
    [found] = made["spec"]["containers"]
    assert found["ports"] == [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]
    assert found["resources"] == {"limits": {"memory": "1Gi"}}
    assert found["readinessProbe"]["httpGet"] == {"path": "/x", "port": "http", "scheme": "HTTP"}
    assert made["spec"]["volumes"] == [{"name": "v", "emptyDir": {}}]
    assert made["spec"]["terminationGracePeriodSeconds"] == 30
    assert made["status"]["startTime"] == "2025-11-20T15:25:40Z"


def test_negative_numbers_and_raw_json_are_decoded() -> None:
    options = read_message(
        "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions", field(1, -1) + field(4, "Background")
    )
    assert options == {"gracePeriodSeconds": -1, "propagationPolicy": "Background"}
    opaque = read_message(
        "io.k8s.api.resource.v1.OpaqueDeviceConfiguration",
        field(1, "d") + field(2, field(1, b'{"a":1}')),
    )
    assert opaque == {"driver": "d", "parameters": {"a": 1}}


def test_options_can_be_in_protobuf() -> None:
    body = request("v1", "DeleteOptions", field(1, 5))
    decoded = schema.decode_as(REGISTRY, "", "v1", "DeleteOptions", None, body, PROTOBUF)
    assert decoded.obj["gracePeriodSeconds"] == 5


def test_unknown_protobuf_fields_are_skipped() -> None:
    assert read_message("io.k8s.api.core.v1.ObjectReference", field(99, "x") + field(1, "Pod")) == {
        "kind": "Pod"
    }


def test_unknown_fixed_width_numbers_are_skipped() -> None:
    data = varint(9 << 3 | 1) + struct.pack("<d", 1.5) + varint(10 << 3 | 5) + b"1234" + field(1, "Pod")
    assert read_message("io.k8s.api.core.v1.ObjectReference", data) == {"kind": "Pod"}


@each_case(
    "body",
    [
        b"",
        b'{"kind":"Pod"}',
        MAGIC + b"\xff",
        MAGIC + field(1, b"\x0a\xff"),
        request("v1", "Pod", b"\x0a\xff\x01"),
        request("v1", "Pod", b"\x0b"),
        request("v1", "Pod", field(1, field(1, b"\xff\xfe"))),
        request("v1", "Pod", field(2, 7)),
        request("v1", "Nope", field(1, 1)),
        request("a/b/c", "Pod", b""),
    ],
)
def test_malformed_protobuf_messages_are_rejected(body: bytes) -> None:
    with pytest.raises(schema.DecodeError) as caught:
        schema.decode(REGISTRY, kind_of("", "pods"), "v1", body, PROTOBUF)
    assert caught.value.code == 400


def test_a_message_without_envelope_is_rejected() -> None:
    with pytest.raises(ProtobufError, match="does not appear to be a protobuf message"):
        envelope(orjson.dumps({}))


def any_bytes() -> list[Any]:
    return [bytes((seed * 7 + index * 13) % 256 for index in range(seed)) for seed in range(1, 60)]


@each_case("data", any_bytes(), ids=len)
def test_random_bytes_raise_only_decoding_errors(data: bytes) -> None:
    with contextlib.suppress(schema.DecodeError):
        schema.decode(REGISTRY, kind_of("", "pods"), "v1", request("v1", "Pod", data), PROTOBUF)
