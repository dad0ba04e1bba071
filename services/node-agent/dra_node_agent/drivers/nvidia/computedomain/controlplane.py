"""The parts of the driver that a process needs once for all of its nodes: kinds, informer and controller.

The controller is active in one process of the cluster, the holder of the chart's Lease.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
from dra_shared.client.errors import ApiError, from_response
from dra_shared.client.informer import Informer
from dra_shared.client.leader import LeaderElector, LeadershipLost
from dra_shared.client.rest import Client
from dra_shared.clock import Clock
from dra_shared.log import logger
from dra_shared.yamltext import load_all

from dra_node_agent.drivers.nvidia.computedomain import api
from dra_node_agent.drivers.nvidia.computedomain.api import COMPUTE_DOMAINS, ComputeDomain
from dra_node_agent.drivers.nvidia.computedomain.controller import ComputeDomainController
from dra_node_agent.drivers.nvidia.gates import NvidiaGates

_CRDS = Path(__file__).parent / "manifests" / "crds.yaml"


async def install(client: Client, namespace: str, *, host_managed: bool = False) -> None:
    """Create the driver's cluster objects that do not exist.

    Existing ones are not changed. If machines run their own IMEX daemons, no service account for daemons is
    created.

    Raises:
        ApiError: the API server rejects an object.
    """
    for path, body in _objects(namespace, host_managed):
        response = await client.raw("POST", path, content=msgspec.json.encode(body))
        if response.status_code not in (201, 409):
            raise from_response(response.status_code, response.content)


def _objects(namespace: str, host_managed: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    for document in load_all(_CRDS.read_bytes()):
        yield "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", document.value
    yield (
        "/api/v1/namespaces",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
    )
    if host_managed:
        return
    yield (
        f"/api/v1/namespaces/{namespace}/serviceaccounts",
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": api.SERVICE_ACCOUNT}},
    )


_LEASE = "dra-driver-nvidia-gpu-controller"
_RETRY_SECONDS = 0.5

_log = logger(__name__)


class ControlPlane:
    """Runs from the time when the first node of this process joins until the last one leaves.

    Args:
        namespace: where the driver's own objects are.
        gates: its feature gates.
        host_managed: machines run their IMEX daemons themselves.
    """

    def __init__(self, namespace: str, gates: NvidiaGates, *, host_managed: bool = False) -> None:
        self._namespace = namespace
        self._gates = gates
        self._host_managed = host_managed
        self._members = 0
        self._task: asyncio.Task[None] | None = None
        self._informer: Informer[ComputeDomain] | None = None

    @contextlib.asynccontextmanager
    async def join(self, client: Client, clock: Clock) -> AsyncIterator[Informer[ComputeDomain]]:
        """Join for a node inside the context. Yield the informer of all domains."""
        if self._informer is None:
            self._informer = Informer(client, COMPUTE_DOMAINS, clock=clock)
            work = self._run(client, clock, self._informer)
            self._task = asyncio.create_task(work, name="compute domains")
        self._members += 1
        try:
            yield self._informer
        finally:
            self._members -= 1
            if not self._members and self._task is not None:
                task, self._task, self._informer = self._task, None, None
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _run(self, client: Client, clock: Clock, informer: Informer[ComputeDomain]) -> None:
        while True:
            try:
                await install(client, self._namespace, host_managed=self._host_managed)
                break
            except (ApiError, httpx.HTTPError, OSError, TimeoutError) as error:
                _log.info("compute domains are not installed, trying again", error=str(error))
            await clock.sleep(_RETRY_SECONDS)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(informer.run())
            tasks.create_task(self._compete(client, clock))

    async def _compete(self, client: Client, clock: Clock) -> None:
        identity = f"{socket.gethostname()}_{os.getpid()}"
        while True:
            elector = LeaderElector(client, _LEASE, identity, namespace=self._namespace, clock=clock)
            try:
                controller = ComputeDomainController(
                    client, clock, self._namespace, self._gates, host_managed=self._host_managed
                )
                await elector.run(controller.run)
            except LeadershipLost as error:
                _log.warning("another process runs the compute domain controller", error=str(error))
