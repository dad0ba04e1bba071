"""The manifests of upstream's example driver, applied unchanged: each has its documented result."""

from pathlib import Path

import pytest
from dra_shared.api.core import Event
from dra_shared.api.pod import Pod
from dra_shared.api.resources import (
    EVENTS,
    RESOURCE_SLICES,
)
from dra_shared.errors import UserError
from dra_shared.podgroups import pod_groups
from dra_shared.quantity import Quantity
from dra_shared.version import V1_36

from tests.integration.lab import PARTITIONED, SHARED, Lab, Setup, on, results
from tests.support.reference import manifest_dir

pytestmark = pytest.mark.slow

MAIN = Setup(
    "main",
    ("gpu.example.com", "net.example.com", "cpu.example.com:two-cpus"),
    nodes=2,
    # The manifests were written for this version. Newer versions have other pod groups and slice fields.
    version=str(V1_36),
    gates=(
        "DRADeviceTaintRules=true,DRANodeAllocatableResources=true,"
        "GenericWorkload=true,GangScheduling=true,DRAWorkloadResourceClaims=true"
    ),
)
SHARED_PARTITIONED = Setup("shared-partitioned", ("gpu.example.com:shared-partitioned",))
BINDING = Setup("binding-conditions", ("gpu.example.com:binding-conditions",))
TAINTS = "device-taints-tolerations"
TAINTED = "basic-resourceclaimtemplate"


def manifest(name: str) -> Path:
    """Return the one file of an upstream example."""
    return manifest_dir("example-driver", name, f"{name}.yaml")


def steps(name: str) -> list[Path]:
    """Return the numbered files of an upstream example on taints."""
    return sorted(manifest_dir("example-driver", TAINTS, name).iterdir())


def devices(environment: dict[str, str], kind: str = "GPU") -> dict[str, str]:
    """Parse ``GPU_DEVICE_<id>=<device>`` into ``{id: device}``."""
    prefix = f"{kind}_DEVICE_"
    return {
        name.removeprefix(prefix): value
        for name, value in environment.items()
        if name.startswith(prefix) and name.removeprefix(prefix).replace("_", "-").lower() in value
        if not name.endswith("_RESOURCE_CLAIM")
    }


async def one_gpu(house: Lab, namespace: str, pod: str, container: str = "ctr0") -> tuple[str, str]:
    """Return the only GPU of the container, and its sharing strategy with its setting."""
    environment = await house.read_exports(namespace, pod, container)
    ((number, device),) = devices(environment).items()
    prefix = f"GPU_DEVICE_{number}_"
    strategy = environment[f"{prefix}SHARING_STRATEGY"]
    setting = "TIMESLICE_INTERVAL" if strategy == "TimeSlicing" else "PARTITION_COUNT"
    return device, f"{strategy} {environment[prefix + setting]}"


async def where(house: Lab, namespace: str, pod: Pod) -> tuple[str, str]:
    """Return the node of the pod, and the GPU of its container."""
    return pod.spec.node_name, (await one_gpu(house, namespace, pod.metadata.name))[0]


async def events(house: Lab, namespace: str, pod: str) -> list[Event]:
    return [
        event
        for event in (await house.client.list(EVENTS, namespace)).items
        if event.involved_object.name == pod
    ]


@on(MAIN)
async def test_each_pod_gets_a_different_gpu(house: Lab) -> None:
    name = "basic-resourceclaimtemplate"
    await house.apply(manifest(name))
    pods = await house.wait_for_running(name, "pod0", "pod1")
    assert len({await where(house, name, pod) for pod in pods}) == 2
    await house.delete(manifest(name))
    await house.nothing_left(name)


@on(MAIN)
async def test_a_container_gets_the_gpus_of_all_its_requests(house: Lab) -> None:
    name = "basic-multiple-requests"
    await house.apply(manifest(name))
    await house.wait_for_running(name, "pod0")
    assert len(set(devices(await house.read_exports(name, "pod0")).values())) == 2
    await house.delete(manifest(name))
    await house.nothing_left(name)


