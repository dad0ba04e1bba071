"""Claims that get their devices without a pod: ``allocationMode: Immediate`` of classic DRA.

Today's upstream has none. A driver's own controller allocated them in Kubernetes 1.26 to 1.31
(``k8s.io/dynamic-resource-allocation/controller``). Here the controller that translates classic claims marks
them, and the scheduler allocates a marked claim on the first suitable node. Pods that use the claim then have
to run there.
"""

import asyncio

from dra_shared.api.resource import AllocationResult, ResourceClaim
from dra_shared.api.resources import RESOURCE_CLAIMS
from dra_shared.claims import FINALIZER, IMMEDIATE_ANNOTATION
from dra_shared.client.errors import Conflict
from dra_shared.client.rest import Client
from dra_shared.clock import Clock, rfc3339
from dra_shared.log import logger
from msgspec.structs import replace

from dra_scheduler.allocator.errors import AllocationError
from dra_scheduler.dra.claimtracker import ClaimNotFound, ClaimOutdated
from dra_scheduler.dra.manager import DRAManager
from dra_scheduler.framework.cache import Cache
from dra_scheduler.plugins.dynamicresources.store import REQUEST_ERRORS, with_finalizer

# Seconds between attempts. They can be rare because no pod waits for such a claim.
_PERIOD = 2.0

_log = logger(__name__)


class ImmediateClaims:
    """Allocates marked claims one after the other while the scheduler leads."""

    def __init__(self, manager: DRAManager, cache: Cache, client: Client, clock: Clock) -> None:
        self._manager = manager
        self._cache = cache
        self._client = client
        self._clock = clock
        self._there = asyncio.Event()

    def notice(self, claim: ResourceClaim) -> None:
        """Wake the allocation if the claim waits for devices."""
        if _waits(claim):
            self._there.set()

    async def run(self) -> None:
        """Allocate such claims until cancelled. Idle while there are none."""
        while True:
            await self._there.wait()
            self._there.clear()
            for claim in [claim for claim in self._manager.claims if _waits(claim)]:
                await self._allocate(claim)
            if any(map(_waits, self._manager.claims)):
                self._there.set()
                await self._clock.sleep(_PERIOD)

    async def _allocate(self, claim: ResourceClaim) -> None:
        claims = self._manager.claims
        if claims.pending_allocation(claim.metadata.uid) is not None:
            return  # a pod was faster
        allocation = self._find(claim)
        if allocation is None:
            return
        # Devices in flight are in use: from here on no attempt for a pod can take them.
        claims.signal_pending(replace(claim, status=replace(claim.status, allocation=allocation)))
        stored = False
        try:
            updated = await self._store(claim, allocation)
            stored = True
            claims.assume(updated)
            _log.info("allocated without a pod", claim=claim.key)
        except (ClaimNotFound, ClaimOutdated):
            _log.debug("claim not assumed, the informer knows better", claim=claim.key)
        except Conflict:
            _log.debug("claim changed, trying again", claim=claim.key)
        except REQUEST_ERRORS as problem:
            _log.warning("claim not allocated, trying again", claim=claim.key, error=str(problem))
        finally:
            claims.remove_pending(claim.metadata.uid, stored=stored)

    def _find(self, claim: ResourceClaim) -> AllocationResult | None:
        for info in self._cache.nodes():
            node = info.node
            if node is None or node.spec.unschedulable:
                continue
            try:
                found = self._manager.allocator.allocate(node, [claim])
            except AllocationError as problem:
                _log.info("claim can't be allocated", claim=claim.key, error=str(problem))
                return None
            if found is not None:
                return found[0]
        return None

    async def _store(self, claim: ResourceClaim, allocation: AllocationResult) -> ResourceClaim:
        if FINALIZER not in claim.metadata.finalizers:
            claim = await self._client.update(RESOURCE_CLAIMS, with_finalizer(claim))
        timed = replace(allocation, allocation_timestamp=rfc3339(self._clock.now()))
        status = replace(claim.status, allocation=timed)
        return await self._client.update(RESOURCE_CLAIMS, replace(claim, status=status), subresource="status")


def _waits(claim: ResourceClaim) -> bool:
    return (
        claim.metadata.annotations.get(IMMEDIATE_ANNOTATION) == "Immediate"
        and claim.status.allocation is None
        and claim.metadata.deletion_timestamp is None
    )
