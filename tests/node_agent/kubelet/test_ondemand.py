"""gRPC servers that run while a client is connected."""

import asyncio
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from dra_node_agent.kubelet.ondemand import OnDemandServer
from grpc import aio

from tests.support.waiting import until


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder with a path short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="k", dir="/tmp") as path:
        yield Path(path)


async def test_an_on_demand_grpc_server_runs_while_a_client_is_connected(folder: Path) -> None:
    made: list[aio.Server] = []
    server = OnDemandServer(folder / "door.sock", folder / "behind.sock", made.append)
    await server.start()
    for number in range(1, 4):
        async with aio.insecure_channel(f"unix:{folder / 'door.sock'}") as channel:
            await asyncio.wait_for(channel.channel_ready(), 60)
            assert len(made) == number
        await until(lambda: not (folder / "behind.sock").exists())
    await server.close()
    assert os.listdir(folder) == []


async def test_an_on_demand_grpc_server_can_be_closed_while_its_last_client_disconnects(folder: Path) -> None:
    for _ in range(10):
        server = OnDemandServer(folder / "door.sock", folder / "behind.sock", lambda _: None)
        await server.start()
        channel = aio.insecure_channel(f"unix:{folder / 'door.sock'}")
        await asyncio.wait_for(channel.channel_ready(), 60)
        await asyncio.gather(channel.close(), server.close())
        assert os.listdir(folder) == []
