"""A cluster with controllers of job kinds, for their tests: objects as dictionaries, and pods that run and end."""

from collections.abc import Callable, Sequence
from typing import Any

from dra_shared.api.codec import convert
from dra_shared.api.pod import Pod
from dra_shared.api.resources import PODS, SERIES_EVENTS, Resource
from dra_shared.client.errors import NotFound
from dra_shared.jsontypes import JsonObject

from tests.controller.cluster import Cluster

NAMESPACE = "default"


def pod_template(**spec: Any) -> JsonObject:
    """Return a pod template with one container."""
    return {"spec": {"containers": [{"name": "main", "image": "busybox"}], **spec}}


class Kinds:
    """Requests of the tests, on a cluster whose controllers run."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.client = cluster.client

    async def create(self, resource: Resource[Any], name: str, spec: Any, **metadata: Any) -> Any:
        meta = {"name": name, "namespace": NAMESPACE, **metadata}
        return await self.client.create(resource, convert(resource, {"metadata": meta, "spec": spec}))

    async def patch(self, resource: Resource[Any], name: str, spec: JsonObject) -> Any:
        return await self.client.patch(resource, name, {"spec": spec}, NAMESPACE)

    async def get(self, resource: Resource[Any], name: str) -> Any:
        try:
            return await self.client.get(resource, name, NAMESPACE)
        except NotFound:
            return None

    async def items(self, resource: Resource[Any]) -> list[Any]:
        listed = await self.client.list(resource, NAMESPACE)
        return sorted(listed.items, key=lambda obj: obj.metadata.name)

    async def names(self, resource: Resource[Any]) -> list[str]:
        return [obj.metadata.name for obj in await self.items(resource)]

    async def pods(self) -> list[Pod]:
        return [pod for pod in await self.items(PODS) if pod.metadata.deletion_timestamp is None]

    async def wait(
        self,
        resource: Resource[Any],
        name: str,
        condition: Callable[[Any], object],
        *,
        run: bool = True,
    ) -> Any:
        """Wait for the object's state, and return the object. Pods become ready meanwhile if ``run`` is set."""
        found: list[Any] = []

        async def holds() -> bool:
            found[:] = [await self.get(resource, name)]
            return bool(condition(found[0]))

        await self.cluster.until(holds, meanwhile=self.cluster.run_pods if run else None)
        return found[0]

    async def wait_for_pods(self, number: int, *, run: bool = True) -> list[Pod]:
        """Wait until there are so many pods that have not ended, and return them."""

        async def holds() -> bool:
            return len(await self.active_pods()) == number

        await self.cluster.until(holds, meanwhile=self.cluster.run_pods if run else None)
        return await self.active_pods()

    async def active_pods(self) -> list[Pod]:
        return [pod for pod in await self.pods() if pod.status.phase not in ("Succeeded", "Failed")]

    async def end(self, pods: Sequence[Pod], phase: str = "Succeeded") -> None:
        """Set the phase of pods to a final one, as a kubelet does when they end."""
        for pod in pods:
            await self.cluster.set_status("Pod", pod, phase=phase)

    async def wait_for_events(self, name: str, *reasons: str) -> None:
        """Wait until there are events about the object with the reasons."""

        async def holds() -> bool:
            events = (await self.client.list(SERIES_EVENTS, NAMESPACE)).items
            return set(reasons) <= {event.reason for event in events if event.regarding.name == name}

        await self.cluster.until(holds)


def conditions(obj: Any) -> dict[str, tuple[str, str]]:
    """Return status and reason of the conditions by type."""
    found = obj.status.get("conditions", []) if obj is not None else []
    return {one["type"]: (one["status"], one["reason"]) for one in found}


def is_true(name: str) -> Callable[[Any], bool]:
    """Return a function that is true for objects with that condition."""
    return lambda obj: conditions(obj).get(name, ("", ""))[0] == "True"
