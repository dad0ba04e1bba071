"""Test requests that web pages send, and HTTP methods that only browsers and scanners use."""

from pathlib import Path

import httpx
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_shared.guard import Guard

from tests.support.cases import each_case

_PODS = "/api/v1/namespaces/default/pods"
_CONFIG_MAP = b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made"}}'


@each_case(
    "path",
    ["/", "/api", "/version", "/healthz", "/metrics", "/openapi/v3", "/docs", "/nothing", _PODS]
    + [f"{_PODS}/x/{subresource}" for subresource in ("log", "exec", "attach")],
)
async def test_requests_of_other_origins_are_rejected_on_every_route(
    client: httpx.AsyncClient, path: str
) -> None:
    for headers in (
        {"origin": "http://evil.example"},
        {"sec-fetch-site": "cross-site"},
        {"host": "evil.example"},
    ):
        response = await client.get(path, headers=headers)
        assert response.status_code == 403
        status = response.json()
        assert (status["kind"], status["reason"]) == ("Status", "Forbidden")
        assert status["message"].startswith("forbidden: ")


async def test_a_body_without_content_type_is_rejected_if_a_browser_sends_it(
    client: httpx.AsyncClient,
) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    refused = await client.post(path, content=_CONFIG_MAP, headers={"origin": "http://evil.example"})
    assert refused.status_code == 403
    assert (await client.get(f"{path}/made")).status_code == 404
    assert (await client.post(path, content=_CONFIG_MAP)).status_code == 201


async def test_an_option_allows_further_host_names(tmp_path: Path) -> None:
    config = Config(port=0, data=tmp_path, database=IN_MEMORY, guard=Guard(["apiserver"]))
    async with ApiServer(config) as server, httpx.AsyncClient(base_url=server.url) as client:
        assert (await client.get("/version", headers={"host": "apiserver:8080"})).status_code == 200
        assert (await client.get("/version", headers={"host": "scheduler:8080"})).status_code == 403


@each_case("path", ["/", "/version", "/healthz", "/metrics", "/openapi/v2", _PODS, "/nothing"])
async def test_the_method_trace_is_rejected(client: httpx.AsyncClient, path: str) -> None:
    response = await client.request("TRACE", path)
    assert response.status_code == 405
    assert response.json()["reason"] == "MethodNotAllowed"


@each_case("path", ["/api", "/api/v1", "/apis/apiregistration.k8s.io", "/apis/apps/v1", "/version"])
@each_case("method", ["POST", "DELETE", "OPTIONS", "PROPFIND"])
async def test_discovery_rejects_methods_that_write(
    client: httpx.AsyncClient, method: str, path: str
) -> None:
    response = await client.request(method, path)
    assert (response.status_code, response.json()["reason"]) == (405, "MethodNotAllowed")


@each_case("path", ["/apis", "/apis/apps"])
@each_case("method", ["POST", "DELETE", "OPTIONS", "PROPFIND"])
async def test_aggregated_discovery_paths_are_answered_whatever_the_method(
    client: httpx.AsyncClient, method: str, path: str
) -> None:
    """Check every method.

    The router does not see these paths, and the handlers ignore the method (`handler_apis.go`).
    """
    response = await client.request(method, path)
    assert response.status_code == 200
    assert response.json() == (await client.get(path)).json()
