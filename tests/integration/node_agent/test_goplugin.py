"""Drivers of other authors on a simulated node."""

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from dra_driverkit.proto import podresources_v1_pb2, rpc
from dra_kube.cluster import Cluster
from dra_shared.api.codec import convert
from dra_shared.api.resources import DEVICE_CLASSES, PODS, RESOURCE_CLAIM_TEMPLATES
from dralab.testing import AsyncCluster
from grpc import aio

from tests.integration.lab import Lab, Setup, lab
from tests.integration.node_agent.goplugin import GoPlugin
from tests.support.waiting import until

pytestmark = pytest.mark.slow

_DEVICES = [{"name": f"dev-{number}", "attributes": {"model": {"string": "X"}}} for number in range(2)]
_SCRIPT = "echo got $GO_DEVICE; trap 'exit 0' TERM; while true; do sleep 1; done"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Path]:
    # Sockets need short paths.
    with tempfile.TemporaryDirectory(prefix="g", dir="/tmp") as name:
        data = Path(name)
        Setup("plain", ("gpu.example.com",)).start(data)
        try:
            yield data
        finally:
            Setup.stop(data)


@pytest.fixture
async def house(cluster: Path) -> AsyncIterator[Lab]:
    async with lab(cluster) as found:
        yield found


def _plugin(data: Path, name: str, **options: Any) -> GoPlugin:
    node = data / "nodes" / "node-0"
    return GoPlugin(Cluster(data).record().server, node / "kubelet", node / "cdi", name=name, **options)


async def _want(house: Lab, driver: str) -> None:
    """Create a class for the driver's devices, and a pod that requests one."""
    name = driver.partition(".")[0]
    devices = {"selectors": [{"cel": {"expression": f"device.driver == '{driver}'"}}]}
    await house.client.create(
        DEVICE_CLASSES, convert(DEVICE_CLASSES, {"metadata": {"name": name}, "spec": devices})
    )
    request = {"name": "one", "exactly": {"deviceClassName": name}}
    template = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }
    await house.client.create(
        RESOURCE_CLAIM_TEMPLATES, convert(RESOURCE_CLAIM_TEMPLATES, template), "default"
    )
    container = {
        "name": "main",
        "image": "busybox",
        "command": ["sh", "-c", _SCRIPT],
        "resources": {"claims": [{"name": "it"}]},
    }
    pod = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "containers": [container],
            "resourceClaims": [{"name": "it", "resourceClaimTemplateName": name}],
        },
    }
    await house.client.create(PODS, convert(PODS, pod), "default")


async def _pod_resources(data: Path, pod: str) -> podresources_v1_pb2.PodResources:
    socket = data / "nodes" / "node-0" / "kubelet" / "pod-resources" / "kubelet.sock"
    options = (("grpc.default_authority", "localhost"),)
    async with aio.insecure_channel(f"unix:{socket}", options=options) as channel:
        stub = rpc.stub(podresources_v1_pb2, "PodResourcesLister", channel)
        listed = await stub.List(podresources_v1_pb2.ListPodResourcesRequest())
        asked = podresources_v1_pb2.GetPodResourcesRequest(pod_name=pod, pod_namespace="default")
        found: podresources_v1_pb2.PodResources = (await stub.Get(asked)).pod_resources
        assert found in listed.pod_resources
        await stub.GetAllocatableResources(podresources_v1_pb2.AllocatableResourcesRequest())
        return found


async def test_a_go_driver_is_updated_while_its_devices_are_in_use(cluster: Path, house: Lab) -> None:
    name = "rolling.go.dev"
    async with _plugin(cluster, name, uid="0a6f6d2e-0b3c-4a6c-9f4e-1c52e9a7d001") as old:
        assert await old.registered.get() == (True, "")
        await old.publish(_DEVICES)
        await _want(house, name)
        await house.wait_for_running("default", "rolling")
        assert await house.log("default", "rolling", "main") in ("got dev-0\n", "got dev-1\n")
        assert old.calls == [("v1.DRAPlugin", "NodePrepareResources")]

        (container,) = (await _pod_resources(cluster, "rolling")).containers
        (resource,) = container.dynamic_resources
        (device,) = resource.claim_resources
        assert (device.driver_name, device.pool_name) == (name, "node-0")
        assert device.device_name in ("dev-0", "dev-1")
        assert [entry.name.partition("=")[0] for entry in device.cdi_devices] == [f"{name}/claim"]

        async with _plugin(cluster, name, uid="0a6f6d2e-0b3c-4a6c-9f4e-1c52e9a7d002") as new:
            assert await new.registered.get() == (True, "")
            await old.stop()
            await new.publish([*_DEVICES, {"name": "dev-2"}])
            (slice_,) = await new.slices()
            assert len(slice_["spec"]["devices"]) == 3
            await house.client.delete(PODS, "rolling", "default")
            await house.wait_until_gone("default", "rolling")
            assert new.calls == [("v1.DRAPlugin", "NodeUnprepareResources")]
            assert not list((cluster / "nodes" / "node-0" / "cdi").glob(f"{name}*"))


async def test_slices_are_deleted_half_a_minute_after_their_driver_stopped() -> None:
    async with AsyncCluster(drivers=(), fake_clock=True) as cluster:
        node = cluster.data / "nodes" / "node-0"
        plugin = GoPlugin(cluster.url, node / "kubelet", node / "cdi", name="leaving.go.dev")
        async with plugin:
            assert await plugin.registered.get() == (True, "")
            await plugin.publish(_DEVICES)
            assert len(await cluster.list("resourceslices")) == 1
        left = cluster.clock.monotonic()

        async def is_gone() -> bool:
            return await cluster.list("resourceslices") == []

        await until(is_gone, clock=cluster.clock)
        assert cluster.clock.monotonic() - left > 29


@pytest.mark.parametrize("service", ["v1.DRAPlugin", "v1beta1.DRAPlugin"])
async def test_a_driver_with_one_api_version_prepares_claims(cluster: Path, house: Lab, service: str) -> None:
    name = f"only-{service.partition('.')[0]}.go.dev"
    pod = name.partition(".")[0]
    async with _plugin(cluster, name, services=(service,)) as plugin:
        assert await plugin.registered.get() == (True, "")
        await plugin.publish(_DEVICES)
        await _want(house, name)
        await house.wait_for_running("default", pod)
        await house.client.delete(PODS, pod, "default")
        await house.wait_until_gone("default", pod)
        assert plugin.calls == [(service, "NodePrepareResources"), (service, "NodeUnprepareResources")]
