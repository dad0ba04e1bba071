"""Test two API servers on one database, or one and a reader, with clients that switch between them."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from dra_apiserver.config import Config
from dra_apiserver.errors import server_error
from dra_apiserver.server import ApiServer
from dra_apiserver.storage import shared
from dra_apiserver.storage.engine import Changes, Commit
from dra_apiserver.storage.postgresql import PostgresqlEngine
from dra_apiserver.storage.records import Change

from tests.support.waiting import until

_MAPS = "/api/v1/namespaces/default/configmaps"

Pair = tuple[httpx.AsyncClient, httpx.AsyncClient]


@pytest.fixture
async def pair(tmp_path: Path, postgres: Callable[[], str]) -> AsyncIterator[Pair]:
    """Return clients of two servers that start at the same time, with one directory for the key that signs tokens."""
    config = Config(port=0, data=tmp_path, relaxed=True, authorization_mode="RBAC", database=postgres())
    configs = [config] * 2
    async with AsyncExitStack() as stack:
        servers = await asyncio.gather(
            *(stack.enter_async_context(ApiServer(each)) for each in configs), return_exceptions=False
        )
        one, other = [
            await stack.enter_async_context(httpx.AsyncClient(base_url=server.url, timeout=30))
            for server in servers
        ]
        yield one, other


def _map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


async def test_a_read_includes_acknowledged_writes_of_the_other_server(pair: Pair) -> None:
    one, other = pair
    for number in range(5):
        created = await one.post(_MAPS, json=_map(f"m{number}"))
        assert created.status_code == 201
        version = created.json()["metadata"]["resourceVersion"]
        assert (await other.get(f"{_MAPS}/m{number}")).json() == created.json()
        listed = (await other.get(_MAPS)).json()
        assert f"m{number}" in [item["metadata"]["name"] for item in listed["items"]]
        created = await one.post(_MAPS, json=_map(f"n{number}"))
        version = created.json()["metadata"]["resourceVersion"]
        listed = (await other.get(_MAPS, params={"resourceVersion": version})).json()
        assert f"n{number}" in [item["metadata"]["name"] for item in listed["items"]]


async def test_an_empty_resource_version_reads_the_latest_state(pair: Pair) -> None:
    one, other = pair
    for number in range(20):
        assert (await one.post(_MAPS, json=_map(f"m{number}"))).status_code == 201
        got = await other.get(f"{_MAPS}/m{number}", params={"resourceVersion": ""})
        assert got.status_code == 200, got.text


async def test_discovery_needs_no_database(
    tmp_path: Path, postgres: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = Config(port=0, data=tmp_path, relaxed=True, database=postgres())
    async with ApiServer(config) as server, httpx.AsyncClient(base_url=server.url, timeout=30) as client:

        async def fresh() -> None:
            raise server_error("storage: the database is away")

        monkeypatch.setattr(server.store, "fresh", fresh)
        monkeypatch.setattr(server.store, "failure", "away")
        for path in ("/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", f"{_MAPS}?resourceVersion=0"):
            assert (await client.get(path)).status_code == 200, path
        assert (await client.get(_MAPS)).status_code == 500
        assert (await client.get("/api/v1/nodes")).status_code == 500


async def test_watches_end_when_the_database_is_unreachable_for_long(
    tmp_path: Path, postgres: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that new watches are refused and connections end, so that a balancer sends clients elsewhere."""
    monkeypatch.setattr(shared, "_LOST", 0.2)
    config = Config(port=0, data=tmp_path, relaxed=True, database=postgres())
    away = threading.Event()
    async with ApiServer(config) as server, httpx.AsyncClient(base_url=server.url, timeout=30) as client:
        engine = server.store.engine
        assert isinstance(engine, PostgresqlEngine)
        changes = engine.changes

        def changes_if_there(after: int, limit: int) -> Changes:
            if away.is_set():
                raise OSError("the network is unreachable")
            return changes(after, limit)

        monkeypatch.setattr(engine, "changes", changes_if_there)
        watch = {"watch": "1", "resourceVersion": str(server.store.revision)}
        async with client.stream("GET", _MAPS, params=watch) as stream:
            assert stream.status_code == 200
            away.set()
            # The watch ends as if its timeout had passed.
            assert [line async for line in stream.aiter_lines()] == []
        refused = await client.get(_MAPS, params=watch)
        assert (refused.status_code, refused.json()["message"]) == (429, "storage is (re)initializing")
        assert (refused.headers["retry-after"], refused.headers["connection"]) == ("1", "close")
        assert (await client.get(_MAPS, params={"resourceVersion": "0"})).status_code == 200
        away.clear()

        async def watches() -> bool:
            return (await client.get(_MAPS, params={**watch, "timeoutSeconds": "1"})).status_code == 200

        await until(watches)


