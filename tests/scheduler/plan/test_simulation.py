"""The scheduler on a world in memory decides as the scheduler that has an API server."""

import asyncio
import random
from typing import Any

import pytest
from dra_scheduler.config import SchedulerConfig
from dra_scheduler.plan.simulation import Simulation, Stopped
from dra_shared.api.resources import NODES, PODS, RESOURCE_CLAIMS
from dra_shared.features import FeatureGates

from tests.scheduler.objects import class_json, node_json, pod_json, slice_json
from tests.scheduler.plan.worlds import put, random_world, template_json
from tests.scheduler.running import condition, quiet, running
from tests.support.fakeapi import FakeApi, Json


async def _served(standing: list[Json], coming: list[Json]) -> dict[str, Any]:
    """What a scheduler with an API makes of the pods, one after the other."""
    api = FakeApi(*standing)
    async with running(api):
        for obj in coming:
            api.add(obj)
            await quiet(api)
    return {
        pod["metadata"]["name"]: (
            pod["spec"].get("nodeName", ""),
            _devices(_claim(api, pod["metadata"]["name"])),
            condition(api, pod["metadata"]["name"]).get("message", ""),
        )
        for pod in api.of("pods")
    }


def _claim(api: FakeApi, name: str) -> Json | None:
    has = api.has("resourceclaims", "default", name)
    return api.get("resourceclaims", "default", name) if has else None


def _devices(claim: Json | None) -> list[tuple[str, str]]:
    results = (claim or {}).get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
    return [(result["pool"], result["device"]) for result in results]


def _planned(standing: list[Json], coming: list[Json]) -> dict[str, Any]:
    world = Simulation(seed=1)
    put(world, *standing)
    for obj in coming:
        put(world, obj)
        world.settle()
    world.close()
    found = {}
    for pod in world.client.objects(PODS):
        name = pod.metadata.name
        claim = world.client.find(RESOURCE_CLAIMS, f"default/{name}")
        allocation = claim.status.allocation if claim is not None else None
        results = allocation.devices.results if allocation is not None else ()
        message = next((c.message for c in pod.status.conditions if c.type == "PodScheduled"), "")
        found[name] = pod.spec.node_name, [(r.pool, r.device) for r in results], message
    return found


@pytest.mark.parametrize("seed", range(12))
async def test_a_world_in_memory_is_scheduled_as_one_with_an_api(seed: int) -> None:
    standing, coming = random_world(random.Random(seed))
    planned = await asyncio.to_thread(_planned, standing, coming)
    assert planned == await _served(standing, coming)


def _gpu_pod(name: str, **fields: Any) -> Json:
    pod = pod_json(name, **fields)
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    return pod


def _gpus(nodes: int, each: int, gates: str = "") -> Simulation:
    world = Simulation(SchedulerConfig(gates=FeatureGates.parse(gates)))
    put(world, class_json(), template_json("gpu"))
    for index in range(nodes):
        put(world, node_json(f"node-{index}"), slice_json(f"node-{index}", each))
    return world


def test_pods_get_claims_from_templates() -> None:
    world = _gpus(1, 2)
    put(world, _gpu_pod("a"), _gpu_pod("b"), _gpu_pod("c"))
    world.settle()
    placed = {pod.metadata.name: pod.spec.node_name for pod in world.client.objects(PODS)}
    assert placed == {"a": "node-0", "b": "node-0", "c": ""}
    entry = world.scheduler.queue.get("uid-c")
    assert entry is not None
    assert entry.message.startswith("0/1 nodes are available: 1 cannot allocate all claims.")


def test_devices_of_pods_that_go_are_free_again() -> None:
    world = _gpus(1, 1)
    put(world, _gpu_pod("a"), _gpu_pod("b"))
    world.settle()
    world.remove(PODS, "default/a")
    world.settle()
    pod = world.pod("default/b")
    assert pod is not None
    assert pod.spec.node_name == "node-0"
    assert len(world.client.objects(RESOURCE_CLAIMS)) == 1


def test_a_node_that_comes_takes_what_waits() -> None:
    world = _gpus(1, 1)
    put(world, _gpu_pod("a"), _gpu_pod("b"))
    world.settle()
    put(world, node_json("late"), slice_json("late", 1))
    world.settle()
    assert {pod.spec.node_name for pod in world.client.objects(PODS)} == {"node-0", "late"}
    world.remove(NODES, "late")
    assert len(world.client.objects(NODES)) == 1


def test_preemption() -> None:
    world = _gpus(1, 2)
    put(world, pod_json("low", requests={"cpu": "3"}, priority=1))
    world.settle()
    put(world, _gpu_pod("high", requests={"cpu": "3"}, priority=9))
    world.settle()
    high = world.pod("default/high")
    assert high is not None
    assert high.spec.node_name == "node-0"
    assert world.pod("default/low") is None
    assert [key for key, _ in world.preemptions] == ["default/low"]


def test_gangs_are_placed_as_a_whole() -> None:
    world = _gpus(1, 2, "GenericWorkload=true")
    group = {
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
    }
    put(world, group)
    members = [_gpu_pod(f"m{i}", schedulingGroup={"podGroupName": "g"}) for i in range(3)]
    put(world, *members)
    world.settle()
    assert {pod.spec.node_name for pod in world.client.objects(PODS)} == {""}
    put(world, node_json("more"), slice_json("more", 1))
    world.settle()
    assert sorted(pod.spec.node_name for pod in world.client.objects(PODS)) == ["more", "node-0", "node-0"]


async def test_it_runs_where_an_event_loop_runs() -> None:
    world = _gpus(1, 1)
    put(world, _gpu_pod("a"))
    world.settle()
    assert [pod.spec.node_name for pod in world.client.objects(PODS)] == ["node-0"]
    world.close()


def test_it_can_be_stopped() -> None:
    left = iter([True, False])
    world = Simulation(running=lambda: next(left))
    put(world, node_json("node-0"), pod_json("a"), pod_json("b"))
    with pytest.raises(Stopped):
        world.settle()
    assert sorted(pod.spec.node_name for pod in world.client.objects(PODS)) == ["", "node-0"]
