"""The example driver's manifests and our own examples, applied as they are: each has the result that it is written for.

What the manifests are to show is said in their own comments, and in that driver's read-me files and end-to-end test.
"""

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from dra_cli.errors import CommandError
from dra_shared.api.core import Event
from dra_shared.api.pod import Pod
from dra_shared.api.resources import (
    DEPLOYMENTS,
    DEVICE_TAINT_RULES,
    EVENTS,
    POD_GROUPS,
    PODS,
    RESOURCE_SLICES,
)
from dra_shared.quantity import Quantity

from tests.integration.lab import Lab, Setup, lab, results
from tests.reference import REPOSITORY, manifest_dir

pytestmark = pytest.mark.slow

EXAMPLES = REPOSITORY / "examples"
MAIN = Setup(
    "main",
    ("gpu.example.com", "net.example.com", "cpu.example.com:two-cpus"),
    nodes=2,
    gates=(
        "DRADeviceTaintRules=true,DRANodeAllocatableResources=true,"
        "GenericWorkload=true,GangScheduling=true,DRAWorkloadResourceClaims=true"
    ),
)
PARTITIONED = Setup("partitioned", ("gpu.example.com:partitioned",))
SHARED = Setup("shared", ("gpu.example.com:shared",))
SHARED_PARTITIONED = Setup("shared-partitioned", ("gpu.example.com:shared-partitioned",))
BINDING = Setup("binding-conditions", ("gpu.example.com:binding-conditions",))
NVIDIA = Setup(
    "nvidia",
    ("gpu.nvidia.com", str(EXAMPLES / "drivers" / "nic.yaml")),
    nodes=2,
    gates="DRADeviceTaintRules=true,GenericWorkload=true,GangScheduling=true",
)
TAINTS = "device-taints-tolerations"
TAINTED = "basic-resourceclaimtemplate"


def on(setup: Setup) -> pytest.MarkDecorator:
    """Run the test on a cluster of that set-up, which it shares with others."""
    return pytest.mark.parametrize("cluster", [setup], indirect=True, ids=[setup.name])


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[Path]:
    setup: Setup = request.param
    # Below /tmp, because a unix socket's path must be short.
    with tempfile.TemporaryDirectory(prefix="d", dir="/tmp") as folder:
        setup.start(Path(folder))
        yield Path(folder)
        setup.stop(Path(folder))


@pytest.fixture
async def house(cluster: Path) -> AsyncIterator[Lab]:
    async with lab(cluster) as house:
        yield house
        await house.clear()


def manifest(name: str) -> Path:
    """The one file of an upstream example."""
    return manifest_dir("example-driver", name, f"{name}.yaml")


def steps(name: str) -> list[Path]:
    """The numbered files of an upstream example on taints."""
    return sorted(manifest_dir("example-driver", TAINTS, name).iterdir())


def devices(environment: dict[str, str], kind: str = "GPU") -> dict[str, str]:
    """``GPU_DEVICE_<id>=<device>`` as ``{id: device}``."""
    prefix = f"{kind}_DEVICE_"
    return {
        name.removeprefix(prefix): value
        for name, value in environment.items()
        if name.startswith(prefix) and name.removeprefix(prefix).replace("_", "-").lower() in value
        if not name.endswith("_RESOURCE_CLAIM")
    }


async def one_gpu(house: Lab, namespace: str, pod: str, container: str = "ctr0") -> tuple[str, str]:
    """The only GPU that the container sees, and its sharing strategy with the setting of that."""
    environment = await house.exported(namespace, pod, container)
    ((number, device),) = devices(environment).items()
    prefix = f"GPU_DEVICE_{number}_"
    strategy = environment[f"{prefix}SHARING_STRATEGY"]
    setting = "TIMESLICE_INTERVAL" if strategy == "TimeSlicing" else "PARTITION_COUNT"
    return device, f"{strategy} {environment[prefix + setting]}"


async def where(house: Lab, namespace: str, pod: Pod) -> tuple[str, str]:
    """The node that the pod runs on, and the GPU that it sees there."""
    return pod.spec.node_name, (await one_gpu(house, namespace, pod.metadata.name))[0]


async def events(house: Lab, namespace: str, pod: str) -> list[Event]:
    return [
        event
        for event in (await house.client.list(EVENTS, namespace)).items
        if event.involved_object.name == pod
    ]


