"""The deallocator: deallocates claims, except those with which another scheduler has just bound the pod.

Several schedulers with the same name may try the same pod. Nothing ties the claims' state to the binding. A
scheduler that gives up therefore checks first whether the pod has been bound, and checks again after
writing. If it took devices from a pod that was bound in between, they are allocated again.
"""

from collections.abc import Callable

import msgspec
from dra_shared.api.pod import Pod
from dra_shared.api.resource import ResourceClaim, ResourceClaimStatus
from dra_shared.api.resources import PODS, RESOURCE_CLAIMS
from dra_shared.client.errors import NotFound
from dra_shared.client.rest import Client

# The maximum number of pods whose deallocated claims are remembered.
_REMEMBERED = 4096


class Deallocator:
    """Deallocates claims of pods that are not bound.

    ``on_loss`` is called with a bound pod that lost devices, and the current claim.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        # By pod uid, the oldest first: the claim that was deallocated last.
        self._taken: dict[str, ResourceClaim] = {}
        self.on_loss: Callable[[Pod, ResourceClaim], object] = lambda pod, claim: None

    async def find_bound(self, pod: Pod) -> Pod | None:
        """Return the current pod if any scheduler has bound it, or None.

        Raises:
            ApiError, httpx.HTTPError, OSError, TimeoutError: the API server can't be asked.
        """
        meta = pod.metadata
        try:
            newest = await self._client.get(PODS, meta.name, meta.namespace)
        except NotFound:
            return None
        return newest if newest.metadata.uid == meta.uid and newest.spec.node_name else None

    async def deallocate(self, claim: ResourceClaim, pod: Pod, *, restoring: bool = False) -> ResourceClaim:
        """Deallocate the pod's claim. Return it unchanged if the pod was bound with these devices.

        With ``restoring``, the devices are this scheduler's own for a bound pod, and are deallocated in any
        case.

        Raises:
            ApiError, httpx.HTTPError, OSError, TimeoutError: a request failed.
            Conflict: ``claim`` is out of date.
        """
        if not restoring and await self.find_bound(pod) is not None:
            return claim
        updated = await self._client.update(
            RESOURCE_CLAIMS,
            msgspec.structs.replace(claim, status=ResourceClaimStatus()),
            subresource="status",
        )
        if not restoring:
            self._remember(pod.metadata.uid, updated)
            newest = await self.find_bound(pod)
            if newest is not None:
                self.handle_placed(newest)
        return updated

    def handle_placed(self, pod: Pod) -> None:
        """Call ``on_loss`` if the pod, which any scheduler has bound, lost devices here."""
        claim = self._taken.pop(pod.metadata.uid, None)
        if claim is not None:
            self.on_loss(pod, claim)

    def _remember(self, uid: str, claim: ResourceClaim) -> None:
        self._taken.pop(uid, None)
        self._taken[uid] = claim
        if len(self._taken) > _REMEMBERED:
            del self._taken[next(iter(self._taken))]
