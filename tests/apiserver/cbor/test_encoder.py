"""Test that encoding to CBOR gives the same bytes as apimachinery. The first cases come from upstream's tests."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from dra_apiserver import cbor

from tests.support.cases import each_case

_RECORDED = Path(__file__).resolve().parents[2] / "data" / "protobuf.jsonl.gz"


@each_case(
    ("value", "expected"),
    [
        (
            {"kind": "kList", "items": [{"foo": 1}, {"foo": 2}], "apiVersion": "v"},
            b"\xa3\x44kind\x45kList\x45items\x82\xa1\x43foo\x01\xa1\x43foo\x02\x4aapiVersion\x41v",
        ),
        (None, b"\xf6"),
        (False, b"\xf4"),
        (True, b"\xf5"),
        (23, b"\x17"),
        (24, b"\x18\x18"),
        (256, b"\x19\x01\x00"),
        (1 << 16, b"\x1a\x00\x01\x00\x00"),
        (1 << 32, b"\x1b\x00\x00\x00\x01\x00\x00\x00\x00"),
        (-1, b"\x20"),
        (-(1 << 63), b"\x3b\x7f\xff\xff\xff\xff\xff\xff\xff"),
        (1.5, b"\xf9\x3e\x00"),
        (100000.0, b"\xfa\x47\xc3\x50\x00"),
        (1.1, b"\xfb\x3f\xf1\x99\x99\x99\x99\x99\x9a"),
        ("", b"\x40"),
        ("ü", b"\x42\xc3\xbc"),
        ("x" * 256, b"\x59\x01\x00" + b"x" * 256),
        (b"abc", b"\xd6\x43abc"),
        ([], b"\x80"),
        ({}, b"\xa0"),
    ],
)
def test_values_are_encoded_as_upstream_does(value: Any, expected: bytes) -> None:
    assert cbor.encode(value) == cbor.SELF_DESCRIBED + expected


def test_values_without_a_json_form_are_rejected() -> None:
    with pytest.raises(ValueError, match="nan is no JSON number"):
        cbor.encode(float("nan"))
    with pytest.raises(TypeError, match="set is no JSON value"):
        cbor.encode(set())


def test_an_event_contains_the_object_with_its_cbor_tag() -> None:
    made = cbor.event("ADDED", cbor.encode({"a": 1}))
    assert made == b"\xd9\xd9\xf7\xa2\x44type\x45ADDED\x46object\xd9\xd9\xf7\xa1\x41a\x01"
    assert cbor.decode(made) == {"type": "ADDED", "object": {"a": 1}}


def test_objects_of_all_kinds_survive_encoding_and_decoding() -> None:
    for line in gzip.decompress(_RECORDED.read_bytes()).splitlines():
        case = json.loads(line)["in"]
        obj = case["object"]
        typed = cbor.mark(case["message"], json.loads(json.dumps(obj)))
        assert cbor.decode(cbor.encode(typed)) == obj, case["message"]
