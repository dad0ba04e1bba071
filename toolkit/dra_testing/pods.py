"""A pod as tests see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dra_shared.client.errors import from_response
from dra_shared.jsontypes import JsonObject

from dra_testing.conditions import TIMEOUT, Condition, has_started

if TYPE_CHECKING:
    from dra_testing.cluster import AsyncCluster


@dataclass(frozen=True)
class AsyncPod:
    """A pod by name."""

    cluster: AsyncCluster
    name: str
    namespace: str = "default"

    async def logs(self, container: str | None = None, *, timeout: float = TIMEOUT, **params: str) -> str:
        """Its log, as soon as there is one; of its only container, unless one is named.

        Raises:
            WaitTimeout: it does not start.
        """
        path = f"/api/v1/namespaces/{self.namespace}/pods/{self.name}/log"
        given = {**params, **({"container": container} if container else {})}
        await self.wait_for(has_started, timeout=timeout)
        response = await self.cluster.client.raw("GET", path, params=given)
        if response.status_code >= 400:
            raise from_response(response.status_code, response.content)
        return response.text

    async def wait_for(self, condition: Condition = "", *, timeout: float = TIMEOUT) -> JsonObject:
        """Wait until it meets the condition: see :meth:`AsyncCluster.wait_for`."""
        return await self.cluster.wait_for(
            f"pod/{self.name}", condition, namespace=self.namespace, timeout=timeout
        )

    async def object(self) -> JsonObject:
        """The object."""
        return await self.cluster.get(f"pod/{self.name}", self.namespace)

    async def explain(self) -> str:
        """Why it is where it is, or nowhere."""
        return await self.cluster.explain(f"pod/{self.name}", self.namespace)

    async def delete(self, grace_period: int | None = 0) -> None:
        """Delete it and wait until it is gone."""
        await self.cluster.delete(f"pod/{self.name}", namespace=self.namespace, grace_period=grace_period)

    async def claims(self) -> list[JsonObject]:
        """The claims that it uses, in the order of its spec."""
        pod = await self.object()
        made = {
            status["name"]: status.get("resourceClaimName")
            for status in pod.get("status", {}).get("resourceClaimStatuses", ())
        }
        names = [
            entry.get("resourceClaimName") or made.get(entry["name"])
            for entry in pod["spec"].get("resourceClaims", ())
        ]
        return [await self.cluster.get(f"resourceclaim/{name}", self.namespace) for name in names if name]
