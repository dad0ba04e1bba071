"""Test that patches with small mistakes get the same responses as from kube-apiserver 1.36."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from dra_apiserver.config import Config
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_shared.jsontypes import JsonObject

from tests.apiserver.handlers.test_as_upstream import CLAIM, RULE, change
from tests.support.cases import each_case

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
RULES = "/apis/resource.k8s.io/v1beta2/devicetaintrules"
TYPES = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(port=0, data=tmp_path, database=IN_MEMORY, runtime_config="api/all=true")


async def patch(
    client: httpx.AsyncClient, way: str, body: Any, path: str = f"{CLAIMS}/c", **query: str
) -> httpx.Response:
    content = body if isinstance(body, str) else json.dumps(body)
    return await client.patch(path, params=query, content=content, headers={"Content-Type": TYPES[way]})


def problem(answer: httpx.Response) -> str:
    """Return the validation error in a response, without the patched object that precedes it in the message."""
    cause: str = answer.json()["details"]["causes"][0]["message"]
    return cause.rpartition('}": ')[2]


@each_case(
    ("body", "expected"),
    [
        (
            {"kind": "Pod"},
            'no kind "Pod" is registered for version "resource.k8s.io/v1" '
            'in scheme "pkg/api/legacyscheme/scheme.go:30"',
        ),
        (
            {"kind": "DeviceClass"},
            "converting (v1.DeviceClass) to (resource.ResourceClaim): unknown conversion",
        ),
        (
            {"apiVersion": "resource.k8s.io/v9"},
            'no kind "ResourceClaim" is registered for version "resource.k8s.io/v9" '
            'in scheme "pkg/api/legacyscheme/scheme.go:30"',
        ),
        ({"apiVersion": "a/b/c"}, "unexpected GroupVersion string: a/b/c"),
        (
            {"Kind": 5},
            "couldn't get version/kind; json parse error: json: cannot unmarshal number "
            "into Go struct field .kind of type string",
        ),
    ],
)
async def test_a_patch_cannot_change_the_kind(
    client: httpx.AsyncClient, body: JsonObject, expected: str
) -> None:
    await client.post(CLAIMS, json=CLAIM)
    answer = await patch(client, "merge", body)
    assert (answer.status_code, problem(answer)) == (422, expected)


async def test_a_patch_may_change_the_api_version(client: httpx.AsyncClient) -> None:
    await client.post(CLAIMS, json=CLAIM)
    body = {
        "apiVersion": "resource.k8s.io/v1beta1",
        "metadata": {"labels": {"a": "b"}},
        "spec": {"devices": {"requests": [{"name": "r", "deviceClassName": "gpu"}]}},
    }
    answer = await patch(client, "merge", body)
    assert answer.status_code == 200
    assert answer.json()["metadata"]["labels"] == {"a": "b"}
    assert answer.json()["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "gpu"


async def test_a_patch_that_removes_the_api_version_is_rejected(client: httpx.AsyncClient) -> None:
    await client.post(CLAIMS, json=CLAIM)
    answer = await patch(client, "merge", {"apiVersion": None})
    assert answer.status_code == 400
    assert answer.json()["message"].endswith("was undeterminable: name must be provided")
    answer = await patch(client, "merge", {"apiVersion": None}, fieldValidation="Strict")
    assert problem(answer).startswith('strict decoding error: unknown field "metadata", unknown field "spec"')


async def test_duplicate_members_of_a_patch_are_reported(client: httpx.AsyncClient) -> None:
    await client.post(CLAIMS, json=CLAIM)
    answer = await patch(client, "merge", '{"metadata":{"labels":{"a":"1","a":"2"}}}')
    assert answer.headers["warning"] == r'299 - "duplicate field \"metadata.labels.a\""'
    body = '[{"op":"add","path":"/metadata/labels","value":{},"value":{"x":"y"},"more":1}]'
    answer = await patch(client, "json", body, fieldValidation="Strict")
    expected = 'json patch unknown field "[0].more", json patch duplicate field "[0].value"'
    assert (answer.status_code, problem(answer)) == (422, f"strict decoding error: {expected}")


async def test_a_missing_object_is_reported_before_errors_of_the_patch(client: httpx.AsyncClient) -> None:
    assert (await patch(client, "merge", "[")).status_code == 404
    assert (await patch(client, "json", "{}")).status_code == 404


async def test_a_validation_error_shows_the_object_after_the_patch(client: httpx.AsyncClient) -> None:
    await client.post(CLAIMS, json=CLAIM)
    body = [{"op": "add", "path": "/spec/devices/x", "value": {"y": 1}}]
    answer = await patch(client, "json", body, fieldValidation="Strict")
    assert r"\"x\":{\"y\":1}" in answer.json()["message"]
    assert problem(answer) == 'strict decoding error: unknown field "spec.devices.x"'


async def test_applying_a_status_takes_no_ownership_of_metadata(client: httpx.AsyncClient) -> None:
    await client.post(RULES, json=RULE)
    body = {**RULE, "metadata": {"name": "r", "labels": {"a": "b"}}, "spec": None}
    del body["spec"]
    answer = await patch(client, "apply", body, f"{RULES}/r/status", fieldManager="m")
    assert answer.status_code == 200
    assert [one["manager"] for one in answer.json()["metadata"]["managedFields"]] == ["python-httpx"]


@each_case(
    ("body", "expected"),
    [
        (
            change(CLAIM, "spec.devices.constraints", [2]),
            ".spec.devices.constraints[0]: expected map, got &{2}",
        ),
        (
            change(CLAIM, "spec.devices.requests.0.exactly.nope", 1),
            ".spec.devices.requests[0].exactly.nope: field not declared in schema",
        ),
        (
            change(change(CLAIM, "spec.devices.requests.0.name", 1.0), "spec.devices.config", "x"),
            "errors:\n"
            "  .spec.devices.requests[0].name: expected string, got &value.valueUnstructured{Value:1}\n"
            "  .spec.devices.config: expected list, got &{x}",
        ),
        (
            change(CLAIM, "metadata.labels", {"a": [{"b": None}]}),
            ".metadata.labels.a: expected string, got &value.valueUnstructured"
            '{Value:[]interface {}{map[string]interface {}{"b":interface {}(nil)}}}',
        ),
    ],
)
async def test_all_errors_of_an_apply_configuration_are_reported(
    client: httpx.AsyncClient, body: JsonObject, expected: str
) -> None:
    answer = await patch(client, "apply", body, fieldManager="m")
    assert answer.json()["message"].partition("Kind=ResourceClaim): ")[2] == expected


async def test_an_invalid_quantity_is_reported_before_version_conflicts(client: httpx.AsyncClient) -> None:
    await client.post(CLAIMS, json=CLAIM)
    body = change(CLAIM, "spec.devices.requests.0.exactly.capacity", {"requests": {"m": "1X"}})
    body["apiVersion"] = "resource.k8s.io/v1beta2"
    answer = await patch(client, "apply", body, f"{CLAIMS}/c".replace("v1", "v1beta2"), fieldManager="m")
    assert answer.json()["message"] == (
        "failed to convert new object: unable to convert unstructured object to resource.k8s.io/v1beta2, "
        "Kind=ResourceClaim: quantities must match the regular expression "
        "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )


async def test_a_name_must_be_applied_with_a_new_object(client: httpx.AsyncClient) -> None:
    answer = await patch(client, "apply", {**CLAIM, "metadata": {}}, fieldManager="m")
    assert (answer.status_code, answer.json()["message"]) == (
        400,
        "the name of the object (c based on URL) was undeterminable: name must be provided",
    )


async def test_patching_an_absent_list_to_an_empty_one_changes_nothing(client: httpx.AsyncClient) -> None:
    rule = {"metadata": {"name": "k"}, "spec": {}}
    path = "/apis/resource.k8s.io/v1/deviceclasses"
    await client.post(path, json=rule)
    answer = await patch(client, "merge", {"spec": {"config": []}}, f"{path}/k")
    assert answer.json()["metadata"]["generation"] == 1


DEFINITION: JsonObject = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
                "subresources": {
                    "scale": {
                        "specReplicasPath": ".spec.size.wanted",
                        "statusReplicasPath": ".status.size",
                        "labelSelectorPath": ".status.selector",
                    }
                },
            }
        ],
    },
}


async def define(client: httpx.AsyncClient, definition: JsonObject) -> None:
    """Create a definition, and wait until the server serves it."""
    await client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", json=definition)
    while (await client.get("/apis/example.com/v1")).status_code != 200:
        pass


async def test_a_custom_resource_is_scaled_at_its_own_paths(client: httpx.AsyncClient) -> None:
    await define(client, DEFINITION)
    path = "/apis/example.com/v1/namespaces/default/widgets"
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    await client.post(path, json={**widget, "status": {"size": 3, "selector": "a=b"}})
    answer = await patch(client, "merge", {"metadata": {"labels": {}}}, f"{path}/w/scale")
    assert (answer.status_code, answer.json()["message"]) == (
        400,
        'the spec replicas field ".spec.size.wanted" cannot be empty',
    )
    answer = await patch(client, "merge", {"spec": {"replicas": 2}}, f"{path}/w/scale")
    assert answer.json()["spec"] == {"replicas": 2}
    assert answer.json()["status"] == {"replicas": 3, "selector": "a=b"}
    assert (await client.get(f"{path}/w")).json()["spec"] == {"size": {"wanted": 2}}


DEPLOYMENT: JsonObject = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "d"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    },
}


async def test_replicas_are_applied_through_the_scale(client: httpx.AsyncClient) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    await client.post(path, json=DEPLOYMENT, params={"fieldManager": "maker"})
    scale = {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "d"},
        "spec": {"replicas": 4},
    }
    answer = await patch(client, "apply", scale, f"{path}/d/scale", fieldManager="m")
    assert answer.status_code == 409
    assert answer.json()["details"]["causes"][0]["field"] == ".spec.replicas"
    answer = await patch(client, "apply", scale, f"{path}/d/scale", fieldManager="m", force="true")
    assert answer.json()["spec"] == {"replicas": 4}
    managed = (await client.get(f"{path}/d")).json()["metadata"]["managedFields"]
    own = next(one for one in managed if one["manager"] == "m")
    assert (own["apiVersion"], own["fieldsV1"]) == ("apps/v1", {"f:spec": {"f:replicas": {}}})
    maker = next(one for one in managed if one["manager"] == "maker")
    assert "f:replicas" not in maker["fieldsV1"]["f:spec"]


async def test_an_apply_does_not_affect_the_next_apply_of_another_object(client: httpx.AsyncClient) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    await patch(client, "apply", DEPLOYMENT, f"{path}/d", fieldManager="m")
    made = (await client.post(path, json=change(DEPLOYMENT, "metadata.name", "e"))).json()
    owned = made["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]
    assert owned["f:strategy"]["f:type"] == {}
    assert owned["f:template"]["f:spec"]["f:dnsPolicy"] == {}


async def test_applying_an_empty_list_conflicts_with_the_manager_of_its_items(
    client: httpx.AsyncClient,
) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    taints = [{"key": "k", "effect": "NoSchedule"}]
    await client.post("/api/v1/nodes", json={**node, "spec": {"taints": taints}})
    answer = await patch(
        client, "apply", {**node, "spec": {"taints": []}}, "/api/v1/nodes/n", fieldManager="m"
    )
    assert answer.json()["details"]["causes"][0]["field"] == ".spec.taints"


async def test_the_last_value_of_a_repeated_key_is_applied_with_a_warning(client: httpx.AsyncClient) -> None:
    body = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata:\n  a: b\n  a: c\n"
    path = "/api/v1/namespaces/default/configmaps/m"
    answer = await patch(client, "apply", body, path, fieldManager="m")
    assert (answer.status_code, answer.json()["data"]) == (201, {"a": "c"})
    assert answer.headers["warning"] == r'299 - "line 6: key \"a\" already set in map"'
    answer = await patch(client, "apply", body, path, fieldManager="m", fieldValidation="Strict")
    assert (answer.status_code, answer.json()["message"]) == (
        400,
        "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n"
        '  line 6: key "a" already set in map',
    )


async def test_conflicts_are_reported_level_by_level(client: httpx.AsyncClient) -> None:
    path = "/api/v1/namespaces/default/secrets"
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "labels": {"a": "b"}},
        "type": "x",
    }
    await client.post(path, json=secret)
    other = change(change(secret, "metadata.labels.a", "c"), "type", "y")
    answer = await patch(client, "apply", other, f"{path}/s", fieldManager="m")
    assert [one["field"] for one in answer.json()["details"]["causes"]] == [".type", ".metadata.labels.a"]


@each_case(
    ("text", "expected"),
    [
        ("AA=", "illegal base64 data at input byte 3"),
        ("ZA==2", "illegal base64 data at input byte 4"),
        ("A=AA", "illegal base64 data at input byte 1"),
        ("AAA", "illegal base64 data at input byte 0"),
        ("AA=A", "illegal base64 data at input byte 2"),
    ],
)
async def test_errors_of_invalid_base64_name_the_position(
    client: httpx.AsyncClient, text: str, expected: str
) -> None:
    path = "/api/v1/namespaces/default/secrets"
    await client.post(path, json={"metadata": {"name": "s"}})
    answer = await patch(client, "merge", {"data": {"a": text}}, f"{path}/s")
    assert problem(answer) == expected
    answer = await patch(client, "strategic", {"data": {"a": text}}, f"{path}/s")
    assert answer.json()["message"].endswith(f": error decoding from json: {expected}")


async def test_line_breaks_in_base64_are_ignored(client: httpx.AsyncClient) -> None:
    answer = await client.post(
        "/api/v1/namespaces/default/secrets",
        json={"metadata": {"name": "s"}, "data": {"a": "Y\ng==\n", "b": "YG=="}},
    )
    assert answer.json()["data"] == {"a": "Yg==", "b": "YA=="}


async def test_an_empty_applied_list_conflicts_with_managers_of_the_same_version_only(
    client: httpx.AsyncClient,
) -> None:
    path = "/apis/resource.k8s.io/v1/deviceclasses"
    selector = {"cel": {"expression": "true"}}
    made = {"metadata": {"name": "k"}, "spec": {"selectors": [selector]}}
    await client.post(path, json=made)
    body = {
        "apiVersion": "resource.k8s.io/v1beta1",
        "kind": "DeviceClass",
        "metadata": {"name": "k"},
        "spec": {"selectors": []},
    }
    answer = await patch(client, "apply", body, f"{path}/k".replace("v1", "v1beta1"), fieldManager="m")
    assert answer.status_code == 200
    body["apiVersion"] = "resource.k8s.io/v1"
    await client.patch(f"{path}/k", json=made, headers={"Content-Type": TYPES["merge"]})
    assert (await patch(client, "apply", body, f"{path}/k", fieldManager="m")).status_code == 409


async def test_the_error_for_a_strategic_patch_of_a_custom_resource_lists_accepted_types(
    client: httpx.AsyncClient,
) -> None:
    await define(client, DEFINITION)
    answer = await patch(client, "strategic", {}, "/apis/example.com/v1/namespaces/default/widgets/w")
    assert (answer.status_code, answer.json()["message"]) == (
        415,
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
    )


async def test_each_version_of_a_custom_resource_has_its_own_schema(client: httpx.AsyncClient) -> None:
    size = {"type": "object", "properties": {"size": {"type": "integer"}}}
    schema = {"type": "object", "properties": {"spec": size, "status": size}}
    first = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    second = {**DEFINITION["spec"]["versions"][0], "name": "v2", "storage": False, "subresources": {}}
    await define(client, change(DEFINITION, "spec.versions", [first, second]))
    path = "/apis/example.com/v1/namespaces/default/widgets"
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    await client.post(path, json=widget)
    answer = await patch(client, "merge", {"status": {"size": "x"}}, f"{path}/w/status")
    expected = 'size in body must be of type integer: "string"'
    assert answer.json()["details"]["causes"] == [
        {
            "reason": "FieldValueTypeInvalid",
            "message": f'Invalid value: "string": {expected}',
            "field": "status.size",
        }
    ]
    body = {"metadata": {"labels": {"a": "b"}}, "status": {"size": 1}}
    made = (await patch(client, "merge", body, f"{path}/w/status")).json()
    assert ("labels" in made["metadata"], made["status"]) == (False, {"size": 1})
    answer = await patch(client, "merge", {"spec": {"size": {"x": 1}}}, f"{path}/w", fieldValidation="Strict")
    assert problem(answer) == 'strict decoding error: unknown field "spec.size.x"'
    other = path.replace("v1", "v2")
    assert (await patch(client, "merge", {"status": {}}, f"{other}/w/status")).status_code == 404
    listed = (await client.get("/apis/example.com/v2")).json()["resources"]
    assert [one["name"] for one in listed] == ["widgets"]
    assert (await patch(client, "merge", {"spec": {"size": "x"}}, f"{other}/w")).status_code == 200
