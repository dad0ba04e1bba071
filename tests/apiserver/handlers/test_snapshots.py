"""Test snapshots of the whole cluster, and restoring them, through HTTP."""

import json
from pathlib import Path

import httpx
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_shared.jsontypes import JsonObject

from tests.support.cases import each_case
from tests.support.waiting import until

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
NODE = {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "8"}}}
POD = {"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "x"}]}}
MERGE = {"Content-Type": "application/merge-patch+json"}
RUNS: JsonObject = {
    "phase": "Running",
    "podIP": "10.0.0.1",
    "conditions": [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}],
    "containerStatuses": [
        {
            "name": "c",
            "containerID": "fake://1",
            "image": "x",
            "imageID": "x",
            "ready": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": "2026-01-02T03:04:05Z"}},
        }
    ],
}


async def _post(client: httpx.AsyncClient, path: str, obj: JsonObject) -> JsonObject:
    made = await client.post(path, json=obj)
    assert made.status_code == 201, made.text
    found: JsonObject = made.json()
    return found


async def _patch(client: httpx.AsyncClient, path: str, change: JsonObject) -> JsonObject:
    changed = await client.patch(path, content=json.dumps(change), headers=MERGE)
    assert changed.status_code == 200, changed.text
    found: JsonObject = changed.json()
    return found


async def _until_served(client: httpx.AsyncClient, path: str, wanted: bool) -> None:
    async def is_so() -> bool:
        return ((await client.get(path)).status_code != 404) is wanted

    await until(is_so)


async def _restore(client: httpx.AsyncClient, snapshot: bytes) -> JsonObject:
    answer = await client.put("/snapshot", content=snapshot)
    assert answer.status_code == 200, answer.text
    found: JsonObject = answer.json()
    return found


async def test_a_restore_reverts_added_changed_and_removed_objects(client: httpx.AsyncClient) -> None:
    kept = await _post(client, MAPS, {"metadata": {"name": "kept"}, "data": {"x": "1"}})
    gone = await _post(client, MAPS, {"metadata": {"name": "gone"}, "data": {"x": "1"}})
    saved = (await client.get("/snapshot")).content
    await _patch(client, f"{MAPS}/kept", {"data": {"x": "2"}})
    await client.delete(f"{MAPS}/gone")
    await _post(client, MAPS, {"metadata": {"name": "new"}})
    before = int((await client.get(MAPS)).json()["metadata"]["resourceVersion"])
    done = await _restore(client, saved)
    assert {name: done[name] for name in ("added", "changed", "removed", "begun")} == {
        "added": 1,
        "changed": 1,
        "removed": 1,
        "begun": [],
    }
    found = {one["metadata"]["name"]: one for one in (await client.get(MAPS)).json()["items"]}
    assert {name: found[name]["data"] for name in ("kept", "gone")} == {
        "kept": {"x": "1"},
        "gone": {"x": "1"},
    }
    assert "new" not in found
    assert found["kept"]["metadata"]["uid"] == kept["metadata"]["uid"]
    assert found["gone"]["metadata"]["creationTimestamp"] == gone["metadata"]["creationTimestamp"]
    # Controllers remember which uids are gone.
    assert found["gone"]["metadata"]["uid"] != gone["metadata"]["uid"]
    assert min(int(found[name]["metadata"]["resourceVersion"]) for name in ("kept", "gone")) > before
    again = await _restore(client, saved)
    assert (again["added"], again["changed"], again["removed"]) == (0, 0, 0)


async def test_watches_continue_across_a_restore(client: httpx.AsyncClient) -> None:
    await _post(client, MAPS, {"metadata": {"name": "a"}, "data": {"x": "1"}})
    saved = (await client.get("/snapshot")).content
    await _patch(client, f"{MAPS}/a", {"data": {"x": "2"}})
    await _post(client, MAPS, {"metadata": {"name": "b"}})
    since = (await client.get(MAPS)).json()["metadata"]["resourceVersion"]
    await _restore(client, saved)
    answer = await client.get(MAPS, params={"watch": "1", "resourceVersion": since, "timeoutSeconds": "1"})
    events = [json.loads(line) for line in answer.text.splitlines()]
    seen = {(one["type"], one["object"]["metadata"]["name"]) for one in events}
    assert seen == {("DELETED", "b"), ("MODIFIED", "a")}
    revisions = [int(one["object"]["metadata"]["resourceVersion"]) for one in events]
    assert revisions == sorted(revisions)
    assert revisions[0] > int(since)


