"""Test kubectl's output against its output with kube-apiserver 1.36."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_shared.jsontypes import JsonObject

from tests.support.cases import each_case

DEFAULT = "namespaces/default"
TABLE = {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    config = Config(port=0, data=tmp_path, database=IN_MEMORY, runtime_config="api/all=true")
    async with ApiServer(config) as server, httpx.AsyncClient(base_url=server.url) as made:
        yield made


def _warnings(answer: httpx.Response) -> list[str]:
    return [text.split('"', 1)[1][:-1] for text in answer.headers.get_list("warning")]


async def test_duplicate_pull_secrets_cause_a_warning(client: httpx.AsyncClient) -> None:
    spec = {"containers": [{"name": "c", "image": "x"}], "imagePullSecrets": [{"name": "a"}, {"name": "a"}]}
    answer = await client.post(f"/api/v1/{DEFAULT}/pods", json={"metadata": {"name": "p"}, "spec": spec})
    assert answer.status_code == 201
    assert _warnings(answer) == ['spec.imagePullSecrets[1].name: duplicate name \\"a\\"']


async def test_events_of_events_k8s_io_are_selected_by_the_object_that_they_regard(
    client: httpx.AsyncClient,
) -> None:
    about = {"kind": "Pod", "name": "p", "namespace": "default"}
    event = {"metadata": {"name": "e"}, "involvedObject": about, "reportingComponent": "kubelet"}
    await client.post(f"/api/v1/{DEFAULT}/events", json=event)
    path = f"/apis/events.k8s.io/v1/{DEFAULT}/events"
    selector = "regarding.name=p,reportingController=kubelet"
    answer = await client.get(path, params={"fieldSelector": selector})
    assert [item["metadata"]["name"] for item in answer.json()["items"]] == ["e"]


async def test_replica_sets_are_not_selected_by_their_status(client: httpx.AsyncClient) -> None:
    path = f"/apis/apps/v1/{DEFAULT}/replicasets"
    answer = await client.get(path, params={"fieldSelector": "status.replicas=3"})
    text = '"status.replicas" is not a known field selector: only "metadata.name", "metadata.namespace"'
    assert answer.json()["message"] == text


async def test_flow_schemas_are_shown_in_the_order_that_they_match(client: httpx.AsyncClient) -> None:
    answer = await client.get("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas", headers=TABLE)
    precedences = [row["cells"][2] for row in answer.json()["rows"]]
    assert precedences[0] == 1
    assert precedences == sorted(precedences)


async def test_a_load_balancer_gets_a_virtual_address(client: httpx.AsyncClient) -> None:
    path = f"/api/v1/{DEFAULT}/services"
    spec = {"type": "LoadBalancer", "ports": [{"port": 80}]}
    await client.post(path, json={"metadata": {"name": "s"}, "spec": spec})
    answer = await client.patch(
        f"{path}/s/status",
        json={"status": {"loadBalancer": {"ingress": [{"ip": "9.9.9.9"}, {"hostname": "a.example.com"}]}}},
        headers={"Content-Type": "application/merge-patch+json"},
    )
    assert answer.json()["status"]["loadBalancer"]["ingress"] == [
        {"ip": "9.9.9.9", "ipMode": "VIP"},
        {"hostname": "a.example.com"},
    ]


async def test_dependents_of_jobs_are_orphaned_by_default(client: httpx.AsyncClient) -> None:
    path = f"/apis/batch/v1/{DEFAULT}/jobs"
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}
    for name in ("one", "two"):
        await client.post(path, json={"metadata": {"name": name}, "spec": {"template": template}})
    silent = await client.delete(f"{path}/one")
    assert silent.json()["metadata"]["finalizers"] == ["orphan"]
    assert _warnings(silent) == [
        "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them "
        "or set propagationPolicy=Orphan to suppress this warning"
    ]
    deleted = await client.delete(f"{path}/two", params={"propagationPolicy": "Background"})
    assert (deleted.json()["status"], _warnings(deleted)) == ("Success", [])


async def test_dependents_of_replication_controllers_are_orphaned_by_default(
    client: httpx.AsyncClient,
) -> None:
    path = f"/api/v1/{DEFAULT}/replicationcontrollers"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    await client.post(path, json={"metadata": {"name": "r"}, "spec": {"template": template}})
    answer = await client.delete(f"{path}/r")
    assert (answer.json()["metadata"]["finalizers"], _warnings(answer)) == (["orphan"], [])


@each_case(
    ("block", "problem"),
    [
        (
            {"cidr": "10.0.0.1/8"},
            'ipBlock.cidr: Invalid value: "10.0.0.1/8": must not have bits set beyond the prefix length',
        ),
        (
            {"cidr": "10.0.0.0/8", "except": ["010.1.0.0/16"]},
            'ipBlock.except[0]: Invalid value: "010.1.0.0/16": must not have leading 0s in IP or prefix length',
        ),
        (
            {"cidr": "::ffff:10.0.0.0/104"},
            'ipBlock.cidr: Invalid value: "::ffff:10.0.0.0/104": must not have an IPv4-mapped IPv6 address',
        ),
    ],
)
async def test_non_canonical_ip_ranges_are_rejected(
    client: httpx.AsyncClient, block: JsonObject, problem: str
) -> None:
    path = f"/apis/networking.k8s.io/v1/{DEFAULT}/networkpolicies"
    spec = {"podSelector": {}, "ingress": [{"from": [{"ipBlock": block}]}]}
    answer = await client.post(path, json={"metadata": {"name": "n"}, "spec": spec})
    assert answer.json()["message"] == (
        f'NetworkPolicy.networking.k8s.io "n" is invalid: spec.ingress[0].from[0].{problem}'
    )


@each_case(
    ("address", "problem"),
    [("1.2.3.04", "must not have leading 0s"), ("::ffff:1.2.3.4", "must not be an IPv4-mapped IPv6 address")],
)
async def test_non_canonical_ip_addresses_are_rejected(
    client: httpx.AsyncClient, address: str, problem: str
) -> None:
    spec = {"containers": [{"name": "c", "image": "x"}], "hostAliases": [{"ip": address, "hostnames": ["a"]}]}
    answer = await client.post(f"/api/v1/{DEFAULT}/pods", json={"metadata": {"name": "p"}, "spec": spec})
    text = f'Pod "p" is invalid: spec.hostAliases[0].ip: Invalid value: "{address}": {problem}'
    assert answer.json()["message"] == text


@each_case("name", ["default", "kube-public", "kube-system"])
async def test_system_namespaces_cannot_be_deleted(client: httpx.AsyncClient, name: str) -> None:
    answer = await client.delete(f"/api/v1/namespaces/{name}")
    text = f'namespaces "{name}" is forbidden: this namespace may not be deleted'
    assert (answer.status_code, answer.json()["message"]) == (403, text)


async def test_a_json_patch_that_replaces_a_missing_member_adds_it(client: httpx.AsyncClient) -> None:
    path = f"/api/v1/{DEFAULT}/configmaps"
    await client.post(path, json={"metadata": {"name": "c"}, "data": {"a": "b"}})
    patch = [
        {"op": "replace", "path": "/data/x", "value": "y"},
        {"op": "replace", "path": "/data/a", "value": "c"},
    ]
    headers = {"Content-Type": "application/json-patch+json"}
    answer = await client.patch(f"{path}/c", json=patch, headers=headers)
    assert answer.json()["data"] == {"a": "c", "x": "y"}
    lost = [{"op": "replace", "path": "/nope/x", "value": "y"}]
    assert (await client.patch(f"{path}/c", json=lost, headers=headers)).status_code == 422


async def test_logs_of_a_pod_on_a_missing_node_are_an_error(client: httpx.AsyncClient) -> None:
    spec = {"nodeName": "gone", "containers": [{"name": "c", "image": "x"}]}
    await client.post(f"/api/v1/{DEFAULT}/pods", json={"metadata": {"name": "p"}, "spec": spec})
    answer = await client.get(f"/api/v1/{DEFAULT}/pods/p/log")
    assert (answer.status_code, answer.json()["message"]) == (404, 'pods "gone" not found')


async def test_responses_are_indented_for_curl_and_browsers(client: httpx.AsyncClient) -> None:
    path = f"/api/v1/{DEFAULT}/configmaps/nope"
    read = '{\n  "kind": "Status",\n  "apiVersion": "v1",\n  "metadata": {},\n'
    asked = await client.get(path, params={"pretty": "true"})
    assert asked.text.startswith(read)
    curl = {"User-Agent": "curl/8.5.0"}
    assert (await client.get(path, headers=curl)).text.startswith(read)
    assert "\n" not in (await client.get(path, headers=curl, params={"pretty": "false"})).text
    assert "\n" not in (await client.get(path)).text


async def test_a_single_object_can_be_watched_below_api_v1_watch(client: httpx.AsyncClient) -> None:
    path = f"/api/v1/{DEFAULT}/configmaps"
    for name in ("a", "b"):
        await client.post(path, json={"metadata": {"name": name}})
    answer = await client.get(f"/api/v1/watch/{DEFAULT}/configmaps/b", params={"timeoutSeconds": "1"})
    (event,) = map(json.loads, answer.text.splitlines())
    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "b")


async def test_namespaces_cannot_be_deleted_as_a_collection(client: httpx.AsyncClient) -> None:
    answer = await client.delete("/api/v1/namespaces")
    text = "the server does not allow this method on the requested resource"
    assert (answer.status_code, answer.json()["message"]) == (405, text)


async def test_an_indexed_job_is_rejected_if_its_pod_names_would_be_invalid(
    client: httpx.AsyncClient,
) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}
    spec = {"completionMode": "Indexed", "completions": 3, "template": template}
    path = f"/apis/batch/v1/{DEFAULT}/jobs"
    answer = await client.post(path, json={"metadata": {"name": "a.b"}, "spec": spec})
    assert answer.json()["message"] == (
        'Job.batch "a.b" is invalid: metadata.name: Invalid value: "a.b": '
        "will not able to create pod with invalid DNS label: a.b-2"
    )


async def test_a_negative_revision_history_limit_is_accepted_only_for_stateful_sets(
    client: httpx.AsyncClient,
) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    spec = {"revisionHistoryLimit": -1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    path = f"/apis/apps/v1/{DEFAULT}"
    answer = await client.post(f"{path}/statefulsets", json={"metadata": {"name": "s"}, "spec": spec})
    assert (answer.status_code, _warnings(answer)) == (
        201,
        [
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; "
            "a value >= 0 is recommended"
        ],
    )
    refused = await client.post(f"{path}/deployments", json={"metadata": {"name": "d"}, "spec": spec})
    assert refused.status_code == 422
