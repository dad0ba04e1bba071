"""Give devices back that another scheduler allocated to another claim first.

Optimistic locking protects each claim separately, and the API server does not compare claims. It stores both
allocations, and the device belongs to two claims until the later one is deallocated here. Before a pod is
bound, this plugin waits until its claims' allocations have arrived through the informer. By then everything
that was stored before is known, too, because events arrive in the order of storage. A claim keeps its devices
if they are compatible with everything that was stored before. All schedulers therefore decide in the same way.
The check also covers an allocation that another scheduler of the same name stored for the pod, because that
scheduler may be about to give it back.
"""

import asyncio
from collections.abc import Callable

from dra_shared.api.pod import Pod
from dra_shared.api.resource import ResourceClaim
from dra_shared.client.errors import Conflict
from dra_shared.client.rest import Client
from dra_shared.clock import Clock, wait_for
from dra_shared.log import logger

from dra_scheduler.allocator.state import holdings
from dra_scheduler.dra.claimtracker import ClaimNotFound, ClaimOutdated, revision
from dra_scheduler.dra.manager import DRAManager
from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import SKIP, Code, Status, error
from dra_scheduler.plugins.dynamicresources.extended import is_in_memory
from dra_scheduler.plugins.dynamicresources.memory import AttemptMemory, ClaimInfo
from dra_scheduler.plugins.dynamicresources.plugin import DynamicResources
from dra_scheduler.plugins.dynamicresources.store import REQUEST_ERRORS, StoreError, retry_on_conflict

_LONGEST_WAIT = 30.0
_RESTORE_TRIES = 5

_log = logger(__name__)


class Rivals:
    """A PreBind plugin that runs after DynamicResources. See the module's docstring."""

    name = "DynamicResourcesRivals"

    def __init__(
        self,
        manager: DRAManager,
        client: Client,
        clock: Clock,
        dynamic_resources: DynamicResources,
        find_node: Callable[[str], NodeInfo | None],
    ) -> None:
        self._manager = manager
        self._client = client
        self._clock = clock
        self._dynamic_resources = dynamic_resources
        self._deallocator = dynamic_resources.deallocator
        self._find_node = find_node

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        memory = state.read(DynamicResources.name, AttemptMemory)
        return None if memory is not None and memory.claims else SKIP

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        memory = state.read(DynamicResources.name, AttemptMemory)
        assert memory is not None
        return await self._check(memory, pod)

    async def _check(self, memory: AttemptMemory, pod: Pod, *, restoring: bool = False) -> Status | None:
        for index, info in enumerate(memory.infos):
            claim = memory.claims[index]
            if is_in_memory(claim) or not _is_for_pod_alone(claim, info, pod):
                continue
            if not await self._wait_for_echo(claim.key, info.stored):
                return error(f"allocation of claim {claim.key} did not come back from the API server in time")
            if not self._is_current(claim):
                return error(f"claim {claim.key} got deallocated elsewhere in the meantime")
            rival = self._manager.rival(claim.key)
            if rival is None:
                continue
            _log.info(
                "another scheduler allocated the devices first, deallocating", claim=claim.key, rival=rival
            )
            try:
                memory.claims[index] = await self._give_back(claim, pod, restoring)
            except StoreError as failure:
                return error(failure)
            return error(f"devices of claim {claim.key} were allocated for claim {rival} in the meantime")
        return None

    async def _wait_for_echo(self, key: str, version: int) -> bool:
        """Wait until the informer has the claim as it was stored. Return False if it did not arrive in time."""
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

    def _is_current(self, claim: ResourceClaim) -> bool:
        """True if the newest known state of the claim still has the devices that the pod relies on."""
        newest = self._manager.claims.get(claim.metadata.namespace, claim.metadata.name)
        return newest is not None and _has_same(claim, newest)

    async def _give_back(self, claim: ResourceClaim, pod: Pod, restoring: bool) -> ResourceClaim:
        async def write(latest: ResourceClaim) -> ResourceClaim:
            others = [ref for ref in latest.status.reserved_for if ref.uid != pod.metadata.uid]
            if others or not _has_same(claim, latest):
                return latest
            try:
                return await self._deallocator.deallocate(latest, pod, restoring=restoring)
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

    async def restore(self, pod: Pod, claim: ResourceClaim) -> None:
        """Allocate devices again that were taken from the pod while another scheduler bound it.

        ``claim`` is the claim without its devices. It has to arrive through the informer before anything can
        be done.
        """
        await self._wait_for_echo(claim.key, revision(claim))
        status: Status | None = None
        for _ in range(_RESTORE_TRIES):
            status = await self._restore_once(pod)
            if status is None or status.code is Code.SKIP:
                _log.info("pod that another scheduler bound has its claims", pod=pod.key)
                return
        assert status is not None
        _log.error("pod that another scheduler bound lacks devices", pod=pod.key, error=status.message)

    async def _restore_once(self, pod: Pod) -> Status | None:
        plugin, state, node_name = self._dynamic_resources, CycleState(), pod.spec.node_name
        node = self._find_node(node_name)
        if node is None:
            return error(f"node {node_name} not found")
        _, status = plugin.pre_filter(state, pod)
        if status is not None:
            return status
        status = plugin.filter(state, pod, node) or plugin.reserve(state, pod, node_name)
        status = status or await plugin.pre_bind(state, pod, node_name)
        if status is None:
            memory = state.read(DynamicResources.name, AttemptMemory)
            assert memory is not None
            status = await self._check(memory, pod, restoring=True)
        if status is not None:
            await plugin.unreserve(state, pod, node_name)
        return status


def _is_for_pod_alone(claim: ResourceClaim, info: ClaimInfo, pod: Pod) -> bool:
    """True if the claim was allocated for this pod. Devices of a claim that others use are not in question."""
    if info.stored and info.allocation is not None:
        return True
    reserved = [consumer.uid for consumer in claim.status.reserved_for]
    return claim.status.allocation is not None and reserved == [pod.metadata.uid]


def _has_same(claim: ResourceClaim, other: ResourceClaim) -> bool:
    mine, others = claim.status.allocation, other.status.allocation
    return (
        others is not None and claim.metadata.uid == other.metadata.uid and holdings(others) == holdings(mine)
    )
