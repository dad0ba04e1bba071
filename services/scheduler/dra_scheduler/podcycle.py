"""One pod's scheduling cycle: choose a node and assume the pod there, then bind it in the background.

Mirrors ``schedulingCycle`` in upstream's ``pkg/scheduler/schedule_one.go``.
"""

from collections.abc import Mapping

import msgspec
from dra_shared.api.pod import Pod
from dra_shared.clock import Clock
from dra_shared.log import logger

from dra_scheduler.binding import Binder
from dra_scheduler.explain.explainer import Explainer
from dra_scheduler.failurereporter import SCHEDULER_ERROR, UNSCHEDULABLE, FailureReporter
from dra_scheduler.framework.cache import Cache
from dra_scheduler.framework.diagnosis import Diagnosis
from dra_scheduler.framework.groupattempt import GroupAttempt
from dra_scheduler.framework.runtime import Framework
from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import Code, Status
from dra_scheduler.metrics import count_attempt
from dra_scheduler.placement import Attempt, AttemptError, Placement, Unschedulable
from dra_scheduler.plugins.dynamicresources.plugin import DynamicResources
from dra_scheduler.plugins.volumes.objects import VolumeObjects
from dra_scheduler.plugins.volumes.podvolumes import uses_claims
from dra_scheduler.queue.entry import QueuedPod
from dra_scheduler.queue.scheduling import SchedulingQueue
from dra_scheduler.scheduleresult import Decision, Failure
from dra_scheduler.tasks import Tasks

_log = logger(__name__)


class PodCycle:
    """Decides on one pod at a time. ``measured``: count its attempts in the service's metrics.

    ``members_preempt``: PostFilter runs for each pod of a group instead of for the group as a whole.
    """

    def __init__(
        self,
        framework: Framework,
        dynamic_resources: DynamicResources,
        placement: Placement,
        cache: Cache,
        queue: SchedulingQueue,
        volumes: VolumeObjects,
        binder: Binder,
        reporter: FailureReporter,
        explainer: Explainer,
        tasks: Tasks,
        clock: Clock,
        *,
        measured: bool = True,
        members_preempt: bool = True,
    ) -> None:
        self._framework = framework
        self._dynamic_resources = dynamic_resources
        self._placement = placement
        self._cache = cache
        self._queue = queue
        self._volumes = volumes
        self._binder = binder
        self._reporter = reporter
        self._explainer = explainer
        self._tasks = tasks
        self._clock = clock
        self._measured = measured
        self._members_preempt = members_preempt
        self._attempt: Attempt | None = None

    def restart(self) -> None:
        """Forget earlier attempts, so that decisions are those of a new scheduler."""
        self._placement.restart()

    async def decide(
        self, entry: QueuedPod, group: CycleState | None = None, *, counted: bool = True
    ) -> Decision | Failure | None:
        """Choose a node and reserve resources. Return None if the pod was deleted, or placed by another scheduler.

        ``group`` is the state of the pod group's attempt that this is part of. An attempt that is not
        ``counted`` is only a trial.
        """
        started = self._clock.monotonic()
        try:
            outcome = await self._decide(entry, group)
        except Exception as problem:
            # Return a failure instead of raising, because other pods of a group are in flight with this one.
            _log.exception("attempt failed unexpectedly", pod=entry.pod.key)
            outcome = Failure(SCHEDULER_ERROR, str(problem))
        if self._measured and counted:
            count_attempt(entry, isinstance(outcome, Decision), self._clock.monotonic() - started)
        return outcome

    async def group_post_filter(self, attempt: GroupAttempt) -> tuple[Mapping[str, str], Status]:
        """Run PostFilter for a group that did not get enough nodes. See :meth:`Framework.group_post_filter`."""
        return await self._framework.group_post_filter(attempt)

    def bind(self, decision: Decision) -> None:
        """Bind the pod in the background."""
        self._queue.finish(decision.entry)
        self._tasks.start(self._binder.bind(decision))

    async def release(self, decision: Decision) -> None:
        """Revert a decision that has not been acted on."""
        # Send no event to other pods, because the resources were free before, too.
        await self._binder.give_up(decision, announce=False)

    def handle_deleted_pod(self, uid: str) -> None:
        """Stop the current attempt if it is for that pod."""
        if self._attempt is not None and self._attempt.pod.metadata.uid == uid:
            self._attempt.state.deadline.cancel("the pod was deleted")

    async def _decide(self, entry: QueuedPod, group: CycleState | None) -> Decision | Failure | None:
        # A pending write of an earlier report must not overtake this attempt's own.
        await self._reporter.wait_until_written(entry.uid)
        pod = entry.pod
        if not self._volumes.is_synced and uses_claims(pod):
            await self._volumes.sync(self._tasks.start)
        self._attempt = attempt = self._placement.begin(pod, group)
        try:
            node_name = await self._placement.choose(attempt)
        except Unschedulable as problem:
            return await self._handle_no_node(entry, attempt.state, problem.diagnosis)
        except AttemptError as problem:
            # A selector fails if it reads an attribute that no device has. Upstream's text does not say so.
            hint = self._explainer.shortfalls(pod)
            return Failure(SCHEDULER_ERROR, str(problem), f"{problem} {hint}" if hint else None)
        if self._queue.get(pod.metadata.uid) is not entry:
            return None  # the pod was deleted or placed while other tasks ran
        return await self._assume(entry, attempt.state, node_name)

    async def _assume(self, entry: QueuedPod, state: CycleState, node_name: str) -> Decision | Failure:
        """Reserve resources on the node and assume the pod there."""
        pod = entry.pod
        assumed = _with_node(pod, node_name)
        status = self._framework.reserve(state, assumed, node_name)
        if status is not None:
            await self._framework.unreserve(state, assumed, node_name)
            return Failure(SCHEDULER_ERROR, status.message)
        assumed = self._dynamic_resources.with_node_statuses(state, assumed)
        self._cache.nominations.delete(pod.metadata.uid)
        self._cache.assume(assumed, node_name)
        return Decision(entry, state, pod, assumed)

    async def _handle_no_node(self, entry: QueuedPod, state: CycleState, diagnosis: Diagnosis) -> Failure:
        """Run PostFilter, which may nominate a node, and return the failure."""
        in_the_way = False
        nominated: str | None = ""
        if diagnosis.nodes and (self._members_preempt or state.group is None):
            nominated, status = await self._framework.post_filter(state, entry.pod, diagnosis.statuses)
            diagnosis.post_filter = status.message
            # A claim could not be deallocated, so there will be no event that wakes the pod. Retry it after a
            # backoff.
            in_the_way = (
                status.code is Code.ERROR
                and status.plugin == self._dynamic_resources.name
                and not diagnosis.pre_filter
                and state.group is None
            )
        diagnosis.plugins.discard("")
        if not diagnosis.pre_filter and "DynamicResources" in diagnosis.plugins:
            diagnosis.hint = self._hint(entry.pod, diagnosis)
        message = diagnosis.message
        failure = Failure(
            UNSCHEDULABLE,
            message,
            diagnosis.with_hint(message),
            None if in_the_way else frozenset(diagnosis.plugins or {""}),
            nominated,
        )
        if state.group is not None and nominated:
            place = await self._assume(entry, state, nominated)
            if isinstance(place, Failure):
                return place
            failure.held = place
        return failure

    def _hint(self, pod: Pod, diagnosis: Diagnosis) -> str:
        """Return a hint for the closest of the nodes whose devices were rejected."""
        turned_away = (n for n, status in diagnosis.statuses.items() if status.plugin == "DynamicResources")
        return self._explainer.hint(pod, turned_away)


