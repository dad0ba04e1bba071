"""Test that invalid addresses, ports and responses of a node cause no Python exception."""

import asyncio
from dataclasses import replace
from typing import Any

import httpx
import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer

from tests.support.cases import each_case

_NAMESPACE = "/api/v1/namespaces/default"
_METRICS = "/apis/metrics.k8s.io/v1beta1"
_UPGRADE = {"connection": "Upgrade", "upgrade": "websocket"}
_FAULT = b'{"fault":"xid","node":"n","gpu":0,"xid":79,"seconds":5,"check":false}'
_CALLS: list[tuple[str, str, dict[str, str], bytes]] = [
    ("GET", f"{_NAMESPACE}/pods/p/log", {}, b""),
    ("GET", f"{_NAMESPACE}/pods/p/exec?command=a", _UPGRADE, b""),
    ("GET", f"{_NAMESPACE}/pods/p/portforward?ports=1", _UPGRADE, b""),
    ("GET", f"{_NAMESPACE}/pods/p/proxy/", {}, b""),
    ("GET", "/api/v1/nodes/n/proxy/", {}, b""),
    ("GET", "/api/v1/nodes/n/proxy/", _UPGRADE, b""),
    ("POST", "/faults", {}, _FAULT),
    ("GET", f"{_METRICS}/nodes", {}, b""),
    ("GET", f"{_METRICS}/nodes/n", {}, b""),
]

_GARBAGE = [
    b"garbage",
    b"[]",
    b'{"message":5}',
    b'{"id":"x"}',
    b"\xff\xfe",
    b"node_memory_working_set_bytes +Inf\nnode_cpu_usage_seconds_total 1\n",
    b"node_memory_working_set_bytes NaN\nnode_cpu_usage_seconds_total 1\n",
    b"node_memory_working_set_bytes 1\nnode_cpu_usage_seconds_total 1 9999999999999999999999\n",
    b"node_memory_working_set_bytes{ 5\n",
]


@pytest.fixture
def config(config: Config) -> Config:
    return replace(config, metrics_server=True)


@pytest.fixture
async def errors(client: httpx.AsyncClient, server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that collects the Python exceptions of requests. The server has a pod on a node."""
    found: list[str] = []

    async def fail(self: object, request: object, error: Exception) -> None:
        found.append(repr(error))
        raise error

    monkeypatch.setattr("dra_apiserver.app.Application._fail", fail)
    await client.post(f"{_NAMESPACE}/serviceaccounts", json={"metadata": {"name": "default"}})
    await client.post("/api/v1/nodes", json={"metadata": {"name": "n"}})
    containers = [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]
    pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": containers}}
    assert (await client.post(f"{_NAMESPACE}/pods", json=pod)).status_code == 201
    status = {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}
    headers = {"content-type": "application/merge-patch+json"}
    await client.patch(f"{_NAMESPACE}/pods/p/status", json={"status": status}, headers=headers)
    return found


async def _call_all(client: httpx.AsyncClient, host: str, port: int) -> list[str]:
    """Set the node's address, and return the responses to requests that the server forwards to that address."""
    status: dict[str, Any] = {"addresses": [{"type": "InternalIP", "address": host}]}
    status["daemonEndpoints"] = {"kubeletEndpoint": {"Port": port}}
    put = await client.put("/api/v1/nodes/n/status", json={"metadata": {"name": "n"}, "status": status})
    assert put.status_code == 200, put.text
    return [(await client.request(m, path, headers=h, content=b)).text for m, path, h, b in _CALLS]


@each_case(
    ("host", "port", "problem"),
    [
        ("a b", 10250, "lookup a b: no such host"),
        ("\x00", 10250, "no such host"),
        ("é" * 70, 10250, "no such host"),
        ("a" * 300, 10250, "no such host"),
        ("a..b", 10250, "lookup a..b: no such host"),
        ("[::1", 10250, "lookup [::1: no such host"),
        ("x@y:80", 10250, "lookup x@y:80: no such host"),
        ("127.0.0.1", -5, "address -5: invalid port"),
        ("::1", 99999, "address 99999: invalid port"),
    ],
)
async def test_an_unreachable_node_is_reported_as_a_status(
    client: httpx.AsyncClient, errors: list[str], host: str, port: int, problem: str
) -> None:
    answers = await _call_all(client, host, port)
    assert errors == []
    assert [text for text in answers[:7] if problem not in text] == []


@each_case("status", [b"200 OK", b"400 Bad Request", b"404 Not Found", b"700 Odd", b"abc"])
async def test_an_invalid_response_of_a_node_is_reported_as_a_status(
    client: httpx.AsyncClient, errors: list[str], status: bytes
) -> None:
    for body in _GARBAGE:

        async def node(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes = body
        ) -> None:
            await reader.readuntil(b"\r\n\r\n")
            head = b"HTTP/1.1 %b\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
            writer.write(head % (status, len(body)) + body)
            writer.close()

        async with await asyncio.start_server(node, "127.0.0.1", 0) as listening:
            await _call_all(client, "127.0.0.1", listening.sockets[0].getsockname()[1])
        assert errors == [], body
