"""PreBind: stores allocations and reservations in the claims, and waits for binding conditions.

The requests and their order are those of upstream's bindClaim: an update that adds the finalizer, then one
status update with allocation and reservation together. Both carry the resource version on which the decision
was based, so that only one of two schedulers succeeds.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

import httpx
import msgspec
from dra_shared.api.pod import (
    NodeAllocatableResourceClaimStatus,
    Pod,
    PodExtendedResourceClaimStatus,
    PodStatus,
)
from dra_shared.api.resource import AllocationResult, ResourceClaim, ResourceClaimConsumerReference
from dra_shared.api.resources import PODS, RESOURCE_CLAIMS
from dra_shared.claims import FINALIZER, is_reserved_for_pod
from dra_shared.client.errors import ApiError, Conflict, NotFound
from dra_shared.client.events import Recorder, reference
from dra_shared.client.rest import Client, PatchType
from dra_shared.clock import Clock, rfc3339, wait_for
from dra_shared.features import FeatureGates
from dra_shared.log import logger
from dra_shared.version import V1_37

from dra_scheduler.dra.claimtracker import ClaimNotFound, ClaimOutdated, revision
from dra_scheduler.dra.manager import DRAManager
from dra_scheduler.framework.status import Status, error
from dra_scheduler.metrics import count_claim, count_wait
from dra_scheduler.plugins.dynamicresources.bindingconditions import (
    BindingFailed,
    BindingTimeout,
    drivers_with_conditions,
    has_conditions,
    has_timed_out,
    is_ready,
)
from dra_scheduler.plugins.dynamicresources.extended import IN_MEMORY_NAME, is_in_memory
from dra_scheduler.plugins.dynamicresources.memory import AttemptMemory, GroupMemory

# client-go's retry.DefaultRetry.
_CONFLICT_TRIES = 5
_CONFLICT_DELAY = 0.01
# The conditions are also checked at this interval if no event of the claims arrives.
_POLL_INTERVAL = 5.0
_EXTENDED_CLAIM_WAIT = 120.0

T = TypeVar("T")

_log = logger(__name__)


class StoreError(Exception):
    """A claim could not be stored. The text is for the pod's event."""


REQUEST_ERRORS = (ApiError, httpx.HTTPError, OSError, TimeoutError, msgspec.DecodeError)


