"""Subresources of a pod change what they are for, and nothing else."""

import copy
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer

Json = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
POD: Json = {
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}]},
}
DEBUGGER: Json = {"name": "debug", "image": "busybox"}


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    config = Config(port=0, data=tmp_path, relaxed=True)
    async with ApiServer(config) as server, httpx.AsyncClient(base_url=server.url) as made:
        await made.post(PODS, json=POD)
        yield made


async def put(client: httpx.AsyncClient, sub: str, spec: Json) -> httpx.Response:
    obj: Json = (await client.get(f"{PODS}/p")).json()
    obj["spec"] |= copy.deepcopy(spec)
    return await client.put(f"{PODS}/p/{sub}", json=obj)


async def test_ephemeral_containers_only_come(client: httpx.AsyncClient) -> None:
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


async def test_a_resize_keeps_the_quality_of_service(client: httpx.AsyncClient) -> None:
    answer = await put(client, "resize", {"containers": [{"name": "c", "image": "x", "resources": {}}]})
    assert answer.status_code == 422
