"""The node agent with its drivers and the real API server: claims are prepared, pods run, and all is released."""

import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_driverkit.files import short_path
from dra_node_agent.agent import NodeAgent, NodeAgentConfig
from dra_node_agent.kubelet.dra.checkpoint import STATE_FILE, decode
from dra_shared.api.resources import NODES, PODS
from dra_shared.client.rest import Client
from dra_shared.service import HealthServer

from tests.integration.node_agent.cluster import bound_pod, slices, wait_until_gone, wait_until_running
from tests.support.waiting import until


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="a", dir="/tmp") as name:
        yield Path(name)


@asynccontextmanager
async def _agent(client: Client, folder: Path, *names: str) -> AsyncIterator[NodeAgent]:
    agent = NodeAgent(NodeAgentConfig(data=folder, names=names, durable=False), client)
    async with HealthServer("127.0.0.1", 0, {"nodes": lambda: agent.ready}, agent.routes()) as server:
        agent.listen_on(server.port)
        async with agent:
            yield agent


@asynccontextmanager
async def _server(folder: Path) -> AsyncIterator[Client]:
    config = Config(port=0, data=folder, database=IN_MEMORY, disabled_plugins=frozenset({"ServiceAccount"}))
    async with ApiServer(config) as server, Client(server.url) as client:
        yield client


async def test_claims_are_prepared_and_unprepared_on_two_nodes(folder: Path) -> None:
    async with _server(folder) as client, _agent(client, folder, "node-0", "node-1"):

        async def is_published() -> bool:
            return {slice_.spec.node_name for slice_ in await slices(client)} == {"node-0", "node-1"}

        await until(is_published)
        for number in range(2):
            await bound_pod(client, f"pod-{number}", f"node-{number}", "gpu-6")
        for number in range(2):
            pod = await wait_until_running(client, f"pod-{number}")
            health = pod.status.container_statuses[0].allocated_resources_status
            assert [entry.name for entry in health] == ["claim:gpu"]
            log = await client.raw("GET", PODS.path("default", f"pod-{number}", "log"))
            assert log.status_code == 200
            assert log.text.startswith("GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-")
            assert len(list((folder / "nodes" / f"node-{number}" / "cdi").iterdir())) == 1
        metrics = (await client.raw("GET", "/api/v1/nodes/node-1/proxy/metrics/dcgm")).text
        busy = [
            line
            for line in metrics.splitlines()
            if line.startswith("DCGM_FI_DEV_GPU_UTIL{") and "pod=" in line
        ]
        assert len(busy) == 1
        assert 'Hostname="node-1"' in busy[0]
        assert 'dra_device_name="gpu-6"' in busy[0]
        assert 'pod="pod-1"' in busy[0]
        for number in range(2):
            await client.delete(PODS, f"pod-{number}", "default")
        for number in range(2):
            await wait_until_gone(client, f"pod-{number}")
            home = folder / "nodes" / f"node-{number}"
            assert list((home / "cdi").iterdir()) == []
            assert decode((home / "kubelet" / STATE_FILE).read_bytes()) == ()
        node = await client.get(NODES, "node-1")
        assert node.status.node_info.container_runtime_version == "fake://1.0.0"


async def test_a_restarted_agent_keeps_running_pods_and_removes_deleted_ones(folder: Path) -> None:
    async with _server(folder) as client:
        async with _agent(client, folder, "node-0"):
            await until(lambda: slices(client))
            await bound_pod(client, "stays", "node-0", "gpu-4")
            await bound_pod(client, "leaves", "node-0", "gpu-5")
            before = await wait_until_running(client, "stays")
            await wait_until_running(client, "leaves")
        await client.delete(PODS, "leaves", "default", grace_period=0)
        async with _agent(client, folder, "node-0"):
            cdi = folder / "nodes" / "node-0" / "cdi"

            async def one_left() -> bool:
                return len(list(cdi.iterdir())) == 1

            await until(one_left)
            after = await wait_until_running(client, "stays")
            old, new = before.status.container_statuses[0], after.status.container_statuses[0]
            assert (new.container_id, new.restart_count) == (old.container_id, 0)
            await until(lambda: slices(client))
            await client.delete(PODS, "stays", "default")
            await wait_until_gone(client, "stays")
            assert list(cdi.iterdir()) == []


async def test_deep_data_directories_get_a_short_path(folder: Path) -> None:
    deep = folder.joinpath(*["a-rather-long-name"] * 6)
    deep.mkdir(parents=True)
    link = short_path(deep)
    try:
        assert len(str(link)) < len(str(deep))
        assert link.resolve() == deep.resolve()
        assert short_path(deep) == link
        assert short_path(Path("/tmp")) == Path("/tmp")
    finally:
        link.unlink()


async def test_the_short_path_is_removed_with_the_agent(folder: Path) -> None:
    deep = folder.joinpath(*["a-rather-long-name"] * 6)
    async with _server(folder) as client:
        async with _agent(client, deep, "node-0") as agent:
            link = agent.kubelets[0].config.root.parent
            assert link.is_symlink()
        assert not link.is_symlink()
    assert (deep / "nodes" / "node-0" / "kubelet").is_dir()
