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
from dra_testing.rollback import RollbackTimeout
from dra_testing.services import Services
from dralab import driver
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


async def test_rollback_waits_until_controllers_have_observed_deleted_pods(
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


class _Sockets(driver.Handler):
    """Prepare claims with no edits."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def prepare(self, claim: driver.ResourceClaim) -> list[driver.PreparedDevice]:
        assert claim.status.allocation is not None
        return [
            driver.PreparedDevice((result.request,), result.pool, result.device, ())
            for result in claim.status.allocation.devices.results
        ]

    async def unprepare(self, claim: driver.ClaimRef) -> None:
        """Do nothing."""


async def test_the_error_of_a_rollback_names_a_pod_whose_claims_the_driver_did_not_unprepare(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once, the error was a TimeoutError without a text."""
    name = "socket.example.com"
    claim_class = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{name}'"}}]},
    }
    async with AsyncCluster(nodes=1, drivers=[]) as cluster:
        kept = cluster.snapshot()
        node = cluster.surroundings(name)
        serving = driver.DriverServer(name, node.node_name, node.directories, _Sockets(name), node.client)
        async with serving:
            serving.publish(driver.node_pool(node.node_name, [driver.Device(name="socket-0")]))
            await cluster.apply([claim_class, POD.replace("gpu.nvidia.com", name)])
            await cluster.pod("p").wait_for("Running")
        monkeypatch.setattr(dra_testing.rollback, "_SETTLE_TIMEOUT", 0.5)
        with pytest.raises(RollbackTimeout) as caught:
            await cluster.rollback(kept)
        lines = str(caught.value).splitlines()
        assert lines[0] == "the cluster is not rolled back after 0.5 s"
        assert lines[1].startswith("node node-0 still has pod default/p")
        assert lines[-1].endswith("call rollback() before you stop a driver of your own")
        assert cluster.is_damaged

        # The node retries, and then the event with the reason exists.
        assert isinstance(cluster._services, Services)
        kubelets = cluster._services.agent.kubelets
        await cluster.until(lambda: kubelets[0].problems())
        with pytest.raises(RollbackTimeout, match="still has pod default/p: unprepare dynamic resources"):
            await cluster.rollback(kept)
