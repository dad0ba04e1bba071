"""Test that fields are encoded as bytes or floats according to the types of Go's structs."""

from typing import Any

import pytest
from dra_apiserver import cbor

_CORE = "io.k8s.api.core.v1"
_EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
_HOOKS = "io.k8s.api.admissionregistration.v1"


@pytest.mark.parametrize(
    ("message", "obj", "expected"),
    [
        (f"{_CORE}.Secret", {"data": {"a": "YWJj"}}, {"data": {"a": b"abc"}}),
        (f"{_CORE}.ConfigMap", {"binaryData": {"a": ""}, "data": {"b": "c"}},
         {"binaryData": {"a": b""}, "data": {"b": "c"}}),
        (
            f"{_HOOKS}.ValidatingWebhookConfiguration",
            {"webhooks": [{"clientConfig": {"caBundle": "YQ=="}}, {"clientConfig": {}}]},
            {"webhooks": [{"clientConfig": {"caBundle": b"a"}}, {"clientConfig": {}}]},
        ),
        (f"{_CORE}.Pod", {"spec": {"hostname": "YQ=="}}, {"spec": {"hostname": "YQ=="}}),
        ("", {"data": {"a": "YWJj"}}, {"data": {"a": "YWJj"}}),
    ],
)  # fmt: skip
def test_fields_of_type_bytes_are_encoded_as_byte_strings(
    message: str, obj: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert cbor.mark(message, obj) == expected


def test_minimum_and_maximum_at_every_depth_of_a_schema_are_floats() -> None:
    schema = {"properties": {"a": {"minimum": 1}}, "maximum": 2, "minLength": 3}
    spec = {"versions": [{"schema": {"openAPIV3Schema": schema}}]}
    made = cbor.mark(f"{_EXTENSIONS}.CustomResourceDefinition", {"spec": spec})
    found = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert [type(found["maximum"]), type(found["minLength"])] == [float, int]
    assert type(found["properties"]["a"]["minimum"]) is float
