"""Pods with devices of device plugins, over real sockets and gRPC."""

import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from dra_driverkit.proto import deviceplugin_v1beta1_pb2 as pb
from dra_driverkit.proto import podresources_v1_pb2, rpc
from dra_node_agent.kubelet.devicemanager.types import Device
from dra_node_agent.kubelet.podresources import SOCKET as POD_RESOURCES
from dra_recordings.devicemanager.stub import StubPlugin
from dra_shared.api.resources import NODES
from dra_shared.clock import FakeClock
from dra_shared.jsontypes import JsonObject
from grpc import aio

from tests.support.fakeapi import FakeApi
from tests.support.kubelet.bench import SLEEPER, Bench, pod, reasons
from tests.support.waiting import until

RESOURCE = "example.com/gpu"
TWO = (Device("g0", numa_nodes=(0,)), Device("g1", numa_nodes=(1,)))


def _response(resource: str, ids: Sequence[str]) -> pb.ContainerAllocateResponse:
    return pb.ContainerAllocateResponse(
        envs={"GPU_IDS": ",".join(sorted(ids))},
        mounts=[pb.Mount(container_path="/opt/gpu", host_path="/nowhere/opt", read_only=True)],
        devices=[
            pb.DeviceSpec(container_path=f"/dev/gpu-{id_}", host_path=f"/dev/gpu-{id_}", permissions="rw")
            for id_ in ids
        ],
        annotations={"example.com/ids": ",".join(sorted(ids))},
    )


def _gpu_pod(
    name: str = "pod", count: int = 1, command: Sequence[str] = SLEEPER, **container: Any
) -> JsonObject:
    resources = {"limits": {RESOURCE: str(count)}, "requests": {RESOURCE: str(count)}}
    main = {"name": "main", "image": "busybox", "command": command, "resources": resources, **container}
    return pod(name, main)


@asynccontextmanager
async def _plugin(bench: Bench, name: str = "a", **options: Any) -> AsyncIterator[StubPlugin]:
    plugin = StubPlugin(RESOURCE, bench.device_plugins / f"{name}.sock", respond=_response, **options)
    await plugin.start()
    try:
        await plugin.register(bench.device_plugins / "kubelet.sock")
        yield plugin
    finally:
        await plugin.stop()


def _amounts(bench: Bench) -> tuple[str | None, str | None]:
    status = bench.api.find(NODES, "node").status
    return status.capacity.get(RESOURCE), status.allocatable.get(RESOURCE)


async def _with_devices(bench: Bench, plugin: StubPlugin, devices: Sequence[Device] = TWO) -> None:
    plugin.update(devices)
    healthy = sum(device.health == "Healthy" for device in devices)
    await until(lambda: _amounts(bench) == (str(len(devices)), str(healthy)))


async def test_a_container_gets_the_environment_and_devices_of_the_plugin() -> None:
    async with Bench() as bench, _plugin(bench) as plugin:
        await _with_devices(bench, plugin)
        bench.create(_gpu_pod(count=2, command=["sh", "-c", "echo $GPU_IDS; ls /dev; sleep 9999"]))
        await until(lambda: bench.phase() == "Running")

        async def read_log() -> list[str]:
            lines = (await bench.log()).splitlines()
            return lines if len(lines) > 1 else []

        first, *others = await until(read_log)
        assert first == "g0,g1"
        assert {"gpu-g0", "gpu-g1"} <= {name for line in others for name in line.split()}
        assert plugin.calls == ["GetDevicePluginOptions", "ListAndWatch", "Allocate"]


