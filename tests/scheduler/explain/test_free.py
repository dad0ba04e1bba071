"""The free devices of a report are those that claims would get."""

import random
from typing import Any

from dra_scheduler.allocator import Allocator, Features
from dra_scheduler.dra.manager import DRAManager
from dra_scheduler.explain.free import Free, Usage, free, shape_of
from dra_scheduler.explain.freetext import render_free
from dra_shared.api.codec import convert
from dra_shared.api.resource import ResourceClaim
from dra_shared.api.resources import DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_SLICES
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject

from tests.scheduler.objects import DRIVER, allocated_claim, claim_json, class_json, node, piece
from tests.support.cases import each_case

_TYPE = f'device.attributes["{DRIVER}"].type'


def _class(name: str, expression: str = "true") -> JsonObject:
    return class_json(name, selectors=[{"cel": {"expression": expression}}])


def _manager(*classes: JsonObject) -> DRAManager:
    manager = DRAManager(Features.from_gates(FeatureGates()))
    for each in classes:
        manager.set_class(convert(DEVICE_CLASSES, each))
    return manager


def _publish(manager: DRAManager, name: str, node_name: str, slices: int = 1, **spec: Any) -> None:
    pool = {"name": node_name, "generation": 1, "resourceSliceCount": slices}
    body = {"driver": DRIVER, "nodeName": node_name, "pool": pool, **spec}
    manager.slices.set_slice(
        convert(RESOURCE_SLICES, {"kind": "ResourceSlice", "metadata": {"name": name}, "spec": body})
    )


def _partition(name: str, kind: str, profile: str, counters: JsonObject, gpu: str) -> JsonObject:
    values = {key: {"value": value} for key, value in counters.items()}
    attributes = {"type": {"string": kind}, "profile": {"string": profile}}
    consumed = [{"counterSet": gpu, "counters": values}]
    return {"name": name, "attributes": attributes, "consumesCounters": consumed}


def _publish_partitions(manager: DRAManager, node_name: str, gpus: int = 2) -> None:
    """Publish GPUs that can be allocated whole, as halves in two places, or as four quarters."""
    places = {f"place-{i}": "1" for i in range(4)}
    sets, devices = [], []
    for i in range(gpus):
        gpu = f"gpu-{i}"
        sets.append({"name": gpu, "counters": {key: {"value": "1"} for key in places}})
        devices.append(_partition(gpu, "gpu", "whole", places, gpu))
        for start in (0, 2):
            half = {f"place-{start + j}": "1" for j in range(2)}
            devices.append(_partition(f"{gpu}-half-{start}", "mig", "half", half, gpu))
        for start in range(4):
            quarter = {f"place-{start}": "1"}
            devices.append(_partition(f"{gpu}-quarter-{start}", "mig", "quarter", quarter, gpu))
    _publish(manager, f"{node_name}-counters", node_name, 2, sharedCounters=sets)
    _publish(manager, f"{node_name}-devices", node_name, 2, devices=devices)


def _counts(usages: tuple[Usage, ...]) -> dict[str, tuple[int, int, int, int]]:
    return {usage.shape: (usage.free, usage.used, usage.blocked, usage.devices) for usage in usages}


async def _free(manager: DRAManager, *nodes: str) -> Free:
    return await free(manager, [node(name) for name in nodes or ("node-1",)])


async def test_a_partitioned_gpu_is_not_free_as_a_whole_and_vice_versa() -> None:
    manager = _manager(_class("gpu", f'{_TYPE} == "gpu"'), _class("mig", f'{_TYPE} == "mig"'))
    _publish_partitions(manager, "node-1")
    assert _counts((await _free(manager)).classes) == {
        "whole": (2, 0, 0, 2),
        "half": (4, 0, 0, 4),
        "quarter": (8, 0, 0, 8),
    }
    manager.claims.set_claim(allocated_claim("c", "gpu-0-quarter-1"))
    manager.claims.set_claim(allocated_claim("d", "gpu-1"))
    report = await _free(manager)
    assert _counts(report.classes) == {
        "whole": (0, 1, 1, 2),
        "half": (1, 0, 3, 4),
        "quarter": (3, 1, 4, 8),
    }
    assert {usage.shape: usage.why for usage in report.classes} == {
        "whole": {"counters used up": 1},
        "half": {"counters used up": 3},
        "quarter": {"counters used up": 4},
    }