@on(MAIN)
async def test_each_pod_gets_a_gpu_of_its_own(house: Lab) -> None:
    name = "basic-resourceclaimtemplate"
    await house.apply(manifest(name))
    pods = await house.running(name, "pod0", "pod1")
    assert len({await where(house, name, pod) for pod in pods}) == 2
    await house.delete(manifest(name))
    await house.nothing_left(name)


@on(MAIN)
async def test_a_container_gets_the_gpus_of_all_its_requests(house: Lab) -> None:
    name = "basic-multiple-requests"
    await house.apply(manifest(name))
    await house.running(name, "pod0")
    assert len(set(devices(await house.exported(name, "pod0")).values())) == 2
    await house.delete(manifest(name))
    await house.nothing_left(name)


@on(MAIN)
async def test_containers_share_a_claim(house: Lab) -> None:
    name = "basic-shared-claim-across-containers"
    await house.apply(manifest(name))
    await house.running(name, "pod0")
    seen = [await one_gpu(house, name, "pod0", container) for container in ("ctr0", "ctr1")]
    assert seen[0] == seen[1]
    assert seen[0][1] == "TimeSlicing Default"
    await house.delete(manifest(name))
    await house.nothing_left(name)


@on(MAIN)
async def test_pods_share_a_claim(house: Lab) -> None:
    name = "basic-shared-claim-across-pods"
    await house.apply(manifest(name))
    pods = await house.running(name, "pod0", "pod1")
    seen = [await one_gpu(house, name, pod.metadata.name) for pod in pods]
    assert seen[0] == seen[1]
    assert seen[0][1] == "TimeSlicing Default"
    (claim,) = await house.claims(name)
    assert claim.status is not None
    assert {user.name for user in claim.status.reserved_for} == {"pod0", "pod1"}
    await house.delete(manifest(name))
    await house.nothing_left(name)


@on(MAIN)
async def test_opaque_configs_reach_the_containers_of_their_requests(house: Lab) -> None:
    name = "basic-resourceclaim-opaque-config"
    await house.apply(manifest(name))
    await house.running(name, "pod0")
    slicing = {await one_gpu(house, name, "pod0", container) for container in ("ts-ctr0", "ts-ctr1")}
    parts = {await one_gpu(house, name, "pod0", container) for container in ("sp-ctr0", "sp-ctr1")}
    (sliced,), (parted,) = slicing, parts
    assert sliced[0] != parted[0]
    assert (sliced[1], parted[1]) == ("TimeSlicing Long", "SpacePartitioning 10")
    await house.delete(manifest(name))
    await house.nothing_left(name)


@on(MAIN)
async def test_an_init_container_sees_the_gpu_of_the_container_after_it(house: Lab) -> None:
    name = "initcontainer-shared-gpu"
    await house.apply(manifest(name))
    await house.running(name, "pod0")
    seen = [await one_gpu(house, name, "pod0", container) for container in ("init0", "ctr0")]
    assert seen[0] == seen[1]
    assert seen[0][1] == "TimeSlicing Default"
    await house.delete(manifest(name))
    await house.nothing_left(name)


@on(MAIN)
async def test_admin_access_sees_every_gpu_of_the_node_beside_their_users(house: Lab) -> None:
    name, other = "admin-access", "basic-multiple-requests"
    await house.apply(manifest(other))
    await house.running(other, "pod0")
    await house.apply(manifest(name))
    await house.running(name, "pod0")
    environment = await house.exported(name, "pod0")
    assert environment["DRA_ADMIN_ACCESS"] == "true"
    assert set(devices(environment).values()) == {f"gpu-{i}" for i in range(9)}
    assert (await house.exported(other, "pod0"))["DRA_ADMIN_ACCESS"] == "false"
    await house.delete(manifest(name))
    await house.delete(manifest(other))
    await house.nothing_left(name, other)


@on(MAIN)
async def test_extended_resources_are_satisfied_by_devices(house: Lab) -> None:
    name = "extended-resource-request"
    await house.apply(manifest(name))
    pods = await house.running(name, "pod0", "pod1")
    assert len({await where(house, name, pod) for pod in pods}) == 2
    wanted = ("deviceclass.resource.kubernetes.io/gpu.example.com", "example.com/gpu")
    for pod, resource in zip(pods, wanted, strict=True):
        status = pod.status.extended_resource_claim_status
        assert status is not None
        (mapping,) = status.request_mappings
        assert (mapping.container_name, mapping.resource_name) == ("ctr0", resource)
        claim = next(c for c in await house.claims(name) if c.metadata.name == status.resource_claim_name)
        assert [result.request for result in results(claim)] == [mapping.request_name]
    await house.delete(manifest(name))
    await house.nothing_left(name)


