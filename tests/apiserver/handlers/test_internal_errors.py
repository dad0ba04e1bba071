"""Test requests that once caused an internal error against the answers of kube-apiserver."""

import base64
from typing import Any

import httpx
import orjson
import pytest
from dra_shared.jsontypes import JsonObject

from tests.support.cases import each_case

NAMESPACE = "/api/v1/namespaces/default"


def _create_object(kind: str, name: str, version: str = "v1", **more: Any) -> JsonObject:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **more}


async def _post(client: httpx.AsyncClient, path: str, obj: JsonObject) -> httpx.Response:
    return await client.post(path, content=orjson.dumps(obj), headers={"content-type": "application/json"})


async def test_a_claim_without_requests_is_accepted_in_a_namespace_with_a_quota(
    client: httpx.AsyncClient,
) -> None:
    hard = {"gpu.deviceclass.resource.k8s.io/devices": "1"}
    quota = _create_object("ResourceQuota", "q", spec={"hard": hard})
    assert (await _post(client, f"{NAMESPACE}/resourcequotas", quota)).status_code == 201
    claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    for name in ("a", "b"):
        claim = _create_object("ResourceClaim", name, "resource.k8s.io/v1", spec={"devices": {}})
        answer = await _post(client, claims, claim)
        assert answer.status_code == 201, answer.text


_ENTRY = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}


@pytest.mark.parametrize(
    "fields",
    [
        {"f:data": []},
        {"f:data": "x"},
        {"f:data": {"f:a": 1}},
        {"f:data": {".": 1, "f:a": True}},
        {"data": {}},
        {"": {}},
        {"k:[1]": {}},
        {"k:{": {}},
        {"v:": {}},
        {"i:x": {}},
        {"f:metadata": {"f:finalizers": {"k:7": {}}}},
        {"f:metadata": None, "x:y": {"a": 1}},
        {"f:data": {"f:a": {".": {"f:x": []}}}},
    ],
)
async def test_malformed_managed_fields_cause_no_internal_error(
    client: httpx.AsyncClient, fields: JsonObject
) -> None:
    path = f"{NAMESPACE}/configmaps"
    obj = _create_object("ConfigMap", "a", data={"a": "b"})
    obj["metadata"]["managedFields"] = [{**_ENTRY, "fieldsV1": fields}]
    answer = await _post(client, path, obj)
    assert answer.status_code == 201, answer.text
    applied = _create_object("ConfigMap", "a", data={"a": "c"})
    for query, code in (("fieldManager=n", {200, 409}), ("fieldManager=n&force=true", {200})):
        headers = {"content-type": "application/apply-patch+yaml"}
        answer = await client.patch(f"{path}/a?{query}", content=orjson.dumps(applied), headers=headers)
        assert answer.status_code in code, answer.text
    # Invalid entries do not replace the stored ones.
    obj["metadata"]["managedFields"] = [{**_ENTRY, "fieldsV1": {"f:data": []}}]
    obj["data"]["a"] = "c"
    headers = {"content-type": "application/json"}
    answer = await client.put(f"{path}/a", content=orjson.dumps(obj), headers=headers)
    assert answer.status_code == 200
    assert "n" in [entry["manager"] for entry in answer.json()["metadata"]["managedFields"]]


_READ = "json: cannot unmarshal {} into Go struct field {} of type {}"