@on(MAIN)
async def test_containers_share_a_claim(house: Lab) -> None:
    name = "basic-shared-claim-across-containers"
    await house.apply(manifest(name))
    await house.wait_for_running(name, "pod0")
    seen = [await one_gpu(house, name, "pod0", container) for container in ("ctr0", "ctr1")]
    assert seen[0] == seen[1]
    assert seen[0][1] == "TimeSlicing Default"
    await house.delete(manifest(name))
    await house.nothing_left(name)


@on(MAIN)
async def test_pods_share_a_claim(house: Lab) -> None:
    name = "basic-shared-claim-across-pods"
    await house.apply(manifest(name))
    pods = await house.wait_for_running(name, "pod0", "pod1")
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
    await house.wait_for_running(name, "pod0")
    slicing = {await one_gpu(house, name, "pod0", container) for container in ("ts-ctr0", "ts-ctr1")}
    parts = {await one_gpu(house, name, "pod0", container) for container in ("sp-ctr0", "sp-ctr1")}
    (sliced,), (parted,) = slicing, parts
    assert sliced[0] != parted[0]
    assert (sliced[1], parted[1]) == ("TimeSlicing Long", "SpacePartitioning 10")
    await house.delete(manifest(name))
    await house.nothing_left(name)


@on(MAIN)
async def test_an_init_container_shares_the_gpu_with_the_next_container(house: Lab) -> None:
    name = "initcontainer-shared-gpu"
    await house.apply(manifest(name))
    await house.wait_for_running(name, "pod0")
    seen = [await one_gpu(house, name, "pod0", container) for container in ("init0", "ctr0")]
    assert seen[0] == seen[1]
    assert seen[0][1] == "TimeSlicing Default"
    await house.delete(manifest(name))
    await house.nothing_left(name)


@on(MAIN)
async def test_admin_access_includes_every_gpu_of_the_node_while_others_use_them(house: Lab) -> None:
    name, other = "admin-access", "basic-multiple-requests"
    await house.apply(manifest(other))
    await house.wait_for_running(other, "pod0")
    await house.apply(manifest(name))
    await house.wait_for_running(name, "pod0")
    environment = await house.read_exports(name, "pod0")
    assert environment["DRA_ADMIN_ACCESS"] == "true"
    assert set(devices(environment).values()) == {f"gpu-{i}" for i in range(9)}
    assert (await house.read_exports(other, "pod0"))["DRA_ADMIN_ACCESS"] == "false"
    await house.delete(manifest(name))
    await house.delete(manifest(other))
    await house.nothing_left(name, other)


@on(MAIN)
async def test_extended_resources_are_satisfied_by_devices(house: Lab) -> None:
    name = "extended-resource-request"
    await house.apply(manifest(name))
    pods = await house.wait_for_running(name, "pod0", "pod1")
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
async def test_a_cel_selector_chooses_the_gpu(house: Lab) -> None:
    name = "cel-selector"
    await house.apply(manifest(name))
    await house.wait_for_running(name, "pod0")
    await one_gpu(house, name, "pod0")
    await house.delete(manifest(name))
    await house.nothing_left(name)


@on(MAIN)
async def test_the_first_alternative_that_fits_is_allocated(house: Lab) -> None:
    name = "prioritized-alternatives"
    await house.apply(manifest(name))
    pods = await house.wait_for_running(name, "pod0", "pod1")
    assert len({await where(house, name, pod) for pod in pods}) == 2
    chosen = [[result.request for result in results(await house.claim_of(pod, "gpu"))] for pod in pods]
    assert chosen == [["gpu/older-gpu"], ["gpu/latest-gpu"]]
    await house.delete(manifest(name))
    await house.nothing_left(name)


@on(MAIN)
async def test_a_pod_group_shares_one_claim(house: Lab) -> None:
    name = "podgroup-resourceclaimtemplate"
    await house.apply(manifest(name))
    pods = await house.wait_for_running(name, *await house.wait_for_pods(name, 4))
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
    for group in (await house.client.list(pod_groups(V1_36), name)).items:
        await house.wait_for_group(name, group.metadata.name, "True", "Scheduled", V1_36)
        (status,) = group.status.resource_claim_statuses
        claim = claims[status.resource_claim_name or ""]
        assert claim.status is not None
        assert [(user.resource, user.name) for user in claim.status.reserved_for] == [
            ("podgroups", group.metadata.name)
        ]
    await house.delete(manifest(name))
    await house.nothing_left(name)