async def test_a_restored_pod_without_containers_is_recreated_with_its_claim(
    client: httpx.AsyncClient,
) -> None:
    await _post(client, "/api/v1/nodes", NODE)
    await _post(client, "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    pod = await _post(client, PODS, POD)
    await _patch(client, f"{PODS}/p/status", {"status": RUNS})
    claim = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": []}}}
    await _post(client, CLAIMS, claim)
    reserved = [{"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]}]
    allocated = {"allocation": {"devices": {}}, "reservedFor": reserved}
    await _patch(client, f"{CLAIMS}/c/status", {"status": allocated})
    saved = (await client.get("/snapshot")).content
    other = {**RUNS["containerStatuses"][0], "containerID": "fake://2", "restartCount": 1}
    await _patch(client, f"{PODS}/p/status", {"status": {"containerStatuses": [other]}})
    done = await _restore(client, saved)
    assert done["begun"] == [{"group": "", "resource": "pods", "key": "default/p"}]
    found = (await client.get(f"{PODS}/p")).json()
    assert found["metadata"]["uid"] != pod["metadata"]["uid"]
    assert found["spec"]["nodeName"] == "n"
    assert {name: found["status"].get(name) for name in ("phase", "podIP", "containerStatuses")} == {
        "phase": "Pending",
        "podIP": None,
        "containerStatuses": None,
    }
    assert [one["type"] for one in found["status"]["conditions"]] == ["PodScheduled"]
    status = (await client.get(f"{CLAIMS}/c")).json()["status"]
    assert status["reservedFor"][0]["uid"] == found["metadata"]["uid"]


async def test_leases_and_heartbeats_are_not_restored(client: httpx.AsyncClient) -> None:
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-02T03:04:05Z"}
    await _post(client, "/api/v1/nodes", {**NODE, "status": {"conditions": [ready]}})
    await _post(client, LEASES, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}})
    saved = (await client.get("/snapshot")).content
    assert b"holderIdentity" not in saved
    await _patch(client, f"{LEASES}/l", {"spec": {"holderIdentity": "b"}})
    later = {**ready, "lastHeartbeatTime": "2026-01-02T03:04:15Z"}
    await _patch(client, "/api/v1/nodes/n/status", {"status": {"conditions": [later]}})
    done = await _restore(client, saved)
    assert (done["added"], done["changed"], done["removed"]) == (0, 0, 0)
    assert (await client.get(f"{LEASES}/l")).json()["spec"]["holderIdentity"] == "b"


async def test_a_past_moment_can_be_saved_and_the_author_is_remembered(client: httpx.AsyncClient) -> None:
    made = await _post(client, MAPS, {"metadata": {"name": "a"}, "data": {"x": "1"}})
    await client.delete(f"{MAPS}/a")
    saved = await client.get(f"/at/{made['metadata']['resourceVersion']}/snapshot")
    assert saved.json()["snapshot"]["revision"] == made["metadata"]["resourceVersion"]
    await _restore(client, saved.content)
    assert (await client.get(f"{MAPS}/a")).json()["data"] == {"x": "1"}
    changes = (await client.get(f"/history{MAPS}/a")).json()["items"]
    assert (changes[-1]["type"], changes[-1]["verb"]) == ("ADDED", "restore")


async def test_custom_resources_are_restored_with_their_definition(client: httpx.AsyncClient) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {"group": "example.com", "names": names, "scope": "Namespaced", "versions": [version]}
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await _post(client, definitions, {"metadata": {"name": "widgets.example.com"}, "spec": spec})
    widgets = "/apis/example.com/v1/namespaces/default/widgets"
    await _until_served(client, widgets, True)
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    await _post(client, widgets, widget)
    saved = (await client.get("/snapshot")).content
    await client.delete(f"{definitions}/widgets.example.com")
    await _until_served(client, widgets, False)
    await _restore(client, saved)
    await _until_served(client, f"{widgets}/w", True)


@each_case(
    ("body", "message"),
    [
        (b"{}", "the body is not a snapshot: Object missing required field `snapshot`"),
        (b"nonsense", "the body is not a snapshot: "),
        (
            b'{"snapshot":{"kubernetes":"1.20","revision":"1","time":""},"items":[]}',
            "the snapshot is of Kubernetes 1.20, this cluster is 1.37",
        ),
        (
            b'{"snapshot":{"kubernetes":"1.37","revision":"1","time":""},"items":[{"kind":"X","apiVersion":"y/v1",'
            b'"metadata":{"name":"a"}}]}',
            "the snapshot has a X of y/v1, which this cluster does not know",
        ),
    ],
)
async def test_invalid_snapshots_are_rejected(client: httpx.AsyncClient, body: bytes, message: str) -> None:
    before = (await client.get("/api/v1/namespaces")).json()["items"]
    answer = await client.put("/snapshot", content=body)
    assert (answer.status_code, message in answer.json()["message"]) == (400, True)
    assert (await client.get("/api/v1/namespaces")).json()["items"] == before


async def test_other_methods_and_past_writes_are_refused(client: httpx.AsyncClient) -> None:
    for method, path in (("POST", "/snapshot"), ("PUT", "/at/-1s/snapshot"), ("GET", "/history/snapshot")):
        assert (await client.request(method, path, content=b"{}")).status_code == 405


@each_case("header", [{"Origin": "http://evil.example"}, {"Host": "evil.example"}])
async def test_requests_of_other_origins_cannot_save_or_restore(
    client: httpx.AsyncClient, header: dict[str, str]
) -> None:
    saved = (await client.get("/snapshot")).content
    assert (await client.get("/snapshot", headers=header)).status_code == 403
    assert (await client.put("/snapshot", headers=header, content=saved)).status_code == 403
    assert (await client.get("/insight/classes", headers=header)).status_code == 403


async def test_saving_and_restoring_require_permissions(tmp_path: Path) -> None:
    config = Config(port=0, data=tmp_path, database=IN_MEMORY, authorization_mode="RBAC")
    async with ApiServer(config) as server, httpx.AsyncClient(base_url=server.url) as client:
        someone = {"Impersonate-User": "someone"}
        assert (await client.get("/snapshot", headers=someone)).status_code == 403
        refused = await client.put("/snapshot", content=b"{}", headers=someone)
        assert (refused.status_code, "/snapshot" in refused.json()["message"]) == (403, True)
