"""Test that invalid numbers, non-ASCII letters and bytes that are not UTF-8 in paths and queries cause no exception."""

import httpx
import pytest
from dra_apiserver.server import ApiServer

from tests.support.cases import each_case

_NAMESPACE = "/api/v1/namespaces/default"
_ODD = (
    "9" * 5000,
    "0" * 5000 + "1",
    "-1",
    "%C3%A9",
    "%D9%A3",
    "%C2%B2",
    "%FF",
    "%00",
    "1_0",
    "1e400",
    "%F0%9F%98%80",
    "a" * 5000,
)
_PATHS = (
    "/faults/{}",
    "/readyz/{}",
    "/version/{}",
    "/openapi/v3/{}",
    "/insight/explain/pod/default/{}",
    "/api/{}",
    "/apis/{}/v1",
    "/apis/apps/{}",
    "/api/v1/namespaces/{}/configmaps",
    f"{_NAMESPACE}/configmaps/{{}}",
    f"{_NAMESPACE}/pods/p:{{}}/proxy/",
    f"{_NAMESPACE}/services/s:{{}}/proxy/",
    "/api/v1/nodes/n:{}/proxy/",
    f"/at/{{}}{_NAMESPACE}/configmaps",
    f"/history{_NAMESPACE}/configmaps?limit={{}}",
    f"/history{_NAMESPACE}/configmaps?from={{}}",
    f"{_NAMESPACE}/configmaps?limit={{}}",
    f"{_NAMESPACE}/configmaps?continue={{}}",
    f"{_NAMESPACE}/configmaps?resourceVersion={{}}",
    f"{_NAMESPACE}/configmaps?timeoutSeconds={{}}",
    f"{_NAMESPACE}/configmaps?labelSelector=a>{{}}",
    f"{_NAMESPACE}/configmaps?fieldSelector=metadata.name={{}}",
    f"{_NAMESPACE}/pods/p/log?tailLines={{}}",
    f"{_NAMESPACE}/pods/p/log?sinceSeconds={{}}",
    f"{_NAMESPACE}/pods/p/portforward?ports={{}}",
    f"{_NAMESPACE}/pods/p/exec?command={{}}&container={{}}",
    "/insight/free?node={}",
    "/debug/store?limit={}",
    "/assets/{}",
    "/console/{}",
    "/insight/explain/pod/{}/p",
)

_ODD_BODIES = [
    ("application/json", b'{"expression":"\\ud800"}'),
    ("application/json", b'"\\udfff"'),
    ("application/json", b'{"expression":{"a":"\\ud800"}}'),
    ("application/json", b"\xff"),
    ("application/json", b"[" * 100_000),
    ("application/json", b'{"expression":' + b"9" * 5000 + b"}"),
    ("text/plain", b"\xff\xfe"),
    ("", b"\xff"),
]


@pytest.fixture
async def client_of_objects(client: httpx.AsyncClient) -> httpx.AsyncClient:
    """Return a client of a server with objects that all subresources need."""
    await client.post(f"{_NAMESPACE}/serviceaccounts", json={"metadata": {"name": "default"}})
    node = {
        "metadata": {"name": "n"},
        "status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}]},
    }
    pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}}
    service = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
    for path, obj in (
        ("/api/v1/nodes", node),
        (f"{_NAMESPACE}/pods", pod),
        (f"{_NAMESPACE}/services", service),
    ):
        answer = await client.post(path, json=obj)
        assert answer.status_code == 201, answer.text
    ip = {"podIPs": [{"ip": "10.0.0.1"}], "podIP": "10.0.0.1"}
    headers = {"content-type": "application/merge-patch+json"}
    patched = await client.patch(f"{_NAMESPACE}/pods/p/status", json={"status": ip}, headers=headers)
    assert patched.status_code == 200, patched.text
    return client


async def test_malformed_paths_and_queries_cause_no_python_errors(
    server: ApiServer, client_of_objects: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[str] = []

    async def fail(self: object, request: object, error: Exception) -> None:
        failed.append(f"{method} {path}: {error!r}"[:200])
        raise error

    monkeypatch.setattr("dra_apiserver.app.Application._fail", fail)
    base = httpx.URL(server.url)
    for pattern in _PATHS:
        for odd in _ODD:
            path = pattern.replace("{}", odd)
            for method in ("GET", "DELETE"):
                if method == "DELETE" and "faults" not in path:
                    continue
                url = base.copy_with(raw_path=path.encode())
                answer = await client_of_objects.request(method, url)
                if answer.status_code >= 500 and "Internal Server Error" in answer.text:
                    failed.append(f"{method} {path}"[:200])
    assert failed == []


@each_case("path", ["cel", "claim", "plan/fit", "plan/drain", "plan/replay"])
async def test_malformed_bodies_of_insight_requests_are_rejected(
    client: httpx.AsyncClient, path: str
) -> None:
    for content_type, body in _ODD_BODIES:
        headers = {"content-type": content_type} if content_type else {}
        answer = await client.post(f"/insight/{path}", content=body, headers=headers)
        assert answer.status_code == 422, (content_type, body[:40], answer.text)