async def test_devices_that_compete_for_one_counter_are_free_only_once() -> None:
    manager = _manager(_class("any"))
    sets = [{"name": "gpu", "counters": {"media": {"value": "1"}}}]
    _publish(manager, "counters", "node-1", 2, sharedCounters=sets)
    devices = [_partition(f"me-{i}", "mig", "media", {"media": "1"}, "gpu") for i in range(3)]
    _publish(manager, "devices", "node-1", 2, devices=devices)
    (usage,) = (await _free(manager)).classes
    assert (usage.free, usage.blocked, usage.why) == (1, 2, {"only instead of a free one": 2})


async def test_free_used_and_blocked_amounts_of_shared_devices_add_up_to_the_capacity() -> None:
    manager = _manager(_class("gpu"))
    policy = {"default": "2Gi", "validRange": {"min": "1Gi"}}
    capacity = {"memory": {"value": "8Gi", "requestPolicy": policy}}
    manager.slices.set_slice(piece("node-1", 4, allowMultipleAllocations=True, capacity=capacity))
    for number, (device, amount) in enumerate((("gpu-0", "3Gi"), ("gpu-0", "1Gi"), ("gpu-1", "7Gi"))):
        share: JsonObject = {"shareID": f"s{number}", "consumedCapacity": {"memory": amount}}
        manager.claims.set_claim(allocated_claim(f"c{number}", device, **share))
    manager.claims.set_claim(allocated_claim("whole", "gpu-2"))
    report = await _free(manager)
    (usage,) = report.classes
    assert _counts((usage,)) == {"gpu": (1, 3, 0, 4)}
    # Two of gpu-0, none of gpu-1, four of gpu-3.
    assert (usage.shares, usage.more_shares) == (3, 6)
    (pool,) = report.pools
    assert {name: (level.free, level.total) for name, level in pool.capacity.items()} == {
        "gpu-0/memory": ("4Gi", "8Gi"),
        "gpu-1/memory": ("1Gi", "8Gi"),
    }
    assert pool.in_use_by["gpu-0"] == ("default/c0", "default/c1")


async def test_shares_that_consume_nothing_are_unlimited() -> None:
    manager = _manager(_class("gpu"))
    policy = {"default": "0", "validRange": {"min": "0"}}
    capacity = {"memory": {"value": "8Gi", "requestPolicy": policy}}
    manager.slices.set_slice(piece("node-1", 1, allowMultipleAllocations=True, capacity=capacity))
    report = await _free(manager)
    assert report.classes[0].more_shares == "unlimited"
    assert "SHARES   MORE SHARES" in render_free(report)


async def test_tainted_devices_are_reported_as_blocked() -> None:
    manager = _manager(_class("gpu"))
    taint = {"key": "example.com/broken", "effect": "NoSchedule"}
    manager.slices.set_slice(piece("node-1", 2, taints=[taint]))
    (usage,) = (await _free(manager)).classes
    assert (usage.free, usage.blocked) == (0, 2)
    assert usage.why == {"taint example.com/broken:NoSchedule": 2}


async def test_a_claim_with_admin_access_leaves_the_device_free() -> None:
    manager = _manager(_class("gpu"))
    manager.slices.set_slice(piece("node-1", 1))
    manager.claims.set_claim(allocated_claim("admin", "gpu-0", adminAccess=True))
    report = await _free(manager)
    assert _counts(report.classes) == {"gpu": (1, 0, 0, 1)}
    assert report.pools[0].admin_access == {"gpu-0": ("default/admin",)}


async def test_unusable_pools_show_the_reason() -> None:
    manager = _manager(_class("gpu"))
    manager.slices.set_slice(piece("node-9", 1))
    _publish(manager, "half", "node-1", 2, devices=[{"name": "a"}])
    _publish(manager, "twice", "node-2", devices=[{"name": "a"}, {"name": "a"}])
    report = await _free(manager, "node-1", "node-2")
    assert not report.classes
    assert [pool.problem for pool in report.pools] == [
        "incomplete: 1 of 2 slices of generation 1",
        "duplicate device name a",
        "node node-9 does not exist",
    ]


