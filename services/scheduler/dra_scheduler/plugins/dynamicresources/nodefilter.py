"""Filter: checks whether the pod's claims are available on a node or can be allocated there.

Mirrors ``Filter`` in upstream's ``pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go``.
"""

import functools
from collections.abc import Callable, Iterator, Sequence

import msgspec
from dra_shared.api.node import Node
from dra_shared.api.pod import NodeAllocatableResourceClaimStatus, Pod
from dra_shared.api.resource import AllocationResult, Device, DeviceRequest, ResourceClaim
from dra_shared.claims import ClaimReferenceError, claim_name, is_reserved_for_pod
from dra_shared.clock import Clock
from dra_shared.features import FeatureGates
from dra_shared.nodeselector import matches
from dra_shared.version import V1_37, V1_38

from dra_scheduler.allocator import AllocationError, TimeLimit, Trace
from dra_scheduler.dra.manager import DRAManager
from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.offload import Offload
from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import Status, error, unresolvable
from dra_scheduler.plugins.dynamicresources.bindingconditions import BindingFailed, has_timed_out, is_ready
from dra_scheduler.plugins.dynamicresources.expressions import compile_all, long_expressions
from dra_scheduler.plugins.dynamicresources.extended import Mappings, is_in_memory, requests_and_mappings
from dra_scheduler.plugins.dynamicresources.memory import AttemptMemory, NodeAllocation, OffloadedSearch
from dra_scheduler.plugins.dynamicresources.nodeallocatable import (
    NeedsUnknown,
    Takers,
    check_fit,
    check_pod_level,
    claim_statuses,
    find_device,
    is_mapped,
    needs_with,
    takes_from_node,
)

# The seconds after which a search continues in a thread, and after which a search for an explanation ends.
_OFFLOAD_AFTER = 0.1
_TRACE_LIMIT = 1.0
# The gate, which is also the feature that nodes declare.
_SKIPS = "DRAOptionalNodeOperations"

_Extended = tuple[tuple[DeviceRequest, ...] | None, Mappings]


class _TooSlowError(Exception):
    """The search has to continue in a thread."""


