"""The examples of this repository, applied unchanged, behave as their comments say."""

import pytest
from dra_shared.api.resources import DEPLOYMENTS, PODS

from tests.integration.lab import PARTITIONED, SHARED, Lab, Setup, on, results
from tests.support.reference import REPOSITORY

pytestmark = pytest.mark.slow

EXAMPLES = REPOSITORY / "examples"
NVIDIA = Setup(
    "nvidia",
    ("gpu.nvidia.com", str(EXAMPLES / "drivers" / "nic.yaml")),
    nodes=2,
)

NEWEST = Setup(
    "newest",
    (str(EXAMPLES / "drivers" / "mig-or-vgpu.yaml"), str(EXAMPLES / "drivers" / "nic.yaml")),
)
BOTH = Setup("both", ("gpu.example.com:device-plugin@0", "gpu.example.com@1"), nodes=2)


@on(NVIDIA)
async def test_taints_move_pods_that_do_not_tolerate_them(house: Lab) -> None:
    pods, rule = sorted((EXAMPLES / "taints-and-tolerations").iterdir())
    await house.apply(pods)
    names = await house.wait_for_pods("taints", 3)
    placed = {pod.metadata.name: pod.spec.node_name for pod in await house.wait_for_running("taints", *names)}
    assert placed.pop("monitor") == "node-0"
    assert sorted(placed.values()) == ["node-0", "node-1"]
    (evicted,) = (name for name, node in placed.items() if node == "node-0")
    await house.apply(rule)
    await house.wait_until_gone("taints", evicted)
    (successor,) = set(await house.wait_for_pods("taints", 3)) - set(names)
    await house.unschedulable("taints", successor)
    await house.wait_for_running("taints", "monitor")
    await house.eviction("node-0-broken", "True", "PodsPendingEviction")
    await house.delete(rule)
    (pod,) = await house.wait_for_running("taints", successor)
    assert pod.spec.node_name == "node-0"
    await house.delete(pods)
    await house.nothing_left("taints")


@on(NVIDIA)
async def test_the_first_available_alternative_is_allocated(house: Lab) -> None:
    folder = EXAMPLES / "prioritized-alternatives"
    await house.apply(folder)
    (pod,) = await house.wait_for_running("alternatives", "trainer")
    gotten = results(await house.claim_of(pod, "gpu"))
    assert [result.request for result in gotten] == ["gpu/two-of-40gi"] * 2
    assert (await house.log("alternatives", "trainer", "main")).count("NVIDIA A100-SXM4-40GB") == 2
    await house.delete(folder)
    await house.nothing_left("alternatives")


@on(NVIDIA)
async def test_extended_resources_are_allocated_as_devices(house: Lab) -> None:
    folder, space = EXAMPLES / "extended-resource", "extended-resource"
    await house.apply(folder)
    (name,) = await house.wait_for_pods(space, 1)
    (pod,) = await house.wait_for_running(space, name)
    whole = await house.log(space, name, "two-gpus")
    assert (whole.count("GPU "), whole.count("MIG ")) == (2, 0)
    assert (await house.log(space, name, "a-part")).count("  MIG 1g.5gb") == 1
    status = pod.status.extended_resource_claim_status
    assert status is not None
    assert {(m.container_name, m.resource_name) for m in status.request_mappings} == {
        ("two-gpus", "lab.example.com/gpu"),
        ("a-part", "deviceclass.resource.kubernetes.io/mig.nvidia.com"),
    }
    assert [claim.metadata.name for claim in await house.claims(space)] == [status.resource_claim_name]
    await house.delete(folder)
    await house.nothing_left(space)


@on(BOTH)
async def test_one_workload_runs_with_a_device_plugin_and_with_dra(house: Lab) -> None:
    folder, space = EXAMPLES / "device-plugins", "device-plugins"
    await house.apply(folder)
    names = await house.wait_for_pods(space, 3)
    pods = {pod.metadata.name: pod for pod in await house.wait_for_running(space, *names)}
    assert {name: pod.spec.node_name for name, pod in pods.items()} == {
        "on-plugin": "node-0",
        "on-dra": "node-1",
        "only-dra": "node-1",
    }
    # The plugin names the devices in the order in which the kubelet asks for them, which is a set's.
    assert sorted((await house.log(space, "on-plugin", "main")).splitlines()) == [
        "GPU_DEVICE_0=gpu-0",
        "GPU_DEVICE_1=gpu-1",
    ]
    claimed = pods["on-dra"].status.extended_resource_claim_status
    assert claimed is not None
    assert pods["on-plugin"].status.extended_resource_claim_status is None
    assert claimed.resource_claim_name in {claim.metadata.name for claim in await house.claims(space)}
    logs = [await house.log(space, "only-dra", name) for name in ("first", "second")]
    assert logs[0] == logs[1]
    assert "_TIMESLICE_INTERVAL=Long" in logs[0]
    await house.delete(folder)
    await house.nothing_left(space)


