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


class RollbackTimeout(TimeoutError):
    """Services did not follow a rollback in time. The message says which, and why."""


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
            RollbackTimeout: the services did not follow in time.
        """
        try:
            async with asyncio.timeout(_SETTLE_TIMEOUT):
                await self._restore(services)
        except TimeoutError:
            raise RollbackTimeout(_explain(services)) from None

    async def _restore(self, services: Services) -> None:
        begun: set[tuple[Resource, str]] = set()
        for _ in range(_ROUNDS):
            # Services may write while they follow. The next round undoes these writes, too. A round without a
            # difference is only the last one if every service has observed all earlier rounds: a controller
            # that still knows a later pod would create that pod's claim.
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
    return not _left_pods(services) and not _claims_out_of_step(services)


def _left_pods(services: Services) -> list[str]:
    """Return the pods that nodes still have although their objects are gone, and why."""
    pods = services.server.store.collection(_PODS).records
    return [
        f"node {kubelet.name} still has pod {pod.key}{_reason(kubelet.problems().get(pod.key, ''))}"
        for kubelet in (services.agent.kubelets if services.options.nodes else ())
        for pod in kubelet.pods()
        if pod.key not in pods
    ]


def _claims_out_of_step(services: Services) -> set[str]:
    """Return the claims that the scheduler still has and that are gone, and those that it does not have yet."""
    known = {
        f"{claim.metadata.namespace}/{claim.metadata.name}" for claim in services.scheduler.manager.claims
    }
    return known ^ set(services.server.store.collection(_CLAIMS).records)


def _explain(services: Services) -> str:
    left = _left_pods(services)
    lines = [f"the cluster is not rolled back after {_SETTLE_TIMEOUT:g} s", *left]
    if claims := _claims_out_of_step(services):
        lines.append(f"the scheduler has not seen the change of {', '.join(sorted(claims))}")
    if len(lines) == 1:
        lines.append("controllers still have work to do")
    if left:
        lines.append(
            "A pod is gone when its driver has unprepared its claims: call rollback() before you stop a driver of"
            " your own"
        )
    return "\n".join(lines)


def _reason(problem: str) -> str:
    return f": {problem}" if problem else ""


async def _until(condition: Callable[[], bool], services: Services) -> None:
    while not condition():
        await services.pause(_POLL)
