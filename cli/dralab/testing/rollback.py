"""Rolling a cluster back to what it was: every object that was added, changed or removed since becomes as it was.

The changes go to the API server's store at once, without graceful deletion, and the services follow them by their
watches, as after any other change. Nodes stop the pods that are gone and unprepare their claims.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from dra_apiserver.storage import Put, Record, Remove, Store
from dra_apiserver.storage.records import Resource

from dralab.testing.services import Services

_ROUNDS = 20
_SETTLE_TIMEOUT = 30.0
_POLL = 0.001
# Written all the time by services for themselves; no test depends on what they were.
_LEASES: Resource = ("coordination.k8s.io", "leases")
_PODS: Resource = ("", "pods")
_CLAIMS: Resource = ("resource.k8s.io", "resourceclaims")
_NODES: Resource = ("", "nodes")
_CLUSTER_ROLES: Resource = ("rbac.authorization.k8s.io", "clusterroles")
# Set by the API server at each write, or by a kubelet as time passes.
_PASSING = ("resourceVersion", "managedFields")


class Snapshot:
    """The objects of a moment."""

    def __init__(self, store: Store) -> None:
        self._objects: dict[Resource, dict[str, bytes]] = {
            resource: {key: record.data for key, record in store.collection(resource).records.items()}
            for resource in store.resources()
            if resource != _LEASES
        }

    def keys(self, resource: Resource) -> Mapping[str, bytes]:
        """The objects of a resource, by key."""
        return self._objects.get(resource, {})

    async def restore(self, services: Services) -> None:
        """Make all objects as they were, and wait until the services know it.

        Raises:
            TimeoutError: the services did not follow.
        """
        store = services.server.store
        async with asyncio.timeout(_SETTLE_TIMEOUT):
            for _ in range(_ROUNDS):
                if not await self._write(store):
                    break
                await _until(lambda: self._followed(services), services)

    async def _write(self, store: Store) -> int:
        """Write the differences; gives how many there were."""
        changes = []
        for resource in store.resources():
            if resource == _LEASES:
                continue
            now, before = store.collection(resource).records, self.keys(resource)
            changes += [store.write(resource, key, _remove) for key in now if key not in before]
            changes += [
                store.write(resource, key, _put(data))
                for key, data in before.items()
                if key not in now or (now[key].data != data and _differ(resource, now[key], data))
            ]
        # One that changed meanwhile is looked at again in the next round.
        await asyncio.gather(*changes)
        return len(changes)

    def _followed(self, services: Services) -> bool:
        store = services.server.store
        pods = store.collection(_PODS).records
        if services.options.nodes:
            for kubelet in services.agent.kubelets:
                if any(pod.key not in pods for pod in kubelet.pods()):
                    return False
        claims = {
            f"{claim.metadata.namespace}/{claim.metadata.name}" for claim in services.scheduler.manager.claims
        }
        return claims == set(store.collection(_CLAIMS).records)


def _remove(current: Record | None) -> Remove | None:
    if current is None:
        return None
    last = current.object()
    # Containers stop at once.
    last["metadata"].setdefault("deletionTimestamp", last["metadata"]["creationTimestamp"])
    last["metadata"]["deletionGracePeriodSeconds"] = 0
    return Remove(last)


def _put(data: bytes) -> Callable[[Record | None], Put]:
    def change(_: Record | None) -> Put:
        return Put(Record("", 0, data).object())

    return change


def _differ(resource: Resource, record: Record, data: bytes) -> bool:
    """Whether someone changed more than passes with time."""
    return _lasting(resource, record) != _lasting(resource, Record("", 0, data))


def _lasting(resource: Resource, record: Record) -> dict[str, Any]:
    obj = record.object()
    for field in _PASSING:
        obj["metadata"].pop(field, None)
    if resource == _NODES:
        for condition in obj.get("status", {}).get("conditions", ()):
            condition.pop("lastHeartbeatTime", None)
    if resource == _CLUSTER_ROLES and "aggregationRule" in obj:
        # A controller gathers them from other roles: first after the snapshot of a new cluster.
        obj.pop("rules", None)
    return obj


async def _until(condition: Callable[[], bool], services: Services) -> None:
    while not condition():
        await services.pause(_POLL)
