import asyncio

import pytest
from dra_node_agent.drivers.nvidia.discovery import DeviceLibrary
from dra_node_agent.drivers.nvidia.gates import NvidiaGates
from dra_node_agent.drivers.nvidia.health import HealthMonitor
from dra_shared.api.resource import DeviceTaint
from dra_shared.clock import FakeClock

from tests.node_agent.drivers.nvidia.node import Node


class _Watched:
    def __init__(self, node: Node, *ignored: int) -> None:
        self.node = node
        self.monitor = HealthMonitor(node.host.nvml, FakeClock(), ignored)
        self.monitor.watch(DeviceLibrary(node.host, NvidiaGates()).enumerate())
        self._events = self.monitor.events()

    async def next(self) -> tuple[list[str], DeviceTaint]:
        return await asyncio.wait_for(anext(self._events), 60)


@pytest.fixture
def node(tmp_path_factory: pytest.TempPathFactory) -> Node:
    return Node(tmp_path_factory.mktemp("node"))


async def test_a_fatal_xid_taints_the_gpu_and_an_application_xid_does_not(node: Node) -> None:
    watched = _Watched(node)
    node.system.inject_xid(5, 79)
    node.system.inject_xid(6, 31)
    assert await watched.next() == (
        ["gpu-5"],
        DeviceTaint(key="gpu.nvidia.com/xid", value="79", effect="NoSchedule"),
    )
    assert await watched.next() == (
        ["gpu-6"],
        DeviceTaint(key="gpu.nvidia.com/xid", value="31", effect="None"),
    )
    watched.monitor.close()


async def test_an_option_lists_further_xids_to_ignore(node: Node) -> None:
    watched = _Watched(node, 63)
    node.system.inject_xid(5, 63)
    assert (await watched.next())[1].effect == "None"
    watched.monitor.close()


async def test_an_error_of_a_mig_device_taints_only_that_device(node: Node) -> None:
    watched = _Watched(node)
    instance, compute = next((i, c) for i, c in node.system.gpus[2].mig_devices() if i.profile.slices == 3)
    node.system.inject_xid(2, 94, instance.id, compute.id)
    names, taint = await watched.next()
    assert (names, taint.value) == (["gpu-2-mig-3g20gb-9-4"], "94")
    watched.monitor.close()


async def test_a_lost_gpu_taints_all_gpus_because_nvml_does_not_name_it(node: Node) -> None:
    watched = _Watched(node)
    node.system.lose(4)
    names, taint = await watched.next()
    assert len(names) == 20
    assert (taint.key, taint.effect) == ("gpu.nvidia.com/gpu-lost", "NoSchedule")
    watched.monitor.close()


async def test_a_gpu_that_cannot_be_monitored_is_tainted(node: Node) -> None:
    monitor = HealthMonitor(node.host.nvml, FakeClock())
    found = DeviceLibrary(node.host, NvidiaGates()).enumerate()
    node.system.gpus[7].lost = True
    monitor.watch(found)
    names, taint = await anext(monitor.events())
    assert (names, taint.key, taint.effect) == (["gpu-7"], "gpu.nvidia.com/unmonitored", "None")
    monitor.close()
