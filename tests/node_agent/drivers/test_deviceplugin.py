"""A device plugin's server on its real socket, called as the kubelet calls it."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from dra_driverkit.cdi import DeviceNode, Mount
from dra_driverkit.errors import DriverConfigError
from dra_driverkit.proto import deviceplugin_v1beta1_pb2 as pb
from dra_driverkit.proto import rpc
from dra_node_agent.drivers.deviceplugin import (
    Allocation,
    AllocationError,
    DevicePluginServer,
    PluginDevice,
)
from dra_shared.clock import FakeClock, SystemClock
from grpc import StatusCode, aio

from tests.node_agent.drivers.pluginkubelet import PluginKubelet
from tests.support.waiting import until


class _Plugin:
    resource, socket, prefers = "acme.com/thing", "acme-thing.sock", True

    def __init__(self) -> None:
        self.sick: set[str] = set()

    def devices(self) -> Sequence[PluginDevice]:
        return [PluginDevice(f"thing-{n}", f"thing-{n}" not in self.sick, (n,)) for n in range(2)]

    def allocate(self, ids: Sequence[str]) -> Allocation:
        if "thing-9" in ids:
            raise AllocationError("no such thing")
        return Allocation(
            env={"THINGS": ",".join(ids)},
            mounts=[Mount("/host", "/inside", ("ro",))],
            device_nodes=[DeviceNode("/dev/thing", host_path="/dev/real-thing", permissions="rwm")],
            annotations={"a": "b"},
            cdi_ids=["acme.com/thing=0"],
        )

    def choose_preferred(self, available: Sequence[str], required: Sequence[str], size: int) -> list[str]:
        return [*required, *sorted(set(available) - set(required), reverse=True)][:size]


async def test_plugin_registers_and_serves_its_resource(root: Path) -> None:
    plugin = _Plugin()
    async with PluginKubelet(root) as kubelet, DevicePluginServer(plugin, root, SystemClock()) as server:
        await server.registered.wait()
        (request,) = kubelet.requests
        assert (request.version, request.endpoint, request.resource_name) == (
            "v1beta1",
            "acme-thing.sock",
            "acme.com/thing",
        )
        assert request.options.get_preferred_allocation_available
        async with kubelet.channel(request.endpoint) as channel:
            stub = rpc.stub(pb, "DevicePlugin", channel)
            stream = stub.ListAndWatch(pb.Empty())
            first = await stream.read()
            plugin.sick.add("thing-1")
            await server.notify_change()
            second = await stream.read()
            assert [(d.ID, d.health, d.topology.nodes[0].ID) for d in first.devices] == [
                ("thing-0", "Healthy", 0),
                ("thing-1", "Healthy", 1),
            ]
            assert [d.health for d in second.devices] == ["Healthy", "Unhealthy"]
            stream.cancel()
            wanted = pb.ContainerAllocateRequest(devices_ids=["thing-0"])
            (answer,) = (
                await stub.Allocate(pb.AllocateRequest(container_requests=[wanted]))
            ).container_responses
            assert dict(answer.envs) == {"THINGS": "thing-0"}
            assert (answer.mounts[0].host_path, answer.mounts[0].read_only) == ("/host", True)
            assert (answer.devices[0].host_path, answer.devices[0].permissions) == ("/dev/real-thing", "rwm")
            assert (dict(answer.annotations), answer.cdi_devices[0].name) == ({"a": "b"}, "acme.com/thing=0")
            bad = pb.ContainerAllocateRequest(devices_ids=["thing-9"])
            with pytest.raises(aio.AioRpcError) as raised:
                await stub.Allocate(pb.AllocateRequest(container_requests=[bad]))
            assert (raised.value.code(), raised.value.details()) == (StatusCode.UNKNOWN, "no such thing")
            asked = pb.ContainerPreferredAllocationRequest(
                available_deviceIDs=["thing-0", "thing-1"], allocation_size=1
            )
            preferred = await stub.GetPreferredAllocation(
                pb.PreferredAllocationRequest(container_requests=[asked])
            )
            assert list(preferred.container_responses[0].deviceIDs) == ["thing-1"]
            await stub.PreStartContainer(pb.PreStartContainerRequest(devices_ids=["thing-0"]))
    assert not server.socket.exists()


async def test_plugin_registers_again_when_the_kubelet_restarts(root: Path) -> None:
    clock = FakeClock()
    async with DevicePluginServer(_Plugin(), root, clock) as server:
        for _ in range(2):
            async with PluginKubelet(root) as kubelet:
                await until(partial(getattr, kubelet, "requests"), clock=clock)
        async with PluginKubelet(root) as kubelet:
            # A kubelet that starts removes what it finds in the directory.
            server.socket.unlink()
            await until(lambda: kubelet.requests, clock=clock)
            await until(server.socket.exists, clock=clock)
            async with kubelet.channel("acme-thing.sock") as channel:
                await rpc.stub(pb, "DevicePlugin", channel).GetDevicePluginOptions(pb.Empty())


async def test_a_directory_that_cannot_be_created_is_reported(root: Path) -> None:
    (root / "device-plugins").touch()
    with pytest.raises(
        DriverConfigError, match=r"device plugin for acme\.com/thing cannot make its directory"
    ):
        await DevicePluginServer(_Plugin(), root, SystemClock()).__aenter__()
