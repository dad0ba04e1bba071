"""DynamicResources: a pod runs on a node where its claims are allocated or can be allocated.

Mirrors upstream's ``pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go``.
"""

import uuid
from collections.abc import Callable, Hashable, Mapping, Sequence

import msgspec
from dra_shared.api.pod import Pod
from dra_shared.api.resource import ResourceClaim, ResourceClaimConsumerReference
from dra_shared.claims import ClaimReferenceError, check_for_pod, claim_keys, claim_name, consumer_of
from dra_shared.client.events import Recorder
from dra_shared.client.rest import Client
from dra_shared.clock import Clock
from dra_shared.features import FeatureGates
from dra_shared.version import V1_37

from dra_scheduler.dra.manager import DRAManager
from dra_scheduler.dra.podgroups import PodGroups
from dra_scheduler.framework.events import Action, Event, Interest, Kind
from dra_scheduler.framework.groupattempt import GroupAttempt
from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.plugin import default_normalize
from dra_scheduler.framework.resources import extended_requests
from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import SKIP, Status, error, unresolvable, unschedulable
from dra_scheduler.plugins.dynamicresources.deallocator import Deallocator
from dra_scheduler.plugins.dynamicresources.extended import in_memory_claim
from dra_scheduler.plugins.dynamicresources.hints import is_worth_retry, pre_queueing, was_blocking
from dra_scheduler.plugins.dynamicresources.memory import AttemptMemory, ClaimInfo, GroupMemory
from dra_scheduler.plugins.dynamicresources.nodeallocatable import needs_with
from dra_scheduler.plugins.dynamicresources.nodefilter import NodeFilter, with_requests
from dra_scheduler.plugins.dynamicresources.podclaims import PodClaims
from dra_scheduler.plugins.dynamicresources.release import Release
from dra_scheduler.plugins.dynamicresources.requestchecks import check_requests
from dra_scheduler.plugins.dynamicresources.score import TooFewAllocations, compute_score
from dra_scheduler.plugins.dynamicresources.store import ClaimStore, with_finalizer


