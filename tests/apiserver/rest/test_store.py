"""Test that every way to write an object passes the same pipeline and admission chain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import httpx
import pytest
from dra_apiserver.http import Request
from dra_apiserver.kindkit.strategy import Context
from dra_apiserver.server import ApiServer
from dra_apiserver.storage import Resource
from dra_apiserver.target import Target
from dra_shared.jsontypes import JsonObject

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
APPLY = {"content-type": "application/apply-patch+yaml"}
MANAGER = {"fieldManager": "m"}
MERGE = {"content-type": "application/merge-patch+json"}


@dataclass
class _Recorder:
    """Dynamic admission that records its calls."""

    asked: list[str] = field(default_factory=list)
    loops: bool = False

    async def ready(self) -> None:
        return

    def calls(self, resource: Resource) -> bool:
        return False

    def of(
        self,
        request: Request,
        target: Target,
        options: Callable[[], JsonObject] | None = None,
        named: bool = True,
    ) -> _Recorder:
        return self

    def mutate(
        self,
        obj: JsonObject | None,
        old: JsonObject | None,
        ctx: Context,
        operation: str,
        again: bool = False,
    ) -> bool:
        self.asked.append(f"mutate {operation} {(obj or old or {})['kind']}")
        return False

    def validate(self, obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str) -> None:
        self.asked.append(f"validate {operation} {(obj or old or {})['kind']}")


@pytest.fixture
def calls(server: ApiServer) -> list[str]:
    recorder = _Recorder()
    server.api.dynamic = recorder
    return recorder.asked


def _config_map(**data: str) -> JsonObject:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}


def _deployment(name: str) -> JsonObject:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }


async def test_every_write_is_admitted(client: httpx.AsyncClient, calls: list[str]) -> None:
    url = f"{CONFIG_MAPS}/c"
    await client.post(CONFIG_MAPS, json=_config_map(a="1"))
    await client.put(url, json=_config_map(a="2"))
    await client.patch(url, json={"data": {"b": "1"}}, headers=MERGE)
    await client.patch(url, params=MANAGER, json=_config_map(c="1"), headers=APPLY)
    await client.delete(url)
    await client.patch(url, params=MANAGER, json=_config_map(c="1"), headers=APPLY)
    operations = ["CREATE", "UPDATE", "UPDATE", "UPDATE", "DELETE", "CREATE"]
    assert calls == [f"{step} {one} ConfigMap" for one in operations for step in ("mutate", "validate")]


async def test_a_scale_update_is_admitted_as_a_scale_and_not_as_its_deployment(
    client: httpx.AsyncClient, calls: list[str]
) -> None:
    assert (await client.post(DEPLOYMENTS, json=_deployment("d"))).status_code == 201
    calls.clear()
    patch = {"spec": {"replicas": 3}}
    answer = await client.patch(f"{DEPLOYMENTS}/d/scale", json=patch, headers=MERGE)
    assert answer.json()["spec"] == {"replicas": 3}
    assert calls == ["mutate UPDATE Scale", "validate UPDATE Scale"]


async def test_a_put_that_creates_an_object_is_admitted_like_a_create(client: httpx.AsyncClient) -> None:
    def lease(name: str) -> JsonObject:
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "resourceVersion": ""},
            "spec": {"holderIdentity": "me"},
        }

    posted = await client.post(LEASES, json=lease("posted"))
    put = await client.put(f"{LEASES}/put", json=lease("put"))
    assert (posted.status_code, put.status_code) == (201, 201)
    assert _comparable(posted.json()) == _comparable(put.json())


def _comparable(obj: JsonObject) -> JsonObject:
    own = {"name", "uid", "resourceVersion", "creationTimestamp"}
    meta = {key: value for key, value in obj["metadata"].items() if key not in own}
    for entry in meta["managedFields"]:
        del entry["time"]
    return {**obj, "metadata": meta}


async def test_updates_of_subresources_do_not_create_objects(client: httpx.AsyncClient) -> None:
    status = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "no"}, "status": {}}
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "no"}, "spec": {}}
    for part, body in (("status", status), ("scale", scale)):
        answer = await client.put(f"{DEPLOYMENTS}/no/{part}", json=body)
        assert answer.status_code == 404
        assert answer.json()["message"] == 'deployments.apps "no" not found'
