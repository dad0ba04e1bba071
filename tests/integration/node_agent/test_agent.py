"""The node agent with its drivers against the real API server: claims prepared, pods run, logs read, all given back."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_node_agent.agent import NodeAgent, NodeAgentConfig, short_path
from dra_node_agent.kubelet.dra.checkpoint import STATE_FILE, decode
from dra_shared.api.codec import convert
from dra_shared.api.pod import Pod
from dra_shared.api.resource import ResourceClaim, ResourceSlice
from dra_shared.api.resources import NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from dra_shared.client.errors import NotFound
from dra_shared.client.rest import Client, PatchType
from dra_shared.service import HealthServer

_SCRIPT = "nvidia-smi -L; trap 'exit 0' TERM; sleep 9999 & wait"


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
    config = Config(port=0, data=folder, relaxed=True)
    async with ApiServer(config) as server, Client(server.url) as client:
        yield client


async def _until(check: Callable[[], Any]) -> Any:
    """The first true result of an async check."""
    async with asyncio.timeout(20):
        while not (result := await check()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        return result


async def _slices(client: Client) -> list[ResourceSlice]:
    return list((await client.list(RESOURCE_SLICES)).items)


async def _pod(client: Client, name: str) -> Pod | None:
    try:
        return await client.get(PODS, name, "default")
    except NotFound:
        return None


async def _bound_pod(client: Client, name: str, node: str, device: str) -> ResourceClaim:
    """A pod with a claim, allocated, reserved and bound as a scheduler does it."""
    claim = await client.create(
        RESOURCE_CLAIMS,
        convert(
            RESOURCE_CLAIMS,
            {
                "metadata": {"name": name, "namespace": "default"},
                "spec": {
                    "devices": {
                        "requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]
                    }
                },
            },
        ),
    )
    container = {
        "name": "main",
        "image": "ubuntu:22.04",
        "command": ["bash", "-c"],
        "args": [_SCRIPT],
        "resources": {"claims": [{"name": "gpu"}]},
    }
    pod = await client.create(
        PODS,
        convert(
            PODS,
            {
                "metadata": {"name": name, "namespace": "default"},
                "spec": {
                    "containers": [container],
                    "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
                },
            },
        ),
    )
    result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": node, "device": device}
    allocation = {"devices": {"results": [result]}}
    consumer = {"resource": "pods", "name": name, "uid": pod.metadata.uid}
    claim = await client.patch(
        RESOURCE_CLAIMS,
        name,
        {"status": {"allocation": allocation, "reservedFor": [consumer]}},
        "default",
        patch_type=PatchType.MERGE,
        subresource="status",
    )
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name},
        "target": {"kind": "Node", "name": node},
    }
    await client.create_subresource(PODS, name, "binding", binding, "default")
    return claim


async def _running(client: Client, name: str) -> Pod:
    async def check() -> Pod | None:
        pod = await _pod(client, name)
        return pod if pod is not None and pod.status.phase == "Running" else None

    found: Pod = await _until(check)
    return found


async def _gone(client: Client, name: str) -> None:
    async def check() -> bool:
        return await _pod(client, name) is None

    await _until(check)


async def test_claims_come_and_go_on_two_nodes(folder: Path) -> None:
    async with _server(folder) as client, _agent(client, folder, "node-0", "node-1"):

        async def published() -> bool:
            return {slice_.spec.node_name for slice_ in await _slices(client)} == {"node-0", "node-1"}

        await _until(published)
        for number in range(2):
            await _bound_pod(client, f"pod-{number}", f"node-{number}", "gpu-6")
        for number in range(2):
            pod = await _running(client, f"pod-{number}")
            health = pod.status.container_statuses[0].allocated_resources_status
            assert [entry.name for entry in health] == ["claim:gpu"]
            log = await client.raw("GET", PODS.path("default", f"pod-{number}", "log"))
            assert log.status_code == 200
            assert log.text.startswith("GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-")
            assert len(list((folder / "nodes" / f"node-{number}" / "cdi").iterdir())) == 1
        for number in range(2):
            await client.delete(PODS, f"pod-{number}", "default")
        for number in range(2):
            await _gone(client, f"pod-{number}")
            home = folder / "nodes" / f"node-{number}"
            assert list((home / "cdi").iterdir()) == []
            assert decode((home / "kubelet" / STATE_FILE).read_bytes()) == ()
        node = await client.get(NODES, "node-1")
        assert node.status.node_info.container_runtime_version == "fake://1.0.0"


async def test_restarted_agent_goes_on(folder: Path) -> None:
    async with _server(folder) as client:
        async with _agent(client, folder, "node-0"):
            await _until(lambda: _slices(client))
            await _bound_pod(client, "stays", "node-0", "gpu-4")
            await _bound_pod(client, "leaves", "node-0", "gpu-5")
            before = await _running(client, "stays")
            await _running(client, "leaves")
        await client.delete(PODS, "leaves", "default", grace_period=0)
        async with _agent(client, folder, "node-0"):
            cdi = folder / "nodes" / "node-0" / "cdi"

            async def one_left() -> bool:
                return len(list(cdi.iterdir())) == 1

            await _until(one_left)
            after = await _running(client, "stays")
            old, new = before.status.container_statuses[0], after.status.container_statuses[0]
            assert (new.container_id, new.restart_count) == (old.container_id, 0)
            await _until(lambda: _slices(client))
            await client.delete(PODS, "stays", "default")
            await _gone(client, "stays")
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