class NodeFilter:
    """Checks nodes one by one, and stores possible allocations in the attempt's memory.

    ``clock`` is the cluster's time, ``stopwatch`` measures how long a search takes.
    """

    def __init__(
        self,
        gates: FeatureGates,
        manager: DRAManager,
        clock: Clock,
        stopwatch: Clock,
        filter_timeout: float | None,
        binding_timeout: float,
    ) -> None:
        self._manager = manager
        self._clock = clock
        self._stopwatch = stopwatch
        self._timeout = filter_timeout
        self._binding_timeout = binding_timeout
        self._conditions = gates.enabled("DRADeviceBindingConditions") and gates.enabled(
            "DRAResourceClaimDeviceStatus"
        )
        self._node_allocatable = gates.enabled("DRANodeAllocatableResources")
        # Since 1.37, mappings and overhead of devices also count for claims that are already allocated.
        self._mapping_since_1_37 = gates.version >= V1_37
        self._names_have_domains = gates.version >= V1_38
        self._takes = functools.partial(takes_from_node, since_1_37=self._mapping_since_1_37)
        self._takers = Takers(since_1_37=self._mapping_since_1_37)
        if self._node_allocatable:
            manager.slices.add_listener(self._takers.track)
        self._with_groups = gates.enabled("DRAWorkloadResourceClaims")
        self._skips_operations = gates.enabled(_SKIPS)

    def is_specific_to_pod(self) -> bool:
        """True if verdicts are not shared between pods, because node resources depend on the pod's names for claims."""
        return bool(self._takers)

    def check(self, state: CycleState, memory: AttemptMemory, pod: Pod, node: NodeInfo) -> Status | None:
        """Check that all claims are available on the node or can be allocated there."""
        memory.shared.allocations.pop(node.name, None)
        extended = self._extended_requests(memory, pod, node)
        if isinstance(extended, Status):
            return extended
        requests, mappings = extended
        if requests is None and not memory.claims.user:
            return None
        unavailable: set[int] = set()
        for index, claim in enumerate(memory.claims):
            status = self._check_allocated(memory, pod, node, index, claim, unavailable)
            if status is not None:
                return status
        found: NodeAllocation | None = None
        if memory.allocate:
            allocated = self._allocate(state, memory, pod, node, requests)
            if isinstance(allocated, Status):
                return allocated
            statuses: tuple[NodeAllocatableResourceClaimStatus, ...] = ()
            if self._node_allocatable:
                taken = self._node_resources(memory, pod, node, allocated, requests)
                if isinstance(taken, Status):
                    return taken
                statuses = taken
            found = NodeAllocation(allocated, requests, mappings, statuses)
        elif self._node_allocatable and self._mapping_since_1_37:
            taken = self._node_resources(memory, pod, node, (), requests)
            if isinstance(taken, Status):
                return taken
            found = NodeAllocation(node_statuses=taken) if taken else None
        if unavailable:
            memory.unavailable |= unavailable
            return unresolvable("resourceclaim not available on the node")
        if found is not None:
            memory.shared.allocations[node.name] = found
        return None

    def _check_allocated(
        self,
        memory: AttemptMemory,
        pod: Pod,
        node: NodeInfo,
        index: int,
        claim: ResourceClaim,
        unavailable: set[int],
    ) -> Status | None:
        assert node.node is not None
        selector = memory.infos[index].available_on
        if selector is not None and not matches(selector, node.node):
            unavailable.add(index)
            return None
        pending = memory.infos[index].allocation
        if not self._can_skip(claim.status.allocation or pending, node.node):
            unavailable.add(index)
            return None
        if claim.status.allocation is None:
            return self._check_pending(claim, pending) if pending is not None else None
        if self._conditions:
            try:
                if not is_ready(claim) and has_timed_out(claim, self._clock.now(), self._binding_timeout):
                    unavailable.add(index)
            except BindingFailed:
                unavailable.add(index)
        return self._check_sharing(pod, claim, claim.status.allocation) if self._node_allocatable else None

    def _can_skip(self, allocation: AllocationResult | None, node: Node) -> bool:
        """True if no device skips node operations, or the node's kubelet supports skipping them."""
        if not self._skips_operations or allocation is None or _SKIPS in node.status.declared_features:
            return True
        return not any(result.skip_node_operations for result in allocation.devices.results)

    def _check_sharing(self, pod: Pod, claim: ResourceClaim, allocation: AllocationResult) -> Status | None:
        """Reject an allocated claim for node resources, such as CPUs, that is reserved for another pod."""
        wanted = is_mapped if self._mapping_since_1_37 else self._takes
        if not any(map(wanted, self._devices(allocation))):
            return None
        others = [ref for ref in claim.status.reserved_for if ref.uid != pod.metadata.uid]
        if not others or is_reserved_for_pod(pod, claim, pod_groups=self._with_groups):
            return None
        why = "has a mapped device and cannot" if self._mapping_since_1_37 else "cannot"
        return _reject_shared(claim, why)

    def _check_pending(self, claim: ResourceClaim, pending: AllocationResult) -> Status | None:
        """Reject a claim for node resources that is being allocated for another pod of the group."""
        if not (self._node_allocatable and self._mapping_since_1_37):
            return None
        if not any(map(is_mapped, self._devices(pending))):
            return None
        return _reject_shared(claim, "has a mapped device and cannot")

    def _extended_requests(self, memory: AttemptMemory, pod: Pod, node: NodeInfo) -> _Extended | Status:
        claim = memory.claims.extended_claim
        if claim is None:
            return None, ()
        if claim.spec.devices.requests or not is_in_memory(claim):
            return unresolvable("cannot schedule extended resource claim")
        backed: list[str] = []
        for resource in memory.extended:
            device_class = self._manager.classes.for_resource(resource)
            if device_class is not None and not node.allocatable.get(resource):
                backed.append(resource)
            elif resource not in node.allocatable:
                return unresolvable("cannot fit resource")
        if not backed:
            return None, ()

        def class_name(resource: str) -> str | None:
            found = self._manager.classes.for_resource(resource)
            return None if found is None else found.metadata.name

        return requests_and_mappings(pod, backed, class_name)

    def _allocate(
        self,
        state: CycleState,
        memory: AttemptMemory,
        pod: Pod,
        node: NodeInfo,
        requests: tuple[DeviceRequest, ...] | None,
    ) -> tuple[AllocationResult, ...] | Status:
        """Allocate the unallocated claims. Return one result for each, in order."""
        assert node.node is not None
        wanted = [
            (index, claim)
            for index, claim in memory.claims.iter_unallocated()
            if claim is not memory.claims.extended_claim or requests is not None
        ]
        fresh = [index for index, _ in wanted if memory.infos[index].allocation is None]
        check = self._checker(state, memory, node.name)
        try:
            check()
            results = self._search_or_known(state, memory, node.node, fresh, requests, check)
        except TimeLimit as limit:
            state.sharing.allowed = False
            if state.deadline.cancelled:
                return unresolvable(f"asked by caller to stop allocating devices: {limit.cause}")
            # The timeout may be temporary. An error makes the pod retry after its backoff.
            return error(f"node {node.name}: timed out trying to allocate devices")
        except AllocationError as failure:
            state.sharing.allowed = False
            text = str(failure)
            return unresolvable(text) if failure.only_this_node else error(text)
        if results is None or len(results) != len(fresh):
            return unresolvable("cannot allocate all claims")
        by_index = dict(zip(fresh, results, strict=True))
        found: list[AllocationResult] = []
        for index, _ in wanted:
            allocation = by_index.get(index) or memory.infos[index].allocation
            assert allocation is not None
            found.append(allocation)
        return tuple(found)

    def _search_or_known(
        self,
        state: CycleState,
        memory: AttemptMemory,
        node: Node,
        fresh: Sequence[int],
        requests: tuple[DeviceRequest, ...] | None,
        check: Callable[[], None],
    ) -> tuple[AllocationResult, ...] | None:
        name, allocator = node.metadata.name, self._manager.allocator
        known = memory.offloaded.get(name)
        if known is not None and known.stamp == allocator.stamp(name):
            if known.error is not None:
                raise known.error.with_traceback(None)
            return known.results
        if not state.deadline.can_offload:
            return self._search(memory, node, fresh, requests, check, state.trace)
        if not memory.compiled:
            memory.compiled = True
            claims = self._own(memory, fresh, requests)
            if expressions := long_expressions(claims, self._manager.classes.get):
                raise Offload(functools.partial(compile_all, expressions, self._manager.features))
        started = self._stopwatch.monotonic()

        def check_time() -> None:
            check()
            if self._stopwatch.monotonic() - started > _OFFLOAD_AFTER:
                raise _TooSlowError

        try:
            return self._search(memory, node, fresh, requests, check_time, None)
        except _TooSlowError:
            pass
        detached, stamp = self._manager.copy_for_node(name), allocator.stamp(name)
        claims = self._own(memory, fresh, requests)

        def work() -> None:
            try:
                memory.offloaded[name] = OffloadedSearch(stamp, detached.allocate(node, claims, check=check))
            except AllocationError as failure:
                memory.offloaded[name] = OffloadedSearch(stamp, error=failure)

        raise Offload(work)

    def _search(
        self,
        memory: AttemptMemory,
        node: Node,
        fresh: Sequence[int],
        requests: tuple[DeviceRequest, ...] | None,
        check: Callable[[], None],
        trace: Trace | None,
    ) -> tuple[AllocationResult, ...] | None:
        claims = [self._blueprint(memory, index, requests) for index in fresh]
        try:
            return self._manager.allocator.allocate(node, claims, check=check, trace=trace)
        except AllocationError:
            if memory.shared.blueprint == tuple(memory.claims):
                raise
            # The error text names claims, so search again with this pod's own claims.
            claims = self._own(memory, fresh, requests)
            return self._manager.allocator.allocate(node, claims, check=check)

    @staticmethod
    def _own(
        memory: AttemptMemory, fresh: Sequence[int], requests: tuple[DeviceRequest, ...] | None
    ) -> list[ResourceClaim]:
        """Return the pod's own claims in place of the blueprints that equal pods share."""
        return [
            memory.claims[index]
            if requests is None or index != memory.claims.extended_index
            else with_requests(memory.claims[index], requests)
            for index in fresh
        ]

    def _blueprint(
        self, memory: AttemptMemory, index: int, requests: tuple[DeviceRequest, ...] | None
    ) -> ResourceClaim:
        if index != memory.claims.extended_index or requests is None:
            return memory.shared.blueprint[index]
        known = memory.shared.extended.get(requests)
        if known is None:
            known = memory.shared.extended[requests] = with_requests(memory.shared.blueprint[index], requests)
        return known

    def _checker(self, state: CycleState, memory: AttemptMemory, node_name: str) -> Callable[[], None]:
        clock, now, attempt = self._stopwatch, self._stopwatch.monotonic(), state.deadline
        end = None
        if state.trace is not None:
            end = now + _TRACE_LIMIT
        elif attempt.can_offload and self._timeout:
            end = memory.deadlines.setdefault(node_name, now + self._timeout)
        elif self._timeout:
            end = now + self._timeout

        def check() -> None:
            if attempt.cancelled:
                raise TimeLimit(attempt.cancelled)
            if end is not None and clock.monotonic() >= end:
                raise TimeLimit("context deadline exceeded")

        return check

    def _devices(self, allocation: AllocationResult) -> Iterator[Device]:
        slices = self._manager.slices.list()
        found = (find_device(slices, result) for result in allocation.devices.results)
        return (device for device in found if device is not None)

    def _node_resources(
        self,
        memory: AttemptMemory,
        pod: Pod,
        node: NodeInfo,
        results: Sequence[AllocationResult],
        requests: tuple[DeviceRequest, ...] | None,
    ) -> tuple[NodeAllocatableResourceClaimStatus, ...] | Status:
        fresh = iter(results)
        allocations = []
        for index, claim in enumerate(memory.claims):
            if claim is memory.claims.extended_claim and requests is None:
                continue
            allocation = claim.status.allocation or next(fresh)
            if any(map(self._takes, self._devices(allocation))):
                allocations.append((claim, allocation, _name_in_pod(pod, index)))
        if not allocations:
            return ()
        try:
            slices = self._manager.slices.list()
            statuses = claim_statuses(
                pod,
                allocations,
                slices,
                since_1_37=self._mapping_since_1_37,
                qualified=self._names_have_domains,
            )
        except NeedsUnknown as problem:
            return error(problem)
        pod, needs = needs_with(pod, statuses)
        return check_pod_level(pod) or check_fit(node, needs) or statuses


def with_requests(claim: ResourceClaim, requests: tuple[DeviceRequest, ...]) -> ResourceClaim:
    """Return the claim for extended resources with the requests that one node needs."""
    devices = msgspec.structs.replace(claim.spec.devices, requests=requests)
    return msgspec.structs.replace(claim, spec=msgspec.structs.replace(claim.spec, devices=devices))


def _name_in_pod(pod: Pod, index: int) -> str:
    """Return the name by which the pod's containers refer to its claim with that index."""
    names = []
    for entry in pod.spec.resource_claims:
        try:
            if claim_name(pod, entry)[0] is not None:
                names.append(entry.name)
        except ClaimReferenceError:
            continue
    return names[index] if index < len(names) else ""


def _reject_shared(claim: ResourceClaim, why: str) -> Status:
    name = claim.metadata.name
    return unresolvable(f"node allocatable resource claim {name} {why} be shared across pods")
