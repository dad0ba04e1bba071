"""A plan of a cluster's objects and the cluster itself give each pod the same node and devices, or the same reason."""

import asyncio
import os
import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_scheduler.config import SchedulerConfig
from dra_scheduler.plan.objects import BY_KIND, Objects
from dra_scheduler.plan.simulation import Simulation
from dra_scheduler.scheduler import Scheduler
from dra_scheduler.wiring import new_scheduler
from dra_shared.api.codec import convert
from dra_shared.api.meta import Object
from dra_shared.api.pod import Pod
from dra_shared.api.resource import ResourceClaim
from dra_shared.api.resources import NODES, PODS, RESOURCE_CLAIMS, Resource
from dra_shared.client.rest import Client
from dra_shared.jsontypes import JsonObject
from dra_worlds.live import list_objects
from dra_worlds.reading import world

from tests.scheduler.plan.worlds import random_world
from tests.support.waiting import until

_WORLDS = int(os.environ.get("DRALAB_PLAN_WORLDS", "3"))
_WITHOUT = frozenset({"ServiceAccount", "TaintNodesByCondition"})

# A pod's node, devices, and the message of its condition.
_Fate = tuple[str, list[tuple[str, str]], str]
_Stored = list[tuple[Resource[Any], Object]]


@pytest.mark.system
@pytest.mark.parametrize("seed", range(_WORLDS))
async def test_a_plan_agrees_with_a_cluster(seed: int, tmp_path: Path) -> None:
    standing, coming = random_world(random.Random(1000 + seed))
    config = Config(port=0, data=tmp_path, database=IN_MEMORY, disabled_plugins=_WITHOUT)
    async with ApiServer(config) as server, Client(server.url) as client:
        for obj in standing:
            await _create(client, obj)
        problems: list[str] = []
        documents = [each for _, found in await list_objects(client, problems) for each in found]
        before = world(documents, problems)
        assert not problems
        stored, served = await _schedule_in_cluster(client, coming)
    assert await asyncio.to_thread(_schedule_in_memory, before, stored) == served


async def _create(client: Client, obj: JsonObject) -> tuple[Resource[Any], Object]:
    group = {"DeviceClass": "resource.k8s.io", "ResourceSlice": "resource.k8s.io"}.get(obj["kind"])
    group = "resource.k8s.io" if obj["kind"] == "ResourceClaim" else group or ""
    resource = BY_KIND[group, obj["kind"]]
    meta = {key: value for key, value in obj["metadata"].items() if key != "uid"}
    made: Object = await client.create(resource, convert(resource, {**obj, "metadata": meta}))
    if resource is NODES:
        await client.patch_status(resource, made, obj["status"])
    return resource, made


async def _schedule_in_cluster(client: Client, coming: list[JsonObject]) -> tuple[_Stored, dict[str, _Fate]]:
    stored: _Stored = []
    config = SchedulerConfig(health_port=None)
    async with new_scheduler(config, client=client, rng=random.Random(1)) as scheduler:
        await until(lambda: scheduler.ready)
        for obj in coming:
            resource, made = await _create(client, obj)
            stored.append((resource, made))
            await until(partial(_is_observed, client, scheduler, resource, made))
        return stored, {key: await _fate(client, key) for key in _names(stored)}


def _names(stored: _Stored) -> list[str]:
    return [obj.metadata.name for resource, obj in stored if resource is PODS]


async def _is_observed(client: Client, scheduler: Scheduler, resource: Resource[Any], obj: Object) -> bool:
    """True if the scheduler has observed the claim, or has decided on the pod."""
    if resource is not PODS:
        return bool(scheduler.manager.claims.known_version(obj.key))
    pod = await client.get(PODS, obj.metadata.name, "default")
    return any(condition.type == "PodScheduled" for condition in pod.status.conditions)


async def _fate(client: Client, name: str) -> _Fate:
    pod = await client.get(PODS, name, "default")
    claims = {claim.metadata.name: claim for claim in (await client.list(RESOURCE_CLAIMS, "default")).items}
    return _of(pod, claims.get(name))


def _of(pod: Pod, claim: ResourceClaim | None) -> _Fate:
    allocation = claim.status.allocation if claim is not None else None
    results = allocation.devices.results if allocation is not None else ()
    waiting = (c.message for c in pod.status.conditions if c.type == "PodScheduled" and c.status == "False")
    return pod.spec.node_name, [(result.pool, result.device) for result in results], next(waiting, "")


def _schedule_in_memory(before: Objects, stored: _Stored) -> dict[str, _Fate]:
    plan = Simulation(seed=1)
    plan.load((resource, each.values()) for resource, each in before)
    for resource, obj in stored:
        plan.add(resource, obj)
        plan.settle()
    fates = {}
    for name in _names(stored):
        pod = plan.pod(f"default/{name}")
        assert pod is not None
        fates[name] = _of(pod, plan.client.find(RESOURCE_CLAIMS, f"default/{name}"))
    plan.close()
    return fates
