"""Devices that represent a part of the node's allocatable resources."""

from typing import Any

import msgspec
import pytest
from dra_scheduler.plugins.dynamicresources.nodeallocatable import claim_statuses
from dra_shared.api.pod import Pod
from dra_shared.api.resource import AllocationResult, ResourceClaim, ResourceSlice
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_36, V1_37

from tests.scheduler.objects import claim_json, class_json, node_json, pod_json, slice_json
from tests.scheduler.running import condition, node_of, quiet, run_scheduler
from tests.support.fakeapi import FakeApi
from tests.support.waiting import until


async def test_a_device_whose_capacity_counts_but_is_not_consumed_is_an_error() -> None:
    """Only shareable devices have consumed capacity."""
    slice_ = slice_json("a", 1, capacity={"cores": {"value": "2"}})
    slice_["spec"]["devices"][0]["nodeAllocatableResourceMappings"] = {"cpu": {"capacityKey": "cores"}}
    api = FakeApi(node_json("a"), class_json(), slice_, claim_json("c"))
    async with run_scheduler(api, gates=FeatureGates(V1_36, DRANodeAllocatableResources=True)):
        api.add(pod_json("p", claims={"gpu": "c"}))
        await until(lambda: condition(api, "p"))
    assert condition(api, "p")["reason"] == "SchedulerError"
    assert condition(api, "p")["message"] == (
        'running "DynamicResources" filter plugin: claim default/c, device gpu-0: ConsumedCapacity is nil, but '
        "Capacity key 'cores' is set in NodeAllocatableResourceMappings for resource cpu"
    )


SINCE_1_37 = FeatureGates(V1_37, DRANodeAllocatableResources=True)
MAPPED = {"mapping": {"deviceMultiplier": "1500m"}, "overhead": {"perPod": "100m", "perContainer": "200m"}}


def devices(**resources: Any) -> JsonObject:
    slice_ = slice_json("a", 1)
    slice_["spec"]["devices"][0]["nodeAllocatableResources"] = resources
    return slice_


def pod_with_claim(name: str, cpu: str = "0", **spec: Any) -> JsonObject:
    """Return a pod with one container that uses the claim c."""
    resources = {"requests": {"cpu": cpu}, "claims": [{"name": "gpu"}]}
    return pod_json(name, claims={"gpu": "c"}, container={"resources": resources}, **spec)


