"""A rollback while services lag behind."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from typing import Any

import dra_testing.rollback
import pytest
from dra_apiserver.api import Api
from dra_apiserver.rest.rewind import Objects, Place, Rewound, rewind
from dra_controller.manager import ControllerManager
from dra_shared.api.resources import PODS, RESOURCE_CLAIMS, Resource
from dra_shared.client.rest import Client, EventType, WatchEvent
from dralab.testing import AsyncCluster

from tests.testing.manifests import POD

pytestmark = pytest.mark.system

_CONTROLLER = "dralab-controller"
_WATCH = Client.watch
_IS_IDLE_AT = ControllerManager.is_idle_at


class _Gates:
    """Hold back deletions of pods and claims from the controllers."""

    def __init__(self) -> None:
        self.holds = False
        self.asked = asyncio.Event()
        """A rewind found no difference, or the rollback asks whether the controllers have seen everything."""
        self.again = asyncio.Event()
        """The claim controller saw the claim's deletion, and created the claim once more."""

    async def watch(
        self, client: Client, resource: Resource[Any], *args: Any, **options: Any
    ) -> AsyncIterator[Any]:
        async for event in _WATCH(client, resource, *args, **options):
            if self.holds and _CONTROLLER in client._user_agent:
                await self._wait(resource, event)
            yield event

    async def _wait(self, resource: Resource[Any], event: WatchEvent[Any]) -> None:
        if event.type is EventType.DELETED and resource in (PODS, RESOURCE_CLAIMS):
            await self.asked.wait()
            if resource is PODS:
                await self.again.wait()
        elif event.type is EventType.ADDED and resource is RESOURCE_CLAIMS:
            self.again.set()

    async def rewind(self, api: Api, objects: Objects, left: Collection[Place] = ()) -> Rewound:
        done = await rewind(api, objects, left)
        if not (done.added or done.changed or done.removed):
            self.asked.set()
        return done

    def is_idle_at(self, manager: ControllerManager, revision: Callable[[Resource[Any]], int]) -> bool:
        if self.holds:
            self.asked.set()
        return _IS_IDLE_AT(manager, revision)


async def test_rollback_waits_for_a_controller_that_still_knows_a_later_pod(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gates = _Gates()
    monkeypatch.setattr(dra_testing.rollback, "rewind", gates.rewind)
    monkeypatch.setattr(
        Client, "watch", lambda client, *args, **options: gates.watch(client, *args, **options)
    )
    monkeypatch.setattr(
        ControllerManager, "is_idle_at", lambda manager, revision: gates.is_idle_at(manager, revision)
    )
    async with AsyncCluster(nodes=1) as cluster:
        template, pod = POD.split("---")
        await cluster.apply(template)
        kept = cluster.snapshot()
        await cluster.apply(pod)
        await cluster.pod("p").wait_for()
        gates.holds = True
        await cluster.rollback(kept)
        assert gates.again.is_set()
        assert await cluster.list("resourceclaims") == await cluster.list("pods") == []