async def test_a_pod_without_enough_devices_fails_with_the_upstream_message() -> None:
    async with Bench() as bench, _plugin(bench) as plugin:
        await _with_devices(bench, plugin)
        bench.create(_gpu_pod("first", 2))
        await until(lambda: bench.phase("first") == "Running")
        bench.create(_gpu_pod("second", 1))
        await until(lambda: bench.phase("second") == "Failed")
        found = bench.pod("second")
        assert found is not None
        status = found.status
        why = (
            f"Allocate failed due to requested number of devices unavailable for {RESOURCE}."
            " Requested: 1, Available: 0, which is unexpected"
        )
        assert (status.reason, status.message) == ("UnexpectedAdmissionError", f"Pod was rejected: {why}")
        assert "UnexpectedAdmissionError" in reasons(await bench.events())


async def test_devices_are_free_once_their_pod_has_ended() -> None:
    async with Bench() as bench, _plugin(bench) as plugin:
        await _with_devices(bench, plugin)
        first = _gpu_pod("first", 2, ["true"])
        first["spec"]["restartPolicy"] = "Never"
        bench.create(first)
        await until(lambda: bench.phase("first") == "Succeeded")
        bench.create(_gpu_pod("second", 2))
        await until(lambda: bench.phase("second") == "Running")


async def test_device_health_is_in_the_status_of_the_pod_and_of_the_node() -> None:
    async with Bench() as bench, _plugin(bench) as plugin:
        await _with_devices(bench, plugin)
        bench.create(_gpu_pod(count=2))
        await until(lambda: bench.phase() == "Running")
        await until(lambda: _health(bench) == {"g0": "Healthy", "g1": "Healthy"})
        await _with_devices(bench, plugin, (TWO[0], Device("g1", "Unhealthy", (1,))))
        await until(lambda: _health(bench) == {"g0": "Healthy", "g1": "Unhealthy"})


def _health(bench: Bench) -> dict[str, str]:
    found = bench.pod()
    assert found is not None
    (status,) = found.status.container_statuses
    return {
        one.resource_id: one.health
        for entry in status.allocated_resources_status
        if entry.name == RESOURCE
        for one in entry.resources
    }


async def test_devices_are_removed_some_time_after_their_plugin_stopped() -> None:
    async with Bench() as bench:
        async with _plugin(bench) as plugin:
            await _with_devices(bench, plugin)
            bench.create(_gpu_pod(count=1))
            await until(lambda: bench.phase() == "Running")
        await until(lambda: _amounts(bench) == ("2", "0"))
        await bench.clock.advance(290)
        assert _amounts(bench) == ("2", "0")
        await bench.clock.advance(30)
        assert _amounts(bench) == ("0", "0"), "it stays in the status, with nothing of it"
        assert bench.phase() == "Running"


async def test_a_plugin_may_register_through_plugins_registry() -> None:
    async with Bench() as bench:
        plugin = StubPlugin(RESOURCE, bench.registry / "a-reg.sock", respond=_response)
        await plugin.start()
        try:
            await _with_devices(bench, plugin)
            # The kubelet may know the plugin's devices before it notifies the plugin of its registration.
            await until(lambda: plugin.registered)
        finally:
            await plugin.stop()
        await until(lambda: _amounts(bench) == ("2", "0"))


async def test_pod_resources_show_both_kinds_of_devices() -> None:
    async with Bench() as bench, _plugin(bench) as plugin:
        await _with_devices(bench, plugin)
        bench.create(_gpu_pod())
        await until(lambda: bench.phase() == "Running")
        options = (("grpc.default_authority", "localhost"),)
        async with aio.insecure_channel(f"unix:{bench.root / POD_RESOURCES}", options=options) as channel:
            stub = rpc.stub(podresources_v1_pb2, "PodResourcesLister", channel)
            listed = await stub.List(podresources_v1_pb2.ListPodResourcesRequest())
            (device,) = listed.pod_resources[0].containers[0].devices
            assert (device.resource_name, list(device.device_ids)) == (RESOURCE, ["g0"])
            assert [node.ID for node in device.topology.nodes] == [0]
            got = await stub.Get(
                podresources_v1_pb2.GetPodResourcesRequest(pod_name="pod", pod_namespace="ns")
            )
            assert got.pod_resources == listed.pod_resources[0]
            request = podresources_v1_pb2.AllocatableResourcesRequest()
            allocatable = await stub.GetAllocatableResources(request)
            assert sorted(entry.device_ids[0] for entry in allocatable.devices) == ["g0", "g1"]


