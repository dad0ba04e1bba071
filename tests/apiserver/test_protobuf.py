"""Test that objects in protobuf are byte for byte what upstream's code wrote for the same objects."""

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from dra_apiserver import protobuf
from dra_apiserver.schema.protobuf import envelope, read_message

from tests.support.cases import each_case

_RECORDED = Path(__file__).resolve().parents[1] / "data" / "protobuf.jsonl.gz"
_POD = "io.k8s.api.core.v1.Pod"


def _cases() -> list[Any]:
    """Return objects of all kinds with every field set, from ``k8s.io/api/testdata/v1.36.0``."""
    lines = map(json.loads, gzip.decompress(_RECORDED.read_bytes()).splitlines())
    return [pytest.param(line["in"], base64.b64decode(line["out"]), id=line["name"]) for line in lines]


@each_case(("case", "expected"), _cases())
def test_every_kind_is_written_as_upstream_writes_it(case: dict[str, Any], expected: bytes) -> None:
    obj = case["object"]
    body = protobuf.message(case["message"], obj)
    if case["message"] == "io.k8s.api.storage.v1.CSINode":
        # 1.37 has added a status, which is written even if it is empty.
        assert body.endswith(b"\x1a\x00")
        body = body[:-2]
    assert protobuf.envelope(obj["apiVersion"], obj["kind"], body) == expected


def test_empty_fields_that_are_not_pointers_are_written() -> None:
    # ObjectMeta with its six texts, generation and creationTimestamp; PodSpec's and PodStatus' plain fields.
    metadata = bytes.fromhex("0a00 1200 1a00 2200 2a00 3200 3800 4200")
    port = protobuf.message("io.k8s.api.core.v1.ContainerPort", {"containerPort": 80})
    assert protobuf.message(_POD, {})[:18] == b"\x0a\x10" + metadata
    assert port == bytes.fromhex("0a00 1000 1850 2200 2a00")


def test_a_set_pointer_is_written_even_if_empty() -> None:
    name = "io.k8s.api.core.v1.EndpointPort"
    unset, zero = (
        protobuf.message("io.k8s.api.core.v1.Toleration", {}),
        protobuf.message("io.k8s.api.core.v1.Toleration", {"tolerationSeconds": 0}),
    )
    assert zero == unset + b"\x28\x00"
    assert protobuf.message(name, {"appProtocol": ""}).endswith(b"\x22\x00")


def test_an_inlined_optional_message_is_written_even_if_empty() -> None:
    """Check the configuration of a device, which may get other kinds than opaque in a later version."""
    name = "io.k8s.api.resource.v1.DeviceClaimConfiguration"
    assert protobuf.message(name, {"requests": ["a"]}) == b"\x0a\x01a\x12\x00"


def test_maps_are_in_the_order_of_their_keys() -> None:
    written = protobuf.message("io.k8s.api.core.v1.ConfigMap", {"data": {"b": "2", "a": "1"}})
    assert written.endswith(b"\x12\x06\x0a\x01a\x12\x011\x12\x06\x0a\x01b\x12\x012")


@pytest.mark.parametrize(("number", "expected"), [(-1, "28" + "ff" * 9 + "01"), (300, "28ac02")])
def test_numbers_are_varints_of_64_bits(number: int, expected: str) -> None:
    written = protobuf.message("io.k8s.api.core.v1.Toleration", {"tolerationSeconds": number})
    assert written.hex().endswith(expected)


def test_times_have_seconds_and_micro_times_microseconds() -> None:
    moment = "2026-01-02T03:04:05"
    seconds = bytes.fromhex("08a5ebdcca06")
    spec = protobuf.message("io.k8s.api.coordination.v1.LeaseSpec", {"renewTime": f"{moment}.000007Z"})
    meta = protobuf.message(f"{protobuf.META}.ObjectMeta", {"deletionTimestamp": f"{moment}Z"})
    assert spec == b"\x22\x09" + seconds + b"\x10\xd8\x36"
    assert meta.endswith(b"\x4a\x08" + seconds + b"\x10\x00")


def test_a_watch_event_is_a_frame_with_its_length() -> None:
    framed = protobuf.event("ADDED", b"object")
    assert framed == b"\x00\x00\x00\x11\x0a\x05ADDED\x12\x08\x0a\x06object"


def test_a_list_message_contains_the_messages_of_its_items() -> None:
    items = [protobuf.message(_POD, {"metadata": {"name": name}}) for name in "ab"]
    body = protobuf.encode_list({"resourceVersion": "7"}, items)
    found = read_message("io.k8s.api.core.v1.PodList", body)
    assert [item["metadata"]["name"] for item in found["items"]] == ["a", "b"]
    assert found["metadata"]["resourceVersion"] == "7"


def test_written_messages_can_be_read() -> None:
    pod = {"metadata": {"name": "a", "labels": {"x": "y"}}, "spec": {"containers": [{"name": "c"}]}}
    wire = protobuf.envelope("v1", "Pod", protobuf.message(_POD, pod))
    api_version, kind, raw = envelope(wire)
    found = read_message(_POD, raw)
    assert (api_version, kind, found["metadata"]["labels"]) == ("v1", "Pod", {"x": "y"})


@pytest.mark.parametrize("name", ["io.k8s.api.example.v1.Foo", "io.k8s.api.core.v1.Foo", "Foo"])
def test_type_names_without_a_protobuf_message_are_unknown(name: str) -> None:
    assert not protobuf.is_known(name)


_SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
_NOTHING = protobuf.message(_SCHEMA, {})


@each_case(
    ("schema", "tag", "inner"),
    [
        # items = 24, additionalItems = 30, additionalProperties = 28, dependencies = 31 of generated.proto.
        ({"items": {}}, "c201", b"\x0a" + bytes([len(_NOTHING)]) + _NOTHING),
        ({"items": [{}, {}]}, "c201", 2 * (b"\x12" + bytes([len(_NOTHING)]) + _NOTHING)),
        ({"additionalProperties": False}, None, b"\x08\x00"),
        ({"additionalProperties": True}, None, b"\x08\x01"),
        ({"additionalProperties": {}}, None, b"\x08\x01\x12" + bytes([len(_NOTHING)]) + _NOTHING),
        ({"additionalItems": False}, None, b"\x08\x00"),
        ({"dependencies": {"a": ["b", "c"]}}, None, b"\x0a\x01a\x12\x06\x12\x01b\x12\x01c"),
        ({"enum": [1, None]}, None, b"\x0a\x011"),
        ({"default": {"a": 1}}, None, b'\x0a\x07{"a":1}'),
    ],
)
def test_unions_in_json_schemas_are_encoded_as_messages(
    schema: dict[str, Any], tag: str | None, inner: bytes
) -> None:
    written = protobuf.message(_SCHEMA, schema)
    assert bytes.fromhex(tag or "") + bytes([len(inner)]) + inner in written
    read = read_message(_SCHEMA, written)
    assert {name: read[name] for name in schema} == schema


def test_whole_numbers_of_schemas_have_no_fraction() -> None:
    written = protobuf.message(_SCHEMA, {"minimum": 0, "maximum": 1.5})
    read = read_message(_SCHEMA, written)
    assert (repr(read["minimum"]), repr(read["maximum"])) == ("0", "1.5")
