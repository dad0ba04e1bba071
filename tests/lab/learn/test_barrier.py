"""A new attempt is submitted once scheduler and claim controller have observed the deletion of the previous one."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_kube.discovery import Discovery
from dra_lab.learn.barrier import pass_barrier
from dra_shared.api.codec import convert
from dra_shared.api.pod import Pod
from dra_shared.api.resources import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Resource
from dra_shared.client.rest import Client
from dra_shared.clock import Clock, FakeClock, SystemClock

from tests.support.waiting import until

_UNKNOWN_CLASS = "request device: device class class-of-the-barrier does not exist"


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    config = Config(port=0, data=tmp_path, database=IN_MEMORY)
    async with ApiServer(config) as server, Client(server.url) as client:
        yield client


async def _start(client: Client, clock: Clock) -> tuple[asyncio.Task[None], Pod]:
    """Start a task that waits for the barrier. Return the task and the barrier's pod."""
    passing = asyncio.create_task(pass_barrier(client, await Discovery.read(client), clock, "default"))

    async def pods() -> Any:
        return (await client.list(PODS, "default")).items

    (pod,) = await until(pods)
    return passing, pod


async def _create_claim(client: Client, pod: Pod) -> None:
    """Create the claim as the claim controller does."""
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod.metadata.name,
        "uid": pod.metadata.uid,
        "controller": True,
    }
    meta = {"name": "made", "namespace": "default", "ownerReferences": [owner]}
    request = {"name": "device", "exactly": {"deviceClassName": "class-of-the-barrier"}}
    body = {"metadata": meta, "spec": {"devices": {"requests": [request]}}}
    await client.create(RESOURCE_CLAIMS, convert(RESOURCE_CLAIMS, body))


async def _report(client: Client, pod: Pod, message: str) -> None:
    """Report a condition as the scheduler does."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    await client.patch(
        PODS, pod.metadata.name, {"status": {"conditions": [condition]}}, "default", subresource="status"
    )


async def _remaining_objects(client: Client) -> list[str]:
    kinds: tuple[Resource[Any], ...] = (PODS, RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES)
    return [item.metadata.name for kind in kinds for item in (await client.list(kind, "default")).items]


async def test_barrier_ends_when_the_scheduler_reports_the_class_of_its_claim(client: Client) -> None:
    passing, pod = await _start(client, SystemClock())
    await _report(client, pod, "waiting for the claim")
    await _create_claim(client, pod)
    assert not passing.done()
    await _report(client, pod, _UNKNOWN_CLASS)
    await passing
    assert await _remaining_objects(client) == []


async def test_barrier_ends_after_ten_seconds_without_a_scheduler(client: Client) -> None:
    clock = FakeClock()
    passing, _ = await _start(client, clock)
    await until(passing.done, clock=clock)
    await passing
    assert clock.monotonic() > 10
    assert await _remaining_objects(client) == []