@on(MAIN)
async def test_selectors_choose_the_gpu(house: Lab) -> None:
    name = "cel-selector"
    await house.apply(manifest(name))
    await house.running(name, "pod0")
    await one_gpu(house, name, "pod0")
    await house.delete(manifest(name))
    await house.nothing_left(name)


@on(MAIN)
async def test_the_first_alternative_that_fits_is_taken(house: Lab) -> None:
    name = "prioritized-alternatives"
    await house.apply(manifest(name))
    pods = await house.running(name, "pod0", "pod1")
    assert len({await where(house, name, pod) for pod in pods}) == 2
    chosen = [[result.request for result in results(await house.claim_of(pod, "gpu"))] for pod in pods]
    assert chosen == [["gpu/older-gpu"], ["gpu/latest-gpu"]]
    await house.delete(manifest(name))
    await house.nothing_left(name)


@on(MAIN)
async def test_a_pod_group_shares_one_claim(house: Lab) -> None:
    name = "podgroup-resourceclaimtemplate"
    await house.apply(manifest(name))
    pods = await house.running(name, *await made(house, name, 4))
    by_group: dict[str, set[tuple[str, str]]] = {}
    for pod in pods:
        assert pod.spec.scheduling_group is not None
        by_group.setdefault(pod.spec.scheduling_group.pod_group_name or "", set()).add(
            await where(house, name, pod)
        )
    (first,), (second,) = by_group["group-1"], by_group["group-2"]
    assert first != second
    claims = {claim.metadata.name: claim for claim in await house.claims(name)}
    assert len(claims) == 2
    for group in (await house.client.list(POD_GROUPS, name)).items:
        assert await scheduled(house, name, group.metadata.name) == ("True", "Scheduled")
        (status,) = group.status.resource_claim_statuses
        claim = claims[status.resource_claim_name or ""]
        assert claim.status is not None
        assert [(user.resource, user.name) for user in claim.status.reserved_for] == [
            ("podgroups", group.metadata.name)
        ]
    await house.delete(manifest(name))
    await house.nothing_left(name)


@on(MAIN)
async def test_bandwidth_is_shared_out(house: Lab) -> None:
    name = "net-consumable-capacity"
    await house.apply(manifest(name))
    pods = await house.running(name, "pod0", "pod1")
    wanted = ((10_000_000_000, 5_000_000_000), (5_000_000_000, 5_000_000_000))
    for pod, (ingress, egress) in zip(pods, wanted, strict=True):
        (result,) = results(await house.claim_of(pod, "nic"))
        assert {key: Quantity.parse(value) for key, value in result.consumed_capacity.items()} == {
            "vfs": Quantity.parse("1"),
            "ingressBandwidth": Quantity.parse(str(ingress)),
            "egressBandwidth": Quantity.parse(str(egress)),
        }
        environment = await house.exported(name, pod.metadata.name)
        number = result.device.removeprefix("nic-")
        assert environment[f"NET_DEVICE_{number}_INGRESS_RATE"] == str(ingress)
        assert environment[f"NET_DEVICE_{number}_EGRESS_RATE"] == str(egress)
    await house.delete(manifest(name))
    await house.nothing_left(name)


@on(MAIN)
async def test_claimed_cpus_count_against_the_node(house: Lab) -> None:
    name = "native-resource-request"
    published = [
        s for s in (await house.client.list(RESOURCE_SLICES)).items if s.spec.driver == "cpu.example.com"
    ]
    for device in published[0].spec.devices:
        assert device.node_allocatable_resource_mappings["cpu"].capacity_key == "cpu.example.com/cpu"
    await house.apply(manifest(name))
    (pod,) = await house.running(name, "pod0")
    claim = await house.claim_of(pod, "cpus")
    first, second = results(claim)
    assert (first.pool, first.device) == (second.pool, second.device)
    assert first.share_id
    assert second.share_id
    assert first.share_id != second.share_id
    (status,) = pod.status.node_allocatable_resource_claim_statuses
    assert status.resource_claim_name == claim.metadata.name
    assert "ctr0" in status.containers
    assert Quantity.parse(status.resources["cpu"]) == Quantity.parse("2")
    await house.delete(manifest(name))
    await house.nothing_left(name)


