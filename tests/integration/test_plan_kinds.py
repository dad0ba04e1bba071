"""A plan and a cluster with the same objects agree about partitions, shares, gangs and preemption."""

import asyncio
import os
import random
from collections.abc import Sequence
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
from dra_shared.clock import FakeClock
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_worlds.live import list_objects
from dra_worlds.reading import world

from tests.integration.planworlds import world_of_kinds
from tests.support.waiting import until

_WORLDS = int(os.environ.get("DRALAB_PLAN_WORLDS", "3"))
_GATES = "GenericWorkload=true"
_WITHOUT = frozenset({"Priority", "ServiceAccount", "TaintNodesByCondition"})
_KINDS = {kind: resource for (_, kind), resource in BY_KIND.items()}

_Stored = list[tuple[Resource[Any], Object]]
# The node, the devices with the amounts that the pod consumes, and the reason why there are none; None for a
# deleted pod.
_Fate = tuple[str, list[tuple[str, str, tuple[tuple[str, str], ...]]], str] | None


@pytest.mark.system
@pytest.mark.parametrize("seed", range(_WORLDS))
async def test_a_plan_agrees_with_a_cluster_about_all_kinds(seed: int, tmp_path: Path) -> None:
    standing, steps = world_of_kinds(random.Random(seed))
    config = Config(
        port=0,
        data=tmp_path,
        database=IN_MEMORY,
        disabled_plugins=_WITHOUT,
        features=FeatureGates.parse(_GATES),
        runtime_config="api/all=true",
    )
    async with ApiServer(config) as server, Client(server.url) as client:
        for obj in standing:
            await _create(client, obj)
        problems: list[str] = []
        documents = [each for _, found in await list_objects(client, problems) for each in found]
        before = world(documents, problems)
        assert not problems
        stored, served = await _Served(client).run(steps)
    assert await asyncio.to_thread(_schedule_in_memory, before, stored) == served


async def _create(client: Client, obj: JsonObject) -> tuple[Resource[Any], Object]:
    resource = _KINDS[obj["kind"]]
    meta = {key: value for key, value in obj["metadata"].items() if key != "uid"}
    made: Object = await client.create(resource, convert(resource, {**obj, "metadata": meta}))
    if resource is NODES:
        await client.patch_status(resource, made, obj["status"])
    return resource, made


class _Served:
    """A scheduler with an API server, on a clock that advances while tests wait."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._clock = FakeClock()
        self._stored: list[_Stored] = []

    async def run(self, steps: Sequence[Sequence[JsonObject]]) -> tuple[list[_Stored], dict[str, _Fate]]:
        """Run the steps. Return the created objects of each step, and the final states of the pods."""
        config = SchedulerConfig(health_port=None, gates=FeatureGates.parse(_GATES))
        async with new_scheduler(
            config, client=self._client, clock=self._clock, rng=random.Random(1)
        ) as scheduler:
            await until(lambda: scheduler.ready)
            for step in steps:
                self._stored.append([])
                for obj in step:
                    resource, made = await _create(self._client, obj)
                    self._stored[-1].append((resource, made))
                    # Objects that pods refer to are created before the pods, as in a plan, whichever informer
                    # is slowest.
                    await until(partial(_knows, scheduler, resource, made.key))
                await until(lambda: self._is_settled(scheduler), clock=self._clock)
            return self._stored, await self._fates(scheduler)

    async def _fates(self, scheduler: Scheduler) -> dict[str, _Fate]:
        pods = {pod.metadata.name: pod for pod in (await self._client.list(PODS, "default")).items}
        claims = {c.metadata.name: c for c in (await self._client.list(RESOURCE_CLAIMS, "default")).items}
        names = [obj.metadata.name for step in self._stored for resource, obj in step if resource is PODS]
        return {name: _fate(pods.get(name), claims.get(name), scheduler) for name in names}

    async def _is_settled(self, scheduler: Scheduler) -> bool:
        """True if the scheduler has observed all pods and claims, and has finished with them."""
        pods = (await self._client.list(PODS, "default")).items
        for pod in pods:
            if pod.metadata.deletion_timestamp is not None:
                await self._client.delete(PODS, pod.metadata.name, "default", grace_period=0)
                return False
        claims = (await self._client.list(RESOURCE_CLAIMS, "default")).items
        if not (_is_known(scheduler, PODS, pods) and _is_known(scheduler, RESOURCE_CLAIMS, claims)):
            return False
        waiting = [pod.metadata.uid for pod in pods if not pod.spec.node_name]
        nominated = scheduler.cache.nominations.node_of
        if any(scheduler.queue.get(uid) is None or nominated(uid) for uid in waiting):
            # The pod is being bound, or its victims are still terminating.
            return False
        counts = scheduler.queue.count_by_place()
        return not (counts["active"] or counts["backoff"] or counts["in flight"])


def _knows(scheduler: Scheduler, resource: Resource[Any], key: str) -> bool:
    """True if the scheduler has the object, or watches no objects of its kind."""
    informer = scheduler.informers.find(resource)
    return informer is None or key in informer.store


def _is_known(scheduler: Scheduler, resource: Resource[Any], objects: Sequence[Object]) -> bool:
    """True if the scheduler has these objects in their present state."""
    known = scheduler.informers.informer(resource).store
    return all(
        (mine := known.get(obj.key)) is not None
        and mine.metadata.resource_version == obj.metadata.resource_version
        for obj in objects
    )


def _fate(pod: Pod | None, claim: ResourceClaim | None, scheduler: Scheduler) -> _Fate:
    if pod is None:
        return None
    allocation = claim.status.allocation if claim is not None else None
    results = allocation.devices.results if allocation is not None else ()
    waiting = scheduler.queue.get(pod.metadata.uid)
    devices = [(r.pool, r.device, tuple(sorted(r.consumed_capacity.items()))) for r in results]
    return pod.spec.node_name, devices, waiting.message if waiting is not None else ""


def _schedule_in_memory(before: Objects, stored: Sequence[_Stored]) -> dict[str, _Fate]:
    plan = Simulation(SchedulerConfig(gates=FeatureGates.parse(_GATES)), seed=1)
    plan.load((resource, each.values()) for resource, each in before)
    names = []
    for step in stored:
        for resource, obj in step:
            plan.add(resource, obj)
            names += [obj.metadata.name] if resource is PODS else []
        plan.settle()
    fates = {
        name: _fate(
            plan.pod(f"default/{name}"),
            plan.client.find(RESOURCE_CLAIMS, f"default/{name}"),
            plan.scheduler,
        )
        for name in names
    }
    plan.close()
    return fates
