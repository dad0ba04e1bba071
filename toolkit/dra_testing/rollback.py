"""Roll a cluster back: every object that was created, changed or deleted since a snapshot is restored.

The changes are written to the API server's store directly, without graceful deletion. The services see them by their
watches, as any other change. Nodes stop the pods that no longer exist and unprepare their claims.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from dra_apiserver.rest.rewind import rewind, stored_objects
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.records import Resource
from dra_shared.api.resources import Resource as ApiResource

from dra_testing.services import Services

_ROUNDS = 20
_SETTLE_TIMEOUT = 30.0
_POLL = 0.001
_PODS: Resource = ("", "pods")
_CLAIMS: Resource = ("resource.k8s.io", "resourceclaims")


class Snapshot:
    """The objects at one moment."""

    def __init__(self, server: ApiServer) -> None:
        self._objects = stored_objects(server.api)

    def keys(self, resource: Resource) -> Mapping[str, bytes]:
        """Return the encoded objects of a resource, by key."""
        return self._objects.get(resource, {})

    async def restore(self, services: Services) -> None:
        """Restore all objects, and wait until the services have observed it.

        Raises:
            TimeoutError: the services did not follow in time.
        """
        begun: set[tuple[Resource, str]] = set()
        async with asyncio.timeout(_SETTLE_TIMEOUT):
            for _ in range(_ROUNDS):
                # Services may write while they follow. The next round undoes these writes, too. A round without a
                # difference is the last one only if nobody is left who has not seen the others: a controller that
                # still knows a later pod would create that pod's claim.
                done = await rewind(services.server.api, self._objects, begun)
                begun.update(done.begun)
                differs = done.added or done.changed or done.removed
                if not differs and _have_followed(services):
                    break
                await _until(lambda: _have_followed(services), services)


def _have_followed(services: Services) -> bool:
    """True if controllers, scheduler and nodes have seen the newest objects and acted on them."""
    store = services.server.store

    def revision(resource: ApiResource[Any]) -> int:
        return store.collection((resource.group, resource.plural)).revision

    if not services.controllers.is_idle_at(revision):
        return False
    pods = store.collection(_PODS).records
    if services.options.nodes:
        for kubelet in services.agent.kubelets:
            if any(pod.key not in pods for pod in kubelet.pods()):
                return False
    claims = {
        f"{claim.metadata.namespace}/{claim.metadata.name}" for claim in services.scheduler.manager.claims
    }
    return claims == set(store.collection(_CLAIMS).records)


async def _until(condition: Callable[[], bool], services: Services) -> None:
    while not condition():
        await services.pause(_POLL)