async def test_the_plugin_is_called_before_each_start_if_required() -> None:
    options = pb.DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=True)
    async with Bench() as bench, _plugin(bench, options=options) as plugin:
        await _with_devices(bench, plugin)
        bench.create(_gpu_pod(command=["sh", "-c", "exit 1"]))
        await until(lambda: plugin.calls.count("PreStartContainer") == 1)
        # Advance the time until the back-off is over, because its start is not known.
        await until(lambda: plugin.calls.count("PreStartContainer") == 2, clock=bench.clock)
        assert plugin.calls.count("Allocate") == 1
        assert plugin.calls.count("GetPreferredAllocation") == 1


async def test_the_restricted_policy_allocates_devices_of_one_numa_node() -> None:
    four = [Device(f"g{number}", numa_nodes=(number % 2,)) for number in range(4)]
    async with Bench(topology_policy="restricted") as bench, _plugin(bench) as plugin:
        await _with_devices(bench, plugin, four)
        held = bench.kubelet.devices.state.pod_devices
        bench.create(_gpu_pod("one", 1))
        await until(lambda: bench.phase("one") == "Running")
        bench.create(_gpu_pod("two", 2))
        await until(lambda: bench.phase("two") == "Running")
        assert held.pod_devices("two-uid", RESOURCE) == {"g1", "g3"}
        bench.create(_gpu_pod("again", 1))
        await until(lambda: bench.phase("again") == "Running")
        bench.delete("one", 0)
        bench.delete("two", 0)
        await until(lambda: _have_ended(bench, "one-uid", "two-uid"))
        # No single NUMA node has three devices: the smallest set is both nodes.
        bench.create(_gpu_pod("three", 3))
        await until(lambda: bench.phase("three") == "Running")


def _have_ended(bench: Bench, *uids: str) -> bool:
    active = {pod.metadata.uid for pod in bench.kubelet.active_pods()}
    return active.isdisjoint(uids)


async def test_the_single_numa_node_policy_rejects_pods_that_need_two() -> None:
    async with Bench(topology_policy="single-numa-node") as bench, _plugin(bench) as plugin:
        await _with_devices(bench, plugin)
        bench.create(_gpu_pod(count=2))
        await until(lambda: bench.phase() == "Failed")
        found = bench.pod()
        assert found is not None
        assert found.status.reason == "TopologyAffinityError"
        assert found.status.message == (
            "Pod was rejected: Resources cannot be allocated with Topology locality"
        )


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder with a path short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="k", dir="/tmp") as path:
        yield Path(path)


async def test_a_running_pod_keeps_its_devices_when_the_kubelet_restarts(folder: Path) -> None:
    api, clock = FakeApi(), FakeClock()
    async with Bench(folder, api, clock) as bench, _plugin(bench) as plugin:
        await _with_devices(bench, plugin)
        bench.create(_gpu_pod(count=1))
        await until(lambda: bench.phase() == "Running")
    async with Bench(folder, api, clock) as bench:
        held = bench.kubelet.devices.state.pod_devices
        assert held.pod_devices("pod-uid", RESOURCE) == {"g0"}
        await until(lambda: _amounts(bench) == ("0", "0"))
        async with _plugin(bench) as plugin:
            await _with_devices(bench, plugin)
            bench.create(_gpu_pod("other", 1))
            await until(lambda: bench.phase("other") == "Running")
            assert held.pod_devices("pod-uid", RESOURCE) == {"g0"}
            assert held.pod_devices("other-uid", RESOURCE) == {"g1"}
        assert bench.phase() == "Running"
