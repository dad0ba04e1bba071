"""Test answers in protobuf, which client-go prefers."""

from pathlib import Path
from typing import Any

import httpx
from dra_apiserver.config import Config
from dra_apiserver.protobuf import META
from dra_apiserver.protobuf import envelope as written
from dra_apiserver.protobuf import message as message_of
from dra_apiserver.schema.protobuf import envelope, read_message
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY

from tests.support.waiting import until

PROTOBUF = "application/vnd.kubernetes.protobuf"
CLIENT_GO = {"Accept": f"{PROTOBUF},application/json"}
MAPS = "/api/v1/namespaces/default/configmaps"
_MAP = "io.k8s.api.core.v1.ConfigMap"


def _read(answer: httpx.Response, name: str) -> tuple[str, str, dict[str, Any]]:
    assert answer.headers["content-type"] == PROTOBUF
    api_version, kind, raw = envelope(answer.content)
    return api_version, kind, read_message(name, raw)


async def _create_map(client: httpx.AsyncClient, name: str = "a") -> None:
    made = await client.post(MAPS, json={"metadata": {"name": name}, "data": {"x": "y"}})
    assert made.status_code == 201


async def test_objects_are_the_same_in_protobuf(client: httpx.AsyncClient) -> None:
    await _create_map(client)
    api_version, kind, obj = _read(await client.get(f"{MAPS}/a", headers=CLIENT_GO), _MAP)
    assert (api_version, kind, obj["data"]) == ("v1", "ConfigMap", {"x": "y"})
    assert obj["metadata"]["uid"] == (await client.get(f"{MAPS}/a")).json()["metadata"]["uid"]


async def test_responses_to_writes_are_in_protobuf(client: httpx.AsyncClient) -> None:
    made = await client.post(MAPS, json={"metadata": {"name": "b"}}, headers=CLIENT_GO)
    assert (made.status_code, _read(made, _MAP)[2]["metadata"]["name"]) == (201, "b")
    gone = await client.delete(f"{MAPS}/b", headers=CLIENT_GO)
    api_version, kind, status = _read(gone, f"{META}.Status")
    assert (api_version, kind, status["status"]) == ("v1", "Status", "Success")


async def test_lists_are_the_same_in_protobuf(client: httpx.AsyncClient) -> None:
    await _create_map(client)
    _, kind, found = _read(await client.get(MAPS, headers=CLIENT_GO), f"{_MAP}List")
    assert (kind, [item["metadata"]["name"] for item in found["items"]]) == ("ConfigMapList", ["a"])