class ClaimStore:
    """Writes claims for the binding cycle. See the module's docstring."""

    def __init__(
        self,
        gates: FeatureGates,
        manager: DRAManager,
        client: Client,
        recorder: Recorder,
        clock: Clock,
        binding_timeout: float,
    ) -> None:
        self._manager = manager
        self._client = client
        self._recorder = recorder
        self._clock = clock
        self._binding_timeout = binding_timeout
        self._conditions = gates.enabled("DRADeviceBindingConditions") and gates.enabled(
            "DRAResourceClaimDeviceStatus"
        )
        self._node_allocatable = gates.enabled("DRANodeAllocatableResources")
        # Until 1.36, pods' statuses have the placeholder's name for a claim created for extended resources.
        self._names_are_real = gates.version >= V1_37
        # Until 1.36, a pod's interest in a pending allocation is released twice if PreBind fails: here and by
        # Unreserve.
        self._gives_back_twice = gates.version < V1_37
        self._kubernetes = gates.version
        self._with_groups = gates.enabled("DRAWorkloadResourceClaims")

    async def pre_bind(
        self, memory: AttemptMemory, group: GroupMemory | None, pod: Pod, node_name: str
    ) -> Status | None:
        """Store the allocations of Reserve, then wait until the devices are ready."""
        try:
            for index, claim in enumerate(memory.claims):
                if is_reserved_for_pod(pod, claim, pod_groups=self._with_groups):
                    continue
                if claim is memory.claims.extended_claim and memory.infos[index].allocation is None:
                    continue  # a device plugin provides the extended resources
                stored = False
                try:
                    memory.claims[index] = await self._bind_claim(memory, index, pod)
                    stored = True
                finally:
                    if stored or self._gives_back_twice:
                        uid = claim.metadata.uid
                        if self._manager.claims.remove_pending(uid, stored=stored) and group is not None:
                            group.pending.discard(uid)
            if self._node_allocatable and memory.reserved is not None and memory.reserved.node_statuses:
                await self.patch_node_statuses(pod, memory)
        except StoreError as failure:
            return error(failure)
        if self._conditions and has_conditions(memory.claims):
            return await self._wait_for_conditions(memory, pod, node_name)
        return None

    async def _bind_claim(self, memory: AttemptMemory, index: int, pod: Pod) -> ResourceClaim:
        claim = memory.claims[index]
        allocation = memory.infos[index].allocation
        extended = claim is memory.claims.extended_claim
        if extended and is_in_memory(claim):
            claim = await self._create_extended(memory, claim)
            # From here on Unreserve has to delete the real claim.
            memory.claims[index] = claim
        binding = memory.claims.binding(index) or ResourceClaimConsumerReference(
            resource="pods", name=pod.metadata.name, uid=pod.metadata.uid
        )
        updated = await retry_on_conflict(
            self._client, self._clock, claim, lambda latest: self._store(latest, allocation, binding)
        )
        if allocation is not None:
            memory.infos[index].stored = revision(updated)
        if extended:
            await self._assume_extended(updated)
            await self._patch_extended_status(memory, pod, updated)
        else:
            try:
                self._manager.claims.assume(updated)
            except (ClaimNotFound, ClaimOutdated) as problem:
                _log.debug(
                    "claim not assumed, the informer knows better", claim=updated.key, error=str(problem)
                )
        return updated

    async def _store(
        self,
        claim: ResourceClaim,
        allocation: AllocationResult | None,
        binding: ResourceClaimConsumerReference,
    ) -> ResourceClaim:
        if claim.metadata.deletion_timestamp is not None:
            raise StoreError(f"claim {claim.key} got deleted in the meantime")
        if allocation is not None:
            if claim.status.allocation is not None:
                raise StoreError(f"claim {claim.key} got allocated elsewhere in the meantime")
            if FINALIZER not in claim.metadata.finalizers:
                try:
                    claim = await self._client.update(RESOURCE_CLAIMS, with_finalizer(claim))
                except Conflict:
                    raise
                except REQUEST_ERRORS as failure:
                    raise StoreError(f"add finalizer to claim {claim.key}: {failure}") from failure
        stored = allocation or claim.status.allocation
        if self._conditions:
            if stored is None:
                raise StoreError(f"claim {claim.key} got deallocated elsewhere in the meantime")
            if stored.allocation_timestamp is None:
                stored = msgspec.structs.replace(stored, allocation_timestamp=rfc3339(self._clock.now()))
        # The API server decides whether the reservation is possible.
        status = msgspec.structs.replace(
            claim.status, allocation=stored, reserved_for=(*claim.status.reserved_for, binding)
        )
        try:
            return await self._client.update(
                RESOURCE_CLAIMS, msgspec.structs.replace(claim, status=status), subresource="status"
            )
        except Conflict:
            raise
        except REQUEST_ERRORS as failure:
            what = "allocation and reservation" if allocation is not None else "reservation"
            raise StoreError(f"add {what} to claim {claim.key}: {failure}") from failure

    async def _create_extended(self, memory: AttemptMemory, claim: ResourceClaim) -> ResourceClaim:
        meta = msgspec.structs.replace(claim.metadata, name="", uid="")
        devices = claim.spec.devices
        if memory.reserved is not None and memory.reserved.requests is not None:
            devices = msgspec.structs.replace(devices, requests=memory.reserved.requests)
        spec = msgspec.structs.replace(claim.spec, devices=devices)
        try:
            made = await self._client.create(RESOURCE_CLAIMS, ResourceClaim(metadata=meta, spec=spec))
        except REQUEST_ERRORS as failure:
            count_claim(self._kubernetes, success=False)
            name = f"{claim.metadata.namespace}/"
            raise StoreError(f"create claim for extended resources {name}: {failure}") from failure
        count_claim(self._kubernetes, success=True)
        return made

    async def _assume_extended(self, claim: ResourceClaim) -> None:
        """Assume the claim once the informer has observed its creation."""
        deadline = self._clock.monotonic() + _EXTENDED_CLAIM_WAIT
        while True:
            try:
                self._manager.claims.assume(claim)
                return
            except ClaimOutdated:
                return
            except ClaimNotFound:
                left = deadline - self._clock.monotonic()
                if left <= 0:
                    _log.warning("the informer doesn't know the claim, going on", claim=claim.key)
                    return
                await self._wait_for_change((claim.key,), min(left, 1.0))

    async def _patch_extended_status(self, memory: AttemptMemory, pod: Pod, claim: ResourceClaim) -> None:
        mappings = memory.reserved.mappings if memory.reserved is not None else ()
        if not mappings:
            raise StoreError(
                f"nil or empty request mappings, no update of pod {pod.key} ExtendedResourceClaimStatus"
            )
        status = PodStatus(
            extended_resource_claim_status=PodExtendedResourceClaimStatus(
                request_mappings=mappings, resource_claim_name=claim.metadata.name
            )
        )
        try:
            await self._patch_pod(pod, {"status": status})
        except REQUEST_ERRORS as failure:
            raise StoreError(f"update pod {pod.key} ExtendedResourceClaimStatus: {failure}") from failure

    async def patch_node_statuses(self, pod: Pod, memory: AttemptMemory) -> None:
        """Write the node resources of the pod's claims to its status. The assumed ``pod`` already has them."""
        assert memory.reserved is not None
        statuses = memory.reserved.node_statuses
        if self._names_are_real:
            statuses = _with_real_names(statuses, memory.claims.extended_claim)
        status = PodStatus(node_allocatable_resource_claim_statuses=statuses)
        try:
            await self._patch_pod(pod, {"status": status})
        except REQUEST_ERRORS as failure:
            raise StoreError(
                f"updating pod {pod.key} NodeAllocatableResourceClaimStatuses: {failure}"
            ) from failure

    async def clear_node_statuses(self, pod: Pod) -> None:
        """Remove the node resources of claims again. An empty list is sent, because omission keeps it."""
        meta = pod.metadata
        body = {"metadata": {"uid": meta.uid}, "status": {"nodeAllocatableResourceClaimStatuses": []}}
        try:
            await self._client.patch(
                PODS.skip_decoding,
                meta.name,
                body,
                meta.namespace,
                patch_type=PatchType.MERGE,
                subresource="status",
            )
        except REQUEST_ERRORS as failure:
            _log.warning("node-allocatable status not cleared", pod=pod.key, error=str(failure))

    async def _patch_pod(self, pod: Pod, body: object) -> None:
        meta = pod.metadata
        await self._client.patch(
            PODS.skip_decoding,
            meta.name,
            body,
            meta.namespace,
            patch_type=PatchType.STRATEGIC,
            subresource="status",
        )

    async def delete(self, claim: ResourceClaim) -> None:
        """Delete a claim that the scheduler created, removing its finalizer.

        Raises:
            StoreError: it couldn't be.
        """

        async def drop_finalizer(latest: ResourceClaim) -> None:
            finalizers = tuple(name for name in latest.metadata.finalizers if name != FINALIZER)
            meta = msgspec.structs.replace(latest.metadata, finalizers=finalizers)
            try:
                await self._client.update(RESOURCE_CLAIMS, msgspec.structs.replace(latest, metadata=meta))
            except Conflict:
                raise
            except REQUEST_ERRORS as failure:
                raise StoreError(f"update resourceclaim {latest.key}: {failure}") from failure

        await retry_on_conflict(self._client, self._clock, claim, drop_finalizer)
        try:
            await self._client.delete(RESOURCE_CLAIMS, claim.metadata.name, claim.metadata.namespace)
        except NotFound:
            return
        except REQUEST_ERRORS as failure:
            raise StoreError(str(failure)) from failure

    async def _wait_for_conditions(self, memory: AttemptMemory, pod: Pod, node_name: str) -> Status | None:
        self._recorder.event(
            reference(PODS, pod),
            "Normal",
            "BindingConditionsPending",
            f"waiting for binding conditions for device on node {node_name}",
            "Scheduling",
        )
        started, status = self._clock.monotonic(), "failure"
        drivers = drivers_with_conditions(memory.claims)
        try:
            await self._until_ready(memory, started + self._binding_timeout)
            status = "success"
        except BindingTimeout as timeout:
            status = "timeout"
            return error(f"device binding timeout: {timeout}")
        except (BindingFailed, StoreError) as failure:
            return error(failure)
        finally:
            count_wait(pod.spec.scheduler_name, drivers, status, self._clock.monotonic() - started)
        return None

    async def _until_ready(self, memory: AttemptMemory, deadline: float) -> None:
        while not self._all_ready(memory):
            left = deadline - self._clock.monotonic()
            if left <= 0:
                raise BindingTimeout("context deadline exceeded")
            await self._wait_for_change(
                tuple(claim.key for claim in memory.claims), min(left, _POLL_INTERVAL)
            )

    def _all_ready(self, memory: AttemptMemory) -> bool:
        for index, claim in enumerate(memory.claims):
            if claim is memory.claims.extended_claim and is_in_memory(claim):
                continue
            latest = self._manager.claims.get(claim.metadata.namespace, claim.metadata.name)
            if latest is None:
                raise StoreError(f'could not find ResourceClaim "{claim.key}"')
            memory.claims[index] = latest
            if not is_ready(latest):
                if has_timed_out(latest, self._clock.now(), self._binding_timeout):
                    raise BindingTimeout(f"claim={latest.metadata.name}")
                return False
        return True

    async def _wait_for_change(self, keys: tuple[str, ...], seconds: float) -> None:
        """Return when one of the claims changes, or after that time."""
        changed = asyncio.Event()
        stops = [self._manager.claims.watch(key, changed.set) for key in keys]
        try:
            await wait_for(changed.wait(), seconds, self._clock)
        finally:
            for stop in stops:
                stop()


