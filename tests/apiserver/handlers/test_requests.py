"""Test requests to a running server: subresources, deletion, options, limits and representations."""

import asyncio
import gzip
import tracemalloc
from pathlib import Path

import httpx
import pytest
import yaml
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_shared.jsontypes import JsonObject

from tests.support.cases import each_case

PODS = "/api/v1/namespaces/default/pods"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
MERGE = {"Content-Type": "application/merge-patch+json"}


def configmap(name: str, **data: str) -> JsonObject:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def pod(name: str) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "x"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }


def binding(name: str, node: str) -> JsonObject:
    target = {"kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}


async def create(client: httpx.AsyncClient, base: str, obj: JsonObject) -> JsonObject:
    answer = await client.post(base, json=obj)
    assert answer.status_code == 201, answer.text
    made: JsonObject = answer.json()
    return made


async def test_binding_assigns_a_pod_once(client: httpx.AsyncClient) -> None:
    await create(client, PODS, pod("p"))
    nominated = await client.patch(
        f"{PODS}/p/status",
        json={"status": {"nominatedNodeName": "n1"}},
        headers={"Content-Type": "application/merge-patch+json"},
    )
    assert nominated.json()["status"]["nominatedNodeName"] == "n1"
    answer = await client.post(f"{PODS}/p/binding", json=binding("p", "n1"))
    assert answer.status_code == 201
    assert answer.json()["status"] == "Success"
    bound = (await client.get(f"{PODS}/p")).json()
    assert bound["spec"]["nodeName"] == "n1"
    assert "nominatedNodeName" not in bound["status"]
    condition = next(item for item in bound["status"]["conditions"] if item["type"] == "PodScheduled")
    assert (condition["status"], condition["lastProbeTime"]) == ("True", None)
    again = await client.post(f"{PODS}/p/binding", json=binding("p", "n2"))
    assert again.status_code == 409
    assert again.json()["message"] == (
        'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1"'
    )
    unknown = await client.post(f"{PODS}/q/binding", json=binding("q", "n1"))
    assert (unknown.status_code, unknown.json()["message"]) == (404, 'pods "q" not found')


async def test_a_pod_has_the_zone_and_region_of_its_node(client: httpx.AsyncClient) -> None:
    place = {"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r"}
    meta = {"name": "n1", "labels": {**place, "disk": "ssd"}}
    await create(client, "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": meta})
    await create(client, PODS, pod("bound"))
    await client.post(f"{PODS}/bound/binding", json=binding("bound", "n1"))
    placed = pod("placed")
    placed["spec"]["nodeName"] = "n1"
    await create(client, PODS, placed)
    for name in ("bound", "placed"):
        labels = (await client.get(f"{PODS}/{name}")).json()["metadata"]["labels"]
        assert {key: value for key, value in labels.items() if key in (*place, "disk")} == place


async def test_deleting_a_scheduled_pod_sets_its_grace_period(client: httpx.AsyncClient) -> None:
    await create(client, PODS, pod("p"))
    await client.post(f"{PODS}/p/binding", json=binding("p", "n1"))
    marked = (await client.delete(f"{PODS}/p")).json()
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
    assert marked["metadata"]["generation"] == 2
    longer = (await client.delete(f"{PODS}/p?gracePeriodSeconds=60")).json()
    assert longer["metadata"]["resourceVersion"] == marked["metadata"]["resourceVersion"]
    shorter = (await client.request("DELETE", f"{PODS}/p", json={"gracePeriodSeconds": 5})).json()
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 5
    await client.delete(f"{PODS}/p?gracePeriodSeconds=0")
    assert (await client.get(f"{PODS}/p")).status_code == 404


async def test_a_pod_without_node_is_deleted_at_once(client: httpx.AsyncClient) -> None:
    await create(client, PODS, pod("p"))
    assert (await client.delete(f"{PODS}/p")).status_code == 200
    assert (await client.get(f"{PODS}/p")).status_code == 404