@pytest.mark.parametrize(
    ("cpu", "fits"),
    # The claim takes 1.5 of 4 CPUs, plus 0.1 for the pod and 0.2 for its container.
    [("2200m", True), ("2201m", False)],
)
async def test_capacity_mapping_and_overhead_of_a_claim_count_toward_the_nodes_resources(
    cpu: str, fits: bool
) -> None:
    api = FakeApi(node_json("a"), class_json(), devices(cpu=MAPPED), claim_json("c"))
    async with run_scheduler(api, gates=SINCE_1_37):
        api.add(pod_with_claim("p", cpu))
        await until(lambda: node_of(api, "p") == "a" if fits else condition(api, "p"))
        status = api.get("pods", "default", "p")["status"].get("nodeAllocatableResourceClaimStatuses")
    if fits:
        assert status == [
            {
                "resourceClaimName": "c",
                "containers": ["main"],
                "mapping": [{"name": "cpu", "quantity": "1500m"}],
                "overhead": [{"name": "cpu", "perPod": "100m", "perContainer": "200m"}],
            }
        ]
    else:
        assert condition(api, "p")["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
        assert not status


@pytest.mark.parametrize(
    ("resources", "shared"),
    [({"overhead": {"perPod": "1"}}, True), ({"mapping": {"deviceMultiplier": "1"}}, False)],
)
async def test_a_claim_with_more_than_overhead_cannot_be_shared_by_two_pods(
    resources: JsonObject, shared: bool
) -> None:
    """The claim of the second pod is already allocated, and uses as much of the node as for the first pod."""
    api = FakeApi(node_json("a"), class_json(), devices(cpu=resources), claim_json("c"))
    async with run_scheduler(api, gates=SINCE_1_37):
        api.add(pod_with_claim("first"))
        await until(lambda: node_of(api, "first"))
        api.add(pod_with_claim("second", "2"))
        await until(lambda: node_of(api, "second") or condition(api, "second"))
    assert bool(node_of(api, "second")) == shared
    if shared:
        (status,) = api.get("pods", "default", "second")["status"]["nodeAllocatableResourceClaimStatuses"]
        assert status["overhead"] == [{"name": "cpu", "perPod": "1"}]
    else:
        assert condition(api, "second")["message"].startswith(
            "0/1 nodes are available: 1 node allocatable resource claim c has a mapped device and cannot be shared "
            "across pods."
        )


@pytest.mark.parametrize(
    ("resources", "shared"),
    [({"overhead": {"perPod": "1"}}, True), ({"mapping": {"deviceMultiplier": "1"}}, False)],
)
async def test_pods_of_a_group_can_share_a_claim_only_if_it_has_just_overhead(
    resources: JsonObject, shared: bool
) -> None:
    """The claim is being allocated for the first pod while the second one is tried."""
    group = {
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default", "uid": "uid-g"},
        "spec": {"schedulingPolicy": {"basic": {}}},
    }
    member: JsonObject = {"schedulingGroup": {"podGroupName": "g"}}
    pods = pod_with_claim("first", **member), pod_with_claim("second", **member)
    api = FakeApi(node_json("a"), class_json(), devices(cpu=resources), claim_json("c"), group, *pods)
    gates = FeatureGates(
        V1_37, DRANodeAllocatableResources=True, GenericWorkload=True, DRAWorkloadResourceClaims=True
    )
    async with run_scheduler(api, gates=gates) as (_, clock):
        await quiet(api)
        await clock.advance(0.1)  # The claim's writes that conflicted are retried.
        await quiet(api)
    assert node_of(api, "first") == "a"
    text = "node allocatable resource claim c has a mapped device and cannot be shared across pods"
    assert (text in condition(api, "second").get("message", "")) == (not shared)


LIMITS = {
    "requests": "pod level request for cpu is insufficient to cover the aggregated container and node-allocatable "
    "DRA requests",
    "limits": "pod level limit for cpu is insufficient to cover the limit and DRA overhead for container main",
}


@pytest.mark.parametrize("kind", ["requests", "limits"])
async def test_pod_level_resources_cover_the_claims_of_the_pod(kind: str) -> None:
    api = FakeApi(node_json("a"), class_json(), devices(cpu=MAPPED), claim_json("c"))
    resources = {"requests": {"cpu": "3"}, "limits": {"cpu": "3"}, kind: {"cpu": "1100m"}}
    pod = pod_with_claim("p", "1", resources=resources)
    pod["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "1"}
    async with run_scheduler(api, gates=SINCE_1_37):
        api.add(pod)
        await until(lambda: condition(api, "p"))
    assert condition(api, "p")["message"].startswith(f"0/1 nodes are available: 1 {LIMITS[kind]}.")


async def test_each_pod_has_its_own_claims_in_its_status() -> None:
    """Pods with equal claims share no cached results for nodes, because each names its own claim."""
    nodes = ("a", "b")
    slices = [slice_json(node, 1) for node in nodes]
    for slice_ in slices:
        slice_["spec"]["devices"][0]["nodeAllocatableResources"] = {"cpu": MAPPED}
    api = FakeApi(*map(node_json, nodes), class_json(), *slices, claim_json("c"), claim_json("d"))
    async with run_scheduler(api, gates=SINCE_1_37):
        api.add(pod_with_claim("first"))
        await until(lambda: node_of(api, "first"))
        second = pod_with_claim("second")
        second["spec"]["resourceClaims"][0]["resourceClaimName"] = "d"
        api.add(second)
        await until(lambda: node_of(api, "second"))
    found = [api.get("pods", "default", pod)["status"] for pod in ("first", "second")]
    assert [status["nodeAllocatableResourceClaimStatuses"][0]["resourceClaimName"] for status in found] == [
        "c",
        "d",
    ]


async def test_pod_level_limits_of_one_pod_do_not_apply_to_the_next_pod() -> None:
    api = FakeApi(node_json("a"), class_json(), devices(cpu=MAPPED), claim_json("c"), claim_json("d"))
    level = {"requests": {"cpu": "3"}, "limits": {"cpu": "3"}}
    bounded = pod_with_claim("bounded", "1", resources=level)
    bounded["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "2900m"}
    free = pod_with_claim("free", "1", resources=level)
    free["spec"]["resourceClaims"][0]["resourceClaimName"] = "d"
    async with run_scheduler(api, gates=SINCE_1_37):
        api.add(bounded)
        await until(lambda: condition(api, "bounded"))
        api.add(free)
        await until(lambda: node_of(api, "free") or condition(api, "free"))
    assert LIMITS["limits"] in condition(api, "bounded")["message"]
    assert node_of(api, "free") == "a"


async def test_extended_resources_of_a_class_are_not_required_of_the_node() -> None:
    api = FakeApi(node_json("a"), class_json(extendedResourceName="example.com/gpu"), devices(cpu=MAPPED))
    async with run_scheduler(api, gates=SINCE_1_37):
        requests = {"example.com/gpu": "1"}
        api.add(pod_json("p", container={"resources": {"requests": requests, "limits": requests}}))
        await until(lambda: node_of(api, "p") or condition(api, "p"))
    assert node_of(api, "p") == "a"


@pytest.mark.parametrize(
    ("consumed", "factor", "wanted"),
    [
        # An amount in binary notation keeps it if it is a whole number. An amount that is multiplied by one
        # keeps its text.
        ("3Gi", "0.5", "1536Mi"),
        ("3Gi", "1", "3Gi"),
        ("1", "0.1", "100m"),
        ("1Ki", "0.001", "1024m"),
        ("1", "0.0000000001", "1n"),
    ],
)
def test_a_fraction_of_a_capacity_is_computed_exactly(consumed: str, factor: str, wanted: str) -> None:
    mapping = {"mapping": {"capacityKey": "m", "capacityMultiplier": factor}}
    slice_ = msgspec.convert(devices(memory=mapping), ResourceSlice)
    result = {
        "driver": slice_.spec.driver,
        "pool": slice_.spec.pool.name,
        "device": "gpu-0",
        "request": "r",
        "consumedCapacity": {"m": consumed},
    }
    allocation = msgspec.convert({"devices": {"results": [result]}}, AllocationResult)
    claim, pod = msgspec.convert(claim_json("c"), ResourceClaim), msgspec.convert(pod_with_claim("p"), Pod)
    (status,) = claim_statuses(pod, [(claim, allocation, "gpu")], [slice_], since_1_37=True)
    assert status.mapping[0].quantity == wanted


@pytest.mark.parametrize("since_1_37", [False, True])
def test_capacity_keys_are_compared_literally_before_1_38(since_1_37: bool) -> None:
    slice_ = msgspec.convert(devices(memory={"mapping": {"capacityKey": "m"}}), ResourceSlice)
    mapping = {"memory": {"capacityKey": "m"}}
    older = slice_json("a", 1)
    older["spec"]["devices"][0]["nodeAllocatableResourceMappings"] = mapping
    if not since_1_37:
        slice_ = msgspec.convert(older, ResourceSlice)
    spec = slice_.spec
    claim, pod = msgspec.convert(claim_json("c"), ResourceClaim), msgspec.convert(pod_with_claim("p"), Pod)
    for name, counted in (("m", True), (f"{spec.driver}/m", False)):
        result: JsonObject = {
            "driver": spec.driver,
            "pool": spec.pool.name,
            "device": "gpu-0",
            "request": "r",
        }
        result["consumedCapacity"] = {name: "1Gi"}
        allocation = msgspec.convert({"devices": {"results": [result]}}, AllocationResult)
        statuses = claim_statuses(pod, [(claim, allocation, "gpu")], [slice_], since_1_37=since_1_37)
        assert bool(statuses) == counted
        if since_1_37:
            statuses = claim_statuses(
                pod, [(claim, allocation, "gpu")], [slice_], since_1_37=True, qualified=True
            )
            assert [one.quantity for one in statuses[0].mapping] == ["1Gi"]


async def test_a_scheduler_of_1_36_ignores_node_allocatable_resources_of_1_37() -> None:
    """With an API server of 1.37, the node seems to have room for more."""
    api = FakeApi(node_json("a"), class_json(), devices(cpu=MAPPED), claim_json("c"))
    async with run_scheduler(api, gates=FeatureGates(V1_36, DRANodeAllocatableResources=True)):
        api.add(pod_with_claim("p", "4"))
        await until(lambda: node_of(api, "p") or condition(api, "p"))
    assert node_of(api, "p") == "a"
    assert not api.get("pods", "default", "p")["status"].get("nodeAllocatableResourceClaimStatuses")
