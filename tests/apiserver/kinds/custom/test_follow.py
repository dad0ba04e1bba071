"""A running server serves what is defined, and nothing any more once the definition is gone."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer

from tests.support.waiting import until

Object = dict[str, Any]
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
DEFINITION: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "size": {"type": "integer"},
                                    "color": {"type": "string", "default": "red"},
                                },
                            },
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}


def config(folder: Path) -> Config:
    return Config(data=folder, port=0, relaxed=True)


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        ApiServer(config(tmp_path)) as server,
        httpx.AsyncClient(base_url=server.url, timeout=30) as made,
    ):
        yield made


async def until_established(client: httpx.AsyncClient) -> Object:
    async def check() -> Object | None:
        found: Object = (await client.get(f"{CRDS}/widgets.example.com")).json()
        conditions = found.get("status", {}).get("conditions") or ()
        established = any(one["type"] == "Established" and one["status"] == "True" for one in conditions)
        return found if established else None

    return await until(check, every=0.01)


async def until_gone(client: httpx.AsyncClient, path: str) -> None:
    async def check() -> bool:
        return (await client.get(path)).status_code == 404

    await until(check, every=0.01)


async def test_objects_of_a_defined_kind_live_and_die_with_it(client: httpx.AsyncClient) -> None:
    assert (await client.get(WIDGETS)).status_code == 404
    assert (await client.post(CRDS, json=DEFINITION)).status_code == 201
    definition = await until_established(client)
    assert definition["status"]["acceptedNames"]["plural"] == "widgets"
    widget = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w"},
        "spec": {"size": 1, "x": 1},
    }
    created = await client.post(WIDGETS, json=widget)
    assert created.status_code == 201
    assert created.json()["spec"] == {"size": 1, "color": "red"}
    assert created.json()["metadata"]["generation"] == 1
    wrong = await client.patch(
        f"{WIDGETS}/w", json={"spec": {"size": "x"}}, headers={"Content-Type": "application/merge-patch+json"}
    )
    assert wrong.status_code == 422
    assert wrong.json()["details"]["causes"][0]["field"] == "spec.size"
    status = await client.patch(
        f"{WIDGETS}/w/status",
        json={"status": {"a": 1}},
        headers={"Content-Type": "application/merge-patch+json"},
    )
    assert status.json()["status"] == {"a": 1}
    table = await client.get(WIDGETS, headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"})
    assert table.json()["rows"][0]["cells"][0] == "w"
    groups = [group["name"] for group in (await client.get("/apis")).json()["groups"]]
    assert "example.com" in groups
    assert (await client.delete(f"{CRDS}/widgets.example.com")).status_code == 200
    await until_gone(client, f"{CRDS}/widgets.example.com")
    await until_gone(client, WIDGETS)
    assert (await client.post(CRDS, json=DEFINITION)).status_code == 201
    await until_established(client)
    assert (await client.get(WIDGETS)).json()["items"] == []


async def test_defined_kinds_are_served_after_a_restart(tmp_path: Path) -> None:
    async with (
        ApiServer(config(tmp_path)) as server,
        httpx.AsyncClient(base_url=server.url, timeout=30) as client,
    ):
        assert (await client.post(CRDS, json=DEFINITION)).status_code == 201
        await until_established(client)
        body = {
            "apiVersion": "example.com/v1",
            "kind": "Widget",
            "metadata": {"name": "w"},
            "spec": {"size": 1},
        }
        assert (await client.post(WIDGETS, json=body)).status_code == 201
    async with (
        ApiServer(config(tmp_path)) as server,
        httpx.AsyncClient(base_url=server.url, timeout=30) as client,
    ):
        assert (await client.get(f"{WIDGETS}/w")).json()["spec"]["size"] == 1
