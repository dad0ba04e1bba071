"""The API server in memory responds as a real one to the same requests."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_shared.client.rest import Client, PatchType
from dra_shared.jsontypes import JsonObject

from tests.support.fakeapi import FakeApi

_MAPS = "/api/v1/namespaces/default/configmaps"
_CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
_PODS = "/api/v1/namespaces/default/pods"
_REQUEST = {
    "name": "gpu",
    "exactly": {"deviceClassName": "gpu.example.com", "allocationMode": "ExactCount", "count": 1},
}
_COMPARED = ("namespace", "labels", "annotations", "finalizers")
_POD_SPEC = {"containers": [{"name": "c", "image": "busybox"}]}


class _Session:
    """Sends requests, and keeps the comparable parts of the responses."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._names: dict[str, str] = {}
        self.answers: list[Any] = []

    async def send(self, method: str, path: str, body: Any = None, **options: Any) -> JsonObject:
        content = None if body is None else json.dumps(body).encode()
        response = await self._client.raw(method, path, content=content, **options)
        answer: JsonObject = response.json()
        self.answers.append((method, path, response.status_code, self._comparable(answer)))
        return answer

    async def watch(self, path: str, count: int, **params: str) -> None:
        """Watch until there have been that many events."""
        response = await self._client.stream("GET", path, params={"watch": "true", **params})
        events: list[Any] = []
        async for line in response.aiter_lines():
            event = json.loads(line)
            events.append((event["type"], self._comparable(event["object"])))
            if len(events) == count:
                break
        await response.aclose()
        self.answers.append(("WATCH", path, response.status_code, events))

    def _comparable(self, answer: JsonObject) -> Any:
        if answer.get("kind") == "Status":
            message = answer.get("message", "")
            for value, name in self._names.items():
                message = message.replace(value, name)
            return answer["status"], answer.get("reason"), message
        if "items" in answer:
            return [self._comparable(item) for item in answer["items"]]
        meta = answer["metadata"]
        shown = {key: meta[key] for key in _COMPARED if meta.get(key)}
        shown["deleted"] = "deletionTimestamp" in meta
        shown["created"] = "creationTimestamp" in meta
        prefix = meta.get("generateName")
        shown["name"] = f"{prefix}*" if prefix and meta["name"].startswith(prefix) else meta["name"]
        # Uids and revisions differ, so only their equality can be compared.
        for key in ("uid", "resourceVersion"):
            shown[key] = self._names.setdefault(meta[key], f"{key} {len(self._names)}")
        shown["data"] = answer.get("data")
        shown["node"] = answer.get("spec", {}).get("nodeName")
        if "devices" in answer.get("spec", {}):
            shown["spec"], shown["status"] = answer.get("spec"), answer.get("status") or {}
        return shown


def _map(name: str, data: JsonObject | None = None, **meta: Any) -> JsonObject:
    return {"metadata": {"name": name, **meta}, "data": data or {"k": "v"}}


async def _create(session: _Session) -> None:
    await session.send("POST", _MAPS, _map("a"))
    await session.send("POST", _MAPS, _map("a"))
    await session.send("GET", f"{_MAPS}/a")
    await session.send("GET", f"{_MAPS}/b")
    await session.send("GET", f"{_CLAIMS}/b")
    await session.send("GET", "/api/v1/namespaces/default/nonsense/b")
    generated = await session.send("POST", _MAPS, {"metadata": {"generateName": "some-"}, "data": {"k": "v"}})
    again = await session.send("POST", _MAPS, {"metadata": {"generateName": "some-"}, "data": {"k": "v"}})
    assert generated["metadata"]["name"] != again["metadata"]["name"]


async def _list(session: _Session) -> None:
    for name, labels in (("b", {"x": "1"}), ("a", {"x": "2"}), ("c", {})):
        await session.send("POST", _MAPS, _map(name, labels=labels))
    for query in ("", "?labelSelector=x", "?labelSelector=x%3D1", "?fieldSelector=metadata.name%3Dc"):
        path, _, text = f"{_MAPS}{query}".partition("?")
        name, _, value = text.partition("=")
        await session.send("GET", path, params={name: value.replace("%3D", "=")} if name else None)
    await session.send("GET", "/api/v1/configmaps", params={"fieldSelector": "metadata.namespace=default"})


