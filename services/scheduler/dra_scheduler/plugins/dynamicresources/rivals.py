"""Another scheduler may give a device away at the same moment, to another claim: then the first to store it keeps it.

Optimistic locking only guards each claim by itself. So before a pod is bound, its claims' allocations have to come back
through the informer: by then everything stored before them is known, too, because changes come in the order in
which they were stored. If one of those took the same device (or counters of the same pool), ours is given back.
The other scheduler, by the same rule, sees that it was first.
"""

import asyncio

import msgspec
from dra_shared.api.pod import Pod
from dra_shared.api.resource import AllocationResult, ResourceClaim
from dra_shared.api.resources import RESOURCE_CLAIMS
from dra_shared.client.errors import Conflict
from dra_shared.client.rest import Client
from dra_shared.clock import Clock, wait_for
from dra_shared.log import logger

from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import SKIP, Status, error
from dra_scheduler.plugins.dynamicresources.claimtracker import ClaimNotFound, ClaimOutdated
from dra_scheduler.plugins.dynamicresources.manager import DRAManager
from dra_scheduler.plugins.dynamicresources.memory import AttemptMemory
from dra_scheduler.plugins.dynamicresources.plugin import DynamicResources
from dra_scheduler.plugins.dynamicresources.store import REQUEST_ERRORS, StoreError, retry_on_conflict

_LONGEST_WAIT = 30.0

_log = logger(__name__)


class Rivals:
    """A PreBind plugin behind DynamicResources; see the module's docstring."""

    name = "DynamicResourcesRivals"

    def __init__(self, manager: DRAManager, client: Client, clock: Clock) -> None:
        self._manager = manager
        self._client = client
        self._clock = clock

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        memory = state.read(DynamicResources.name, AttemptMemory)
        return None if memory is not None and any(info.stored for info in memory.infos) else SKIP

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        memory = state.read(DynamicResources.name, AttemptMemory)
        assert memory is not None
        for index, info in enumerate(memory.infos):
            claim = memory.claims[index]
            if not info.stored or info.allocation is None:
                continue
            if not await self._echo(claim.key, info.stored):
                return error(f"allocation of claim {claim.key} did not come back from the API server in time")
            rival = self._manager.rival(claim.key, info.allocation, info.decided, info.stored)
            if rival is None:
                continue
            _log.info("another scheduler was first, giving back", claim=claim.key, rival=rival)
            try:
                memory.claims[index] = await self._give_back(claim, info.allocation, pod)
            except StoreError as failure:
                return error(failure)
            return error(f"devices of claim {claim.key} were allocated for claim {rival} in the meantime")
        return None

    async def _echo(self, key: str, version: int) -> bool:
        """Wait until the informer knows the claim as it was stored; whether that happened."""
        tracker = self._manager.claims
        if tracker.known_version(key) >= version:
            return True
        known = asyncio.Event()
        stop = tracker.watch(key, lambda: known.set() if tracker.known_version(key) >= version else None)
        try:
            await wait_for(known.wait(), _LONGEST_WAIT, self._clock)
        finally:
            stop()
        return known.is_set()

    async def _give_back(self, claim: ResourceClaim, allocation: AllocationResult, pod: Pod) -> ResourceClaim:
        async def write(latest: ResourceClaim) -> ResourceClaim:
            stored = latest.status.allocation
            others = [ref for ref in latest.status.reserved_for if ref.uid != pod.metadata.uid]
            if stored is None or stored.devices != allocation.devices or others:
                return latest
            status = msgspec.structs.replace(latest.status, allocation=None, reserved_for=(), devices=())
            latest = msgspec.structs.replace(latest, status=status)
            try:
                return await self._client.update(RESOURCE_CLAIMS, latest, subresource="status")
            except Conflict:
                raise
            except REQUEST_ERRORS as failure:
                raise StoreError(f"give back devices of claim {latest.key}: {failure}") from failure

        updated = await retry_on_conflict(self._client, self._clock, claim, write)
        try:
            self._manager.claims.assume(updated)
        except (ClaimNotFound, ClaimOutdated) as problem:
            _log.debug("claim not assumed, the informer knows better", claim=updated.key, error=str(problem))
        return updated
