"""Test that a running server serves defined resources, and stops when their definition is deleted."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from dra_apiserver.config import Config
from dra_apiserver.errors import server_error
from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.kinds.custom.follow import RESOURCE, Definitions
from dra_apiserver.server import ApiServer
from dra_apiserver.storage import Put, Record, Remove
from dra_shared.jsontypes import JsonObject

from tests.support.waiting import until

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
DEFINITION: JsonObject = {
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
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    async with ApiServer(config(tmp_path)) as made:
        yield made


@pytest.fixture
async def client(server: ApiServer) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=server.url, timeout=30) as made:
        yield made


async def until_established(client: httpx.AsyncClient) -> JsonObject:
    async def check() -> JsonObject | None:
        found: JsonObject = (await client.get(f"{CRDS}/widgets.example.com")).json()
        conditions = found.get("status", {}).get("conditions") or ()
        established = any(one["type"] == "Established" and one["status"] == "True" for one in conditions)
        return found if established else None

    return await until(check, every=0.01)


async def until_gone(client: httpx.AsyncClient, path: str) -> None:
    async def check() -> bool:
        return (await client.get(path)).status_code == 404

    await until(check, every=0.01)


async def test_custom_resources_are_served_and_deleted_with_their_definition(
    client: httpx.AsyncClient,
) -> None:
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


def get_stored(server: ApiServer) -> JsonObject:
    record = server.store.get(RESOURCE, "widgets.example.com")
    assert record is not None
    return record.object()


async def make_again(server: ApiServer, client: httpx.AsyncClient) -> None:
    """Delete the definition, and create another one of the same name with an object."""
    assert (await client.delete(f"{CRDS}/widgets.example.com")).status_code == 200
    await until_gone(client, f"{CRDS}/widgets.example.com")
    assert (await client.post(CRDS, json=DEFINITION)).status_code == 201
    await until_established(client)
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    assert (await client.post(WIDGETS, json=widget)).status_code == 201


async def test_a_definition_that_another_server_established_is_served_at_once(
    server: ApiServer, client: httpx.AsyncClient
) -> None:
    assert (await client.post(CRDS, json=DEFINITION)).status_code == 201
    await until_established(client)
    definition = get_stored(server)
    assert (await client.delete(f"{CRDS}/widgets.example.com")).status_code == 200
    await until_gone(client, f"{CRDS}/widgets.example.com")
    await until_gone(client, WIDGETS)
    found: list[Kind | None] = []
    loop = asyncio.get_running_loop()

    def look() -> None:
        # A request that waited for this revision is answered before any other task runs.
        loop.call_soon(lambda: found.append(server.api.registry.get("example.com", "widgets")))

    collection = server.store.collection(RESOURCE)
    collection.listen(look)
    await server.store.write(RESOURCE, "widgets.example.com", lambda _: Put(definition))
    await until(lambda: found)
    collection.ignore(look)
    assert found[0] is not None


async def test_definitions_are_watched_again_after_a_database_failure(
    server: ApiServer, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = server.store.write
    failures: list[str] = []

    async def fail_once(
        resource: tuple[str, str], key: str, change: Any, dry_run: bool = False
    ) -> Record | None:
        if resource == RESOURCE and server.store.get(RESOURCE, key) is not None and not failures:
            failures.append(key)
            raise server_error("storage: the database is away")
        return await write(resource, key, change, dry_run)

    monkeypatch.setattr(server.store, "write", fail_once)
    assert (await client.post(CRDS, json=DEFINITION)).status_code == 201
    await until_established(client)
    assert failures == ["widgets.example.com"]


async def test_a_delayed_cleanup_does_not_delete_a_recreated_definition(
    server: ApiServer, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await client.post(CRDS, json=DEFINITION)).status_code == 201
    await until_established(client)
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    assert (await client.post(WIDGETS, json=widget)).status_code == 201
    old = get_stored(server)
    old["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    late = Definitions(server.api)
    write = server.store.write

    async def write_late(resource: tuple[str, str], key: str, change: Any) -> Record | None:
        # The server has decided to delete the definition, but it cannot reach the database for a while.
        monkeypatch.undo()
        await make_again(server, client)
        return await write(resource, key, change)

    monkeypatch.setattr(server.store, "write", write_late)
    await late._finish(old)
    # The watch begins only now.
    await late._finish(old)
    assert (await client.get(f"{WIDGETS}/w")).status_code == 200
    assert get_stored(server)["metadata"]["uid"] != old["metadata"]["uid"]


async def test_a_delayed_cleanup_does_not_delete_objects_of_a_recreated_definition(
    server: ApiServer, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await client.post(CRDS, json=DEFINITION)).status_code == 201
    await until_established(client)
    assert (await client.delete(f"{CRDS}/widgets.example.com")).status_code == 200
    await until_gone(client, f"{CRDS}/widgets.example.com")
    # An object that was created while the definition was being deleted.
    left: JsonObject = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w", "namespace": "default", "uid": "of-before"},
    }
    place = ("example.com", "widgets")
    await server.store.write(place, "default/w", lambda _: Put(left))
    write = server.store.write

    async def write_late(resource: tuple[str, str], key: str, change: Any) -> Record | None:
        monkeypatch.undo()
        await write(place, "default/w", lambda now: Remove(now.object()) if now else None)
        assert (await client.post(CRDS, json=DEFINITION)).status_code == 201
        await until_established(client)
        widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
        assert (await client.post(WIDGETS, json=widget)).status_code == 201
        return await write(resource, key, change)

    monkeypatch.setattr(server.store, "write", write_late)
    await Definitions(server.api)._clear(place)
    assert server.store.get(place, "default/w") is not None


async def made_with_finalizer(client: httpx.AsyncClient, name: str) -> None:
    metadata = {"name": name, "finalizers": ["example.com/mine"]}
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata}
    assert (await client.post(WIDGETS, json=widget)).status_code == 201


async def until_ending(client: httpx.AsyncClient) -> JsonObject:
    async def check() -> JsonObject | None:
        found: JsonObject = (await client.get(f"{WIDGETS}/w")).json()
        return found if found["metadata"].get("deletionTimestamp") else None

    return await until(check, every=0.01)


def condition(definition: JsonObject) -> tuple[str, str, str]:
    (found,) = [one for one in definition["status"]["conditions"] if one["type"] == "Terminating"]
    return found["status"], found["reason"], found["message"]


async def let_go(client: httpx.AsyncClient) -> None:
    patched = await client.patch(
        f"{WIDGETS}/w",
        json={"metadata": {"finalizers": None}},
        headers={"Content-Type": "application/merge-patch+json"},
    )
    assert patched.status_code == 200
    await until_gone(client, f"{CRDS}/widgets.example.com")


async def test_deletion_of_a_definition_waits_for_objects_with_finalizers(client: httpx.AsyncClient) -> None:
    """Check that no object can be created meanwhile (apiextensions' `forbidCreateAdmission`), but objects can
    change.
    """
    assert (await client.post(CRDS, json=DEFINITION)).status_code == 201
    await until_established(client)
    await made_with_finalizer(client, "w")
    plain = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "plain"}}
    assert (await client.post(WIDGETS, json=plain)).status_code == 201
    assert (await client.delete(f"{CRDS}/widgets.example.com")).status_code == 200
    await until_ending(client)
    await until_gone(client, f"{WIDGETS}/plain")
    definition = (await client.get(f"{CRDS}/widgets.example.com")).json()
    progress = ("True", "InstanceDeletionInProgress", "CustomResource deletion is in progress")
    assert condition(definition) == progress
    text = "create not allowed while custom resource definition is terminating"
    applied = {"Content-Type": "application/apply-patch+yaml"}
    for dry_run in ("", "&dryRun=All"):
        created = await client.post(f"{WIDGETS}?fieldManager=me{dry_run}", json=plain)
        assert (created.status_code, created.json()["reason"]) == (403, "Forbidden")
        assert created.json()["message"] == f'widgets.example.com "plain" is forbidden: {text}'
        path = f"{WIDGETS}/plain?fieldManager=me{dry_run}"
        assert (await client.patch(path, json=plain, headers=applied)).status_code == 403
        assert (await client.put(f"{WIDGETS}/plain?{dry_run}", json=plain)).status_code == 404
    merge = {"Content-Type": "application/merge-patch+json"}
    changed = await client.patch(f"{WIDGETS}/w", json={"spec": {"size": 2}}, headers=merge)
    assert (changed.status_code, changed.json()["spec"]["size"]) == (200, 2)
    await let_go(client)
    await until_gone(client, WIDGETS)


async def test_a_terminating_definition_is_still_terminating_after_a_restart(tmp_path: Path) -> None:
    async with (
        ApiServer(config(tmp_path)) as server,
        httpx.AsyncClient(base_url=server.url, timeout=30) as client,
    ):
        assert (await client.post(CRDS, json=DEFINITION)).status_code == 201
        await until_established(client)
        await made_with_finalizer(client, "w")
        assert (await client.delete(f"{CRDS}/widgets.example.com")).status_code == 200
        await until_ending(client)
    async with (
        ApiServer(config(tmp_path)) as server,
        httpx.AsyncClient(base_url=server.url, timeout=30) as client,
    ):
        await until_ending(client)
        await let_go(client)


async def test_a_definition_that_was_never_established_is_marked_at_deletion(
    client: httpx.AsyncClient,
) -> None:
    other = {**DEFINITION, "metadata": {"name": "gadgets.example.com"}}
    other["spec"] = {**DEFINITION["spec"], "names": {"plural": "gadgets", "kind": "Widget"}}
    assert (await client.post(CRDS, json=DEFINITION)).status_code == 201
    await until_established(client)
    other["metadata"] = {"name": "gadgets.example.com", "finalizers": ["example.com/mine"]}
    assert (await client.post(CRDS, json=other)).status_code == 201
    path = f"{CRDS}/gadgets.example.com"

    async def names_are_refused() -> bool:
        found = (await client.get(path)).json()
        return any(one["status"] == "False" for one in found.get("status", {}).get("conditions") or ())

    await until(names_are_refused, every=0.01)
    assert (await client.delete(path)).status_code == 200

    async def get_finalized() -> JsonObject | None:
        found: JsonObject = (await client.get(path)).json()
        return found if found["metadata"]["finalizers"] == ["example.com/mine"] else None

    found = await until(get_finalized, every=0.01)
    assert condition(found) == ("False", "NeverEstablished", "resource was never established")


@pytest.mark.parametrize("field_validation", ["Ignore", "Warn", "Strict"])
async def test_a_custom_resource_must_name_its_kind(client: httpx.AsyncClient, field_validation: str) -> None:
    """Check that the body names the kind. Upstream infers a missing kind from the address only for built-in kinds."""
    assert (await client.post(CRDS, json=DEFINITION)).status_code == 201
    await until_established(client)
    named = {"metadata": {"name": "w"}}
    text = '{"metadata":{"name":"w"}}'
    missing = f"Object 'Kind' is missing in '{text}'"
    unread = f'Widget in version "v1" cannot be handled as a Widget: {missing}'
    if field_validation != "Ignore":
        unread = f"the object provided is unrecognized (must be of type Widget): {missing} ({text})"
    bodies: list[tuple[JsonObject, int, str]] = [
        (named, 400, unread),
        ({"kind": "Widget"} | named, 400, _other_version("")),
        ({"kind": "Widget", "apiVersion": "example.com/v9"} | named, 400, _other_version("example.com/v9")),
        ({"kind": "Widget", "apiVersion": "v1"} | named, 400, _other_version("v1")),
        (
            {"kind": "Gadget", "apiVersion": "example.com/v1"} | named,
            422,
            'Gadget.example.com "w" is invalid: kind: Invalid value: "Gadget": must be Widget',
        ),
    ]
    assert (await client.post(WIDGETS, json=_add_type(named))).status_code == 201
    for body, code, message in bodies:
        for method, path in (("POST", WIDGETS), ("PUT", f"{WIDGETS}/w"), ("PUT", f"{WIDGETS}/w/status")):
            content = json.dumps(body, separators=(",", ":"))
            answer = await client.request(
                method,
                path,
                content=content,
                params={"fieldValidation": field_validation},
                headers={"Content-Type": "application/json"},
            )
            assert (answer.status_code, answer.json()["message"]) == (code, message), (method, body)


def _add_type(obj: JsonObject) -> JsonObject:
    return {"kind": "Widget", "apiVersion": "example.com/v1"} | obj


def _other_version(found: str) -> str:
    expected = "does not match the expected API version (example.com/v1)"
    return f"the API version in the data ({found}) {expected}"


async def test_unknown_methods_and_paths_of_custom_resources_are_rejected(client: httpx.AsyncClient) -> None:
    """Check unknown methods and paths. Upstream looks for a definition and a verb instead of a route."""
    assert (await client.post(CRDS, json=DEFINITION)).status_code == 201
    await until_established(client)
    assert (await client.post(WIDGETS, json=_add_type({"metadata": {"name": "w"}}))).status_code == 201
    one, kind = f"{WIDGETS}/w", '"widgets.example.com"'
    for method, path, code, message in (
        ("PUT", WIDGETS, 400, "name must be provided"),
        ("PATCH", WIDGETS, 400, "name must be provided"),
        ("OPTIONS", WIDGETS, 405, f" is not supported on resources of kind {kind}"),
        ("OPTIONS", one, 405, f" is not supported on resources of kind {kind}"),
        ("DELETE", f"{one}/status", 405, f"delete is not supported on resources of kind {kind}"),
        ("POST", f"{one}/status", 405, f"create is not supported on resources of kind {kind}"),
        ("GET", f"{one}/scale", 404, 'widgets.example.com "w" not found'),
    ):
        answer = await client.request(method, path, headers={"Content-Type": "application/merge-patch+json"})
        status = answer.json()
        assert (answer.status_code, status["message"]) == (code, message), (method, path)
        assert code == 400 or status["details"]["kind"] == "widgets"
    for method, path in (
        ("GET", "/apis/example.com/v1/gadgets"),
        ("GET", "/apis/example.com/v2/widgets"),
        ("GET", "/apis/example.com/v2"),
        ("GET", "/apis/example.com/v1/widgets/w"),
        ("POST", "/apis/example.com/v1/widgets"),
        ("DELETE", "/apis/example.com/v1/widgets"),
    ):
        answer = await client.request(method, path)
        assert (answer.status_code, answer.text) == (404, "404 page not found\n"), (method, path)
    for path in (WIDGETS, one, f"{one}/status"):
        answer = await client.head(path)
        assert (answer.status_code, answer.content) == (200, b"")
    assert len((await client.get("/apis/example.com/v1/widgets")).json()["items"]) == 1
    # The name in the path of a POST is ignored.
    made = await client.post(one, json=_add_type({"metadata": {"name": "other"}}))
    assert (made.status_code, made.json()["metadata"]["name"]) == (201, "other")
    assert (await client.delete(WIDGETS)).json()["kind"] == "WidgetList"
