"""Check the invariants of a cluster at rest; see :mod:`dra_shared.faults.invariants`."""

import asyncio

import httpx
from dra_kube.cluster import Cluster
from dra_shared.api.resources import PODS, RESOURCE_CLAIMS
from dra_shared.client.errors import ApiError
from dra_shared.errors import UserError
from dra_shared.faults.invariants import find_breaches, find_leaked_files, pending_pods
from dra_shared.faults.places import OBSERVER

_EVERY = 0.5
# The number of checks in a row that must agree: a single one may fall between two steps of ongoing work.
_CALM = 3


class Rest:
    """Checks a cluster until it has no problems."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def wait(self, timeout: float) -> list[str]:
        """Wait until three checks in a row find no problem.

        Return the problems that are left after ``timeout`` seconds.
        """
        found, calm = ["nothing could be read"], 0
        try:
            async with asyncio.timeout(timeout):
                while calm < _CALM:
                    try:
                        found = await self._look()
                    except (ApiError, UserError, httpx.HTTPError, OSError) as error:
                        found = [f"the cluster cannot be read: {error}"]
                    calm = 0 if found else calm + 1
                    await asyncio.sleep(_EVERY)
        except TimeoutError:
            return found or ["the cluster does not come to rest"]
        return []

    async def _look(self) -> list[str]:
        for service in self._cluster.record().services:
            async with self._cluster.service_client(service, OBSERVER) as client:
                if (await client.raw("GET", "/readyz")).status_code != 200:
                    return [f"{service} is not ready"]
        async with self._cluster.client(OBSERVER) as client:
            pods = (await client.list(PODS)).items
            claims = (await client.list(RESOURCE_CLAIMS)).items
        fitting = [pod.key for pod in pending_pods(pods) if await self._fits(pod.key)]
        files = (self._cluster.data / "nodes").glob("*/cdi/*.yaml")
        return [*find_breaches(pods, claims, fitting), *find_leaked_files(files, claims)]

    async def _fits(self, pod: str) -> bool:
        """True if the scheduler has a node for a pending pod."""
        if "scheduler" not in self._cluster.record().services:
            return False
        async with self._cluster.service_client("scheduler", "dralab") as client:
            response = await client.raw("GET", f"/explain/pod/{pod}")
        if response.status_code != 200:
            return False
        report = response.json()
        return any(node.get("fits") for node in report.get("nodes", ())) and not report.get("node")