@on(MAIN)
async def test_bandwidth_of_a_nic_is_shared(house: Lab) -> None:
    name = "net-consumable-capacity"
    await house.apply(manifest(name))
    pods = await house.wait_for_running(name, "pod0", "pod1")
    wanted = ((10_000_000_000, 5_000_000_000), (5_000_000_000, 5_000_000_000))
    for pod, (ingress, egress) in zip(pods, wanted, strict=True):
        (result,) = results(await house.claim_of(pod, "nic"))
        assert {key: Quantity.parse(value) for key, value in result.consumed_capacity.items()} == {
            "vfs": Quantity.parse("1"),
            "ingressBandwidth": Quantity.parse(str(ingress)),
            "egressBandwidth": Quantity.parse(str(egress)),
        }
        environment = await house.read_exports(name, pod.metadata.name)
        number = result.device.removeprefix("nic-")
        assert environment[f"NET_DEVICE_{number}_INGRESS_RATE"] == str(ingress)
        assert environment[f"NET_DEVICE_{number}_EGRESS_RATE"] == str(egress)
    await house.delete(manifest(name))
    await house.nothing_left(name)


@on(MAIN)
async def test_claimed_cpus_are_subtracted_from_the_node(house: Lab) -> None:
    name = "native-resource-request"
    published = [
        s for s in (await house.client.list(RESOURCE_SLICES)).items if s.spec.driver == "cpu.example.com"
    ]
    for device in published[0].spec.devices:
        assert device.node_allocatable_resource_mappings["cpu"].capacity_key == "cpu.example.com/cpu"
    await house.apply(manifest(name))
    (pod,) = await house.wait_for_running(name, "pod0")
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


@on(MAIN)
async def test_the_basic_examples_run_together(house: Lab) -> None:
    names = (
        "basic-resourceclaimtemplate",
        "basic-multiple-requests",
        "basic-shared-claim-across-containers",
        "basic-shared-claim-across-pods",
        "basic-resourceclaim-opaque-config",
    )
    await house.apply(*map(manifest, names))
    gpus = []
    for name in names:
        await house.wait_for_running(
            name, *await house.wait_for_pods(name, 2 if name in (names[0], names[3]) else 1)
        )
        for claim in await house.claims(name):
            gpus += [(result.pool, result.device) for result in results(claim)]
    assert len(gpus) == len(set(gpus)) == 8
    await house.delete(*map(manifest, names))
    await house.nothing_left(*names)


@on(PARTITIONED)
async def test_partitions_consume_counters_of_their_gpu(house: Lab) -> None:
    name = "partitionable-devices"
    await house.apply(manifest(name))
    (pod,) = await house.wait_for_running(name, "pod0")
    chosen = [result.device for result in results(await house.claim_of(pod, "gpu-partitions"))]
    assert chosen == ["gpu-0-partition-0", "gpu-0-partition-1"]
    assert set(devices(await house.read_exports(name, "pod0")).values()) == set(chosen)
    await house.delete(manifest(name))
    await house.nothing_left(name)


async def shares(house: Lab, name: str) -> tuple[set[str], set[tuple[str, str]], set[tuple[str, str]]]:
    """Apply two pods that share a device. Return the devices, and the consumed capacity by claim and by container."""
    await house.apply(manifest(name))
    pods = await house.wait_for_running(name, "pod0", "pod1")
    gotten = [results(await house.claim_of(pod, "gpu"))[0] for pod in pods]
    assert len({result.share_id for result in gotten} - {None}) == 2
    seen = set()
    for pod in pods:
        environment = await house.read_exports(name, pod.metadata.name)
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
    (pod,) = await house.wait_for_running(name, "pod0")
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