@on(NVIDIA)
async def test_a_custom_driver_prepares_its_devices(house: Lab) -> None:
    folder, space = EXAMPLES / "custom-driver", "bonded-ports"
    await house.apply(folder)
    await house.wait_for_running(space, "bonded")
    environment = await house.read_exports(space, "bonded", "main")
    assert {name: value for name, value in environment.items() if name.startswith("NIC_CARD")} == {
        "NIC_CARD_0_PORT_0_MAC": "02:00:00:00:00:00",
        "NIC_CARD_0_PORT_0_MTU": "9000",
        "NIC_CARD_0_PORT_0_VLAN": "7",
        "NIC_CARD_0_PORT_1_MAC": "02:00:00:00:00:01",
        "NIC_CARD_0_PORT_1_MTU": "9000",
        "NIC_CARD_0_PORT_1_VLAN": "7",
    }
    await house.delete(folder)
    await house.nothing_left(space)


@on(NVIDIA)
async def test_gangs_are_scheduled_whole_or_not_at_all(house: Lab) -> None:
    folder = EXAMPLES / "gang-scheduling"
    await house.apply(folder)
    names = await house.wait_for_pods("gang", 5)
    first = [name for name in names if name.startswith("first-")]
    second = [name for name in names if name.startswith("second-")]
    assert (len(first), len(second)) == (3, 2)
    await house.wait_for_running("gang", *first)
    for name in second:
        await house.unschedulable("gang", name)
    pods = await house.pods("gang")
    assert [pods[name].spec.node_name for name in second] == ["", ""]
    await house.wait_for_group("gang", "first", "True", "Scheduled")
    await house.wait_for_group("gang", "second", "False", "Unschedulable")
    await house.client.delete(DEPLOYMENTS, "first", "gang")
    await house.wait_for_running("gang", *second)
    await house.delete(folder, missing_ok=True)
    await house.nothing_left("gang")


@on(PARTITIONED)
async def test_partitions_are_allocated_while_counters_are_left(house: Lab) -> None:
    folder = EXAMPLES / "partitionable-devices"
    await house.apply(folder)
    quarters, whole = await house.wait_for_running("partitions", "quarters", "whole")
    parts = {result.device for result in results(await house.claim_of(quarters, "quarters"))}
    assert parts == {"gpu-0-partition-0", "gpu-0-partition-1"}
    assert [result.device for result in results(await house.claim_of(whole, "gpu"))] == ["gpu-1-full"]
    await house.unschedulable("partitions", "no-room")
    await house.client.delete(PODS, "quarters", "partitions")
    (pod,) = await house.wait_for_running("partitions", "no-room")
    assert [result.device for result in results(await house.claim_of(pod, "gpu"))] == ["gpu-0-full"]
    await house.delete(folder, missing_ok=True)
    await house.nothing_left("partitions")


@on(SHARED)
async def test_the_memory_of_a_gpu_is_shared_by_capacity_requests(house: Lab) -> None:
    folder, space = EXAMPLES / "consumable-capacity", "shared-memory"
    await house.apply(folder)
    gotten = {}
    for pod in await house.wait_for_running(space, "small", "large", "medium"):
        (result,) = results(await house.claim_of(pod, "gpu"))
        gotten[pod.metadata.name] = (result.device, result.consumed_capacity["memory"])
    amounts = {name: memory for name, (_, memory) in gotten.items()}
    assert amounts == {"small": "3Gi", "large": "60Gi", "medium": "20Gi"}
    assert gotten["medium"][0] != gotten["large"][0]
    assert gotten["small"][0] == "gpu-0"
    await house.delete(folder)
    await house.nothing_left(space)


@on(NEWEST)
async def test_a_gpu_has_either_mig_devices_or_virtual_gpus(house: Lab) -> None:
    folder, space = EXAMPLES / "compatibility-groups", "compatibility"
    await house.apply(folder)
    (mig,) = await house.wait_for_running(space, "mig")
    gotten = {result.device for result in results(await house.claim_of(mig, "gpu"))}
    assert gotten == {"gpu-0-mig-0", "gpu-1-mig-0"}
    await house.unschedulable(space, "vgpu")
    await house.client.delete(PODS, "mig", space)
    (pod,) = await house.wait_for_running(space, "vgpu")
    assert [result.device for result in results(await house.claim_of(pod, "gpu"))] == ["gpu-0-vgpu-0"]
    await house.delete(folder, missing_ok=True)
    await house.nothing_left(space)


@on(NEWEST)
async def test_derived_attributes_match_devices_of_two_drivers(house: Lab) -> None:
    folder, space = EXAMPLES / "derived-attributes", "derived"
    await house.apply(folder)
    await house.wait_for_running(space, "reader")
    (claim,) = await house.claims(space)
    assert [result.device for result in results(claim)] == ["gpu-1-mig-0", "card-1-port-0"]
    await house.delete(folder)
    await house.nothing_left(space)