@on(PARTITIONED)
async def test_partitions_draw_on_their_gpus_counters(house: Lab) -> None:
    name = "partitionable-devices"
    await house.apply(manifest(name))
    (pod,) = await house.running(name, "pod0")
    chosen = [result.device for result in results(await house.claim_of(pod, "gpu-partitions"))]
    assert chosen == ["gpu-0-partition-0", "gpu-0-partition-1"]
    assert set(devices(await house.exported(name, "pod0")).values()) == set(chosen)
    await house.delete(manifest(name))
    await house.nothing_left(name)


async def shares(house: Lab, name: str) -> tuple[set[str], set[tuple[str, str]], set[tuple[str, str]]]:
    """Apply two pods that share a device: the devices, what was consumed of it, and what the pods see of that."""
    await house.apply(manifest(name))
    pods = await house.running(name, "pod0", "pod1")
    gotten = [results(await house.claim_of(pod, "gpu"))[0] for pod in pods]
    assert len({result.share_id for result in gotten} - {None}) == 2
    seen = set()
    for pod in pods:
        environment = await house.exported(name, pod.metadata.name)
        (number,) = devices(environment)
        seen.add((environment[f"GPU_DEVICE_{number}_MEMORY"], environment[f"GPU_DEVICE_{number}_COMPUTE"]))
    return (
        {result.device for result in gotten},
        {(result.consumed_capacity["memory"], result.consumed_capacity["compute"]) for result in gotten},
        seen,
    )


@on(SHARED)
async def test_two_claims_share_a_gpu(house: Lab) -> None:
    name = "gpu-allow-multiple-allocations"
    assert await shares(house, name) == ({"gpu-0"}, {("16Gi", "20")}, {("16Gi", "20")})
    await house.delete(manifest(name))
    await house.nothing_left(name)


@on(SHARED_PARTITIONED)
async def test_two_claims_share_a_partition(house: Lab) -> None:
    name = "gpu-allow-multiple-allocations-partitionable"
    assert await shares(house, name) == ({"gpu-0-partition-0"}, {("8Gi", "10")}, {("8Gi", "10")})
    await house.delete(manifest(name))
    await house.nothing_left(name)


@on(BINDING)
async def test_a_pod_is_bound_when_its_device_is_ready(house: Lab) -> None:
    name = "binding-conditions"
    await house.apply(manifest(name))
    (pod,) = await house.running(name, "pod0")
    claim = await house.claim_of(pod, "gpu")
    (result,) = results(claim)
    assert result.binding_conditions == ("BindingConditions",)
    assert result.binding_failure_conditions == ("BindingFailureConditions",)
    assert claim.status is not None
    (device,) = claim.status.devices
    assert (device.driver, device.pool, device.device) == (result.driver, result.pool, result.device)
    assert [(c.type, c.status) for c in device.conditions] == [("BindingConditions", "True")]
    await one_gpu(house, name, "pod0")
    await house.delete(manifest(name))
    await house.nothing_left(name)


async def eviction(house: Lab, rule: str) -> tuple[str, str]:
    """What the taint rule's status says of evictions, once it says anything."""

    async def condition() -> tuple[str, str] | None:
        status = (await house.client.get(DEVICE_TAINT_RULES, rule)).status
        return next(((c.status, c.reason) for c in status.conditions if c.type == "EvictionInProgress"), None)

    async def describe() -> str:
        return f"no eviction in the status of {rule}"

    return await house.until(condition, describe)


@on(MAIN)
async def test_noexecute_evicts_who_does_not_tolerate_it(house: Lab) -> None:
    pods, rule = steps("device-taint-configurable-pod-eviction-time")
    await house.apply(pods)
    names = ("pod-no-toleration", "pod-with-toleration", "pod-with-300s-toleration")
    await house.running(TAINTED, *names)
    await house.apply(rule)
    await house.gone(TAINTED, "pod-no-toleration")
    seen = {(e.reason, e.message) for e in await events(house, TAINTED, "pod-no-toleration")}
    assert ("DeviceTaintManagerEviction", "Marking for deletion") in seen
    await house.running(TAINTED, "pod-with-toleration", "pod-with-300s-toleration")
    assert await eviction(house, "example") == ("True", "PodsPendingEviction")
    await house.delete(rule)
    await house.running(TAINTED, "pod-with-toleration", "pod-with-300s-toleration")
    await house.delete(pods, missing_ok=True)
    await house.nothing_left(TAINTED)


