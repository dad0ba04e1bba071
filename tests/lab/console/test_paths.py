"""Ambiguous paths of requests to the console."""

import asyncio
from typing import Any
from urllib.parse import unquote

from dra_kube.reader import Reader
from dra_lab.console.doorkeeper import Doorkeeper, Receive, Scope, Send
from dra_lab.console.paths import forward_target, plain_path
from dra_lab.console.proxy import router
from dra_shared.client.rest import Client
from fastapi import FastAPI

from tests.shared.client.fake_server import reply, serve
from tests.support.cases import each_case

_ODD = [
    "/api/../metrics",
    "/api/v1/../../faults",
    "/api/%2e%2e/metrics",
    "/api/.%2E/metrics",
    "/api/./v1",
    "/api/..",
    "/api/%252e%252e/metrics",
    "/api//v1",
    "//api/v1",
    "/api/v1%2f..%2f..%2fmetrics",
    "/api%2Fv1",
    "/api/..\\metrics",
    "/api/..%5cmetrics",
    "/api/v1/pods%0d%0aX: y",
    "/api/v1/%ff",
    "/insight/../api/v1/nodes",
    "/insight/%2e%2e/api/v1/nodes",
    "/version/../snapshot",
    "/api/v1#x",
    "*",
]


def _scope(raw: str, method: str = "GET", query: bytes = b"") -> dict[str, Any]:
    return {
        "type": "http",
        "method": method,
        "path": unquote(raw),
        "raw_path": raw.encode(),
        "query_string": query,
        "headers": [(b"cookie", b"dralab-console=secret"), (b"host", b"127.0.0.1:4000")],
    }


async def _status(application: Any, scope: dict[str, Any]) -> int:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    messages = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Any:
        if not messages:
            await asyncio.Event().wait()
        return messages.pop()

    await application(scope, receive, send)
    return int(sent[0]["status"])


@each_case("raw", _ODD)
@each_case("method", ["GET", "POST"])
async def test_an_ambiguous_path_is_rejected(method: str, raw: str) -> None:
    async def inside(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError(f"{scope['path']} passes")

    assert plain_path(_scope(raw)) is None
    assert await _status(Doorkeeper(inside, "secret", True), _scope(raw, method)) == 400


@each_case(
    ("raw", "query", "target"),
    [
        ("/api/v1/nodes", b"", "/api/v1/nodes"),
        ("/version", b"", "/version"),
        ("/apis/", b"watch=1&a=%2F", "/apis/?watch=1&a=%2F"),
        ("/apis/rbac/v1/clusterroles/system:node", b"", "/apis/rbac/v1/clusterroles/system:node"),
        ("/apis/rbac/v1/clusterroles/system%3Anode", b"", "/apis/rbac/v1/clusterroles/system%3Anode"),
        ("/at/12/api/v1/pods", b"", "/at/12/api/v1/pods"),
        ("/api/v1/namespaces/a/pods/..b", b"", "/api/v1/namespaces/a/pods/..b"),
        ("/api", b"x=\r\ny", "/api?x=%0D%0Ay"),
    ],
)
def test_an_unambiguous_path_is_forwarded_unchanged(raw: str, query: bytes, target: str) -> None:
    assert forward_target(_scope(raw, query=query)) == target


@each_case("raw", ["/metrics", "/faults", "/apiary/x", "/snapshot", "/%61pi/v1", "/"])
def test_paths_that_are_not_of_the_kubernetes_api_are_not_forwarded(raw: str) -> None:
    assert forward_target(_scope(raw)) is None


async def test_the_cluster_gets_the_path_that_was_checked() -> None:
    seen: list[bytes] = []

    async def handle(request: bytes, writer: asyncio.StreamWriter) -> None:
        seen.append(request.split(b" ")[1])
        writer.write(reply(b"{}"))

    async with serve(handle) as url, Client(f"{url}/base") as client:
        app = FastAPI()
        app.include_router(router(client, Reader(url)))
        raw = "/api/v1/namespaces/a/pods/system%3Ab"
        assert await _status(app, _scope(raw, query=b"limit=1")) == 200
        assert await _status(app, _scope("/api/%2e%2e/metrics")) == 400
    assert seen == [b"/base/api/v1/namespaces/a/pods/system%3Ab?limit=1"]
