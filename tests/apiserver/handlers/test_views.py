"""Test requests for the API's past state and for the history of changes, through HTTP."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_shared.retention import parse_retention

from tests.support.cases import each_case

MAPS = "/api/v1/namespaces/default/configmaps"
MERGE = {"Content-Type": "application/merge-patch+json", "User-Agent": "kubectl/v1.36"}


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(
        port=0, data=tmp_path, database=IN_MEMORY, authorization_mode="RBAC", retention=parse_retention("all")
    )


@pytest.fixture
async def revision(client: httpx.AsyncClient) -> str:
    """Create a ConfigMap, change and delete it, and return its first revision."""
    made = await client.post(MAPS, json={"metadata": {"name": "a"}, "data": {"x": "1"}})
    changed = await client.patch(f"{MAPS}/a", content=json.dumps({"data": {"x": "2"}}), headers=MERGE)
    gone = await client.delete(f"{MAPS}/a")
    assert (made.status_code, changed.status_code, gone.status_code) == (201, 200, 200)
    found: str = made.json()["metadata"]["resourceVersion"]
    return found


async def _items(client: httpx.AsyncClient, path: str) -> list[dict[str, Any]]:
    answer = await client.get(path)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


async def test_changes_list_their_author_and_the_changed_fields(
    client: httpx.AsyncClient, revision: str
) -> None:
    added, modified, deleted = await _items(client, f"/history{MAPS}/a?objects=true")
    assert (added["type"], added["revision"], added["verb"]) == ("ADDED", revision, "create")
    assert added["object"]["data"] == {"x": "1"}
    assert modified["changes"] == [{"path": ".data.x", "old": "1", "new": "2"}]
    author = {name: modified[name] for name in ("user", "agent", "manager", "verb")}
    assert author == {"user": "system:admin", "agent": "kubectl/v1.36", "manager": "kubectl", "verb": "patch"}
    assert (deleted["type"], deleted["namespace"], deleted["name"]) == ("DELETED", "default", "a")
    assert added["time"] <= modified["time"] <= deleted["time"]


async def test_changes_of_a_collection_are_paged(client: httpx.AsyncClient, revision: str) -> None:
    newest = (await client.get(f"/history{MAPS}?limit=1")).json()
    assert (newest["more"], [item["type"] for item in newest["items"]]) == (True, ["DELETED"])
    before = str(int(newest["items"][0]["revision"]) - 1)
    assert [item["type"] for item in await _items(client, f"/history{MAPS}?to={before}&limit=1")] == [
        "MODIFIED"
    ]
    oldest = await _items(
        client, f"/history{MAPS}?order=oldest&limit=1&from={int(revision) - 1}&changes=false"
    )
    assert [item["revision"] for item in oldest] == [revision]
    assert len(await _items(client, f"/history{MAPS}?from=-9d")) == 3


async def test_the_api_at_a_revision_returns_past_objects(client: httpx.AsyncClient, revision: str) -> None:
    at = f"/at/{revision}"
    assert (await client.get(f"{at}{MAPS}/a")).json()["data"] == {"x": "1"}
    listed = (await client.get(f"{at}{MAPS}")).json()
    assert listed["metadata"]["resourceVersion"] == revision
    assert [item["data"] for item in listed["items"]] == [{"x": "1"}]
    assert await _items(client, f"/at/now{MAPS}") == []
    assert (await client.get(f"/at/now{MAPS}/a")).status_code == 404
    # kubectl requests these two documents before any object.
    assert (await client.get(f"{at}/api")).json()["kind"] == "APIVersions"
    assert (await client.get(f"{at}/version")).status_code == 200


async def test_lists_at_a_revision_are_paged_and_printed_as_tables(client: httpx.AsyncClient) -> None:
    for name in "abc":
        last = (await client.post(MAPS, json={"metadata": {"name": name}})).json()["metadata"][
            "resourceVersion"
        ]
    await client.delete(MAPS)
    first = (await client.get(f"/at/{last}{MAPS}?limit=2")).json()
    token = first["metadata"]["continue"]
    rest = (await client.get(f"/at/{last}{MAPS}", params={"limit": 2, "continue": token})).json()
    names = [item["metadata"]["name"] for item in [*first["items"], *rest["items"]]]
    assert names == ["a", "b", "c"]
    table = {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
    rows = (await client.get(f"/at/{last}{MAPS}?labelSelector=x!=1", headers=table)).json()["rows"]
    assert [row["cells"][0] for row in rows] == ["a", "b", "c"]


async def test_a_watch_of_the_api_at_a_past_revision_has_no_events(
    client: httpx.AsyncClient, revision: str
) -> None:
    query = "watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1"
    answer = await client.get(f"/at/{revision}{MAPS}?{query}")
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [line["type"] for line in lines] == ["ADDED", "BOOKMARK"]
    assert lines[1]["object"]["metadata"]["resourceVersion"] == revision
    assert (
        await client.get(f"/at/{revision}{MAPS}?watch=1&timeoutSeconds=1&resourceVersion={revision}")
    ).text == ""


async def test_past_revisions_are_read_only(client: httpx.AsyncClient, revision: str) -> None:
    for prefix in (f"/at/{revision}", "/history"):
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            path = MAPS if method == "POST" else f"{MAPS}/a"
            answer = await client.request(method, prefix + path, json={})
            assert (answer.status_code, answer.json()["reason"]) == (405, "MethodNotAllowed")
        assert (await client.get(f"{prefix}/api/v1/namespaces/default/pods/p/log")).status_code == 405
    review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    path = f"/at/{revision}/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    assert (await client.post(path, json=review)).json()["status"]["allowed"] is True


@each_case(
    ("path", "code", "text"),
    [
        (f"/at/yesterday{MAPS}", 400, "not a moment"),
        ("/at/", 400, "a moment must follow"),
        (f"/at/999999{MAPS}", 504, "Too large resource version"),
        (f"/at/-9d{MAPS}", 410, "history that is kept begins after"),
        ("/history?at=x", 400, "not a moment"),
        (f"/history{MAPS}?limit=x", 400, "limit must be a number"),
        (f"/history{MAPS}?order=x", 400, "order must be newest or oldest"),
        ("/history/api/v1/nothing", 404, "could not find"),
    ],
)
async def test_invalid_requests_for_the_past_are_refused(
    client: httpx.AsyncClient, path: str, code: int, text: str
) -> None:
    answer = await client.get(path)
    assert answer.status_code == code
    assert text in answer.json()["message"]


async def test_the_oldest_and_newest_moment_of_the_history_are_reported(
    client: httpx.AsyncClient, revision: str
) -> None:
    bounds = (await client.get(f"/history?at={revision}")).json()
    assert bounds["at"]["revision"] == revision
    assert bounds["oldest"]["revision"] == "1"
    # Nothing has been compacted yet, so the oldest moment has the time of the first event.
    assert bounds["oldest"]["time"] <= bounds["at"]["time"] <= bounds["newest"]["time"]


async def test_permission_to_read_objects_includes_their_past(
    client: httpx.AsyncClient, revision: str
) -> None:
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}
    await client.post(f"{rbac}/roles", json={"metadata": {"name": "r"}, "rules": [rule]})
    subject = {"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"}
    role = {"kind": "Role", "name": "r", "apiGroup": "rbac.authorization.k8s.io"}
    binding = {"metadata": {"name": "b"}, "roleRef": role, "subjects": [subject]}
    assert (await client.post(f"{rbac}/rolebindings", json=binding)).status_code == 201
    alice = {"Impersonate-User": "alice"}
    for prefix in (f"/at/{revision}", "/history"):
        assert (await client.get(f"{prefix}{MAPS}/a", headers=alice)).status_code == 200
        refused = await client.get(f"{prefix}{MAPS}", headers=alice)
        assert (refused.status_code, "cannot list resource" in refused.json()["message"]) == (403, True)
    assert (await client.get("/history", headers=alice)).status_code == 200


async def test_lists_at_exact_revisions_reach_back_to_the_archive(
    client: httpx.AsyncClient, server: ApiServer, revision: str
) -> None:
    server.store.compact(server.store.revision)
    query = {"resourceVersion": revision, "resourceVersionMatch": "Exact"}
    listed = (await client.get(MAPS, params=query)).json()
    assert [item["data"] for item in listed["items"]] == [{"x": "1"}]
    assert [item["data"] for item in await _items(client, f"/at/{revision}{MAPS}?limit=1")] == [{"x": "1"}]
    assert (await client.get(f"/at/{revision}{MAPS}/a")).json()["data"] == {"x": "1"}
    assert [item["type"] for item in await _items(client, f"/history{MAPS}/a")] == [
        "ADDED",
        "MODIFIED",
        "DELETED",
    ]
    # As in upstream, a watch cannot begin at a compacted revision, even if the archive has it.
    watched = await client.get(MAPS, params={"watch": 1, "resourceVersion": revision, "timeoutSeconds": 1})
    assert watched.json()["object"]["reason"] == "Expired"


async def test_net_changes_between_two_moments_are_listed_in_either_direction(
    client: httpx.AsyncClient, revision: str
) -> None:
    await client.post(MAPS, json={"metadata": {"name": "b"}})
    query = f"net=true&from={revision}"
    items = await _items(client, f"/history{MAPS}?{query}")
    assert [(item["type"], item["name"]) for item in items] == [("DELETED", "a"), ("ADDED", "b")]
    changed = await _items(client, f"/history{MAPS}/a?{query}&to={int(revision) + 1}")
    assert [item["changes"] for item in changed] == [[{"path": ".data.x", "old": "1", "new": "2"}]]
    assert "user" not in changed[0]
    # Changes from the later moment back to the earlier one, with the objects as they were at the earlier one.
    back = await _items(client, f"/history{MAPS}?net=true&to={revision}&from=now&objects=true&changes=false")
    assert [(item["type"], item["name"]) for item in back] == [("ADDED", "a"), ("DELETED", "b")]
    assert back[0]["object"]["metadata"]["resourceVersion"] == revision
    undone = await _items(
        client,
        f"/history{MAPS}/a?net=true&from={int(revision) + 1}&to={revision}&objects=true&changes=false",
    )
    assert [(one["type"], one["object"]["data"], "changes" in one) for one in undone] == [
        ("MODIFIED", {"x": "1"}, False)
    ]
    assert (await client.get(f"/history{MAPS}?net=true")).status_code == 400
    assert (await client.get(f"/history{MAPS}?net=true&from=-9d")).status_code == 410
