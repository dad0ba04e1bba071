"""PostFilter and Unreserve: deallocate claims that rejected all nodes, and undo reservations.

Mirrors ``PostFilter`` and ``Unreserve`` in upstream's
``pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go``.
"""

from collections.abc import Iterable

from dra_shared.api.pod import Pod
from dra_shared.api.resource import ResourceClaim
from dra_shared.api.resources import RESOURCE_CLAIMS
from dra_shared.api.scheduling import PodGroup
from dra_shared.claims import is_reserved_for_pod
from dra_shared.client.rest import Client
from dra_shared.log import logger

from dra_scheduler.dra.manager import DRAManager
from dra_scheduler.dra.podgroups import PodGroups, group_key
from dra_scheduler.framework.status import Status, error, unresolvable, unschedulable
from dra_scheduler.plugins.dynamicresources.deallocator import Deallocator
from dra_scheduler.plugins.dynamicresources.extended import is_in_memory
from dra_scheduler.plugins.dynamicresources.memory import AttemptMemory, GroupMemory
from dra_scheduler.plugins.dynamicresources.store import REQUEST_ERRORS, ClaimStore, StoreError

_log = logger(__name__)


class Release:
    """Deallocates and unreserves claims.

    ``with_groups``: claims may be reserved for pod groups. ``unreserves_groups``: Unreserve removes these
    reservations, too.
    """

    def __init__(
        self,
        manager: DRAManager,
        client: Client,
        store: ClaimStore,
        groups: PodGroups,
        deallocator: Deallocator,
        *,
        with_groups: bool,
        unreserves_groups: bool = False,
    ) -> None:
        self._manager = manager
        self._client = client
        self._store = store
        self._groups = groups
        self._deallocator = deallocator
        self._with_groups = with_groups
        self._unreserves_groups = unreserves_groups

    async def deallocate_one(self, memory: AttemptMemory, pod: Pod) -> Status:
        """Deallocate one claim that rejected nodes and that no other pod needs.

        A new allocation may have devices that suit the pod better. The event of the claim's change retries
        the pod.
        """
        if not memory.claims:
            return unschedulable("no new claims to deallocate")
        extended = memory.claims.extended_claim
        for index in sorted(memory.unavailable):
            claim = memory.claims[index]
            reserved = claim.status.reserved_for
            if claim is extended or any(consumer.uid != pod.metadata.uid for consumer in reserved):
                continue
            try:
                await self._deallocator.deallocate(claim, pod)
            except REQUEST_ERRORS as failure:
                return error(failure)
            return unschedulable("deallocation of ResourceClaim completed")
        if extended is not None and not is_in_memory(extended):
            try:
                await self._delete(extended, pod)
            except (*REQUEST_ERRORS, StoreError) as failure:
                return error(failure)
            return unschedulable("deletion of ResourceClaim completed")
        return await self._for_group(memory, pod) or unschedulable("still not schedulable")

    async def _for_group(self, memory: AttemptMemory, pod: Pod) -> Status | None:
        group, key = self._groups.of(pod), group_key(pod)
        if not self._with_groups or group is None or key is None or self._groups.count_placed(key):
            return None
        for index in sorted(memory.unavailable):
            claim = memory.claims[index]
            if _reserved_only_for(claim, group):
                try:
                    if await self._deallocator.find_bound(pod) is None:
                        await self._unreserve(claim, group.metadata.uid)
                except REQUEST_ERRORS as failure:
                    return error(failure)
                return unresolvable("ResourceClaim unreserved for PodGroup")
        return None

    async def deallocate_for_group(self, attempts: Iterable[tuple[Pod, AttemptMemory]]) -> Status:
        """Deallocate the claims that rejected nodes and that only the group and its pods need.

        Claims that the group shares are kept while one of its pods has a node.
        """
        released: set[str] = set()
        for pod, memory in attempts:
            own = {pod.metadata.uid}
            key, group = group_key(pod), self._groups.of(pod)
            if key is not None and group is not None and not self._groups.count_placed(key):
                own.add(group.metadata.uid)
            for index in sorted(memory.unavailable):
                claim = memory.claims[index]
                taken = {consumer.uid for consumer in claim.status.reserved_for} - own
                if claim is memory.claims.extended_claim or taken or claim.metadata.uid in released:
                    continue
                try:
                    await self._deallocator.deallocate(claim, pod)
                except REQUEST_ERRORS as failure:
                    return error(failure)
                released.add(claim.metadata.uid)
        return unschedulable("deallocation of ResourceClaim completed") if released else unschedulable()

    async def release_all(self, memory: AttemptMemory, group: GroupMemory | None, pod: Pod) -> None:
        """Forget the pending allocations and reservations of a pod that is not going to be bound.

        Reservations for the pod's group are kept for its other pods.
        """
        for index, claim in enumerate(memory.claims.user):
            uid = claim.metadata.uid
            if self._manager.claims.remove_pending(uid, stored=False):
                self._manager.claims.restore(claim.key)
                if group is not None:
                    group.pending.discard(uid)
            consumer = self._consumer(memory, index, pod)
            if not consumer:
                continue
            try:
                if await self._deallocator.find_bound(pod) is None:
                    await self._unreserve(claim, consumer)
            except REQUEST_ERRORS as failure:
                # The next attempt of the pod, if it fails too, tries again to remove the reservation.
                _log.warning("claim not unreserved", claim=claim.key, pod=pod.key, error=str(failure))
        await self._release_extended(memory, pod)
        if memory.reserved is not None and memory.reserved.node_statuses:
            await self._store.clear_node_statuses(pod)

    def forget_pending(self, memory: AttemptMemory, group: GroupMemory | None) -> None:
        """Forget the pending allocations of a pod that was only tried. None of them was stored."""
        for claim in memory.claims.user:
            if self._manager.claims.remove_pending(claim.metadata.uid, stored=False) and group is not None:
                group.pending.discard(claim.metadata.uid)
        if memory.claims.extended_claim is not None:
            self._manager.claims.remove_pending(memory.claims.initial_extended_uid, stored=False)

    def _consumer(self, memory: AttemptMemory, index: int, pod: Pod) -> str:
        """Return the uid of the consumer that no longer needs the claim, or an empty string."""
        claim = memory.claims[index]
        if claim.status.allocation is None:
            return ""
        if is_reserved_for_pod(pod, claim, pod_groups=False):
            return pod.metadata.uid
        if not self._unreserves_groups or not is_reserved_for_pod(pod, claim, pod_groups=self._with_groups):
            return ""
        group = memory.claims.binding(index)
        return group.uid if group is not None and not self._groups.has_placed_others(pod) else ""

    async def _release_extended(self, memory: AttemptMemory, pod: Pod) -> None:
        claim = memory.claims.extended_claim
        if claim is None:
            return
        if self._manager.claims.remove_pending(memory.claims.initial_extended_uid, stored=False):
            self._manager.claims.restore(claim.key)
        if is_in_memory(claim):
            return
        try:
            await self._delete(claim, pod)
        except (*REQUEST_ERRORS, StoreError) as failure:
            _log.warning("claim for extended resources not deleted", claim=claim.key, error=str(failure))

    async def _delete(self, claim: ResourceClaim, pod: Pod) -> None:
        """Delete the claim for the pod's extended resources, unless another scheduler has bound the pod with it."""
        newest = await self._deallocator.find_bound(pod)
        used = newest.status.extended_resource_claim_status if newest is not None else None
        if used is None or used.resource_claim_name != claim.metadata.name:
            await self._store.delete(claim)

    async def _unreserve(self, claim: ResourceClaim, consumer: str) -> None:
        # A strategic merge patch removes a single entry, whatever else the newest state of the claim
        # contains.
        status = {"reservedFor": [{"$patch": "delete", "uid": consumer}]}
        await self._client.patch_status(RESOURCE_CLAIMS, claim, status)


def _reserved_only_for(claim: ResourceClaim, group: PodGroup) -> bool:
    reserved = claim.status.reserved_for
    return len(reserved) == 1 and reserved[0].uid == group.metadata.uid
