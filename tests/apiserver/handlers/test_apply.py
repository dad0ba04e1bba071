"""Test server-side apply over HTTP against the answers of kube-apiserver 1.36."""

import json
from typing import Any

import httpx
from dra_shared.jsontypes import JsonObject

from tests.support.cases import each_case

MAPS = "/api/v1/namespaces/default/configmaps"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
APPLY = {"Content-Type": "application/apply-patch+yaml"}
MERGE = {"Content-Type": "application/merge-patch+json"}
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def config_map(data: Any = None, **metadata: Any) -> JsonObject:
    obj: JsonObject = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", **metadata}}
    return obj if data is None else {**obj, "data": data}


async def apply(client: httpx.AsyncClient, manager: str, obj: Any, url: str = f"{MAPS}/c") -> httpx.Response:
    content = obj if isinstance(obj, str) else json.dumps(obj)
    return await client.patch(url, params={"fieldManager": manager}, content=content, headers=APPLY)


async def test_an_apply_that_changes_nothing_records_no_time_in_managed_fields(
    client: httpx.AsyncClient,
) -> None:
    await client.post(MAPS, json=config_map({"a": "1"}))
    answer = await apply(client, "m", config_map({"a": "1"}))
    (entry,) = [one for one in answer.json()["metadata"]["managedFields"] if one["operation"] == "Apply"]
    assert "time" not in entry
    answer = await apply(client, "m", config_map({"a": "1", "b": "2"}))
    (entry,) = [one for one in answer.json()["metadata"]["managedFields"] if one["operation"] == "Apply"]
    assert entry["time"]


async def test_applying_null_for_a_map_keeps_the_entries_of_other_managers(client: httpx.AsyncClient) -> None:
    await apply(client, "a", config_map({"a": "1"}))
    answer = await apply(client, "b", '{"apiVersion":"v1","kind":"ConfigMap","metadata":{},"data":null}')
    assert answer.status_code == 200
    assert answer.json()["data"] == {"a": "1"}


async def test_server_side_apply_takes_over_fields_of_client_side_apply(client: httpx.AsyncClient) -> None:
    applied = config_map({"a": "1", "b": "2"})
    first = config_map(applied["data"], annotations={LAST_APPLIED: json.dumps(applied)})
    await client.post(MAPS, json=first, params={"fieldManager": "kubectl-client-side-apply"})
    assert (await apply(client, "other", config_map({"a": "5"}))).status_code == 409
    answer = await apply(client, "kubectl", config_map({"a": "5"}))
    assert (answer.status_code, answer.json()["data"]["a"]) == (200, "5")
    # kubectl no longer owns fields that somebody else has changed since.
    await client.patch(f"{MAPS}/c", json={"data": {"b": "9"}}, params={"fieldManager": "z"}, headers=MERGE)
    answer = await apply(client, "kubectl", config_map({"a": "5", "b": "3"}))
    assert answer.status_code == 409
    assert [one["field"] for one in answer.json()["details"]["causes"]] == [".data.b"]


@each_case(
    ("obj", "message"),
    [
        (
            config_map({"a": 5}),
            "failed to create typed patch object (/c; /v1, Kind=ConfigMap): "
            ".data.a: expected string, got &value.valueUnstructured{Value:5}",
        ),
        (
            config_map(["x"]),
            "failed to create typed patch object (/c; /v1, Kind=ConfigMap): .data: expected map, got &{[x]}",
        ),
        (
            {**config_map(), "immutable": "x"},
            "failed to create typed patch object (/c; /v1, Kind=ConfigMap): "
            ".immutable: expected boolean, got &{x}",
        ),
        (
            config_map(None, ownerReferences=[None]),
            "failed to create typed patch object (/c; /v1, Kind=ConfigMap): .metadata.ownerReferences: "
            "element 0: associative list with keys may not have a null element",
        ),
        ({**config_map(), "kind": "Secret"}, "invalid object type: /v1, Kind=Secret"),
        ({**config_map(), "apiVersion": "apps/v1"}, "invalid object type: apps/v1, Kind=ConfigMap"),
        ("", "invalid object type: /, Kind="),
        (
            config_map(namespace="other"),
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        ("{", "error decoding YAML: error converting YAML to JSON: yaml: line 1: did not find expected node"),
        (
            "a: b: c",
            "error decoding YAML: error converting YAML to JSON: yaml: mapping values are not allowed",
        ),
    ],
)
async def test_invalid_apply_configurations_are_rejected(
    client: httpx.AsyncClient, obj: Any, message: str
) -> None:
    await client.post(MAPS, json=config_map())
    answer = await apply(client, "m", obj)
    assert answer.status_code == 400
    assert answer.json()["message"].startswith(message)


async def test_an_item_without_its_key_is_rejected_by_validation(client: httpx.AsyncClient) -> None:
    claim: JsonObject = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c"},
    }
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}
    await apply(client, "m", {**claim, "spec": spec}, f"{CLAIMS}/c")
    status = {"reservedFor": [{"resource": "pods", "name": "p"}]}
    answer = await apply(client, "m", {**claim, "status": status}, f"{CLAIMS}/c/status")
    assert answer.status_code == 422
    assert "status.reservedFor[0].uid" in {one["field"] for one in answer.json()["details"]["causes"]}


async def test_only_the_first_document_is_applied(client: httpx.AsyncClient) -> None:
    text = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n---\nx: y\n"
    assert (await apply(client, "m", text)).status_code == 201


async def test_a_uid_in_a_patch_must_equal_the_objects_uid(client: httpx.AsyncClient) -> None:
    await client.post(MAPS, json=config_map())
    for answer in (
        await apply(client, "m", config_map(uid="x")),
        await client.patch(f"{MAPS}/c", json={"metadata": {"uid": "x"}}, headers=MERGE),
    ):
        assert answer.status_code == 422
        causes = {(one["field"], one["message"]) for one in answer.json()["details"]["causes"]}
        assert causes == {("metadata.uid", 'Invalid value: "x": field is immutable')}
    answer = await apply(client, "m", {**config_map(uid="x"), "metadata": {"uid": "x"}}, f"{MAPS}/d")
    assert (answer.status_code, answer.json()["reason"]) == (409, "Conflict")


async def test_an_empty_managed_fields_list_clears_ownership_except_through_a_subresource(
    client: httpx.AsyncClient,
) -> None:
    await client.post("/api/v1/nodes", json={"metadata": {"name": "n", "labels": {"a": "b"}}})
    body: JsonObject = {"metadata": {"managedFields": []}}
    answer = await client.patch("/api/v1/nodes/n/status", json=body, headers=MERGE)
    assert answer.json()["metadata"]["managedFields"]
    answer = await client.patch("/api/v1/nodes/n", json=body, headers=MERGE)
    assert "managedFields" not in answer.json()["metadata"]
