"""The whole scheduler with a fake API server, and accessors for tests."""

import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

from dra_scheduler.config import SchedulerConfig
from dra_scheduler.scheduler import Scheduler
from dra_scheduler.wiring import new_scheduler
from dra_shared.clock import FakeClock, settle
from dra_shared.jsontypes import JsonObject

from tests.support.fakeapi import FakeApi
from tests.support.waiting import until


@contextlib.asynccontextmanager
async def run_scheduler(
    api: FakeApi, clock: FakeClock | None = None, **config: Any
) -> AsyncIterator[tuple[Scheduler, FakeClock]]:
    """Run a scheduler that has synced its caches. ``config`` has options of SchedulerConfig."""
    clock = clock or FakeClock()
    settings = SchedulerConfig(health_port=None, **config)
    async with new_scheduler(settings, client=api.client(), clock=clock, rng=random.Random(1)) as scheduler:
        await until(lambda: scheduler.ready)
        yield scheduler, clock


async def quiet(api: FakeApi) -> None:
    """Wait until nothing has been written for a long time."""
    writes = -1
    while writes != len(api.calls):
        writes = len(api.calls)
        await settle(300)


def node_of(api: FakeApi, name: str) -> str | None:
    found: str | None = api.get("pods", "default", name)["spec"].get("nodeName")
    return found


def events(api: FakeApi, name: str) -> list[str]:
    """Return ``reason: note`` of the events on that pod."""
    return [
        f"{call.body['reason']}: {call.body['note']}"
        for call in api.writes("events")
        if call.verb == "create" and call.body["regarding"]["name"] == name
    ]


def condition(api: FakeApi, name: str) -> JsonObject:
    """Return the PodScheduled condition of the pod."""
    conditions = api.get("pods", "default", name)["status"].get("conditions", [])
    return next((c for c in conditions if c["type"] == "PodScheduled"), {})


def nominations(api: FakeApi, name: str) -> list[str]:
    """Return the nodes that the pod was nominated for, in order. Binding clears a nomination."""
    statuses = [call.body.get("status", {}) for call in api.writes("pods") if call.name == name]
    return [status["nominatedNodeName"] for status in statuses if status.get("nominatedNodeName")]


def nominated_node(api: FakeApi, name: str) -> str | None:
    """Return the node that the pod's status names."""
    found: str | None = api.get("pods", "default", name)["status"].get("nominatedNodeName")
    return found
