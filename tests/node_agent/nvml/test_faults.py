"""Injecting faults into simulated GPUs over HTTP."""

import asyncio
from pathlib import Path

import httpx
import pytest
from dra_node_agent.drivers.nvidia.discovery import DeviceLibrary
from dra_node_agent.drivers.nvidia.gates import NvidiaGates
from dra_node_agent.drivers.nvidia.health import HealthMonitor
from dra_node_agent.nvml.faults import FAULTS_ROUTE, FaultInjector
from dra_shared.api.resource import DeviceTaint
from dra_shared.clock import FakeClock
from dra_shared.service import HealthServer

from tests.node_agent.drivers.nvidia.node import Node


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


async def _post(node: Node, path: str, body: str) -> httpx.Response:
    injector = FaultInjector(lambda name: node.system if name == "node-0" else None)
    async with (
        HealthServer("127.0.0.1", 0, {}, {FAULTS_ROUTE: injector.inject}) as server,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", trust_env=False, timeout=30) as client,
    ):
        return await client.post(f"/simulated/nodes/{path}/faults", content=body)


async def test_an_xid_taints_the_gpu(node: Node) -> None:
    monitor = HealthMonitor(node.host.nvml, FakeClock())
    monitor.watch(DeviceLibrary(node.host, NvidiaGates()).enumerate())
    assert (await _post(node, "node-0/gpus/5", '{"xid": 79}')).status_code == 204
    report = await asyncio.wait_for(anext(monitor.events()), 60)
    assert report == (["gpu-5"], DeviceTaint(key="gpu.nvidia.com/xid", value="79", effect="NoSchedule"))
    monitor.close()


async def test_memory_errors_and_loss_are_injected(node: Node) -> None:
    body = '{"correctedEcc": 2, "uncorrectedEcc": 1, "lost": true}'
    assert (await _post(node, "node-0/gpus/4", body)).status_code == 204
    gpu = node.system.gpus[4]
    assert (gpu.corrected_ecc, gpu.uncorrected_ecc, gpu.lost) == (2, 1, True)


@pytest.mark.parametrize(
    ("path", "body", "code", "message"),
    [
        ("other/gpus/0", "{}", 404, "node 'other' has no simulated GPUs"),
        ("node-0/gpus/99", "{}", 404, "node 'node-0' has no GPU '99', only 0 to"),
        ("node-0/gpus/x", "{}", 404, "node 'node-0' has no GPU 'x'"),
        ("node-0/gpus/" + "9" * 5000, "{}", 404, "node 'node-0' has no GPU '9999"),
        ("node-0/gpus/%C2%B2", "{}", 404, "node 'node-0' has no GPU '²'"),
        ("node-0/gpus/0", "{", 400, "cannot read the fault"),
        ("node-0/gpus/0", '{"smoke": 1}', 400, "unknown field `smoke`"),
        ("node-0/gpus/0", '{"xid": "79"}', 400, "Expected `int | null`"),
    ],
)
async def test_faults_that_a_gpu_cannot_have_are_rejected(
    node: Node, path: str, body: str, code: int, message: str
) -> None:
    response = await _post(node, path, body)
    assert response.status_code == code
    assert message in response.text
