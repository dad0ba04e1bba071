"""A real API server and the controllers in the test's own process."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import httpx
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_controller.jobkinds.operators import JOB_SETS, complete
from dra_controller.manager import ControllerConfig, ControllerManager
from dra_shared.api.codec import convert
from dra_shared.api.meta import Object
from dra_shared.api.resources import (
    CONFIG_MAPS,
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    DEVICE_TAINT_RULES,
    JOBS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    RESOURCE_SLICES,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)
from dra_shared.client.errors import Conflict, Invalid, NotFound
from dra_shared.client.rest import Client
from dra_shared.clock import Clock
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject

from tests.support.waiting import until

_RESOURCES: dict[str, Resource[Any]] = {
    resource.kind: resource
    for resource in (
        CONFIG_MAPS,
        CRON_JOBS,
        DAEMON_SETS,
        DEPLOYMENTS,
        DEVICE_TAINT_RULES,
        JOBS,
        JOB_SETS,
        NAMESPACES,
        NODES,
        PERSISTENT_VOLUME_CLAIMS,
        PODS,
        REPLICA_SETS,
        REPLICATION_CONTROLLERS,
        RESOURCE_CLAIMS,
        RESOURCE_QUOTAS,
        RESOURCE_CLAIM_TEMPLATES,
        RESOURCE_SLICES,
        SERVICES,
        STATEFUL_SETS,
    )
}
POD_SPEC: JsonObject = {"containers": [{"name": "c", "image": "busybox"}]}
CLAIM_SPEC: JsonObject = {
    "devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}
}


class Cluster:
    """Short forms of the requests that tests make."""

    def __init__(self, url: str, client: Client) -> None:
        self.url = url
        self.client = client

    async def create(self, kind: str, name: str, namespace: str = "default", **fields: Any) -> Any:
        resource = _RESOURCES[kind]
        meta = {"name": name, **fields.pop("metadata", {})}
        if resource.namespaced:
            meta["namespace"] = namespace
        return await self.client.create(resource, convert(resource, {"metadata": meta, **fields}))

    async def set_status(self, kind: str, obj: Object, **status: Any) -> Any:
        return await self.client.patch(
            _RESOURCES[kind],
            obj.metadata.name,
            {"metadata": {"uid": obj.metadata.uid}, "status": status},
            obj.metadata.namespace,
            subresource="status",
        )

    async def items(self, kind: str, namespace: str | None = "default") -> list[Any]:
        resource = _RESOURCES[kind]
        return list((await self.client.list(resource, namespace if resource.namespaced else None)).items)

    async def get(self, kind: str, name: str, namespace: str = "default") -> Any | None:
        resource = _RESOURCES[kind]
        try:
            return await self.client.get(resource, name, namespace if resource.namespaced else None)
        except NotFound:
            return None

    async def delete(self, kind: str, name: str, namespace: str = "default", **options: Any) -> None:
        resource = _RESOURCES[kind]
        await self.client.delete(resource, name, namespace if resource.namespaced else None, **options)

    async def run_pods(self, namespace: str = "default") -> None:
        """Play the kubelet: new pods become ready, and pods whose deletion has begun are removed.

        As the kubelet's, each write names the pod's uid: a controller may have created another pod of the same name
        since the pods were listed.
        """
        for pod in await self.items("Pod", namespace):
            with contextlib.suppress(NotFound, Conflict, Invalid):
                if pod.metadata.deletion_timestamp is not None and not pod.metadata.finalizers:
                    await self.delete(
                        "Pod", pod.metadata.name, namespace, uid=pod.metadata.uid, grace_period=0
                    )
                elif pod.status.phase in ("", "Pending"):
                    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
                    await self.set_status("Pod", pod, phase="Running", conditions=[ready])

    async def until(
        self,
        condition: Callable[[], Awaitable[bool]],
        *,
        meanwhile: Callable[[], Awaitable[None]] | None = None,
        seconds: float = 60.0,
    ) -> None:
        """Wait for ``condition``. Run ``meanwhile`` after each evaluation."""
        await until(condition, seconds, every=0.01, meanwhile=meanwhile)


@contextlib.asynccontextmanager
async def api_server(path: Path, gates: FeatureGates | None = None) -> AsyncIterator[Cluster]:
    """Run an API server without any controller."""
    features = gates or FeatureGates()
    config = Config(port=0, data=path, database=IN_MEMORY, runtime_config="api/all=true", features=features)
    async with ApiServer(config) as server, Client(server.url) as client:
        yield Cluster(server.url, client)


@contextlib.asynccontextmanager
async def controllers(
    cluster: Cluster,
    *names: str,
    transport: httpx.AsyncBaseTransport | None = None,
    gates: FeatureGates | None = None,
    relist_seconds: float = 120.0,
    clock: Clock | None = None,
    operators: Iterable[str] = (),
) -> AsyncIterator[ControllerManager]:
    """Run the named controllers, or all if none is named, and the kinds of the operators."""
    config = ControllerConfig(
        controllers=names or ("*",),
        features=gates or FeatureGates(),
        relist_seconds=relist_seconds,
        operators=complete(operators),
    )
    async with (
        Client(cluster.url, transport=transport) as client,
        ControllerManager(config, client, clock) as manager,
    ):
        async with asyncio.timeout(60):
            await manager.wait_until_synced()
        yield manager