@each_case(
    ("path", "obj", "problem"),
    [
        ("pods/p/binding", {"apiVersion": "v1", "kind": "Binding", "target": {"name": 7}},
         _READ.format("number", "ObjectReference.target.name", "string")),
        ("pods/p/binding", {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": 7}},
         _READ.format("number", "ObjectMeta.metadata.name", "string")),
        ("pods/p/eviction",
         {"apiVersion": "policy/v1", "kind": "Eviction", "deleteOptions": {"gracePeriodSeconds": "x"}},
         _READ.format("string", "DeleteOptions.deleteOptions.gracePeriodSeconds", "int64")),
        ("serviceaccounts/a/token",
         {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": "x"}},
         _READ.format("string", "TokenRequestSpec.spec.expirationSeconds", "int64")),
    ],
)  # fmt: skip
async def test_wrong_types_in_bodies_of_subresources_cause_no_internal_error(
    client: httpx.AsyncClient, path: str, obj: JsonObject, problem: str
) -> None:
    answer = await _post(client, f"{NAMESPACE}/{path}", obj)
    assert answer.status_code == 400, answer.text
    assert problem in answer.json()["message"]


@each_case("group", ["authentication", "authorization"])
async def test_wrong_types_in_review_requests_cause_no_internal_error(
    client: httpx.AsyncClient, group: str
) -> None:
    kind = {"authentication": "TokenReview", "authorization": "SubjectAccessReview"}[group]
    spec = {"token": True} if group == "authentication" else {"user": True}
    obj = {"apiVersion": f"{group}.k8s.io/v1", "kind": kind, "spec": spec}
    answer = await _post(client, f"/apis/{group}.k8s.io/v1/{kind.lower()}s", obj)
    assert answer.status_code == 400, answer.text
    assert "json: cannot unmarshal bool into Go struct field" in answer.json()["message"]


@each_case(
    ("seconds", "code", "problem"),
    [
        (1 << 40, 422, "may not specify a duration larger than 2^32 seconds"),
        ((1 << 32) + 1, 422, "may not specify a duration larger than 2^32 seconds"),
        (1 << 32, 201, ""),
        (599, 422, "may not specify a duration less than 10 minutes"),
    ],
)
async def test_the_duration_of_tokens_is_limited(
    client: httpx.AsyncClient, seconds: int, code: int, problem: str
) -> None:
    await _post(client, f"{NAMESPACE}/serviceaccounts", _create_object("ServiceAccount", "a"))
    obj = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": seconds},
    }
    answer = await _post(client, f"{NAMESPACE}/serviceaccounts/a/token", obj)
    assert answer.status_code == code, answer.text
    assert problem in answer.json().get("message", "")


@pytest.mark.parametrize("levels", [150, 230])
async def test_a_deep_schema_is_accepted(client: httpx.AsyncClient, levels: int) -> None:
    schema: JsonObject = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    names = {"plural": "deeps", "singular": "deep", "kind": "Deep", "listKind": "DeepList"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {"group": "example.com", "scope": "Cluster", "names": names, "versions": [version]}
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    obj = _create_object(
        "CustomResourceDefinition", "deeps.example.com", "apiextensions.k8s.io/v1", spec=spec
    )
    body = _encode_nested(obj)
    answer = await client.post(path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 201, answer.text[:500]
    answer = await client.get(f"{path}/deeps.example.com")
    assert answer.status_code == 200
    assert answer.content.count(b'"properties"') == levels
    assert (await client.get("/apis/example.com/v1/deeps")).status_code in (200, 404)


async def test_a_too_deep_object_is_rejected(client: httpx.AsyncClient) -> None:
    claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    for levels in (300, 700):
        parameters = b'{"a":' * levels + b"1" + b"}" * levels
        body = (
            b'{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"a%d"},"spec":{"devices":'
            b'{"requests":[{"name":"r","exactly":{"deviceClassName":"c"}}],"config":[{"opaque":{"driver":"d.example.com",'
            b'"parameters":%b}}]}}}' % (levels, parameters)
        )
        answer = await client.post(claims, content=body, headers={"content-type": "application/json"})
        assert answer.status_code == (201 if levels == 300 else 400), answer.text[:300]
    assert answer.json()["message"] == "exceeded max depth"


def _encode_nested(value: Any) -> bytes:
    import msgspec

    return msgspec.json.encode(value)


@each_case(
    ("query", "problem"),
    [
        ("limit=" + "9" * 5000, "value out of range"),
        ("timeoutSeconds=" + "9" * 5000, "value out of range"),
        ("resourceVersion=" + "9" * 5000, "value out of range"),
        ("labelSelector=a%3E" + "9" * 5000, "for 'Gt', 'Lt' operators, the value must be an integer"),
    ],
)
async def test_numbers_of_many_digits_in_a_query_are_rejected(
    client: httpx.AsyncClient, query: str, problem: str
) -> None:
    answer = await client.get(f"{NAMESPACE}/configmaps?{query}")
    assert answer.status_code == 400
    assert problem in answer.json()["message"]


async def test_numbers_of_many_digits_in_a_body_cause_no_internal_error(client: httpx.AsyncClient) -> None:
    for text in (b"9" * 5000, b"1e400", b'1,"a":' + b"9" * 30):
        body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","generation":%b}}' % text
        answer = await client.post(
            f"{NAMESPACE}/configmaps", content=body, headers={"content-type": "application/json"}
        )
        assert answer.status_code in (201, 400), answer.text[:300]


@each_case(
    ("token", "problem"),
    [
        (b"[" * 1500, "invalid character '[' exceeded max depth"),
        (b"[]", "json: cannot unmarshal array into Go value of type storage.continueToken"),
        (b'{"v":"meta.k8s.io/v1","rv":"1"}',
         "json: cannot unmarshal string into Go struct field continueToken.rv of type int64"),
        (b'{"v":1}', "json: cannot unmarshal number into Go struct field continueToken.v of type string"),
        (b'{"v":"meta.k8s.io/v1","rv":1,"start":"default/../a"}', "continue key is not valid: default/../a"),
        (b"null", "server does not recognize this encoded version "),
    ],
)  # fmt: skip
async def test_malformed_continue_tokens_are_rejected(
    client: httpx.AsyncClient, token: bytes, problem: str
) -> None:
    text = base64.urlsafe_b64encode(token).decode().rstrip("=")
    answer = await client.get(f"{NAMESPACE}/configmaps?continue={text}")
    assert answer.status_code == 400
    assert problem in answer.json()["message"]
