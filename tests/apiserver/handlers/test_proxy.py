"""Test the subresource `proxy` of pods and services, through a kubelet's port-forward, and of nodes."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from dra_apiserver.kinds.connect.pagelinks import rewrite_page, rewrite_url
from dra_apiserver.server import ApiServer

from tests.support.cases import each_case
from tests.support.kubelet.bench import Bench
from tests.support.kubelet.endpoints import WEB_SERVER, serve_kubelet

_NAMESPACE = "/api/v1/namespaces/ns"
_IP = "10.128.0.7"


async def _create(client: httpx.AsyncClient, path: str, obj: dict[str, Any]) -> None:
    answer = await client.post(path, json=obj)
    assert answer.status_code == 201, answer.text
    if "status" in obj:
        answer = await client.put(f"{path}/{obj['metadata']['name']}/status", json=answer.json() | obj)
        assert answer.status_code == 200, answer.text


@asynccontextmanager
async def _cluster(client: httpx.AsyncClient) -> AsyncIterator[Bench]:
    """Run a pod on a kubelet, on port 8080, and register both with the API server."""
    async with serve_kubelet(WEB_SERVER) as (bench, port):
        await _create(client, "/api/v1/namespaces", {"metadata": {"name": "ns"}})
        address = {"type": "InternalIP", "address": "127.0.0.1"}
        status = {"addresses": [address], "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}
        await _create(client, "/api/v1/nodes", {"metadata": {"name": "node"}, "status": status})
        ports = [{"name": "web", "containerPort": 8080}]
        pod = {
            "metadata": {"name": "pod", "labels": {"app": "x"}},
            "spec": {"nodeName": "node", "containers": [{"name": "main", "image": "x", "ports": ports}]},
            "status": {
                "phase": "Running",
                "podIP": _IP,
                "podIPs": [{"ip": _IP}],
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
        await _create(client, f"{_NAMESPACE}/pods", pod)
        yield bench


@asynccontextmanager
async def _listen(bench: Bench, port: int, answer: bytes) -> AsyncIterator[list[str]]:
    """Listen on a port of the pod, send the same response to each request, and record the requests."""
    seen: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        body = b""
        if "transfer-encoding: chunked" in head.lower():
            while size := int(await reader.readline(), 16):
                body += await reader.readexactly(size)
                await reader.readline()
        elif "content-length: " in head.lower():
            body = await reader.readexactly(int(head.lower().split("content-length: ")[1].split("\r\n")[0]))
        seen.append(head + body.decode())
        writer.write(answer)
        await writer.drain()

    with bench.runtime.ports_of("pod-uid").listen(port, serve):
        yield seen


async def test_a_pod_is_proxied_on_its_first_or_the_given_port(client: httpx.AsyncClient) -> None:
    async with _cluster(client) as bench:
        path = f"{_NAMESPACE}/pods"
        for name in ("pod", "pod:8080", "http:pod:8080", "http:pod:"):
            answer = await client.get(f"{path}/{name}/proxy/")
            assert (answer.status_code, answer.text) == (200, "hello\n"), name
        assert (await client.get(f"{path}/pod/proxy/none")).status_code == 404
        assert (await client.head(f"{path}/pod/proxy/")).status_code == 200
        bare = await client.get(f"{path}/pod/proxy?a=b")
        assert (bare.status_code, bare.headers["location"]) == (301, f"{path}/pod/proxy/?a=b")
        refused = await client.get(f"{path}/pod:81/proxy/")
        assert (refused.status_code, refused.json()["reason"]) == (503, "ServiceUnavailable")
        assert refused.json()["message"] == (
            f"error trying to reach service: dial tcp {_IP}:81: connect: connection refused"
        )
        async with _listen(bench, 82, b""):
            nothing = await client.get(f"{path}/pod:82/proxy/")
        assert nothing.status_code == 503


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_every_method_body_and_header_is_passed_on(client: httpx.AsyncClient, method: str) -> None:
    reply = b"HTTP/1.1 418 Teapot\r\nX-Mine: 1\r\nConnection: close\r\nAccess-Control-Allow-Origin: *\r\n\r\nshort"
    async with _cluster(client) as bench, _listen(bench, 9000, reply) as seen:
        answer = await client.request(
            method,
            f"{_NAMESPACE}/pods/pod:9000/proxy/a%20b/../c/?x=1&y=%2F",
            content=b"body",
            headers={"X-Other": "2", "Connection": "close", "Impersonate-User": "system:admin"},
        )
    assert (answer.status_code, answer.headers["x-mine"], answer.text) == (418, "1", "short")
    assert "access-control-allow-origin" not in answer.headers
    (request,) = seen
    first, rest = request.split("\r\n", 1)
    assert first == f"{method} /c/?x=1&y=%2F HTTP/1.1"
    assert rest.endswith("\r\n\r\nbody")
    assert "x-other: 2\r\n" in rest
    assert "x-forwarded-for: 127.0.0.1\r\n" in rest
    assert "impersonate" not in rest.lower()


async def test_chunked_bodies_and_responses_are_proxied(client: httpx.AsyncClient) -> None:
    async def body() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"x" * 5

    reply = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n"
    async with _cluster(client) as bench, _listen(bench, 9000, reply) as seen:
        answer = await client.post(f"{_NAMESPACE}/pods/pod:9000/proxy/", content=body())
    assert answer.text == "abcdefg"
    assert seen[0].endswith("\r\n\r\n" + "x" * 15)


async def test_links_are_rewritten_to_the_proxy(client: httpx.AsyncClient) -> None:
    base = f"{_NAMESPACE}/pods/pod:9000/proxy"
    page = b'<p>x &amp; y</p><a href="/in?q=1&amp;r">in</a> <img src=/i.png> <a href="http://other/">out</a>'
    packed = gzip.compress(page)
    for body, encoding in ((page, b""), (packed, b"Content-Encoding: gzip\r\n")):
        reply = (
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n%bContent-Length: %d\r\n\r\n%b"
            % (
                encoding,
                len(body),
                body,
            )
        )
        async with (
            _cluster(client) if not encoding else _again(client) as bench,
            _listen(bench, 9000, reply),
        ):
            text = (await client.get(f"{base}/")).text
        assert text == (
            f'<p>x &amp; y</p><a href="{base}/in?q=1&amp;r">in</a> <img src="{base}/i.png"> '
            '<a href="http://other/">out</a>'
        )


@asynccontextmanager
async def _again(client: httpx.AsyncClient) -> AsyncIterator[Bench]:
    """Run a second kubelet for the node and pod that already exist on the API server."""
    async with serve_kubelet(WEB_SERVER) as (bench, port):
        node = (await client.get("/api/v1/nodes/node")).json()
        node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] = port
        assert (await client.put("/api/v1/nodes/node/status", json=node)).status_code == 200
        yield bench


@each_case(
    ("url", "expected"),
    [
        ("/a", "/p/a"),
        ("/a/", "/p/a/"),
        ("/p/a", "/p/a"),
        ("a", "a"),
        ("//10.0.0.1:80/a?b#c", "/p/a?b#c"),
        ("http://10.0.0.1:80/a", "/p/a"),
        ("http://me/a", "http://me/p/a"),
        ("https://other/a", "https://other/a"),
        ("http://[bad", "http://[bad"),
    ],
)
def test_links_to_the_proxied_server_are_rewritten(url: str, expected: str) -> None:
    assert rewrite_url(url, ("10.0.0.1:80", "me"), "/p") == expected


def test_only_links_of_a_proxied_page_are_changed() -> None:
    text = (
        '<!doctype html>\r\n<script>if (a<b) { x("<a href=/y>") }</script>\n\f<A CLASS=z HREF=/a>é</A><br/>'
    )
    made = rewrite_page(text, lambda url: f"/p{url}")
    assert made == text.replace("<A CLASS=z HREF=/a>", '<a class="z" href="/p/a">')


async def test_redirects_are_rewritten_to_the_proxy(client: httpx.AsyncClient) -> None:
    reply = b"HTTP/1.1 302 Found\r\nLocation: /login?x\r\nContent-Length: 0\r\n\r\n"
    async with _cluster(client) as bench, _listen(bench, 9000, reply):
        answer = await client.get(f"{_NAMESPACE}/pods/pod:9000/proxy/deep/page")
    assert (answer.status_code, answer.headers["location"]) == (
        302,
        f"{_NAMESPACE}/pods/pod:9000/proxy/login?x",
    )


async def test_a_service_is_proxied_to_its_ready_pods(client: httpx.AsyncClient) -> None:
    path = f"{_NAMESPACE}/services"
    async with _cluster(client):
        ports = [{"name": "http", "port": 80, "targetPort": "web"}, {"name": "none", "port": 81}]
        await _create(
            client, path, {"metadata": {"name": "s"}, "spec": {"selector": {"app": "x"}, "ports": ports}}
        )
        for name in ("s:80", "s:http", "http:s:http"):
            answer = await client.get(f"{path}/{name}/proxy/")
            assert (answer.status_code, answer.text) == (200, "hello\n"), name
        for name, text in (
            ("s", 'no endpoints available for service "s"'),
            ("s:8", 'no service port 8 found for service "s"'),
            ("s:nosuch", 'no endpoints available for service "s:nosuch"'),
        ):
            refused = await client.get(f"{path}/{name}/proxy/")
            assert (refused.status_code, refused.json()["reason"]) == (503, "ServiceUnavailable")
            assert text.partition(":")[0] in refused.json()["message"], refused.text
        assert (await client.get(f"{path}/t/proxy/")).json()["message"] == 'endpoints "t" not found'


async def test_endpoints_are_proxied_only_to_pods_of_their_namespace(client: httpx.AsyncClient) -> None:
    path = f"{_NAMESPACE}/services/s:/proxy/"
    async with _cluster(client):
        reference = {"kind": "Pod", "namespace": "ns", "name": "pod"}
        addresses = [
            ({"ip": _IP, "targetRef": reference}, 200),
            ({"ip": "10.128.0.8", "targetRef": reference}, 503),
            ({"ip": _IP, "targetRef": {**reference, "namespace": "default"}}, 503),
            ({"ip": _IP}, 503),
        ]
        for address, code in addresses:
            subset = {"addresses": [address], "ports": [{"port": 8080}]}
            endpoints = {"metadata": {"name": "s"}, "subsets": [subset]}
            await _create(client, f"{_NAMESPACE}/endpoints", endpoints)
            assert (await client.get(path)).status_code == code, address
            await client.delete(f"{_NAMESPACE}/endpoints/s")


async def test_a_node_is_proxied_only_to_its_kubelet(client: httpx.AsyncClient) -> None:
    async with _cluster(client):
        node = (await client.get("/api/v1/nodes/node")).json()
        port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
        for name in ("node", f"node:{port}"):
            assert (await client.get(f"/api/v1/nodes/{name}/proxy/healthz")).text == "ok"
        pods = (await client.get("/api/v1/nodes/node/proxy/pods")).json()
        assert [item["metadata"]["name"] for item in pods["items"]] == ["pod"]
        other = await client.get(f"/api/v1/nodes/node:{client.base_url.port}/proxy/version")
        assert (other.status_code, other.json()["message"]) == (400, "address not allowed")
        absent = await client.get("/api/v1/nodes/none/proxy/")
        assert absent.status_code == 404


async def test_invalid_proxy_names_are_rejected(client: httpx.AsyncClient) -> None:
    async with _cluster(client):
        for name in ("a:b:c:d", "ftp:pod:80", ":80"):
            refused = await client.get(f"{_NAMESPACE}/pods/{name}/proxy/")
            assert (refused.status_code, refused.json()["message"]) == (
                400,
                f'invalid pod request "{name}"',
            )
        assert (await client.get(f"{_NAMESPACE}/pods/none/proxy/")).json()["message"] == (
            'pods "none" not found'
        )
        dry = await client.post(f"{_NAMESPACE}/pods/pod/proxy/?dryRun=All")
        assert (dry.status_code, dry.json()["message"]) == (400, "dryRun is not supported")
        pod = (await client.get(f"{_NAMESPACE}/pods/pod")).json()
        pod["status"] |= {"podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}
        assert (await client.put(f"{_NAMESPACE}/pods/pod/status", json=pod)).status_code == 200
        local = await client.get(f"{_NAMESPACE}/pods/pod/proxy/")
        assert (local.status_code, local.json()["message"]) == (400, "address not allowed")


async def test_upgraded_connections_are_proxied_to_the_pod(
    server: ApiServer, client: httpx.AsyncClient
) -> None:
    reply = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhello"
    async with _cluster(client) as bench, _listen(bench, 9000, reply) as seen:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
        head = f"GET {_NAMESPACE}/pods/pod:9000/proxy/chat?x HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        writer.write(
            f"{head}Connection: Upgrade\r\nUpgrade: echo\r\nAuthorization: Bearer x\r\n\r\n".encode()
        )
        answer = await reader.read()
        writer.close()
    assert answer.endswith(b"Upgrade: echo\r\n\r\nhello")
    assert seen[0].startswith("GET /chat?x HTTP/1.1\r\n")
    assert "upgrade: echo" in seen[0]
    assert "authorization" not in seen[0].lower()
