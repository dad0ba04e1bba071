"""Probes over a real network: named ports, bad statuses and refused connections."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from dra_node_agent.runtime.base import BAD_STATUS
from dra_node_agent.runtime.netprobe import probe_network
from dra_shared.api.container import Container, ContainerPort, HTTPGetAction, Probe, TCPSocketAction

from tests.support.waiting import until


@pytest.fixture
async def port() -> AsyncIterator[int]:
    busy = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal busy
        busy += 1
        line = await reader.readline()
        status = b"200 OK" if b" /ok " in line else b"503 Service Unavailable"
        writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        busy -= 1

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        number: int = server.sockets[0].getsockname()[1]
        yield number
        # Connections are accepted in order: once the last one has an answer, all were accepted.
        reader, writer = await asyncio.open_connection("127.0.0.1", number)
        writer.write(b"\n")
        await reader.read()
        writer.close()
        await writer.wait_closed()
        await until(lambda: not busy)


def _container(port: int) -> Container:
    return Container(name="main", ports=(ContainerPort(name="web", container_port=port),))


async def test_a_named_port_is_looked_up_in_the_container(port: int) -> None:
    probe = Probe(http_get=HTTPGetAction(path="/ok", port="web"))
    assert await probe_network(probe, "127.0.0.1", _container(port)) == (True, "")
    tcp = Probe(tcp_socket=TCPSocketAction(port="web"))
    assert await probe_network(tcp, "127.0.0.1", _container(port)) == (True, "")


async def test_a_probe_of_an_unknown_port_name_fails(port: int) -> None:
    probe = Probe(http_get=HTTPGetAction(path="/ok", port="other"))
    assert await probe_network(probe, "127.0.0.1", _container(port)) == (False, "couldn't find port: other")


async def test_a_bad_status_is_distinct_from_no_response(port: int) -> None:
    probe = Probe(http_get=HTTPGetAction(path="/bad", port=port))
    assert await probe_network(probe, "127.0.0.1") == (False, f"{BAD_STATUS}503")
    ok, output = await probe_network(Probe(http_get=HTTPGetAction(path="/", port=1)), "127.0.0.1")
    assert not ok
    assert not output.startswith(BAD_STATUS)