class DynamicResources:
    """The extension points of the plugin. Longer steps are in the package's other modules.

    ``filter_timeout`` and ``binding_timeout`` are in seconds. ``filter_timeout`` may be None.
    """

    name = "DynamicResources"

    def __init__(
        self,
        gates: FeatureGates,
        manager: DRAManager,
        client: Client,
        *,
        pod_groups: PodGroups,
        recorder: Recorder,
        clock: Clock,
        stopwatch: Clock | None = None,
        filter_timeout: float | None = 10.0,
        binding_timeout: float = 600.0,
        new_uid: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self._enabled = gates.enabled("DynamicResourceAllocation")
        self._with_groups = gates.enabled("DRAWorkloadResourceClaims")
        self._prioritized = gates.enabled("DRAPrioritizedList")
        self._extended = gates.enabled("DRAExtendedResource")
        self._changed, self._deleted = pre_queueing(gates.version)
        self._manager = manager
        self._groups = pod_groups
        self._new_uid = new_uid
        if not gates.enabled("DRASchedulerFilterTimeout"):
            filter_timeout = None
        self._nodes = NodeFilter(gates, manager, clock, stopwatch or clock, filter_timeout, binding_timeout)
        self._store = ClaimStore(gates, manager, client, recorder, clock, binding_timeout)
        self.deallocator = Deallocator(client)
        self._release = Release(
            manager,
            client,
            self._store,
            pod_groups,
            self.deallocator,
            with_groups=self._with_groups,
            unreserves_groups=gates.version >= V1_37,
        )

    # The queue

    def pre_enqueue(self, pod: Pod) -> Status | None:
        if not self._enabled or not pod.spec.resource_claims:
            return None
        try:
            self._pod_claims(pod)
        except (ClaimReferenceError, LookupError) as problem:
            return unresolvable(_text(problem))
        return None

    def events_to_register(self) -> Sequence[Interest]:
        if not self._enabled:
            return ()
        claim_changes = Action.ADD | Action.UPDATE
        return (
            Interest(Kind.NODE, Action.ADD | Action.NODE_LABEL | Action.NODE_ALLOCATABLE),
            Interest(Kind.RESOURCE_CLAIM, claim_changes, self.schedulable_after_claim_change, self._changed),
            Interest(
                Kind.RESOURCE_CLAIM, Action.DELETE, self.schedulable_after_claim_deletion, self._deleted
            ),
            Interest(Kind.TARGET_POD, Action.POD_CLAIMS, self.schedulable_after_pod_change),
            Interest(Kind.DEVICE_CLASS, Action.ADD | Action.UPDATE),
            Interest(Kind.RESOURCE_SLICE, Action.ADD | Action.UPDATE),
        )

    def index_keys(self, pod: Pod) -> tuple[str, ...]:
        """Return the names under which the queue indexes the pod for events about claims."""
        return claim_keys(pod)

    def schedulable_after_claim_change(self, pod: Pod, event: Event) -> bool:
        """Decide whether a change of a claim is worth another attempt (queueing hint)."""
        if not is_worth_retry(event.old, event.new, used_by_pod=True):
            # The change can help no pod. Return before looking up the pod's claims.
            return False
        try:
            used = any(claim.metadata.uid == event.new.metadata.uid for claim in self._pod_claims(pod))
        except (ClaimReferenceError, LookupError):
            return False
        return is_worth_retry(event.old, event.new, used)

    def schedulable_after_claim_deletion(self, pod: Pod, event: Event) -> bool:
        """Decide whether a deletion of a claim is worth another attempt. Until 1.36 upstream has no such hint."""
        return was_blocking(pod, event.old)

    def schedulable_after_pod_change(self, pod: Pod, event: Event) -> bool:
        """Decide whether a change of the pod is worth another attempt. Its claims may have been created."""
        return self.pre_enqueue(event.new) is None

    # The scheduling cycle

    def sign(self, pod: Pod) -> Hashable | None:
        """Sign the pod: pods are equivalent if their claims have equal specs and none is allocated."""
        if not pod.spec.resource_claims and not self._asks_for_extended(pod):
            return ()
        if self._nodes.is_specific_to_pod():
            return None
        try:
            claims = self._pod_claims(pod)
        except (ClaimReferenceError, LookupError):
            return None
        tracker = self._manager.claims
        if tracker.for_extended_resources(pod.metadata.uid) is not None:
            return None
        specs = []
        for claim in claims:
            if (
                claim.status.allocation is not None
                or tracker.pending_allocation(claim.metadata.uid) is not None
            ):
                return None
            specs.append(msgspec.json.encode(claim.spec))
        return tuple(specs), self._containers(pod)

    def pre_filter(self, state: CycleState, pod: Pod) -> tuple[frozenset[str] | None, Status | None]:
        if not self._enabled:
            return None, SKIP
        memory = AttemptMemory()
        state.write(self.name, memory)
        group = self._group_memory(state)
        if group is not None:
            group.attempts[pod.metadata.uid] = pod, memory
        try:
            user = self._pod_claims(pod)
            extended = self._extended_claim(pod, memory)
            claims = PodClaims(user, extended, self._bindings(pod))
        except (ClaimReferenceError, LookupError) as problem:
            return None, unresolvable(_text(problem))
        if not claims:
            return None, SKIP
        tracker = self._manager.claims
        memory.infos = [ClaimInfo() for _ in claims]
        for index, claim in enumerate(claims):
            info = memory.infos[index]
            allocation = claim.status.allocation
            if allocation is not None:
                info.available_on = allocation.node_selector
                continue
            memory.allocate = True
            pending = tracker.pending_allocation(claim.metadata.uid)
            if pending is not None:
                if group is None or claim.metadata.uid not in group.pending:
                    # Wait until that allocation is stored. Sharing it now could fail later.
                    return None, unresolvable(
                        f"resource claim {claim.key} is in the process of being allocated"
                    )
                info.allocation = pending
                info.available_on = pending.node_selector
            elif claim is not extended:
                status = check_requests(claim, self._manager.classes, prioritized=self._prioritized)
                if status is not None:
                    return None, status
        memory.claims = claims
        memory.shared = state.sharing.data.setdefault(self.name, memory.shared)
        if not memory.shared.blueprint:
            memory.shared.blueprint = tuple(claims)
        return None, None

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        memory = state.read(self.name, AttemptMemory)
        if memory is None or not memory.claims:
            return None
        return self._nodes.check(state, memory, pod, node)

    async def post_filter(
        self, state: CycleState, pod: Pod, statuses: Mapping[str, Status]
    ) -> tuple[str | None, Status]:
        if not self._enabled:
            return None, unschedulable("plugin disabled")
        memory = state.read(self.name, AttemptMemory)
        if memory is None:
            # Upstream's error if another plugin's PreFilter rejected the pod.
            return None, error("not found")
        return None, await self._release.deallocate_one(memory, pod)

    async def group_post_filter(self, attempt: GroupAttempt) -> tuple[Mapping[str, str], Status]:
        """Deallocate claims of the group and its pods that rejected nodes. As upstream, trees are skipped."""
        group = attempt.state.read(self.name, GroupMemory) if attempt.state is not None else None
        if not self._with_groups or group is None:
            return {}, unschedulable()
        waiting = {pod.metadata.uid for pod in attempt.pods}
        attempts = [one for uid, one in group.attempts.items() if uid in waiting]
        return {}, await self._release.deallocate_for_group(attempts)

    def skips_score(self, state: CycleState, pod: Pod) -> bool:
        memory = state.read(self.name, AttemptMemory)
        if memory is None or not self._prioritized:
            return True
        return not any(
            request.first_available for claim in memory.claims for request in claim.spec.devices.requests
        )

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        memory = state.read(self.name, AttemptMemory)
        if memory is None or not self._prioritized:
            return 0
        found = memory.shared.allocations.get(node.name)
        if found is None:
            return 0
        try:
            return compute_score(memory.claims, found.results)
        except TooFewAllocations:
            return 0  # a device plugin provides the extended resources there

    def normalize(self, state: CycleState, pod: Pod, scores: dict[str, int]) -> dict[str, int]:
        return default_normalize(scores)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        memory = state.read(self.name, AttemptMemory)
        if memory is None or not memory.claims:
            return None
        wanted = list(memory.claims.iter_unallocated())
        found = memory.shared.allocations.get(node_name)
        if not wanted:
            # PreBind needs the node resources of claims that are already allocated.
            memory.reserved = found
            return None
        if found is None or not found.results:
            if all(claim is memory.claims.extended_claim for _, claim in wanted):
                return None  # the node's device plugin provides the extended resources
            return error("claim allocation not found for node")
        memory.reserved = found
        if found.requests is None:
            wanted = [(index, claim) for index, claim in wanted if claim is not memory.claims.extended_claim]
        if len(found.results) != len(wanted):
            return error(
                f"internal error, have {len(found.results)} allocations, {len(wanted)} claims to allocate, "
                f"want {len(wanted)} claims"
            )
        group = self._group_memory(state)
        for (index, claim), allocation in zip(wanted, found.results, strict=True):
            memory.infos[index].allocation = allocation
            if claim is memory.claims.extended_claim and found.requests is not None:
                claim = with_requests(claim, found.requests)
            status = msgspec.structs.replace(claim.status, allocation=allocation)
            self._manager.claims.signal_pending(msgspec.structs.replace(with_finalizer(claim), status=status))
            if group is not None:
                group.pending.add(claim.metadata.uid)
        return None

    def with_node_statuses(self, state: CycleState, pod: Pod) -> Pod:
        """Return the pod with the node resources that its claims consume, as decided by Reserve."""
        memory = state.read(self.name, AttemptMemory)
        if memory is None or memory.reserved is None or not memory.reserved.node_statuses:
            return pod
        return needs_with(pod, memory.reserved.node_statuses)[0]

    async def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        memory = state.read(self.name, AttemptMemory)
        if memory is not None and memory.claims:
            await self._release.release_all(memory, self._group_memory(state), pod)

    def forget(self, state: CycleState) -> None:
        """Undo the pending allocations of a trial."""
        memory = state.read(self.name, AttemptMemory)
        if memory is not None and memory.reserved is not None:
            self._release.forget_pending(memory, self._group_memory(state))

    # The binding cycle

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        memory = state.read(self.name, AttemptMemory)
        return None if memory is not None and memory.claims else SKIP

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        memory = state.read(self.name, AttemptMemory)
        if memory is None or not memory.claims:
            return None
        return await self._store.pre_bind(memory, self._group_memory(state), pod, node_name)

    # Helpers

    def _pod_claims(self, pod: Pod) -> list[ResourceClaim]:
        found: list[ResourceClaim] = []
        for entry in pod.spec.resource_claims:
            name, check_owner = claim_name(pod, entry)
            if name is None:
                continue
            claim = self._manager.claims.get(pod.metadata.namespace, name)
            if claim is None:
                raise LookupError(f'could not find ResourceClaim "{pod.metadata.namespace}/{name}"')
            if claim.metadata.deletion_timestamp is not None:
                raise ClaimReferenceError(f'resourceclaim "{name}" is being deleted')
            if check_owner:
                check_for_pod(pod, claim, pod_groups=self._with_groups)
            found.append(claim)
        return found

    def _bindings(self, pod: Pod) -> Sequence[ResourceClaimConsumerReference]:
        if not self._with_groups or pod.spec.scheduling_group is None:
            return ()
        group = self._groups.of(pod)
        if group is None and pod.spec.scheduling_group.pod_group_name is not None:
            raise LookupError(
                f'podgroup.scheduling.k8s.io "{pod.spec.scheduling_group.pod_group_name}" not found'
            )
        entries = pod.spec.resource_claims
        return [consumer_of(pod, group, e) for e in entries if claim_name(pod, e)[0] is not None]

    def _asks_for_extended(self, pod: Pod) -> bool:
        return self._extended and any(
            self._manager.classes.for_resource(name) is not None for name in extended_requests(pod)
        )

    def _containers(self, pod: Pod) -> Hashable:
        """Return the part of the containers that the claim for extended resources depends on, apart from the sum."""
        if not self._asks_for_extended(pod):
            return ()
        return tuple(
            (container.name, container.restart_policy, tuple(sorted(container.resources.requests.items())))
            for container in (*pod.spec.init_containers, *pod.spec.containers)
        )

    def _extended_claim(self, pod: Pod, memory: AttemptMemory) -> ResourceClaim | None:
        if not self._asks_for_extended(pod):
            return None
        memory.extended = tuple(extended_requests(pod))
        existing = self._manager.claims.for_extended_resources(pod.metadata.uid)
        return existing or in_memory_claim(pod, self._new_uid())

    def _group_memory(self, state: CycleState) -> GroupMemory | None:
        if state.group is None:
            return None
        memory = state.group.read(self.name, GroupMemory)
        if memory is None:
            memory = GroupMemory()
            state.group.write(self.name, memory)
        return memory


def _text(problem: Exception) -> str:
    return str(problem.args[0]) if problem.args else str(problem)
