"""Test the outer web application: pages that need no network, typed endpoints, and the mounted Kubernetes API."""

import asyncio
import importlib
import json
import re
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType

import httpx
import pytest
from dra_apiserver.config import Config
from dra_apiserver.front.application import build
from dra_apiserver.health import Health
from dra_apiserver.server import ApiServer
from dra_scheduler.plan.questions.catalog import QUESTIONS


async def test_requests_are_served_while_the_first_console_page_imports_modules(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that other requests are answered during the import, which takes half a second and once blocked them."""
    begun, may_end = threading.Event(), threading.Event()
    load = importlib.import_module

    def slow(name: str) -> ModuleType:
        begun.set()
        assert may_end.wait(30)
        return load(name)

    monkeypatch.setattr(importlib, "import_module", slow)
    pages = [asyncio.create_task(client.get("/console/")) for _ in range(2)]
    assert await asyncio.to_thread(begun.wait, 60)
    assert (await client.get("/api/v1/nodes")).status_code == 200
    may_end.set()
    assert [(await page).status_code for page in pages] == [200, 200]


async def test_the_api_docs_page_loads_nothing_from_other_servers(client: httpx.AsyncClient) -> None:
    for path in ("/docs", "/redoc"):
        page = (await client.get(path)).text
        sources = re.findall(r'(?:src|href)="([^"]+)"', page)
        assert sources
        assert "://" not in page
        assert (await client.head(path)).status_code == 200
        for source in sources:
            answer = await client.get(source)
            assert answer.status_code == 200
            assert answer.headers["content-encoding"] == "gzip"
            assert len(answer.content) > 100_000
    assert (await client.get("/assets/nothing.js")).status_code == 404
    plain = await client.get("/assets/swagger-ui.css", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert ".swagger-ui" in plain.text


async def test_the_openapi_document_lists_the_typed_endpoints(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()
    assert document["openapi"].startswith("3.")
    for path in ("/livez", "/debug/store", "/insight/free", "/insight/explain/class/{name}"):
        assert "get" in document["paths"][path]
    answer = document["paths"]["/insight/plan/fit"]["post"]["responses"]["200"]
    assert answer["content"]["application/json"]["schema"]["$ref"].endswith("/Fit")
    for question in QUESTIONS:
        body = document["paths"][f"/insight/plan/{question}"]["post"]["requestBody"]
        assert body["content"]["application/json"]["schema"]["$ref"].endswith("Request")
    references = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document)))
    assert references <= set(document["components"]["schemas"])
    assert (await client.get("/debug/store")).json()["objects"]["namespaces"] == 4


async def test_insight_routes_need_a_scheduler(client: httpx.AsyncClient) -> None:
    answer = await client.get("/insight/free")
    assert (answer.status_code, "--scheduler-url" in answer.text) == (503, True)
    assert (await client.get("/insight/nothing")).status_code == 404


@pytest.fixture
async def front(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Return the outer web application by itself, on top of a server's Kubernetes API."""
    async with ApiServer(Config(port=0, data=tmp_path)) as server:
        health = Health()
        health.add("ping", lambda: None)
        health.add("log", lambda: "full")

        async def kubernetes(scope: object, receive: object, send: object) -> None:
            raise LookupError("the mounted application")

        transport = httpx.ASGITransport(build(server.api, health, kubernetes))
        async with httpx.AsyncClient(transport=transport, base_url="http://front") as client:
            yield client


async def test_health_routes_are_answered_by_the_api_server(front: httpx.AsyncClient) -> None:
    assert (await front.get("/livez")).status_code == 500
    answer = await front.get("/readyz", params={"exclude": "log", "verbose": ""})
    assert (answer.status_code, "[+]log excluded: ok" in answer.text) == (200, True)


async def test_all_other_paths_are_served_by_the_mounted_application(front: httpx.AsyncClient) -> None:
    with pytest.raises(LookupError, match="the mounted application"):
        await front.get("/api/v1/namespaces")
