"""Test that each subresource of a pod changes only its own fields."""

import copy
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_shared.jsontypes import JsonObject

PODS = "/api/v1/namespaces/default/pods"
POD: JsonObject = {
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}]},
}
DEBUGGER: JsonObject = {"name": "debug", "image": "busybox"}


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    config = Config(port=0, data=tmp_path, database=IN_MEMORY)
    async with ApiServer(config) as server, httpx.AsyncClient(base_url=server.url, timeout=30) as made:
        await made.post(PODS, json=POD)
        yield made


async def put(client: httpx.AsyncClient, sub: str, spec: JsonObject) -> httpx.Response:
    obj: JsonObject = (await client.get(f"{PODS}/p")).json()
    obj["spec"] |= copy.deepcopy(spec)
    return await client.put(f"{PODS}/p/{sub}", json=obj)


async def test_ephemeral_containers_can_only_be_added(client: httpx.AsyncClient) -> None:
    wanted = {"ephemeralContainers": [DEBUGGER], "hostname": "other"}
    made = (await put(client, "ephemeralcontainers", wanted)).json()
    assert [container["name"] for container in made["spec"]["ephemeralContainers"]] == ["debug"]
    assert "hostname" not in made["spec"]
    assert made["metadata"]["generation"] == 2
    gone = await put(client, "ephemeralcontainers", {"ephemeralContainers": []})
    assert gone.status_code == 422
    assert "may not be removed" in gone.json()["message"]


async def test_a_resize_changes_resources_only(client: httpx.AsyncClient) -> None:
    containers = [{"name": "c", "image": "other", "resources": {"requests": {"cpu": "2"}}}]
    answer = await put(client, "resize", {"containers": containers})
    assert answer.status_code == 200, answer.text
    found = answer.json()["spec"]["containers"][0]
    assert (found["image"], found["resources"]) == ("x", {"requests": {"cpu": "2"}})


async def test_a_resize_cannot_change_the_qos_class(client: httpx.AsyncClient) -> None:
    answer = await put(client, "resize", {"containers": [{"name": "c", "image": "x", "resources": {}}]})
    assert answer.status_code == 422


async def test_a_resize_keeps_containers_and_their_other_resources(client: httpx.AsyncClient) -> None:
    async def messages(*containers: JsonObject) -> list[tuple[str, str]]:
        answer = await put(client, "resize", {"containers": list(containers)})
        assert answer.status_code == 422, answer.text
        return [(cause["field"], cause["message"]) for cause in answer.json()["details"]["causes"]]

    one: JsonObject = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    assert await messages({**one, "name": "d"}) == [
        ("spec.containers[0].name", "Forbidden: containers may not be renamed or reordered on resize")
    ]
    assert await messages(one, {"name": "d", "image": "x"}) == [
        ("spec.containers", "Forbidden: containers may not be added or removed on resize")
    ]
    more = {**one, "resources": {"requests": {"cpu": "1", "ephemeral-storage": "1"}}}
    assert await messages(more) == [("spec", "Forbidden: only cpu and memory resources are mutable")]
    memory = {**one, "resources": {"requests": {"memory": "1"}}}
    assert await messages(memory) == [
        ("spec.containers[0].resources.requests", "Forbidden: resource requests cannot be removed"),
    ]


async def test_a_pod_whose_container_has_a_claim_is_not_resized(client: httpx.AsyncClient) -> None:
    resources = {"requests": {"cpu": "1"}, "claims": [{"name": "gpu"}]}
    pod: JsonObject = {
        "metadata": {"name": "q"},
        "spec": {
            "containers": [{"name": "c", "image": "x", "resources": resources}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "a"}],
        },
    }
    made = (await client.post(PODS, json=pod)).json()
    made["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    answer = await client.put(f"{PODS}/q/resize", json=made)
    assert answer.status_code == 422
    expected = 'Pod "q" is invalid: spec: Forbidden: only cpu and memory resources are mutable'
    assert answer.json()["message"] == expected


async def test_a_resize_beyond_the_quota_is_rejected(client: httpx.AsyncClient) -> None:
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"requests.cpu": "3"}}}
    assert (await client.post("/api/v1/namespaces/default/resourcequotas", json=quota)).status_code == 201

    def request_cpu(cpu: str) -> JsonObject:
        return {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}]}

    refused = await put(client, "resize", request_cpu("4"))
    assert refused.status_code == 403
    assert refused.json()["message"] == (
        'pods "p" is forbidden: exceeded quota: q, requested: requests.cpu=3, used: requests.cpu=1, '
        "limited: requests.cpu=3"
    )
    assert (await put(client, "resize", request_cpu("3"))).status_code == 200
    assert (await put(client, "resize", request_cpu("2"))).status_code == 200


async def test_a_pod_gets_the_pull_secrets_of_its_account(client: httpx.AsyncClient) -> None:
    account = {"metadata": {"name": "puller"}, "imagePullSecrets": [{"name": "registry"}]}
    made = await client.post("/api/v1/namespaces/default/serviceaccounts", json=account)
    assert made.status_code == 201
    spec: JsonObject = {"serviceAccountName": "puller", "containers": [{"name": "c", "image": "x"}]}
    pod = (await client.post(PODS, json={"metadata": {"name": "a"}, "spec": spec})).json()
    assert pod["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    spec["imagePullSecrets"] = [{"name": "own"}]
    pod = (await client.post(PODS, json={"metadata": {"name": "b"}, "spec": spec})).json()
    assert pod["spec"]["imagePullSecrets"] == [{"name": "own"}]