async def _update(session: _Session) -> None:
    old = await session.send("POST", _MAPS, _map("a"))
    await session.send("PUT", f"{_MAPS}/a", {**old, "data": {"k": "new"}})
    await session.send("PUT", f"{_MAPS}/a", {**old, "data": {"k": "newer"}})
    await session.send("PUT", f"{_MAPS}/a", _map("a", {"k": "newest"}))
    await session.send("PUT", f"{_MAPS}/b", _map("b", resourceVersion=old["metadata"]["resourceVersion"]))
    await session.send("PUT", f"{_MAPS}/a", _map("a", uid="another"))


async def _update_a_status(session: _Session) -> None:
    spec = {"devices": {"requests": [_REQUEST]}}
    old = await session.send("POST", _CLAIMS, {"metadata": {"name": "c"}, "spec": spec, "status": {}})
    consumer = {"resource": "pods", "name": "p", "uid": "uid-p"}
    allocation = {"devices": {"results": [{"request": "gpu", "driver": "d.io", "pool": "p", "device": "d"}]}}
    status = {"allocation": allocation, "reservedFor": [consumer]}
    await session.send("PUT", f"{_CLAIMS}/c", {**old, "status": status})
    new = await session.send("GET", f"{_CLAIMS}/c")
    await session.send("PUT", f"{_CLAIMS}/c/status", {**new, "spec": {"devices": {}}, "status": status})
    await session.send("PUT", f"{_CLAIMS}/c/status", {**old, "status": status})
    await session.send("GET", f"{_CLAIMS}/c")


async def _patch(session: _Session) -> None:
    old = await session.send("POST", _MAPS, _map("a", labels={"x": "1", "y": "2"}))
    meta = old["metadata"]
    merge, strategic = PatchType.MERGE.value, PatchType.STRATEGIC.value
    for content_type, body in (
        (merge, {"data": {"k": None, "other": "v"}, "metadata": {"labels": {"x": None}}}),
        (strategic, {"data": {"more": "v"}, "metadata": {"annotations": {"a": "b"}}}),
        (PatchType.JSON.value, [{"op": "replace", "path": "/data/more", "value": "w"}]),
        (merge, {"metadata": {"resourceVersion": meta["resourceVersion"]}, "data": {"k": "old"}}),
        (strategic, {"metadata": {"resourceVersion": meta["resourceVersion"]}, "data": {"k": "old"}}),
        (strategic, {"metadata": {"uid": meta["uid"]}, "data": {"k": "same"}}),
        (strategic, {"metadata": {"uid": "another"}, "data": {"k": "other"}}),
    ):
        await session.send("PATCH", f"{_MAPS}/a", body, content_type=content_type)
    await session.send("PATCH", f"{_MAPS}/none", {"data": {}}, content_type=merge)


async def _patch_a_status(session: _Session) -> None:
    spec = {"devices": {"requests": [_REQUEST]}}
    claim = await session.send("POST", _CLAIMS, {"metadata": {"name": "c"}, "spec": spec})
    allocation = {"devices": {"results": [{"request": "gpu", "driver": "d.io", "pool": "p", "device": "d"}]}}
    uid = claim["metadata"]["uid"]

    async def patch(content_type: PatchType, status: JsonObject) -> None:
        body = {"metadata": {"uid": uid}, "status": status}
        await session.send("PATCH", f"{_CLAIMS}/c/status", body, content_type=content_type.value)

    def pod(name: str) -> JsonObject:
        return {"resource": "pods", "name": name, "uid": f"uid-{name}"}

    await patch(PatchType.MERGE, {"allocation": allocation, "reservedFor": [pod("p")]})
    await patch(PatchType.STRATEGIC, {"reservedFor": [pod("q")]})
    await patch(PatchType.STRATEGIC, {"reservedFor": [{"$patch": "delete", "uid": "uid-p"}]})
    await patch(PatchType.MERGE, {"reservedFor": [pod("r")]})
    await patch(PatchType.MERGE, {"reservedFor": None, "allocation": None})