async def test_the_propagation_policy_of_a_delete_sets_a_finalizer(client: httpx.AsyncClient) -> None:
    for policy, finalizer in (("Foreground", "foregroundDeletion"), ("Orphan", "orphan")):
        await create(client, CONFIGMAPS, configmap(policy.lower()))
        marked = await client.request(
            "DELETE", f"{CONFIGMAPS}/{policy.lower()}", json={"propagationPolicy": policy}
        )
        assert marked.json()["metadata"]["finalizers"] == [finalizer]
    wrong = await client.delete(f"{CONFIGMAPS}/orphan?propagationPolicy=Sideways")
    assert wrong.status_code == 422
    assert wrong.json()["details"]["causes"][0]["field"] == "propagationPolicy"


async def test_delete_returns_a_status_with_the_deleted_object(client: httpx.AsyncClient) -> None:
    made = await create(client, CONFIGMAPS, configmap("a"))
    answer = (await client.delete(f"{CONFIGMAPS}/a")).json()
    assert answer["status"] == "Success"
    assert answer["details"] == {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}


async def test_delete_collection_deletes_selected_objects(client: httpx.AsyncClient) -> None:
    for name in ("a", "b", "c"):
        obj = configmap(name)
        obj["metadata"]["labels"] = {"keep": str(name == "b").lower()}
        await create(client, CONFIGMAPS, obj)
    answer = await client.delete(f"{CONFIGMAPS}?labelSelector=keep%3Dfalse")
    assert sorted(item["metadata"]["name"] for item in answer.json()["items"]) == ["a", "c"]
    left = (await client.get(CONFIGMAPS)).json()["items"]
    assert [item["metadata"]["name"] for item in left] == ["b"]