async def test_a_new_namespace_is_usable_at_the_other_server(pair: Pair) -> None:
    one, other = pair
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}}
    assert (await one.post("/api/v1/namespaces", json=namespace)).status_code == 201
    created = await other.post("/api/v1/namespaces/new/configmaps", json=_map("m"))
    assert created.status_code == 201, created.text


async def test_a_terminating_namespace_rejects_objects_at_the_other_server(
    tmp_path: Path, postgres: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = Config(port=0, data=tmp_path, relaxed=True, database=postgres())
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "going"}}
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(ApiServer(config)) for _ in range(2)]
        one, other = [
            await stack.enter_async_context(httpx.AsyncClient(base_url=server.url, timeout=30))
            for server in servers
        ]
        assert (await one.post("/api/v1/namespaces", json=namespace)).status_code == 201
        engine = servers[1].store.engine
        assert isinstance(engine, PostgresqlEngine)
        commit, decided, may = engine.commit, threading.Event(), threading.Event()

        def commit_late(changes: Sequence[Change], applied: int) -> Commit:
            if any(change.event.key.startswith("going/") for change in changes):
                decided.set()
                may.wait()
            return commit(changes, applied)

        monkeypatch.setattr(engine, "commit", commit_late)
        creating = asyncio.create_task(other.post("/api/v1/namespaces/going/configmaps", json=_map("m")))
        try:
            await until(decided.is_set)
            assert (await one.delete("/api/v1/namespaces/going")).status_code == 200
        finally:
            may.set()
        refused = (await creating).json()
        assert (refused["code"], refused["reason"]) == (403, "Forbidden")
        assert "because it is being terminated" in refused["message"]


async def test_an_update_of_an_older_version_is_a_conflict_everywhere(pair: Pair) -> None:
    one, other = pair
    first = (await one.post(_MAPS, json=_map("m", a="1"))).json()
    assert (await other.put(f"{_MAPS}/m", json={**first, "data": {"a": "2"}})).status_code == 200
    late = await one.put(f"{_MAPS}/m", json={**first, "data": {"a": "3"}})
    assert (late.status_code, late.json()["reason"]) == (409, "Conflict")
    answers = await asyncio.gather(*(client.post(_MAPS, json=_map("both")) for client in pair))
    assert sorted(answer.status_code for answer in answers) == [201, 409]


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_only_one_of_two_updates_of_a_version_succeeds_across_servers(pair: Pair, method: str) -> None:
    # Each server expects the next revision for its own write. The other server's write gets it.
    current = (await pair[0].post(_MAPS, json=_map("m", count="0"))).json()
    for number in range(20):
        changed = {**current, "data": {"count": str(number + 1)}}
        headers = {"Content-Type": "application/json" if method == "PUT" else "application/merge-patch+json"}
        body = orjson.dumps(changed)
        answers = await asyncio.gather(
            *(client.request(method, f"{_MAPS}/m", content=body, headers=headers) for client in pair)
        )
        assert sorted(answer.status_code for answer in answers) == [200, 409]
        current = (await pair[0].get(f"{_MAPS}/m")).json()


async def test_a_quota_holds_for_what_both_servers_create_at_once(pair: Pair) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q"},
        "spec": {"hard": {"count/secrets": "10"}},
    }
    assert (await pair[0].post("/api/v1/namespaces/default/resourcequotas", json=quota)).status_code == 201
    secret = {"apiVersion": "v1", "kind": "Secret"}
    answers = await asyncio.gather(
        *(
            client.post(
                "/api/v1/namespaces/default/secrets",
                json={**secret, "metadata": {"name": f"s{place}-{number}"}},
            )
            for number in range(15)
            for place, client in enumerate(pair)
        )
    )
    assert sorted(answer.status_code for answer in answers) == [201] * 10 + [403] * 20
    refused = next(answer for answer in answers if answer.status_code == 403)
    assert (
        "exceeded quota: q, requested: count/secrets=1, used: count/secrets=10" in refused.json()["message"]
    )


