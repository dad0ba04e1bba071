"""Test metrics.k8s.io against metrics-server, with kubelets whose answers the test sets."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from dra_apiserver.config import Config
from dra_apiserver.schema.protobuf import envelope, read_message
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_shared.service import HealthServer
from starlette.requests import Request
from starlette.responses import Response

_BASE = "/apis/metrics.k8s.io/v1beta1"
_TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(port=0, data=tmp_path, database=IN_MEMORY, metrics_server=True)


class _Kubelet:
    """A fake kubelet. The CPU counters of its nodes grow by half a core, those of its pods by a quarter of a core."""

    def __init__(self) -> None:
        self.seconds = 0
        self.nodes: list[str] = []

    async def metrics(self, request: Request) -> Response:
        node = request.headers["dralab-node"]
        self.nodes.append(node)
        self.seconds += 10
        lines = [
            f"node_cpu_usage_seconds_total {self.seconds / 2} {self.seconds * 1000}",
            f"node_memory_working_set_bytes {1 << 30} {self.seconds * 1000}",
        ]
        for container in ("sidecar", "main"):
            labels = f'{{container="{container}",namespace="ns",pod="on-{node}"}}'
            lines += [
                f"container_cpu_usage_seconds_total{labels} {self.seconds / 4} {self.seconds * 1000}",
                f"container_memory_working_set_bytes{labels} {64 << 20} {self.seconds * 1000}",
                f"container_start_time_seconds{labels} 1",
            ]
        return Response("\n".join([*lines, ""]), media_type="text/plain")


@pytest.fixture
async def kubelet(client: httpx.AsyncClient) -> AsyncIterator[_Kubelet]:
    made = _Kubelet()
    async with HealthServer("127.0.0.1", 0, {}, {"/metrics/resource": made.metrics}) as server:
        for name, port in (("one", server.port), ("two", server.port), ("silent", 9)):
            await _add_node(client, name, port)
        await client.post("/api/v1/namespaces", json={"metadata": {"name": "ns"}})
        for name, node, app in (("on-one", "one", "a"), ("on-two", "two", "b"), ("waiting", "", "a")):
            await _add_pod(client, name, node, app)
        yield made


async def _add_node(client: httpx.AsyncClient, name: str, port: int) -> None:
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    metadata = {"name": name, "labels": {"name": name}}
    answer = await client.post("/api/v1/nodes", json={"metadata": metadata, "status": status})
    assert answer.status_code == 201, answer.text


async def _add_pod(client: httpx.AsyncClient, name: str, node: str, app: str) -> None:
    pod = {
        "metadata": {"name": name, "labels": {"app": app}},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "main", "image": "x"}, {"name": "sidecar", "image": "x"}],
        },
    }
    answer = await client.post("/api/v1/namespaces/ns/pods", json=pod)
    assert answer.status_code == 201, answer.text


async def _json(client: httpx.AsyncClient, path: str, **options: Any) -> Any:
    answer = await client.get(path, **options)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_only_nodes_whose_kubelet_answers_are_listed(
    client: httpx.AsyncClient, kubelet: _Kubelet
) -> None:
    found = await _json(client, f"{_BASE}/nodes")
    assert found["kind"] == "NodeMetricsList"
    assert found["apiVersion"] == "metrics.k8s.io/v1beta1"
    assert [item["metadata"]["name"] for item in found["items"]] == ["one", "two"]
    assert found["items"][0]["usage"] == {"cpu": "500m", "memory": "1Gi"}
    assert found["items"][0]["metadata"]["labels"]["name"] == "one"
    single = await _json(client, f"{_BASE}/nodes/two")
    assert (single["kind"], single["metadata"]["name"]) == ("NodeMetrics", "two")
    # The samples were still fresh, so each node was only asked for two of them.
    assert sorted(kubelet.nodes) == ["one", "one", "two", "two"]


async def test_pod_metrics_have_the_usage_of_each_container(
    client: httpx.AsyncClient, kubelet: _Kubelet
) -> None:
    found = await _json(client, f"{_BASE}/pods")
    assert [item["metadata"]["name"] for item in found["items"]] == ["on-one", "on-two"]
    used = {"cpu": "250m", "memory": "64Mi"}
    assert found["items"][0]["containers"] == [
        {"name": "main", "usage": used},
        {"name": "sidecar", "usage": used},
    ]
    chosen = await _json(client, f"{_BASE}/namespaces/ns/pods?labelSelector=app%3Db")
    assert [item["metadata"]["name"] for item in chosen["items"]] == ["on-two"]
    chosen = await _json(client, f"{_BASE}/pods?fieldSelector=metadata.name%3Don-one")
    assert [item["metadata"]["name"] for item in chosen["items"]] == ["on-one"]
    assert (await _json(client, f"{_BASE}/namespaces/default/pods"))["items"] == []
    single = await _json(client, f"{_BASE}/namespaces/ns/pods/on-two")
    assert (single["kind"], single["metadata"]["labels"]) == ("PodMetrics", {"app": "b"})


async def test_tables_show_the_sum_over_containers(client: httpx.AsyncClient, kubelet: _Kubelet) -> None:
    found = await _json(client, f"{_BASE}/pods", headers=_TABLE)
    assert [column["name"] for column in found["columnDefinitions"]] == ["Name", "cpu", "memory", "Window"]
    assert found["rows"][0]["cells"][:3] == ["on-one", "500m", "128Mi"]
    found = await _json(client, f"{_BASE}/nodes", headers=_TABLE)
    assert found["rows"][1]["cells"][:3] == ["two", "500m", "1Gi"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nodes/none", 'node "none" not found'),
        ("nodes/silent", 'nodes.metrics.k8s.io "silent" not found'),
        ("namespaces/ns/pods/none", 'pods "none" not found'),
        ("namespaces/ns/pods/waiting", 'pods.metrics.k8s.io "ns/waiting" not found'),
    ],
)
async def test_unknown_nodes_and_pods_are_not_found(
    client: httpx.AsyncClient, kubelet: _Kubelet, path: str, message: str
) -> None:
    answer = await client.get(f"{_BASE}/{path}")
    assert (answer.status_code, answer.json()["message"]) == (404, message)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "namespaces/ns/pods"),
        ("DELETE", "nodes"),
        ("PUT", "nodes/one"),
        ("PATCH", "nodes/one"),
        ("DELETE", "nodes/one"),
        ("GET", "nodes?watch=true"),
    ],
)
async def test_requests_that_would_write_metrics_are_rejected(
    client: httpx.AsyncClient, kubelet: _Kubelet, method: str, path: str
) -> None:
    assert (await client.request(method, f"{_BASE}/{path}")).status_code == 405


async def test_metrics_k8s_io_is_in_discovery_and_has_an_api_service(client: httpx.AsyncClient) -> None:
    resources = (await _json(client, _BASE))["resources"]
    assert [(one["name"], one["kind"], one["verbs"]) for one in resources] == [
        ("nodes", "NodeMetrics", ["get", "list"]),
        ("pods", "PodMetrics", ["get", "list"]),
    ]
    accept = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
    groups = (await _json(client, "/apis", headers=accept))["items"]
    assert groups[-1]["metadata"]["name"] == "metrics.k8s.io"
    path = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.metrics.k8s.io"
    service = await _json(client, path)
    assert service["spec"] == {
        "service": {"namespace": "kube-system", "name": "metrics-server", "port": 443},
        "group": "metrics.k8s.io",
        "version": "v1beta1",
        "insecureSkipTLSVerify": True,
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
    }
    assert service["status"]["conditions"][0]["reason"] == "Passed"
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:aggregated-metrics-reader"
    assert (await _json(client, role))["rules"][0]["apiGroups"] == ["metrics.k8s.io"]
    schema = await _json(client, "/openapi/v3/apis/metrics.k8s.io/v1beta1")
    assert "io.k8s.metrics.v1beta1.NodeMetrics" in schema["components"]["schemas"]


async def test_the_metrics_server_option_adds_or_removes_metrics_k8s_io(tmp_path: Path) -> None:
    for served in (True, False):
        config = Config(port=0, data=tmp_path, database=IN_MEMORY, metrics_server=served)
        async with ApiServer(config) as server, httpx.AsyncClient(base_url=server.url) as client:
            assert ((await client.get(_BASE)).status_code == 200) == served
            path = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.metrics.k8s.io"
            assert ((await client.get(path)).status_code == 200) == served


_PROTOBUF = "application/vnd.kubernetes.protobuf"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("nodes", "NodeMetricsList"),
        ("nodes/one", "NodeMetrics"),
        ("pods", "PodMetricsList"),
        ("namespaces/ns/pods/on-one", "PodMetrics"),
    ],
)
async def test_metrics_are_the_same_in_protobuf(
    client: httpx.AsyncClient, kubelet: _Kubelet, path: str, kind: str
) -> None:
    """Check that the responses have the protobuf form, which clients of metrics-server ask for."""
    expected = await _json(client, f"{_BASE}/{path}")
    answer = await client.get(f"{_BASE}/{path}", headers={"Accept": f"{_PROTOBUF},application/json"})
    assert (answer.status_code, answer.headers["content-type"]) == (200, _PROTOBUF)
    api_version, name, raw = envelope(answer.content)
    assert (api_version, name) == ("metrics.k8s.io/v1beta1", kind)
    found = read_message(f"io.k8s.metrics.pkg.apis.metrics.v1beta1.{kind}", raw)
    pairs = zip(found["items"], expected["items"], strict=True) if "items" in found else [(found, expected)]
    for one, shown in pairs:
        for field in ("timestamp", "window", "usage", "containers"):
            assert one.get(field) == shown.get(field), field
        for field in ("name", "namespace", "labels"):
            assert (one["metadata"].get(field) or None) == shown["metadata"].get(field)
    missing = await client.get(f"{_BASE}/nodes/none", headers={"Accept": _PROTOBUF})
    assert (missing.status_code, envelope(missing.content)[1]) == (404, "Status")


async def test_pod_metrics_in_protobuf_equal_upstreams_byte_for_byte(
    client: httpx.AsyncClient, kubelet: _Kubelet
) -> None:
    answer = await client.get(f"{_BASE}/namespaces/ns/pods/on-one", headers={"Accept": _PROTOBUF})
    raw = envelope(answer.content)[2]
    window = b"\x1a\x06\x08" + b"\x80\xc8\xaf\xa0\x25"
    usage = b"\x12\x0d\x0a\x03cpu\x12\x06\x0a\x04250m" + b"\x12\x10\x0a\x06memory\x12\x06\x0a\x0464Mi"
    main = b"\x0a\x04main" + usage
    assert raw.partition(window)[2].startswith(b"\x22" + bytes([len(main)]) + main)
