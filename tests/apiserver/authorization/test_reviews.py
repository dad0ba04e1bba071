"""Test access reviews: selectors in them, invalid fields, and incomplete lists of rules."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from dra_apiserver.config import Config
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_shared.jsontypes import JsonObject

from tests.support.cases import each_case

_REVIEWS = "/apis/authorization.k8s.io/v1"
_NODE = {"user": "system:node:n1", "groups": ["system:nodes"]}
_AS_NODE = {"impersonate-user": "system:node:n1", "impersonate-group": "system:nodes"}
_AT = "spec.resourceAttributes"


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(port=0, data=tmp_path, database=IN_MEMORY, authorization_mode="Node,RBAC")


async def _review_access(client: httpx.AsyncClient, **more: Any) -> httpx.Response:
    spec = {**_NODE, "resourceAttributes": {"verb": "list", "resource": "pods", **more}}
    return await client.post(f"{_REVIEWS}/subjectaccessreviews", json={"spec": spec})


def _one(key: str, operator: str, *values: str) -> JsonObject:
    return {"requirements": [{"key": key, "operator": operator, "values": [*values]}]}


@each_case(
    ("selector", "allowed"),
    [
        ({"rawSelector": "spec.nodeName=n1"}, True),
        ({"rawSelector": "spec.nodeName!=n1"}, False),
        (_one("spec.nodeName", "In", "n1"), True),
        (_one("spec.nodeName", "NotIn", "n1"), False),
    ],
)
async def test_an_access_review_accepts_a_field_selector_as_text_or_requirements(
    selector: JsonObject, allowed: bool, client: httpx.AsyncClient
) -> None:
    status = (await _review_access(client, fieldSelector=selector)).json()["status"]
    assert (status["allowed"], "evaluationError" in status) == (allowed, False)


@each_case(
    ("attributes", "expected"),
    [
        ({"fieldSelector": {"rawSelector": "a in b"}}, f"{_AT}.fieldSelector ignored due to parse error"),
        ({"fieldSelector": _one("a", "In", "b", "c")}, f"{_AT}.fieldSelector ignored due to parse error"),
        (
            {"fieldSelector": {"requirements": [*_one("a", "In", "b")["requirements"], {"key": "x"}]}},
            f"{_AT}.fieldSelector partially ignored due to parse error",
        ),
        (
            {"fieldSelector": {"rawSelector": "a in b"}, "labelSelector": {"rawSelector": "&"}},
            f"{_AT}.fieldSelector ignored due to parse error; {_AT}.labelSelector ignored due to parse error",
        ),
        ({"labelSelector": _one("a", "Near", "b")}, f"{_AT}.labelSelector ignored due to parse error"),
        (
            {"labelSelector": {"requirements": [{"key": "a", "operator": "Exists"}, {"key": "b"}]}},
            f"{_AT}.labelSelector partially ignored due to parse error",
        ),
    ],
)
async def test_unknown_attributes_are_reported_as_evaluation_errors(
    attributes: JsonObject, expected: str, client: httpx.AsyncClient
) -> None:
    assert (await _review_access(client, **attributes)).json()["status"]["evaluationError"] == expected


@each_case(
    ("attributes", "expected"),
    [
        (
            {"fieldSelector": {"rawSelector": "a=b", **_one("a", "In", "b")}},
            'fieldSelector.rawSelector: Invalid value: "a=b": may not specified at the same time as requirements',
        ),
        (
            {"labelSelector": {}},
            "labelSelector.requirements: Required value: "
            f"when {_AT}.labelSelector is specified, requirements or rawSelector is required",
        ),
        (
            {"fieldSelector": _one("", "Exists")},
            "fieldSelector.requirements[0].key: Required value: must be specified",
        ),
        (
            {"fieldSelector": _one("a", "In")},
            "fieldSelector.requirements[0].values: Required value: "
            "must be specified when `operator` is 'In' or 'NotIn'",
        ),
        (
            {"fieldSelector": _one("a", "DoesNotExist", "b")},
            "fieldSelector.requirements[0].values: Forbidden: "
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        ),
        (
            {"labelSelector": _one("a", "NotIn")},
            "labelSelector.requirements[0].values: Required value: "
            "must be specified when `operator` is 'In' or 'NotIn'",
        ),
    ],
)
async def test_access_reviews_with_invalid_selectors_are_rejected(
    attributes: JsonObject, expected: str, client: httpx.AsyncClient
) -> None:
    refused = await _review_access(client, **attributes)
    assert (refused.status_code, refused.json()["message"]) == (
        422,
        f'.authorization.k8s.io "" is invalid: {_AT}.{expected}',
    )


async def test_reviews_with_metadata_are_rejected(client: httpx.AsyncClient) -> None:
    spec = {**_NODE, "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}
    named = {"metadata": {"name": "x"}, "spec": spec}
    own = {"metadata": {"name": "x"}, "spec": {"resourceAttributes": {"verb": "get"}}}
    local = f"{_REVIEWS}/namespaces/default/localsubjectaccessreviews"
    for path, body in (
        (f"{_REVIEWS}/subjectaccessreviews", named),
        (f"{_REVIEWS}/selfsubjectaccessreviews", own),
    ):
        refused = (await client.post(path, json=body)).json()
        assert refused["details"]["causes"] == [
            {
                "reason": "FieldValueInvalid",
                "message": 'Invalid value: {"name":"x"}: must be empty',
                "field": "metadata",
            }
        ]
    refused = (await client.post(local, json=named)).json()
    assert refused["message"].endswith("must be empty except for namespace")
    elsewhere = await client.post(local, json={"metadata": {"namespace": "other"}, "spec": spec})
    assert elsewhere.status_code == 400
    assert elsewhere.json()["message"] == (
        "the namespace of the provided object does not match the namespace sent on the request"
    )
    assert (await client.post(local, json={"spec": spec})).status_code == 201


async def test_a_rules_review_for_a_node_is_marked_as_incomplete(client: httpx.AsyncClient) -> None:
    path, body = f"{_REVIEWS}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}
    status = (await client.post(path, json=body, headers=_AS_NODE)).json()["status"]
    text = "node authorizer does not support user rule resolution"
    assert (status["incomplete"], status["evaluationError"]) == (True, text)
    binding = {
        "metadata": {"name": "b"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "absent"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}],
    }
    await client.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", json=binding)
    status = (await client.post(path, json=body, headers=_AS_NODE)).json()["status"]
    assert status["evaluationError"] == (
        f'[{text}, clusterrole.rbac.authorization.k8s.io "absent" not found]'
    )
    other = (await client.post(path, json=body, headers={"impersonate-user": "joe"})).json()["status"]
    assert (other["incomplete"], "evaluationError" in other) == (False, False)
