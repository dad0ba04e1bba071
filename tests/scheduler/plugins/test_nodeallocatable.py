"""Devices that stand for a part of the node's own resources."""

from dra_shared.features import FeatureGates

from tests.scheduler.objects import claim_json, class_json, node_json, pod_json, slice_json
from tests.scheduler.running import condition, running
from tests.support.fakeapi import FakeApi
from tests.support.waiting import eventually


async def test_a_device_whose_capacity_counts_but_is_not_consumed_is_an_error() -> None:
    """Only devices that several may share have consumed capacity."""
    slice_ = slice_json("a", 1, capacity={"cores": {"value": "2"}})
    slice_["spec"]["devices"][0]["nodeAllocatableResourceMappings"] = {"cpu": {"capacityKey": "cores"}}
    api = FakeApi(node_json("a"), class_json(), slice_, claim_json("c"))
    async with running(api, gates=FeatureGates(DRANodeAllocatableResources=True)):
        api.add(pod_json("p", claims={"gpu": "c"}))
        await eventually(lambda: condition(api, "p"))
    assert condition(api, "p")["reason"] == "SchedulerError"
    assert condition(api, "p")["message"] == (
        'running "DynamicResources" filter plugin: claim default/c, device gpu-0: ConsumedCapacity is nil, but '
        "Capacity key 'cores' is set in NodeAllocatableResourceMappings for resource cpu"
    )