@on(MAIN)
async def test_noexecute_evicts_and_refuses(house: Lab) -> None:
    template, before, rule, after = steps("device-taint-pod-noexecute")
    await house.apply(template, before)
    await house.running(TAINTED, "pod-to-be-evicted")
    await house.apply(rule)
    await house.gone(TAINTED, "pod-to-be-evicted")
    # The manifest's comment says that the pod is scheduled and then killed. The allocator of Kubernetes 1.36 does not
    # give a device with a NoExecute taint to a claim that does not tolerate it: the pod is not scheduled at all.
    await house.apply(after)
    message = await house.unschedulable(TAINTED, "pod-no-execute")
    assert message.startswith("0/2 nodes are available: 2 cannot allocate all claims.")
    await house.delete(rule)
    await house.running(TAINTED, "pod-no-execute")
    await house.delete(template, before, after, missing_ok=True)
    await house.nothing_left(TAINTED)


@on(MAIN)
async def test_noschedule_keeps_and_refuses(house: Lab, tmp_path: Path) -> None:
    template, before, rule, after = steps("device-taint-pod-noschedule")
    await house.apply(template, before)
    await house.running(TAINTED, "pod-keeps-running")
    await house.apply(rule)
    with pytest.raises(CommandError, match="without apiVersion and kind"):
        await house.apply(after)
    # What the file means is clear; kubectl refuses it too.
    complete = tmp_path / after.name
    complete.write_text(f"apiVersion: v1\n{after.read_text()}")
    await house.apply(complete)
    await house.unschedulable(TAINTED, "pod-no-schedule")
    await house.running(TAINTED, "pod-keeps-running")
    await house.delete(rule)
    await house.running(TAINTED, "pod-no-schedule", "pod-keeps-running")
    await house.delete(template, before, complete)
    await house.nothing_left(TAINTED)


@on(MAIN)
async def test_a_toleration_lets_a_pod_use_a_tainted_gpu(house: Lab) -> None:
    rule, pods = steps("device-taint-pod-toleration")
    await house.apply(rule)
    await house.apply(pods)
    (pod,) = await house.running(TAINTED, "pod-with-toleration")
    (result,) = results(await house.claim_of(pod, "gpu"))
    assert [(t.key, t.effect) for t in result.tolerations] == [("gpu.example.com/unhealthy", "NoExecute")]
    await house.unschedulable(TAINTED, "pod-without-toleration")
    await house.delete(pods)
    await house.delete(rule)
    await house.nothing_left(TAINTED)


@on(NVIDIA)
async def test_our_taints_move_who_does_not_tolerate_them(house: Lab) -> None:
    pods, rule = sorted((EXAMPLES / "taints-and-tolerations").iterdir())
    await house.apply(pods)
    names = await made(house, "taints", 3)
    placed = {pod.metadata.name: pod.spec.node_name for pod in await house.running("taints", *names)}
    assert placed.pop("monitor") == "node-0"
    assert sorted(placed.values()) == ["node-0", "node-1"]
    (evicted,) = (name for name, node in placed.items() if node == "node-0")
    await house.apply(rule)
    await house.gone("taints", evicted)
    (successor,) = set(await made(house, "taints", 3)) - set(names)
    await house.unschedulable("taints", successor)
    await house.running("taints", "monitor")
    assert await eviction(house, "node-0-broken") == ("True", "PodsPendingEviction")
    await house.delete(rule)
    (pod,) = await house.running("taints", successor)
    assert pod.spec.node_name == "node-0"
    await house.delete(pods)
    await house.nothing_left("taints")


@on(NVIDIA)
async def test_our_alternatives(house: Lab) -> None:
    folder = EXAMPLES / "prioritized-alternatives"
    await house.apply(folder)
    (pod,) = await house.running("alternatives", "trainer")
    gotten = results(await house.claim_of(pod, "gpu"))
    assert [result.request for result in gotten] == ["gpu/two-of-40gi"] * 2
    assert (await house.log("alternatives", "trainer", "main")).count("NVIDIA A100-SXM4-40GB") == 2
    await house.delete(folder)
    await house.nothing_left("alternatives")


