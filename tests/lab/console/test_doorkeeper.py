"""Access to a console that has a user's credentials."""

from collections.abc import AsyncIterator

import httpx
import pytest
from dra_lab.console.doorkeeper import Doorkeeper, Receive, Scope, Send

_URL = "http://127.0.0.1:4000"


async def _behind(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"the cluster's answer"})


@pytest.fixture(params=[False, True], ids=["read only", "with writes"])
async def client(request: pytest.FixtureRequest) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(Doorkeeper(_behind, "secret", request.param))
    async with httpx.AsyncClient(transport=transport, base_url=_URL) as made:
        yield made


async def _enter(client: httpx.AsyncClient) -> None:
    answer = await client.get("/console/?key=secret")
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/")


async def test_only_the_url_with_the_printed_key_grants_access(client: httpx.AsyncClient) -> None:
    for path in (
        "/console/",
        "/api/v1/nodes",
        "/console/?key=guess",
        "/console/?key=",
        "/console/?key=%C3%A9",
    ):
        assert (await client.get(path)).status_code == 401
    await _enter(client)
    assert (await client.get("/api/v1/nodes")).text == "the cluster's answer"


@pytest.mark.parametrize(
    "others", ["a/b=1", "a(=1", "a[]=1", 'a={"b": 1}', "no-value", "dralab-consol\u00e9=1"]
)
async def test_cookies_of_other_servers_on_this_machine_are_ignored(
    others: str, client: httpx.AsyncClient
) -> None:
    headers = {b"Cookie": f"{others}; dralab-console=secret".encode("latin-1")}
    assert (await client.get("/api/v1/nodes", headers=headers)).status_code == 200
    wrong = {b"Cookie": f"{others}; dralab-console=s\u00e9cret".encode("latin-1")}
    assert (await client.get("/api/v1/nodes", headers=wrong)).status_code == 401


async def test_the_query_parameter_at_is_kept_when_the_key_is_removed_from_the_url(
    client: httpx.AsyncClient,
) -> None:
    answer = await client.get("/console/?key=secret&at=2026-01-02T03%3A04%3A05%2B01%3A00")
    assert answer.headers["location"] == "/console/?at=2026-01-02T03%3A04%3A05%2B01%3A00"


async def test_requests_from_another_origin_are_rejected_despite_the_cookie(
    client: httpx.AsyncClient,
) -> None:
    await _enter(client)
    for headers in (
        {"Origin": "http://bad.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "bad.example"},
    ):
        assert (await client.get("/api/v1/nodes", headers=headers)).status_code == 403


async def test_writes_are_forwarded_to_the_cluster_only_if_enabled(
    client: httpx.AsyncClient, request: pytest.FixtureRequest
) -> None:
    await _enter(client)
    wanted = request.node.callspec.params["client"]
    assert (await client.delete("/api/v1/nodes/a")).status_code == (200 if wanted else 403)
    assert (await client.post("/insight/cel")).status_code == 200


async def test_a_web_socket_needs_the_cookie_too() -> None:
    sent: list[object] = []

    async def send(message: object) -> None:
        sent.append(message)

    async def receive() -> Scope:
        raise AssertionError("nothing is read")

    scope = {"type": "websocket", "path": "/api/v1/nodes", "query_string": b"key=secret", "headers": []}
    await Doorkeeper(_behind, "secret", True)(scope, receive, send)
    assert [message["type"] for message in sent if isinstance(message, dict)] == ["websocket.close"]
    # With the cookie, watches are allowed. A terminal needs writes enabled: it is a GET, but it can change things.
    scope["headers"] = [(b"cookie", b"dralab-console=secret"), (b"host", b"127.0.0.1:4000")]
    for path, writes, passes in (
        ("/api/v1/pods", False, True),
        ("/api/v1/namespaces/a/pods/b/exec", False, False),
        ("/api/v1/namespaces/a/pods/b/exec", True, True),
        ("/api/v1/namespaces/a/pods/b/exec/", False, False),
        ("/api/v1/namespaces/a/pods/b/attach", False, False),
        ("/api/v1/namespaces/a/pods/b/portforward", False, False),
    ):
        sent.clear()
        await Doorkeeper(_behind, "secret", writes)({**scope, "path": path}, receive, send)
        assert ("websocket.close" in str(sent)) is not passes