async def test_a_quota_holds_for_pods_of_one_server_and_claims_of_the_other(pair: Pair) -> None:
    device_class = {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}}
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"requests.example.com/gpu": "10"}}}
    amount = {"example.com/gpu": "1"}
    resources = {"requests": amount, "limits": amount}
    pod: dict[str, Any] = {"spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]}}
    request = {"name": "a", "exactly": {"deviceClassName": "gpu"}}
    claim: dict[str, Any] = {"spec": {"devices": {"requests": [request]}}}
    core, dra = "/api/v1/namespaces/default", "/apis/resource.k8s.io/v1"
    for path, obj in ((f"{dra}/deviceclasses", device_class), (f"{core}/resourcequotas", quota)):
        assert (await pair[0].post(path, json=obj)).status_code == 201
    wanted = ((f"{core}/pods", pod), (f"{dra}/namespaces/default/resourceclaims", claim))
    answers = await asyncio.gather(
        *(
            client.post(path, json={"metadata": {"name": f"x{number}"}, **obj})
            for number in range(15)
            for client, (path, obj) in zip(pair, wanted, strict=True)
        )
    )
    assert sorted(answer.status_code for answer in answers) == [201] * 10 + [403] * 20


async def test_no_address_and_no_port_is_given_twice_by_two_servers(pair: Pair) -> None:
    def service(name: str, **spec: Any) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name},
            "spec": {"ports": [{"port": 80}], **spec},
        }

    # All servers use the same address and port.
    for number in range(10):
        wanted = {"clusterIP": f"10.96.7.{number + 1}"}
        answers = await asyncio.gather(
            *(
                client.post(
                    "/api/v1/namespaces/default/services", json=service(f"s{number}-{place}", **wanted)
                )
                for place, client in enumerate(pair)
            )
        )
        assert sorted(answer.status_code for answer in answers) == [201, 422]


async def test_a_watch_follows_both_servers(pair: Pair) -> None:
    one, other = pair
    version = (await one.get(_MAPS)).json()["metadata"]["resourceVersion"]
    query = {"watch": "1", "resourceVersion": version, "fieldSelector": "metadata.name!=kube-root-ca.crt"}
    async with other.stream("GET", _MAPS, params=query) as stream:
        for number, client in enumerate((one, other, one, other)):
            assert (await client.post(_MAPS, json=_map(f"m{number}"))).status_code == 201
        events: list[dict[str, Any]] = []
        async for line in stream.aiter_lines():
            events.append(orjson.loads(line))
            if len(events) == 4:
                break
    assert [event["object"]["metadata"]["name"] for event in events] == ["m0", "m1", "m2", "m3"]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(versions)


async def test_a_kind_defined_at_one_server_is_served_by_the_other(pair: Pair) -> None:
    one, other = pair
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing", "singular": "thing", "listKind": "ThingList"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    }
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert (await one.post(path, json=definition)).status_code == 201
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}}
    things = "/apis/example.com/v1/namespaces/default/things"
    created = await until(lambda: _create_when_served(other, things, thing))
    assert (await one.get(f"{things}/t")).json() == created.json()


async def _create_when_served(
    client: httpx.AsyncClient, path: str, obj: dict[str, Any]
) -> httpx.Response | None:
    answer = await client.post(path, json=obj)
    assert answer.status_code in (201, 404)
    return answer if answer.status_code == 201 else None


async def test_a_token_of_one_server_is_accepted_by_the_other(pair: Pair) -> None:
    one, other = pair
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
    assert (await one.post("/api/v1/namespaces/default/serviceaccounts", json=account)).status_code == 201
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = await one.post("/api/v1/namespaces/default/serviceaccounts/robot/token", json=request)
    token = answer.json()["status"]["token"]
    review = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token},
    }
    found = await other.post("/apis/authentication.k8s.io/v1/tokenreviews", json=review)
    assert found.json()["status"]["user"]["username"] == "system:serviceaccount:default:robot"