async def test_metadata_alone_is_available_in_protobuf(client: httpx.AsyncClient) -> None:
    await _create_map(client)
    wanted = {"Accept": f"{PROTOBUF};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}
    answer = await client.get(MAPS, headers=wanted)
    api_version, kind, found = _read(answer, f"{META}.PartialObjectMetadataList")
    assert (api_version, kind) == ("meta.k8s.io/v1", "PartialObjectMetadataList")
    assert [item["metadata"]["name"] for item in found["items"]] == ["a"]


async def test_error_statuses_are_in_protobuf(client: httpx.AsyncClient) -> None:
    missing = await client.get(f"{MAPS}/missing", headers=CLIENT_GO)
    _, _, status = _read(missing, f"{META}.Status")
    assert (missing.status_code, status["reason"], status["details"]["name"]) == (404, "NotFound", "missing")


def _frames(data: bytes) -> list[tuple[str, dict[str, Any]]]:
    found = []
    while data:
        size = int.from_bytes(data[:4], "big")
        event = _event(data[4 : 4 + size])
        found.append(event)
        data = data[4 + size :]
    return found


def _event(body: bytes) -> tuple[str, dict[str, Any]]:
    """Return the type and the object's message of a WatchEvent."""
    size = body[1]
    kind, rest = body[2 : 2 + size].decode(), body[2 + size :]
    _, _, raw = envelope(rest[rest.index(b"k8s\x00") :])
    return kind, read_message(_MAP, raw)


async def test_events_of_a_watch_are_in_protobuf(client: httpx.AsyncClient) -> None:
    await _create_map(client)
    query = {"watch": "1", "timeoutSeconds": "1", "allowWatchBookmarks": "1", "sendInitialEvents": "true"}
    query["resourceVersionMatch"] = "NotOlderThan"
    answer = await client.get(MAPS, params=query, headers=CLIENT_GO)
    assert answer.headers["content-type"] == f"{PROTOBUF};stream=watch"
    events = _frames(answer.content)
    assert [kind for kind, _ in events[:2]] == ["ADDED", "BOOKMARK"]
    assert events[0][1]["data"] == {"x": "y"}
    assert events[1][1]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_a_table_is_returned_as_json(client: httpx.AsyncClient) -> None:
    table = "as=Table;g=meta.k8s.io;v=v1"
    wanted = {"Accept": f"{PROTOBUF};{table},application/json;{table}"}
    assert (await client.get(MAPS, headers=wanted)).json()["kind"] == "Table"


async def test_a_custom_resource_is_returned_as_json(client: httpx.AsyncClient) -> None:
    """Check that objects are JSON even if the group's name resembles a built-in one.

    Metadata and failures are protobuf.
    """
    version = {"name": "v1", "served": True, "storage": True}
    version["schema"] = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"plural": "deployments", "singular": "deployment", "kind": "Deployment"}
    spec = {"group": "apps.example.com", "scope": "Cluster", "names": names, "versions": [version]}
    definition = {"metadata": {"name": "deployments.apps.example.com"}, "spec": spec}
    made = await client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", json=definition)
    assert made.status_code == 201

    async def list_when_served() -> httpx.Response | None:
        found = await client.get("/apis/apps.example.com/v1/deployments", headers=CLIENT_GO)
        return found if found.status_code == 200 else None

    assert (await until(list_when_served)).headers["content-type"] == "application/json"
    path = "/apis/apps.example.com/v1/deployments"
    missing = await client.get(f"{path}/missing", headers=CLIENT_GO)
    assert (missing.status_code, _read(missing, f"{META}.Status")[2]["reason"]) == (404, "NotFound")
    metadata = {"Accept": f"{PROTOBUF};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}
    found = await client.get(path, headers=metadata)
    assert _read(found, f"{META}.PartialObjectMetadataList")[1] == "PartialObjectMetadataList"
    alone = await client.get(path, headers={"Accept": PROTOBUF})
    offered = f"application/json, application/yaml, {PROTOBUF}"
    message = f"only the following media types are accepted: {offered}"
    assert (alone.status_code, _read(alone, f"{META}.Status")[2]["message"]) == (406, message)


async def test_access_and_token_reviews_are_in_protobuf(client: httpx.AsyncClient) -> None:
    review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    answer = await client.post(path, json=review, headers=CLIENT_GO)
    name = "io.k8s.api.authorization.v1.SelfSubjectAccessReview"
    assert _read(answer, name)[2]["status"]["allowed"]


async def test_errors_of_subresources_are_returned_in_protobuf(
    client: httpx.AsyncClient, tmp_path: Path
) -> None:
    """Check that failures of upstream's filters and handlers are in the format that the client accepts."""
    only = {"Accept": PROTOBUF}
    body = {"metadata": {"name": "p"}, "target": {"name": "n"}}
    for method, path, code in (
        ("POST", "/api/v1/namespaces/default/pods/p/binding", 404),
        ("GET", "/apis/apps/v1/namespaces/default/deployments/p/scale", 404),
        ("POST", "/api/v1/namespaces/default/serviceaccounts/p/token", 404),
    ):
        answer = await client.request(method, path, json=body if method == "POST" else None, headers=only)
        assert (answer.status_code, _read(answer, f"{META}.Status")[2]["code"]) == (code, code), path
    config = Config(port=0, data=tmp_path / "rbac", database=IN_MEMORY, authorization_mode="RBAC")
    async with ApiServer(config) as server, httpx.AsyncClient(base_url=server.url) as guarded:
        refused = await guarded.get("/api/v1/secrets", headers={**only, "impersonate-user": "joe"})
        assert _read(refused, f"{META}.Status")[2]["reason"] == "Forbidden"
        unknown = await guarded.get("/api/v1/pods", headers={**only, "authorization": "Bearer x"})
        assert _read(unknown, f"{META}.Status")[2]["code"] == 401


async def test_a_custom_resource_definition_is_read_and_written_in_protobuf(
    client: httpx.AsyncClient,
) -> None:
    """Check that a definition with every form of schema can be written, read and listed."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "list": {"type": "array", "items": {"type": "string"}},
            "map": {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}},
            "open": {"type": "object", "additionalProperties": True},
            "some": {"type": "string", "nullable": True, "enum": ["a", None], "default": "a"},
        },
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "xs", "singular": "x", "kind": "X", "listKind": "XList"}
    spec = {"group": "example.com", "scope": "Cluster", "names": names, "versions": [version]}
    path, group = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "apiextensions.k8s.io/v1"
    kind, definition = "CustomResourceDefinition", {"metadata": {"name": "xs.example.com"}, "spec": spec}
    message = f"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.{kind}"
    body = written(group, kind, message_of(message, definition))
    sent = {"Content-Type": PROTOBUF, "Accept": PROTOBUF}
    made = await client.post(path, content=body, headers=sent)
    assert made.status_code == 201, made.text
    stored = (await client.get(f"{path}/xs.example.com")).json()
    assert stored["spec"]["versions"][0]["schema"]["openAPIV3Schema"] == schema
    listed = await client.get(path, headers={"Accept": PROTOBUF})
    assert listed.status_code == 200
    found = _read(await client.get(f"{path}/xs.example.com", headers={"Accept": PROTOBUF}), message)[2]
    properties = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    assert properties["list"]["items"] == {"type": "string"}
    assert properties["map"]["additionalProperties"] == {"type": "integer", "minimum": 0}
    assert properties["open"]["additionalProperties"] is True
    assert properties["some"]["enum"] == ["a", None]