@on(NVIDIA)
async def test_our_extended_resources(house: Lab) -> None:
    folder, space = EXAMPLES / "extended-resource", "extended-resource"
    await house.apply(folder)
    (name,) = await made(house, space, 1)
    (pod,) = await house.running(space, name)
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


@on(NVIDIA)
async def test_our_own_driver(house: Lab) -> None:
    folder, space = EXAMPLES / "custom-driver", "bonded-ports"
    await house.apply(folder)
    await house.running(space, "bonded")
    environment = await house.exported(space, "bonded", "main")
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


async def scheduled(house: Lab, namespace: str, group: str) -> tuple[str, str]:
    """What the scheduler says of the pod group, once it says anything."""

    async def condition() -> tuple[str, str] | None:
        status = (await house.client.get(POD_GROUPS, group, namespace)).status
        return next(((c.status, c.reason) for c in status.conditions if c.type == "PodGroupScheduled"), None)

    async def describe() -> str:
        return f"no condition PodGroupScheduled of {group}"

    return await house.until(condition, describe)


@on(NVIDIA)
async def test_our_gangs_start_whole_or_not_at_all(house: Lab) -> None:
    folder = EXAMPLES / "gang-scheduling"
    await house.apply(folder)
    names = await made(house, "gang", 5)
    first = [name for name in names if name.startswith("first-")]
    second = [name for name in names if name.startswith("second-")]
    assert (len(first), len(second)) == (3, 2)
    await house.running("gang", *first)
    for name in second:
        await house.unschedulable("gang", name)
    pods = await house.pods("gang")
    assert [pods[name].spec.node_name for name in second] == ["", ""]
    assert await scheduled(house, "gang", "first") == ("True", "Scheduled")
    assert await scheduled(house, "gang", "second") == ("False", "Unschedulable")
    await house.client.delete(DEPLOYMENTS, "first", "gang")
    await house.running("gang", *second)
    await house.delete(folder, missing_ok=True)
    await house.nothing_left("gang")


@on(PARTITIONED)
async def test_our_partitions(house: Lab) -> None:
    folder = EXAMPLES / "partitionable-devices"
    await house.apply(folder)
    quarters, whole = await house.running("partitions", "quarters", "whole")
    parts = {result.device for result in results(await house.claim_of(quarters, "quarters"))}
    assert parts == {"gpu-0-partition-0", "gpu-0-partition-1"}
    assert [result.device for result in results(await house.claim_of(whole, "gpu"))] == ["gpu-1-full"]
    await house.unschedulable("partitions", "no-room")
    await house.client.delete(PODS, "quarters", "partitions")
    (pod,) = await house.running("partitions", "no-room")
    assert [result.device for result in results(await house.claim_of(pod, "gpu"))] == ["gpu-0-full"]
    await house.delete(folder, missing_ok=True)
    await house.nothing_left("partitions")


@on(SHARED)
async def test_our_shared_memory(house: Lab) -> None:
    folder, space = EXAMPLES / "consumable-capacity", "shared-memory"
    await house.apply(folder)
    gotten = {}
    for pod in await house.running(space, "small", "large", "medium"):
        (result,) = results(await house.claim_of(pod, "gpu"))
        gotten[pod.metadata.name] = (result.device, result.consumed_capacity["memory"])
    amounts = {name: memory for name, (_, memory) in gotten.items()}
    assert amounts == {"small": "3Gi", "large": "60Gi", "medium": "20Gi"}
    assert gotten["medium"][0] != gotten["large"][0]
    assert gotten["small"][0] == "gpu-0"
    await house.delete(folder)
    await house.nothing_left(space)


async def made(house: Lab, namespace: str, count: int) -> list[str]:
    """Wait until the namespace has so many pods that are not being deleted; gives their names."""

    async def enough() -> list[str] | None:
        pods = await house.pods(namespace)
        names = sorted(name for name, pod in pods.items() if not pod.metadata.deletion_timestamp)
        return names if len(names) == count else None

    async def describe() -> str:
        return f"pods: {sorted(await house.pods(namespace))}"

    return await house.until(enough, describe)


def test_no_upstream_example_is_left_out() -> None:
    source = Path(__file__).read_text()
    for folder in manifest_dir("example-driver").iterdir():
        for name in [f.name for f in folder.iterdir()] if folder.name == TAINTS else [folder.name]:
            assert f'"{name}"' in source, name