async def test_a_pool_that_several_nodes_access_counts_once() -> None:
    manager = _manager(_class("gpu"))
    pool = {"name": "net", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "allNodes": True, "pool": pool, "devices": [{"name": "a"}, {"name": "b"}]}
    manager.slices.set_slice(
        convert(RESOURCE_SLICES, {"kind": "ResourceSlice", "metadata": {"name": "net"}, "spec": spec})
    )
    report = await _free(manager, "node-1", "node-2")
    assert [usage.free for usage in report.classes] == [1, 1]
    assert [_counts(found.usage) for found in report.nodes] == [{"a": (1, 0, 0, 1), "b": (1, 0, 0, 1)}] * 2


def test_devices_are_grouped_by_product_profile_or_name() -> None:
    manager = _manager()
    devices = [
        {"name": "gpu-7", "attributes": {"productName": {"string": "H100"}, "type": {"string": "gpu"}}},
        {"name": "mig-7", "attributes": {f"{DRIVER}/profile": {"string": "1g"}}},
        {"name": "nic-12"},
        {"name": "7"},
    ]
    _publish(manager, "s", "node-1", devices=devices)
    (pool,) = manager.snapshot.pools(node("node-1"))
    assert [shape_of(device) for device in pool.devices] == ["H100", "1g", "nic", "7"]


@each_case("seed", range(12))
async def test_the_number_of_free_devices_equals_the_number_of_claims_that_can_be_allocated(
    seed: int,
) -> None:
    """In a random state, claims for one shape are allocated until none fits."""
    rng = random.Random(seed)
    manager = _manager(_class("any"))
    _publish_partitions(manager, "node-1", gpus=3)
    for number in range(rng.randrange(6)):
        _allocate(manager, f"before-{number}", rng.choice(["whole", "half", "quarter"]))
    report = await _free(manager)
    for usage in report.classes:
        assert usage.devices == usage.free + usage.used + usage.blocked
        names = [f"{usage.shape}-{number}" for number in range(usage.free + 1)]
        got = [_allocate(manager, name, usage.shape) for name in names]
        assert got == [True] * usage.free + [False]
        for name in names[: usage.free]:
            manager.claims.delete_claim(allocated_claim(name))


def _allocate(manager: DRAManager, name: str, profile: str) -> bool:
    """Allocate a device of that profile to a new claim. Return False if there was none."""
    selector = {"cel": {"expression": f'device.attributes["{DRIVER}"].profile == "{profile}"'}}
    body = claim_json(name, request={"deviceClassName": "any", "selectors": [selector]})
    claim: ResourceClaim = convert(RESOURCE_CLAIMS, body)
    allocator: Allocator = manager.allocator
    results = allocator.allocate(node("node-1"), (claim,))
    if results is None:
        return False
    (device,) = results[0].devices.results
    manager.claims.set_claim(allocated_claim(name, device.device))
    return True


def _nics(manager: DRAManager, node_name: str, *names: str) -> None:
    pool = {"name": "nics", "generation": 1, "resourceSliceCount": 1}
    _publish(manager, f"nics-{node_name}", node_name, pool=pool, devices=[{"name": name} for name in names])


async def test_a_pool_with_equal_device_names_from_two_nodes_is_reported_as_a_problem() -> None:
    manager = _manager(_class("any"))
    _nics(manager, "a", "nic0", "nic1")
    _nics(manager, "b", "nic0", "nic1")
    report = await free(manager, [node("a"), node("b")])
    [pool] = report.pools
    assert (pool.devices, pool.problem) == (
        2,
        "published for nodes a, b with the same device names (nic0..1)",
    )


async def test_a_pool_to_which_each_node_adds_its_own_devices_is_complete() -> None:
    manager = _manager(_class("any"))
    _nics(manager, "a", "nic0")
    _nics(manager, "b", "nic1")
    report = await free(manager, [node("a"), node("b")])
    [pool] = report.pools
    assert (pool.devices, pool.problem) == (2, "")
    assert [usage.free for usage in report.classes] == [2]


async def test_allocated_devices_that_no_slice_publishes_are_listed() -> None:
    manager = _manager(_class("any"))
    manager.slices.set_slice(piece("node-1", 1))
    manager.claims.set_claim(allocated_claim("holder", "gpu-0", "gpu-7"))
    report = await free(manager, [node("node-1")])
    assert [(held.device, held.claims) for held in report.unpublished] == [
        (f"{DRIVER}/node-1/gpu-7", ("default/holder",))
    ]
    line = (
        f"no ResourceSlice publishes device {DRIVER}/node-1/gpu-7 any more, which claim default/holder holds"
    )
    assert line in render_free(report).splitlines()