async def _delete(session: _Session) -> None:
    old = await session.send("POST", _MAPS, _map("a"))
    uid, version = old["metadata"]["uid"], old["metadata"]["resourceVersion"]
    await session.send("PUT", f"{_MAPS}/a", {**old, "data": {"k": "new"}})
    await session.send("DELETE", f"{_MAPS}/a", {"preconditions": {"uid": "another"}})
    await session.send("DELETE", f"{_MAPS}/a", {"preconditions": {"resourceVersion": version}})
    await session.send("DELETE", f"{_MAPS}/a", {"preconditions": {"uid": uid}})
    await session.send("DELETE", f"{_MAPS}/a")
    again = await session.send("POST", _MAPS, _map("a"))
    assert again["metadata"]["uid"] != uid


async def _delete_with_finalizers(session: _Session) -> None:
    await session.send("POST", _MAPS, _map("a", finalizers=["example.com/one", "example.com/two"]))
    await session.send("DELETE", f"{_MAPS}/a")
    await session.send("DELETE", f"{_MAPS}/a")
    merge = PatchType.MERGE.value
    for left in (["example.com/two"], []):
        body = {"metadata": {"finalizers": left}}
        await session.send("PATCH", f"{_MAPS}/a", body, content_type=merge)
    await session.send("GET", f"{_MAPS}/a")


async def _delete_all(session: _Session) -> None:
    for name in "ab":
        await session.send("POST", _MAPS, _map(name, labels={"x": name}))
    await session._client.raw("DELETE", _MAPS, params={"labelSelector": "x=a"})
    await session.send("GET", _MAPS, params={"labelSelector": "x"})


async def _bind(session: _Session) -> None:
    await session.send("POST", _PODS, {"metadata": {"name": "p"}, "spec": _POD_SPEC})
    for node in "ab":
        body = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": node}}
        await session.send("POST", f"{_PODS}/p/binding", body)
    body = {"metadata": {"name": "q"}, "target": {"kind": "Node", "name": "a"}}
    await session.send("POST", f"{_PODS}/q/binding", body)
    await session.send("GET", f"{_PODS}/p")


async def _watch(session: _Session) -> None:
    first = await session.send("POST", _MAPS, _map("a", labels={"x": "1"}))
    since = first["metadata"]["resourceVersion"]
    await session.send("POST", _MAPS, _map("b"))
    await session.send("PUT", f"{_MAPS}/a", _map("a", {"k": "new"}))
    await session.send("PUT", f"{_MAPS}/b", _map("b", {"k": "new"}, labels={"x": "1"}))
    await session.send("DELETE", f"{_MAPS}/b")
    await session.send("POST", _MAPS, _map("b", labels={"x": "1"}))
    await session.watch(_MAPS, 5, resourceVersion=since)
    await session.watch(_MAPS, 4, resourceVersion=since, labelSelector="x")
    await session.watch(_MAPS, 3, resourceVersion=since, fieldSelector="metadata.name=b")
    await session.watch(_MAPS, 1, fieldSelector="metadata.name=b")


@asynccontextmanager
async def _real_server(data: Path) -> AsyncIterator[Client]:
    async with (
        ApiServer(Config(port=0, data=data, database=IN_MEMORY)) as server,
        Client(server.url) as client,
    ):
        # Pods are refused in a namespace without its service account.
        await client.raw(
            "POST",
            "/api/v1/namespaces/default/serviceaccounts",
            content=json.dumps({"metadata": {"name": "default"}}).encode(),
        )
        yield client


@pytest.mark.parametrize(
    "script",
    [
        _create,
        _list,
        _update,
        _update_a_status,
        _patch,
        _patch_a_status,
        _delete,
        _delete_with_finalizers,
        _delete_all,
        _bind,
        _watch,
    ],
    ids=lambda script: script.__name__.removeprefix("_"),
)
async def test_the_api_server_in_memory_responds_as_a_real_one(
    script: Callable[[_Session], Awaitable[None]], tmp_path: Path
) -> None:
    async with _real_server(tmp_path) as client:
        real = _Session(client)
        await script(real)
    memory = _Session(FakeApi().client())
    await script(memory)
    for expected, answer in zip(real.answers, memory.answers, strict=True):
        assert answer == expected