class PodCycles:
    """The cycles of all profiles. A pod is scheduled by the profile that its schedulerName names."""

    def __init__(self, cycles: Mapping[str, PodCycle]) -> None:
        self._cycles = cycles

    def _of(self, pod: Pod) -> PodCycle:
        return self._cycles[pod.spec.scheduler_name]

    async def decide(
        self, entry: QueuedPod, group: CycleState | None = None, *, counted: bool = True
    ) -> Decision | Failure | None:
        """See :meth:`PodCycle.decide`."""
        return await self._of(entry.pod).decide(entry, group, counted=counted)

    async def group_post_filter(self, attempt: GroupAttempt) -> tuple[Mapping[str, str], Status]:
        """See :meth:`PodCycle.group_post_filter`. All pods of the group have the same profile."""
        return await self._of(attempt.pods[0]).group_post_filter(attempt)

    def bind(self, decision: Decision) -> None:
        """See :meth:`PodCycle.bind`."""
        self._of(decision.pod).bind(decision)

    async def release(self, decision: Decision) -> None:
        """See :meth:`PodCycle.release`."""
        await self._of(decision.pod).release(decision)

    def handle_deleted_pod(self, uid: str) -> None:
        """See :meth:`PodCycle.handle_deleted_pod`."""
        for cycle in self._cycles.values():
            cycle.handle_deleted_pod(uid)

    def restart(self) -> None:
        """See :meth:`PodCycle.restart`."""
        for cycle in self._cycles.values():
            cycle.restart()


def _with_node(pod: Pod, node_name: str) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node_name))
