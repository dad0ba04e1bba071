"""The scheduler in memory decides as the scheduler with an API server."""

import asyncio
import random
from typing import Any

import pytest
from dra_scheduler.config import SchedulerConfig
from dra_scheduler.plan.simulation import Simulation, Stopped
from dra_shared.api.resources import NODES, PODS, RESOURCE_CLAIMS
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject

from tests.scheduler.objects import class_json, node_json, pod_json, slice_json
from tests.scheduler.plan.worlds import put, random_world, template_json
from tests.scheduler.running import condition, quiet, run_scheduler
from tests.support.cases import each_case
from tests.support.fakeapi import FakeApi


async def _schedule_with_api(standing: list[JsonObject], coming: list[JsonObject]) -> dict[str, Any]:
    """Schedule the pods one after the other with an API server. Return the placements."""
    api = FakeApi(*standing)
    async with run_scheduler(api):
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


def _claim(api: FakeApi, name: str) -> JsonObject | None:
    has = api.has("resourceclaims", "default", name)
    return api.get("resourceclaims", "default", name) if has else None


def _devices(claim: JsonObject | None) -> list[tuple[str, str]]:
    results = (claim or {}).get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
    return [(result["pool"], result["device"]) for result in results]


def _schedule_in_memory(standing: list[JsonObject], coming: list[JsonObject]) -> dict[str, Any]:
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


@each_case("seed", range(12))
async def test_scheduling_in_memory_gives_the_same_placements_as_with_an_api_server(seed: int) -> None:
    standing, coming = random_world(random.Random(seed))
    planned = await asyncio.to_thread(_schedule_in_memory, standing, coming)
    assert planned == await _schedule_with_api(standing, coming)


def _gpu_pod(name: str, **fields: Any) -> JsonObject:
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


def test_devices_of_deleted_pods_are_free_again() -> None:
    world = _gpus(1, 1)
    put(world, _gpu_pod("a"), _gpu_pod("b"))
    world.settle()
    world.remove(PODS, "default/a")
    world.settle()
    pod = world.pod("default/b")
    assert pod is not None
    assert pod.spec.node_name == "node-0"
    assert len(world.client.objects(RESOURCE_CLAIMS)) == 1


def test_pending_pods_are_scheduled_to_an_added_node() -> None:
    world = _gpus(1, 1)
    put(world, _gpu_pod("a"), _gpu_pod("b"))
    world.settle()
    put(world, node_json("late"), slice_json("late", 1))
    world.settle()
    assert {pod.spec.node_name for pod in world.client.objects(PODS)} == {"node-0", "late"}
    world.remove(NODES, "late")
    assert len(world.client.objects(NODES)) == 1


def test_a_pod_of_higher_priority_preempts_others_in_memory() -> None:
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


async def test_a_simulation_runs_inside_a_running_event_loop() -> None:
    world = _gpus(1, 1)
    put(world, _gpu_pod("a"))
    world.settle()
    assert [pod.spec.node_name for pod in world.client.objects(PODS)] == ["node-0"]
    world.close()


def test_a_simulation_can_be_stopped() -> None:
    left = iter([True, False])
    world = Simulation(running=lambda: next(left))
    put(world, node_json("node-0"), pod_json("a"), pod_json("b"))
    with pytest.raises(Stopped):
        world.settle()
    assert sorted(pod.spec.node_name for pod in world.client.objects(PODS)) == ["", "node-0"]
