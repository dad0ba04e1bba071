"""A handle of a pod for tests."""

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
    """A handle of a pod, by name."""

    cluster: AsyncCluster
    name: str
    namespace: str = "default"

    async def logs(self, container: str | None = None, *, timeout: float = TIMEOUT, **params: str) -> str:
        """Return the log of a container as soon as it has started; of the only container, unless you name one.

        Raises:
            WaitTimeout: the container does not start.
        """
        path = f"/api/v1/namespaces/{self.namespace}/pods/{self.name}/log"
        given = {**params, **({"container": container} if container else {})}
        await self.wait_for(has_started, timeout=timeout)
        response = await self.cluster.client.raw("GET", path, params=given)
        if response.status_code >= 400:
            raise from_response(response.status_code, response.content)
        return response.text

    async def wait_for(self, condition: Condition = "", *, timeout: float = TIMEOUT) -> JsonObject:
        """Wait until the pod meets the condition; see :meth:`AsyncCluster.wait_for`."""
        return await self.cluster.wait_for(
            f"pod/{self.name}", condition, namespace=self.namespace, timeout=timeout
        )

    async def object(self) -> JsonObject:
        """Return the Pod object."""
        return await self.cluster.get(f"pod/{self.name}", self.namespace)

    async def explain(self) -> str:
        """Explain why the pod has its node, or has none."""
        return await self.cluster.explain(f"pod/{self.name}", self.namespace)

    async def delete(self, grace_period: int | None = 0) -> None:
        """Delete the pod and wait until it is gone."""
        await self.cluster.delete(f"pod/{self.name}", namespace=self.namespace, grace_period=grace_period)

    async def claims(self) -> list[JsonObject]:
        """Return the pod's claims, in the order of its spec."""
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