@on(MAIN)
async def test_a_no_execute_taint_evicts_pods_that_do_not_tolerate_it(house: Lab) -> None:
    pods, rule = steps("device-taint-configurable-pod-eviction-time")
    await house.apply(pods)
    names = ("pod-no-toleration", "pod-with-toleration", "pod-with-300s-toleration")
    await house.wait_for_running(TAINTED, *names)
    await house.apply(rule)
    await house.wait_until_gone(TAINTED, "pod-no-toleration")

    async def read_events() -> set[tuple[str, str]]:
        return {(e.reason, e.message) for e in await events(house, TAINTED, "pod-no-toleration")}

    async def is_marked() -> bool:
        return ("DeviceTaintManagerEviction", "Marking for deletion") in await read_events()

    async def describe() -> str:
        return str(await read_events())

    # Events are written in the background.
    await house.until(is_marked, describe)
    await house.wait_for_running(TAINTED, "pod-with-toleration", "pod-with-300s-toleration")
    await house.eviction("example", "True", "PodsPendingEviction")
    await house.delete(rule)
    await house.wait_for_running(TAINTED, "pod-with-toleration", "pod-with-300s-toleration")
    await house.delete(pods, missing_ok=True)
    await house.nothing_left(TAINTED)


@on(MAIN)
async def test_a_no_execute_taint_evicts_and_rejects_pods(house: Lab) -> None:
    template, before, rule, after = steps("device-taint-pod-noexecute")
    await house.apply(template, before)
    await house.wait_for_running(TAINTED, "pod-to-be-evicted")
    await house.apply(rule)
    await house.wait_until_gone(TAINTED, "pod-to-be-evicted")
    # The manifest's comment says that the pod is scheduled and then killed. The allocator of Kubernetes 1.36 does not
    # give a device with a NoExecute taint to a claim that does not tolerate it: the pod is not scheduled at all.
    await house.apply(after)
    message = await house.unschedulable(TAINTED, "pod-no-execute")
    assert message.startswith("0/2 nodes are available: 2 cannot allocate all claims.")
    await house.delete(rule)
    await house.wait_for_running(TAINTED, "pod-no-execute")
    await house.delete(template, before, after, missing_ok=True)
    await house.nothing_left(TAINTED)


@on(MAIN)
async def test_a_no_schedule_taint_keeps_running_pods_and_rejects_new_ones(
    house: Lab, tmp_path: Path
) -> None:
    template, before, rule, after = steps("device-taint-pod-noschedule")
    await house.apply(template, before)
    await house.wait_for_running(TAINTED, "pod-keeps-running")
    await house.apply(rule)
    with pytest.raises(UserError, match="without apiVersion and kind"):
        await house.apply(after)
    # The meaning of the file is clear, but kubectl rejects it too.
    complete = tmp_path / after.name
    complete.write_text(f"apiVersion: v1\n{after.read_text()}")
    await house.apply(complete)
    await house.unschedulable(TAINTED, "pod-no-schedule")
    await house.wait_for_running(TAINTED, "pod-keeps-running")
    await house.delete(rule)
    await house.wait_for_running(TAINTED, "pod-no-schedule", "pod-keeps-running")
    await house.delete(template, before, complete)
    await house.nothing_left(TAINTED)


@on(MAIN)
async def test_a_toleration_lets_a_pod_use_a_tainted_gpu(house: Lab) -> None:
    rule, pods = steps("device-taint-pod-toleration")
    await house.apply(rule)
    await house.apply(pods)
    (pod,) = await house.wait_for_running(TAINTED, "pod-with-toleration")
    (result,) = results(await house.claim_of(pod, "gpu"))
    assert [(t.key, t.effect) for t in result.tolerations] == [("gpu.example.com/unhealthy", "NoExecute")]
    await house.unschedulable(TAINTED, "pod-without-toleration")
    await house.delete(pods)
    await house.delete(rule)
    await house.nothing_left(TAINTED)


def test_every_upstream_example_has_a_test() -> None:
    source = Path(__file__).read_text()
    for folder in manifest_dir("example-driver").iterdir():
        for name in [f.name for f in folder.iterdir()] if folder.name == TAINTS else [folder.name]:
            assert f'"{name}"' in source, name
