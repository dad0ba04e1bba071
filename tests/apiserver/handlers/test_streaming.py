"""Test pods/exec and pods/attach, whose connections are passed through to the node."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from dra_apiserver.server import ApiServer

from tests.support.waiting import until

_POD = "/api/v1/namespaces/default/pods/p"
_UPGRADE = (
    "Connection: Upgrade\r\nUpgrade: websocket\r\nAuthorization: Bearer secret\r\n"
    "Origin: http://localhost\r\nX-Other: 1\r\n"
)


async def _pod_on(client: httpx.AsyncClient, port: int, node: str = "n") -> None:
    spec: dict[str, Any] = {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    assert (await client.post("/api/v1/namespaces/default/pods", json=body)).status_code == 201
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    made = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": status}
    assert (await client.post("/api/v1/nodes", json=made)).status_code == 201


@asynccontextmanager
async def _connect(
    server: ApiServer, request: str, headers: str = ""
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
    try:
        writer.write(f"{request} HTTP/1.1\r\nHost: localhost\r\n{_UPGRADE}{headers}\r\n".encode())
        yield reader, writer
    finally:
        writer.close()


async def test_the_upgrade_response_and_all_data_of_the_node_are_forwarded(
    server: ApiServer, client: httpx.AsyncClient
) -> None:
    heads: list[str] = []
    ended = asyncio.Event()

    async def node(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\r\nhello")
        while data := await reader.read(1 << 16):
            writer.write(data.upper())
        ended.set()
        writer.close()

    async with await asyncio.start_server(node, "127.0.0.1", 0) as listening:
        await _pod_on(client, listening.sockets[0].getsockname()[1])
        query = "command=sh&command=-c&command=echo%20%26&stdin=true&stdout=true&tty=false"
        async with _connect(server, f"GET {_POD}/exec?{query}") as (reader, writer):
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
            assert await reader.readexactly(5) == b"hello"
            big = b"x" * (1 << 20)
            writer.write(b"abc" + big)
            assert await reader.readexactly(3 + len(big)) == b"ABC" + big.upper()
        async with asyncio.timeout(60):
            await ended.wait()
    first, *lines = heads[0].split("\r\n")
    assert first == ("GET /exec/default/p/c?command=sh&command=-c&command=echo+%26&input=1&output=1 HTTP/1.1")
    assert "upgrade: websocket" in lines
    assert "x-other: 1" in lines
    assert not any("secret" in line or line.startswith("origin") for line in lines)
    metrics = (await client.get("/metrics")).text
    assert 'subresource="exec"' in metrics


async def test_the_clients_connection_is_closed_when_the_node_closes_its_own(
    server: ApiServer, client: httpx.AsyncClient
) -> None:
    async def node(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\nnone")
        writer.close()

    async with await asyncio.start_server(node, "127.0.0.1", 0) as listening:
        await _pod_on(client, listening.sockets[0].getsockname()[1])
        async with _connect(server, f"POST {_POD}/attach?stdout=1") as (reader, _):
            assert (await reader.read()).endswith(b"\r\n\r\nnone")


@pytest.mark.parametrize("offered", ["websocket", "h2c"])
async def test_a_refused_upgrade_ends_the_clients_connection(
    server: ApiServer, client: httpx.AsyncClient, offered: str
) -> None:
    seen: list[bytes] = []

    async def node(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        # A kubelet keeps its connection open for further requests.
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\nx-own: a\r\n\r\nno")
        seen.append(await reader.read())
        writer.close()

    async with await asyncio.start_server(node, "127.0.0.1", 0) as listening:
        await _pod_on(client, listening.sockets[0].getsockname()[1])
        reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
        head = f"POST {_POD}/attach?stdout=1 HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
        writer.write(f"{head}Upgrade: {offered}\r\n\r\nGET /pods HTTP/1.1\r\nHost: kubelet\r\n\r\n".encode())
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert answer.endswith(b"\r\n\r\nno")
        assert b"x-own: a\r\n" in answer
        await until(lambda: len(seen) == 2)
        assert seen[1] == b""
        writer.close()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", "invalid upgrade response: status code 200"),
        (b"", "unexpected EOF"),
        (b"no answer\r\n\r\n", 'malformed HTTP response "no answer"'),
    ],
)
async def test_a_node_that_does_not_upgrade_is_an_error(
    server: ApiServer, client: httpx.AsyncClient, answer: bytes, message: str
) -> None:
    async def node(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(node, "127.0.0.1", 0) as listening:
        await _pod_on(client, listening.sockets[0].getsockname()[1])
        headers = {"connection": "Upgrade", "upgrade": "websocket"}
        failed = await client.get(f"{_POD}/exec?command=ls", headers=headers)
    assert (failed.status_code, failed.json()["message"]) == (500, message)


async def test_a_body_and_later_data_are_forwarded_to_the_node(
    server: ApiServer, client: httpx.AsyncClient
) -> None:
    async def node(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = await reader.readexactly(8)
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n" + body)
        writer.write(await reader.readexactly(5))
        writer.close()

    async with await asyncio.start_server(node, "127.0.0.1", 0) as listening:
        await _pod_on(client, listening.sockets[0].getsockname()[1])
        async with _connect(server, f"POST {_POD}/attach?stdout=1", "Content-Length: 8\r\n") as (
            reader,
            writer,
        ):
            writer.write(b"the body")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
            writer.write(b"later")
            assert await reader.read() == b"the bodylater"


async def test_exec_errors_before_the_upgrade_have_the_status_codes_of_kube_apiserver(
    server: ApiServer, client: httpx.AsyncClient
) -> None:
    missing = await client.get(f"{_POD}/exec?command=ls&stdout=1")
    assert (missing.status_code, missing.json()["message"]) == (404, 'pods "p" not found')
    with socket.socket() as held:
        # The port is bound, so that no other program gets it, but nothing listens on it.
        held.bind(("127.0.0.1", 0))
        await _pod_on(client, held.getsockname()[1])
        plain = await client.get(f"{_POD}/exec?command=ls&stdout=1")
        assert (plain.status_code, plain.json()["message"]) == (400, "Upgrade request required")
        wrong = await client.get(f"{_POD}/exec?command=ls&stdout=1&container=z")
        assert wrong.json()["message"] == "container z is not valid for pod p"
        async with _connect(server, f"GET {_POD}/exec?command=ls&stdout=1") as (reader, _):
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 500 ")


async def test_connecting_to_an_unscheduled_pod_is_an_error(client: httpx.AsyncClient) -> None:
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    spec = {"containers": [{"name": "c", "image": "i"}]}
    await client.post("/api/v1/namespaces/default/pods", json={**body, "spec": spec})
    answer = await client.get(f"{_POD}/exec?command=ls&stdout=1")
    assert (answer.status_code, answer.json()["message"]) == (400, "pod p does not have a host assigned")


async def test_ports_are_forwarded_without_a_container(server: ApiServer, client: httpx.AsyncClient) -> None:
    heads: list[bytes] = []

    async def node(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readline())
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(node, "127.0.0.1", 0) as listening:
        await _pod_on(client, listening.sockets[0].getsockname()[1])
        for query in ("", "?ports=80&ports=81"):
            async with _connect(server, f"POST {_POD}/portforward{query}") as (reader, _):
                assert (await reader.read()).startswith(b"HTTP/1.1 403 ")
    assert heads == [
        b"POST /portForward/default/p HTTP/1.1\r\n",
        b"POST /portForward/default/p?port=80%2C81 HTTP/1.1\r\n",
    ]
    refused = await client.get(f"{_POD}/portforward?ports=x")
    assert refused.status_code == 400
    assert (await client.get(f"{_POD}/portforward?dryRun=All")).json()["message"] == "dryRun is not supported"
    plain = await client.post(f"{_POD}/portforward")
    assert (plain.status_code, plain.json()["message"]) == (400, "Upgrade request required")