async def retry_on_conflict(
    client: Client, clock: Clock, claim: ResourceClaim, write: Callable[[ResourceClaim], Awaitable[T]]
) -> T:
    """Call ``write(claim)``, and repeat it with the newest state of the claim while there are conflicts.

    Raises:
        StoreError: the conflicts continue, or the claim cannot be read.
    """
    for left in reversed(range(_CONFLICT_TRIES)):
        try:
            return await write(claim)
        except Conflict as conflict:
            if not left:
                raise StoreError(str(conflict)) from conflict
        await clock.sleep(_CONFLICT_DELAY)
        try:
            claim = await client.get(RESOURCE_CLAIMS, claim.metadata.name, claim.metadata.namespace)
        except REQUEST_ERRORS as failure:
            raise StoreError(f"get updated claim {claim.key} after conflict: {failure}") from failure
    raise AssertionError("the last try returns or raises")


def with_finalizer(claim: ResourceClaim) -> ResourceClaim:
    """Return the claim with the finalizer that prevents the deletion of an allocated claim."""
    meta = claim.metadata
    if FINALIZER in meta.finalizers:
        return claim
    meta = msgspec.structs.replace(meta, finalizers=(*meta.finalizers, FINALIZER))
    return msgspec.structs.replace(claim, metadata=meta)


def _with_real_names(
    statuses: Iterable[NodeAllocatableResourceClaimStatus], extended: ResourceClaim | None
) -> tuple[NodeAllocatableResourceClaimStatus, ...]:
    """Return the statuses with the real name of the claim that was created for extended resources."""
    if extended is None or is_in_memory(extended):
        return tuple(statuses)
    real = extended.metadata.name
    return tuple(
        msgspec.structs.replace(status, resource_claim_name=real)
        if status.resource_claim_name == IN_MEMORY_NAME
        else status
        for status in statuses
    )
