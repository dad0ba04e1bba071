"""Sample a running cluster before, during and after a fault."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import httpx
from dra_kube.cluster import Cluster
from dra_shared.api.resources import NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from dra_shared.client.errors import ApiError
from dra_shared.client.rest import Client
from dra_shared.errors import UserError
from dra_shared.faults.places import OBSERVER
from dra_shared.faults.story import Sample, Story

_EVERY = 0.25
_PATIENCE = 5.0
_ERRORS = (ApiError, UserError, httpx.HTTPError, OSError, TimeoutError)


class Sampler:
    """Samples a cluster. Objects that cannot be read during a fault are left out."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._began = 0.0

    async def sample(self) -> Sample:
        """Return a sample of the cluster.

        Raises:
            ApiError, UserError, httpx.HTTPError, OSError: it cannot be read.
        """
        at = asyncio.get_running_loop().time() - self._began
        async with self._cluster.client(OBSERVER) as client:
            return await _read(client, at)

    @contextlib.asynccontextmanager
    async def during(self, story: Story) -> AsyncIterator[None]:
        """Add samples to the story while the block runs."""
        self._began = asyncio.get_running_loop().time()
        task = asyncio.create_task(self._keep(story))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _keep(self, story: Story) -> None:
        while True:
            with contextlib.suppress(*_ERRORS):
                async with asyncio.timeout(_PATIENCE):
                    story.during.append(await self.sample())
            await asyncio.sleep(_EVERY)


async def _read(client: Client, at: float) -> Sample:
    pods = (await client.list(PODS)).items
    claims = (await client.list(RESOURCE_CLAIMS)).items
    slices = (await client.list(RESOURCE_SLICES)).items
    nodes = (await client.list(NODES)).items
    return Sample(
        at,
        {pod.metadata.uid: pod for pod in pods},
        {claim.metadata.uid: claim for claim in claims},
        {one.metadata.uid: one for one in slices},
        {node.metadata.uid: node for node in nodes},
    )
