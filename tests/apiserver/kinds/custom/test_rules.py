"""Test the validation of custom resources against their definition's schema and rules, through HTTP."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from dra_apiserver.config import Config
from dra_apiserver.kinds.custom.rules import check_rules
from dra_apiserver.server import ApiServer

from tests.support.cases import each_case

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
MERGE = {"content-type": "application/merge-patch+json"}
NOT_CHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
SPEC: dict[str, Any] = {
    "type": "object",
    "required": ["size"],
    "x-kubernetes-validations": [
        {"rule": "self.size < 100 || self.mode == 'big'", "message": "too big"},
        {
            "rule": "!has(self.until) || self.until > timestamp('2026-01-01T00:00:00Z')",
            "messageExpression": "'over since ' + string(self.until)",
            "fieldPath": ".until",
            "reason": "FieldValueForbidden",
        },
    ],
    "properties": {
        "size": {
            "type": "integer",
            "minimum": 1,
            "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "cannot shrink"}],
        },
        "mode": {"type": "string", "enum": ["small", "big"], "default": "small"},
        "until": {"type": "string", "format": "date-time"},
        "share": {"x-kubernetes-int-or-string": True},
        "replicas": {"type": "integer"},
        "parts": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "x-kubernetes-validations": [
                    {"rule": "self.max__dash__of == oldSelf.max__dash__of", "message": "stays"}
                ],
                "properties": {"name": {"type": "string"}, "max-of": {"type": "integer"}},
            },
        },
    },
}


def definition() -> dict[str, Any]:
    status = {"type": "object", "properties": {"replicas": {"type": "integer"}}}
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}, "scale": scale},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC, "status": status}}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version],
        },
    }


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    config = Config(port=0, data=tmp_path, relaxed=True)
    async with ApiServer(config) as server, httpx.AsyncClient(base_url=server.url, timeout=30) as made:
        answer = await made.post(DEFINITIONS, json=definition())
        assert answer.json()["status"]["storedVersions"] == ["v1"]
    # Definitions that existed before are served at once.
    async with ApiServer(config) as server, httpx.AsyncClient(base_url=server.url, timeout=30) as made:
        yield made


def widget(spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}


async def errors(client: httpx.AsyncClient, spec: Any) -> list[tuple[str, str]]:
    answer = await client.post(WIDGETS, json=widget(spec))
    assert answer.status_code == 422, answer.text
    return [(cause.get("field", ""), cause["message"]) for cause in answer.json()["details"]["causes"]]


async def test_a_violated_rule_is_reported_with_the_message_of_the_rule(client: httpx.AsyncClient) -> None:
    assert await errors(client, {"size": 200}) == [("spec", "Invalid value: too big")]
    assert await errors(client, {"size": 1, "until": "2025-01-01T00:00:00Z"}) == [
        ("spec.until", "Forbidden: over since 2025-01-01T00:00:00Z")
    ]
    assert (await client.post(WIDGETS, json=widget({"size": 200, "mode": "big"}))).status_code == 201


async def test_a_rule_that_reads_old_self_gets_the_value_before_the_update(client: httpx.AsyncClient) -> None:
    spec = {"size": 5, "parts": [{"name": "a", "max-of": 1}]}
    assert (await client.post(WIDGETS, json=widget(spec))).status_code == 201
    smaller = (await client.patch(f"{WIDGETS}/w", json={"spec": {"size": 4}}, headers=MERGE)).json()
    assert smaller["details"]["causes"] == [
        {"reason": "FieldValueInvalid", "message": "Invalid value: 4: cannot shrink", "field": "spec.size"}
    ]
    assert (await client.patch(f"{WIDGETS}/w", json={"spec": {"size": 6}}, headers=MERGE)).status_code == 200
    # Items of a keyed list are recognized at any position. New items have no old value.
    moved = {"spec": {"parts": [{"name": "b", "max-of": 9}, {"name": "a", "max-of": 2}]}}
    refused = (await client.patch(f"{WIDGETS}/w", json=moved, headers=MERGE)).json()
    assert [cause["field"] for cause in refused["details"]["causes"]] == ["spec.parts[1]"]


async def test_rules_are_not_evaluated_for_values_that_violate_the_schema(client: httpx.AsyncClient) -> None:
    assert await errors(client, {"size": "x"}) == [
        ("spec.size", 'Invalid value: "string": spec.size in body must be of type integer: "string"'),
        ("<nil>", f"Invalid value: null: {NOT_CHECKED}"),
    ]
    assert await errors(client, {}) == [
        ("spec.size", "Required value"),
        ("<nil>", f"Invalid value: null: {NOT_CHECKED}"),
    ]
    found = await errors(client, {"size": 1, "mode": "z"})
    assert found[0] == ("spec.mode", 'Unsupported value: "z": supported values: "small", "big"')


@each_case("spec", [3, "text", ["a"], 1.5, True])
async def test_a_custom_resource_with_a_spec_of_the_wrong_type_is_rejected_with_422(
    client: httpx.AsyncClient, spec: Any
) -> None:
    found = await errors(client, spec)
    assert found[0][0] == "spec"
    assert "must be of type object" in found[0][1]


async def test_string_formats_of_a_schema_are_validated(client: httpx.AsyncClient) -> None:
    found = await errors(client, {"size": 1, "until": "tomorrow"})
    assert found[0] == (
        "spec.until",
        'Invalid value: "tomorrow": spec.until in body must be of type date-time: "tomorrow"',
    )


async def test_nulls_are_replaced_by_defaults(client: httpx.AsyncClient) -> None:
    made = (await client.post(WIDGETS, json=widget({"size": 1, "mode": None, "replicas": None}))).json()
    assert made["spec"] == {"size": 1, "mode": "small"}


async def test_replicas_that_a_scale_cannot_have_are_rejected(client: httpx.AsyncClient) -> None:
    assert await errors(client, {"size": 1, "replicas": -1}) == [
        (".spec.replicas", "Invalid value: -1: should be a non-negative integer")
    ]


async def test_kind_and_version_are_not_in_managed_fields(client: httpx.AsyncClient) -> None:
    made = (await client.post(WIDGETS, json=widget({"size": 1}))).json()
    fields = made["metadata"]["managedFields"][0]["fieldsV1"]
    assert fields == {"f:spec": {".": {}, "f:mode": {}, "f:size": {}}}


def test_a_rule_added_later_is_not_applied_to_unchanged_values() -> None:
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "x-kubernetes-validations": [{"rule": "self.a < 5"}],
                "properties": {"a": {"type": "integer"}},
            },
            "other": {"type": "string"},
        },
    }
    old = {"spec": {"a": 7}}
    assert check_rules(schema, {"spec": {"a": 7}, "other": "x"}, old) == []
    assert [error.field for error in check_rules(schema, {"spec": {"a": 8}}, old)] == ["spec"]


def test_the_error_of_a_rule_that_cannot_be_evaluated_shows_the_rule() -> None:
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "x-kubernetes-validations": [{"rule": "self.a == 'x'"}, {"rule": "self.b > 1"}],
                "properties": {"a": {"type": "string"}},
            }
        },
    }
    texts = [str(error) for error in check_rules(schema, {"spec": {}}, None)]
    assert texts[0] == "spec: Invalid value: \"object\": no such key: a evaluating rule: self.a == 'x'"
    assert texts[1].startswith(
        'spec: Invalid value: "object": rule compile error: compilation failed: ERROR:'
    )
    assert "undefined field 'b'" in texts[1]


@pytest.mark.parametrize(
    "rule",
    [
        "!has(self.namespace) || self.namespace != 'kube-system'",
        "!has(self.__namespace__) || self.__namespace__ != 'kube-system'",
        "self.?namespace.orValue('') != 'kube-system'",
    ],
)
def test_rule_selects_a_field_that_is_named_like_a_keyword(rule: str) -> None:
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "x-kubernetes-validations": [{"rule": rule}],
                "properties": {"namespace": {"type": "string"}},
            }
        },
    }
    assert check_rules(schema, {"spec": {}}, None) == []
    assert check_rules(schema, {"spec": {"namespace": "mine"}}, None) == []
    refused = check_rules(schema, {"spec": {"namespace": "kube-system"}}, None)
    assert [str(error) for error in refused] == [f"spec: Invalid value: failed rule: {rule}"]


async def test_service_of_a_conversion_webhook_has_a_default_port(client: httpx.AsyncClient) -> None:
    names = {"plural": "boxes", "kind": "Box"}
    service = {"name": "webhook", "namespace": "default", "path": "/convert"}
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": {"service": service}}
    spec = {**definition()["spec"], "names": names, "conversion": {"strategy": "Webhook", "webhook": webhook}}
    body = {**definition(), "metadata": {"name": "boxes.example.com"}, "spec": spec}
    made = await client.post(DEFINITIONS, json=body)
    assert made.status_code == 201, made.text
    assert made.json()["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["port"] == 443