async def test_a_namespace_waits_for_its_finalizer(client: httpx.AsyncClient) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}
    await create(client, "/api/v1/namespaces", namespace)
    marked = (await client.delete("/api/v1/namespaces/n")).json()
    assert marked["status"]["phase"] == "Terminating"
    refused = await client.post("/api/v1/namespaces/n/configmaps", json=configmap("a"))
    assert refused.status_code == 403
    assert refused.json()["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    marked["spec"]["finalizers"] = []
    assert (await client.put("/api/v1/namespaces/n/finalize", json=marked)).status_code == 200
    assert (await client.get("/api/v1/namespaces/n")).status_code == 404


async def test_concurrent_patches_without_a_resource_version_never_conflict(
    client: httpx.AsyncClient,
) -> None:
    await create(client, CONFIGMAPS, configmap("a"))
    patches = (
        client.patch(f"{CONFIGMAPS}/a", content=f'{{"data":{{"k{n}":"v"}}}}', headers=MERGE)
        for n in range(30)
    )
    assert {answer.status_code for answer in await asyncio.gather(*patches)} == {200}
    assert len((await client.get(f"{CONFIGMAPS}/a")).json()["data"]) == 30


async def test_a_write_that_changes_nothing_creates_no_revision(client: httpx.AsyncClient) -> None:
    made = await create(client, CONFIGMAPS, configmap("a", x="y"))
    same = (await client.put(f"{CONFIGMAPS}/a", json=configmap("a", x="y"))).json()
    assert same["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_generated_names_are_truncated_to_63_characters(client: httpx.AsyncClient) -> None:
    obj = configmap("")
    obj["metadata"] = {"generateName": "gen-" + "x" * 80}
    made = await create(client, CONFIGMAPS, obj)
    assert len(made["metadata"]["name"]) == 63
    assert made["metadata"]["name"].startswith("gen-x")


async def test_dry_runs_return_the_object_and_store_nothing(client: httpx.AsyncClient) -> None:
    await create(client, CONFIGMAPS, configmap("a", x="y"))
    put = await client.put(f"{CONFIGMAPS}/a?dryRun=All", json=configmap("a", x="z"))
    assert put.json()["data"] == {"x": "z"}
    assert (await client.delete(f"{CONFIGMAPS}/a?dryRun=All")).status_code == 200
    assert (await client.get(f"{CONFIGMAPS}/a")).json()["data"] == {"x": "y"}


async def test_scale_reads_and_writes_replicas(client: httpx.AsyncClient) -> None:
    base = "/apis/apps/v1/namespaces/default/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
    await create(client, base, deployment)
    scale = (await client.get(f"{base}/d/scale")).json()
    assert (scale["kind"], scale["spec"], scale["status"]) == (
        "Scale", {"replicas": 2}, {"replicas": 0, "selector": "a=b"},
    )  # fmt: skip
    patched = await client.patch(f"{base}/d/scale", content='{"spec":{"replicas":5}}', headers=MERGE)
    assert patched.json()["spec"] == {"replicas": 5}
    found = (await client.get(f"{base}/d")).json()
    assert (found["spec"]["replicas"], found["metadata"]["generation"]) == (5, 2)
    negative = await client.put(
        f"{base}/d/scale", json={**scale, "metadata": {"name": "d"}, "spec": {"replicas": -1}}
    )
    assert negative.status_code == 422


async def test_eviction_respects_a_disruption_budget(client: httpx.AsyncClient) -> None:
    for name in ("p", "waits"):
        await create(client, PODS, pod(name))
    running = {"status": {"phase": "Running"}}
    assert (await client.patch(f"{PODS}/p/status", json=running, headers=MERGE)).status_code == 200
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}
    await create(
        client,
        budgets,
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": spec},
    )
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    refused = await client.post(f"{PODS}/p/eviction", json=eviction)
    assert (refused.status_code, refused.json()["reason"]) == (429, "TooManyRequests")
    # Evicting a pod that does not run disrupts nothing.
    waiting = {**eviction, "metadata": {"name": "waits"}}
    assert (await client.post(f"{PODS}/waits/eviction", json=waiting)).status_code == 201
    allowed = {"status": {"disruptionsAllowed": 1}}
    assert (await client.patch(f"{budgets}/b/status", json=allowed, headers=MERGE)).status_code == 200
    assert (await client.post(f"{PODS}/p/eviction", json=eviction)).status_code == 201
    status = (await client.get(f"{budgets}/b")).json()["status"]
    assert (status["disruptionsAllowed"], list(status["disruptedPods"])) == (0, ["p"])
    assert (await client.get(f"{PODS}/p")).status_code == 404


@each_case(
    ("query", "code", "problem"),
    [
        ("tailLines=-1", 422, "tailLines: Invalid value: -1: must be greater than or equal to 0"),
        ("limitBytes=0", 422, "limitBytes: Invalid value: 0: must be greater than 0"),
        ("sinceSeconds=0", 422, "sinceSeconds: Invalid value: 0: must be greater than 0"),
        (
            "sinceSeconds=1&sinceTime=2026-01-02T03:04:05Z",
            422,
            ": Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
        ),
        ("tailLines=x", 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        (
            "sinceTime=today",
            400,
            'parsing time "today" as "2006-01-02T15:04:05Z07:00": cannot parse "today" as "2006"',
        ),
    ],
)
async def test_log_options_are_validated_before_the_pod_is_read(
    client: httpx.AsyncClient, query: str, code: int, problem: str
) -> None:
    answer = await client.get(f"{PODS}/nosuch/log?{query}")
    if code == 422:
        problem = f'PodLogOptions "nosuch" is invalid: {problem}'
    assert (answer.status_code, answer.json()["message"]) == (code, problem)


async def test_logs_are_read_from_the_node_agent(client: httpx.AsyncClient) -> None:
    asked = []

    async def agent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).split()[1].decode())
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for line in (b"one\n", b"two\n"):
            writer.write(b"%x\r\n%s\r\n" % (len(line), line))
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        writer.close()

    listening = await asyncio.start_server(agent, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    await create(client, "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
    await client.patch("/api/v1/nodes/n1/status", json={"status": status}, headers=MERGE)
    await create(client, PODS, pod("p"))
    assert (await client.get(f"{PODS}/p/log")).text == ""
    await client.post(f"{PODS}/p/binding", json=binding("p", "n1"))
    answer = await client.get(f"{PODS}/p/log?follow=true&tailLines=5")
    assert answer.text == "one\ntwo\n"
    assert asked == ["/containerLogs/default/p/c?follow=true&tailLines=5"]
    # This is the form in which upstream reads and writes them.
    odd = "timestamps=yes&previous=0&limitBytes=%2B7&sinceTime=2026-01-02T03:04:05.6%2B01:00"
    await client.get(f"{PODS}/p/log?{odd}")
    assert asked[1].partition("?")[2] == "limitBytes=7&sinceTime=2026-01-02T02%3A04%3A05Z&timestamps=true"
    listening.close()
    await listening.wait_closed()
    unreachable = await client.get(f"{PODS}/p/log")
    assert (unreachable.status_code, "reason" in unreachable.json()) == (500, False)
    assert unreachable.json()["message"].startswith(
        f'Get "http://127.0.0.1:{port}/containerLogs/default/p/c": '
    )
    wrong = await client.get(f"{PODS}/p/log?container=z")
    assert (wrong.status_code, wrong.json()["message"]) == (400, "container z is not valid for pod p")


@pytest.mark.parametrize(
    ("answered", "code", "reason", "message"),
    [
        (400, 400, "BadRequest", "told"),
        (404, 404, "NotFound", "the server could not find the requested resource ( pods/log p)"),
        (500, 500, "InternalError", "Internal error occurred: told"),
    ],
)
async def test_errors_of_the_kubelet_are_reported_as_upstream_does(
    client: httpx.AsyncClient, answered: int, code: int, reason: str, message: str
) -> None:
    async def agent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 %d X\r\nContent-Length: 5\r\n\r\ntold\n" % answered)
        writer.close()

    await create(client, PODS, pod("p"))
    await create(client, "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
    await client.post(f"{PODS}/p/binding", json=binding("p", "n1"))
    homeless = await client.get(f"{PODS}/p/log")
    assert homeless.json()["message"] == "no preferred addresses found; known addresses: []"
    assert (homeless.status_code, "reason" in homeless.json()) == (500, False)
    async with await asyncio.start_server(agent, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        for kind, address in (("ExternalDNS", "n1.example"), ("InternalIP", "127.0.0.1")):
            status = {
                "addresses": [{"type": kind, "address": address}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
            }
            await client.patch("/api/v1/nodes/n1/status", json={"status": status}, headers=MERGE)
            answer = await client.get(f"{PODS}/p/log")
            if kind == "ExternalDNS":
                text = "no preferred addresses found; known addresses: [{ExternalDNS n1.example}]"
                assert answer.json()["message"] == text
    assert (answer.status_code, answer.json()["reason"], answer.json()["message"]) == (code, reason, message)


async def test_too_large_request_bodies_are_rejected(client: httpx.AsyncClient) -> None:
    answer = await client.post(CONFIGMAPS, json=configmap("a", x="y" * (3 << 20)))
    assert (answer.status_code, answer.json()["reason"]) == (413, "RequestEntityTooLarge")
    assert (await client.get("/readyz")).status_code == 200


async def test_large_responses_are_compressed(client: httpx.AsyncClient) -> None:
    await create(client, CONFIGMAPS, configmap("a", x="y" * 200_000))
    packed = await client.get(f"{CONFIGMAPS}/a")
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.json()["data"]["x"] == "y" * 200_000
    plain = await client.get(f"{CONFIGMAPS}/a", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers


@pytest.mark.parametrize(
    ("packed", "code", "message"),
    [
        (gzip.compress(bytes(64 << 20), 9), 413, "limit is 3145728"),
        (gzip.compress(b" ") * 200_000, 413, "limit is 3145728"),
        (gzip.compress(b"{}")[:-9], 400, "unable to decompress the body: unexpected EOF"),
        (gzip.compress(b"{}")[:10] + b"\xff" * 20, 400, "unable to decompress the body: Error -3"),
        (
            b"{}",
            400,
            "unable to decompress the body: Error -3 while decompressing data: incorrect header check",
        ),
    ],
    ids=["large", "many", "short", "damaged", "not packed"],
)
async def test_the_size_of_compressed_bodies_is_limited(
    client: httpx.AsyncClient, packed: bytes, code: int, message: str
) -> None:
    tracemalloc.start()
    try:
        headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
        answer = await client.post(CONFIGMAPS, content=packed, headers=headers)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert answer.status_code == code
    assert message in answer.json()["message"]
    assert most < 32 << 20


async def test_a_query_with_too_many_parameters_counts_as_empty(client: httpx.AsyncClient) -> None:
    await client.post(CONFIGMAPS, json=configmap("a", x="text"))
    for names, found in ((9_999, 0), (10_000, 1)):
        query = "fieldSelector=metadata.name%3Dnone" + "&a" * names
        answer = await client.get(f"{CONFIGMAPS}?{query}")
        assert len(answer.json()["items"]) == found


async def test_compressed_and_yaml_bodies_are_accepted(client: httpx.AsyncClient) -> None:
    text = yaml.safe_dump(configmap("a", x="text")).encode()
    headers = {"Content-Type": "application/yaml", "Content-Encoding": "gzip", "Accept": "application/yaml"}
    answer = await client.post(CONFIGMAPS, content=gzip.compress(text), headers=headers)
    assert answer.status_code == 201
    assert answer.headers["content-type"] == "application/yaml"
    assert yaml.safe_load(answer.text)["data"] == {"x": "text"}


@each_case(
    ("method", "path", "code"),
    [
        ("POST", "/api/v1/configmaps", 405),
        ("GET", "/api/v1/configmaps/a", 404),
        ("GET", "/api/v1/namespaces/default/nodes", 404),
        ("PUT", CONFIGMAPS, 405),
        ("POST", f"{CONFIGMAPS}/a", 405),
        ("GET", f"{PODS}/p/nosuch", 404),
        ("GET", f"{PODS}/p/binding", 405),
        ("GET", "/api/v2/pods", 404),
        ("GET", "/apis/nosuch.example.com/v1/things", 404),
        ("GET", f"{CONFIGMAPS}/a/b/c", 404),
        ("GET", "/%2e%2e/etc", 404),
    ],
)
async def test_unserved_paths_and_methods_are_rejected(
    method: str, path: str, code: int, client: httpx.AsyncClient
) -> None:
    assert (await client.request(method, path)).status_code == code


async def test_access_reviews_allow_everything_without_rbac(client: httpx.AsyncClient) -> None:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}},
    }
    answer = await client.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", json=review)
    assert answer.status_code == 201
    assert answer.json()["status"]["allowed"] is True


@each_case(("subresource", "kind"), [("eviction", "Eviction"), ("binding", "Binding")])
async def test_subresources_of_a_pod_accept_only_its_name(
    subresource: str, kind: str, client: httpx.AsyncClient
) -> None:
    await client.post(PODS, json=pod("p"))
    for name in ("", "q"):
        body = {"metadata": {"name": name}, "target": {"name": "n"}}
        refused = await client.post(f"{PODS}/p/{subresource}", json=body)
        text = f"name in URL does not match name in {kind} object"
        assert (refused.status_code, refused.json()["message"]) == (400, text)
    elsewhere = {"metadata": {"name": "p", "namespace": "other"}, "target": {"name": "n"}}
    refused = await client.post(f"{PODS}/p/{subresource}", json=elsewhere)
    assert "does not match the namespace sent on the request" in refused.json()["message"]


async def test_health_and_metrics_are_served(server: ApiServer, client: httpx.AsyncClient) -> None:
    verbose = (await client.get("/readyz?verbose")).text
    assert "[+]etcd ok" in verbose
    assert verbose.endswith("readyz check passed\n")
    assert (await client.get("/livez/ping")).text == "ok"
    assert (await client.get("/livez/nosuch")).status_code == 404
    server.store.failure = "the disk is full"
    failed = await client.get("/readyz")
    assert failed.status_code == 500
    assert "[-]etcd failed: reason withheld" in failed.text
    server.store.failure = None
    excluded = await client.get("/readyz?exclude=etcd&exclude=x&exclude=b&exclude=x&verbose")
    assert "[+]etcd excluded: ok" in excluded.text
    warning = 'warn: some health checks cannot be excluded: no matches for "b", "x"'
    assert f"\n{warning}\nreadyz check passed\n" in excluded.text
    assert excluded.headers["x-content-type-options"] == "nosniff"
    await client.get(PODS)
    metrics = (await client.get("/metrics")).text
    assert (
        'apiserver_request_total{verb="LIST",dry_run="",group="",version="v1",resource="pods",subresource="",'
        'scope="namespace",component="apiserver",code="200"} 1' in metrics
    )
    assert 'apiserver_request_duration_seconds_bucket{verb="LIST"' in metrics
    assert 'apiserver_storage_objects{resource="namespaces"} 4' in metrics
    assert 'kubernetes_feature_enabled{name="DRAAdminAccess",stage=""} 1' in metrics
    assert 'apiserver_resource_objects{group="",resource="namespaces"} 4' in metrics
    assert 'apiserver_current_inflight_requests{request_kind="mutating"} 0' in metrics
    assert 'apiserver_current_inflight_requests{request_kind="readOnly"} 1' in metrics


async def test_metrics_distinguish_apply_from_other_patches(client: httpx.AsyncClient) -> None:
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}}
    for kind, code in (("apply-patch+yaml", 201), ("merge-patch+json", 200)):
        answer = await client.patch(
            "/api/v1/namespaces/default/configmaps/applied?fieldManager=x",
            json=obj,
            headers={"content-type": f"application/{kind}"},
        )
        assert answer.status_code == code
    counted = [line for line in (await client.get("/metrics")).text.splitlines() if '"configmaps"' in line]
    for verb in ("APPLY", "PATCH"):
        assert [line for line in counted if line.startswith(f'apiserver_request_total{{verb="{verb}"')]


async def test_metrics_count_watches_and_their_events(client: httpx.AsyncClient) -> None:
    namespaces = "/api/v1/namespaces"
    async with client.stream("GET", namespaces, params={"watch": "true"}) as watch:
        lines = watch.aiter_lines()
        for _ in range(4):
            await anext(lines)
        metrics = (await client.get("/metrics")).text
    labels = 'group="",version="v1",resource="namespaces"'
    assert f"apiserver_watch_events_total{{{labels}}} 4" in metrics
    assert (
        f'apiserver_longrunning_requests{{verb="WATCH",{labels},subresource="",scope="cluster",'
        'component="apiserver"} 1' in metrics
    )
    assert 'apiserver_current_inflight_requests{request_kind="readOnly"} 1' in metrics


async def test_a_watch_responds_before_its_first_event(client: httpx.AsyncClient) -> None:
    async with client.stream("GET", CONFIGMAPS, params={"watch": "1", "timeoutSeconds": "30"}) as answer:
        assert answer.status_code == 200
        lines = answer.aiter_lines()
        await create(client, CONFIGMAPS, configmap("a"))
        assert '"type":"ADDED"' in await anext(lines)


async def test_system_namespaces_are_not_recreated_by_a_restart(tmp_path: Path) -> None:
    seen = []
    for _ in range(2):
        async with ApiServer(Config(port=0, data=tmp_path)) as server:
            seen.append(server.store.collection(("", "namespaces")).records["default"].data)
    assert seen[0] == seen[1]


async def test_openapi_is_available_in_protobuf(client: httpx.AsyncClient) -> None:
    wanted = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    answer = await client.get("/openapi/v2", headers={"Accept": wanted})
    assert answer.headers["content-type"] == "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
    assert answer.content.startswith(b"\x0a\x032.0")
    plain = await client.get("/openapi/v2")
    assert (plain.headers["content-type"], plain.json()["swagger"]) == ("application/json", "2.0")
