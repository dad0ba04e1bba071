"""The pod group scheduling cycle: one attempt for all waiting pods of a group.

Mirrors upstream's ``pkg/scheduler/schedule_one_podgroup.go``. Members are tried by priority, each with the
earlier ones assumed. Once all are decided, the group is bound or released as a whole, the last member first.
"""

from collections.abc import Sequence

from dra_shared.api.scheduling import PodGroup
from dra_shared.clock import Clock

from dra_scheduler.dra.podgroups import PodGroups, group_key
from dra_scheduler.failurehandler import FailureHandler
from dra_scheduler.failurereporter import SCHEDULER_ERROR, UNSCHEDULABLE, FailureReporter
from dra_scheduler.framework.state import CycleState
from dra_scheduler.metrics import count_group, observe_group_algorithm
from dra_scheduler.podcycle import PodCycles
from dra_scheduler.queue.entry import QueuedPod
from dra_scheduler.queue.scheduling import SchedulingQueue
from dra_scheduler.scheduleresult import Decision, Failure

_UNSCHEDULABLE = "pod group is unschedulable"
_TOO_FEW = (
    f"{_UNSCHEDULABLE}, waiting for minCount pods from a gang to be scheduled, "
    "one or more plugins asked to wait and no plugin rejected pod"
)
_PREEMPTING = f"{_UNSCHEDULABLE}, pod group is waiting for preemption to complete"

Outcome = tuple[QueuedPod, Decision | Failure]


class GroupCycle:
    """Tries groups, pod by pod with ``cycle``. ``gangs``: the gate GangScheduling is on.

    With ``measured``, the attempts are counted in metrics.
    """

    def __init__(
        self,
        groups: PodGroups,
        queue: SchedulingQueue,
        cycle: PodCycles,
        failures: FailureHandler,
        reporter: FailureReporter,
        clock: Clock,
        *,
        gangs: bool,
        measured: bool,
    ) -> None:
        self._groups = groups
        self._queue = queue
        self._cycle = cycle
        self._failures = failures
        self._reporter = reporter
        self._clock = clock
        self._gangs = gangs
        self._measured = measured

    async def run(self, first: QueuedPod, group: PodGroup) -> None:
        """Try the group of ``first``, which was taken from the queue."""
        started = self._clock.monotonic()
        result = await self._attempt(first, group, started)
        if self._measured:
            count_group(first.pod.spec.scheduler_name, result, self._clock.monotonic() - started)

    async def _attempt(self, first: QueuedPod, group: PodGroup, started: float) -> str:
        """Try the group. Return the result's name in metrics."""
        key = group_key(first.pod)
        assert key is not None
        gang = group.spec.scheduling_policy.gang if self._gangs else None
        minimum = gang.min_count if gang is not None else 0
        # Take all waiting members at once, so that none of them is tried alone. From here on this cycle owns them:
        # every entry has to be bound or handed to the failure handler on each of the paths below.
        entries = [first, *self._queue.take_members(lambda pod: group_key(pod) == key)]
        entries.sort(key=lambda entry: (-(entry.pod.spec.priority or 0), entry.first_attempt or 0.0))
        outcomes, problem = await self._try(entries)
        if self._measured:
            observe_group_algorithm(self._clock.monotonic() - started)
        held = sum(_place(outcome) is not None for _, outcome in outcomes)
        # The order of the cases matters. An error comes first, because the outcomes are incomplete then. Places that
        # preemption is about to free count as places, so the minimum is checked before the wait for preemption.
        # On every path but the last, the places are released before any pod goes back to the queue. Otherwise a
        # retry would find the places of its own group taken.
        if problem:
            await self._break_off(entries, outcomes, problem)
            self._reporter.report_group(group, problem, SCHEDULER_ERROR)
            return "error"
        if not held or held + self._groups.count_placed(key) < minimum:
            await self._withdraw(
                outcomes, Failure(UNSCHEDULABLE, _TOO_FEW, plugins=frozenset({"GangScheduling"}))
            )
            self._reporter.report_group(group, _UNSCHEDULABLE, UNSCHEDULABLE)
            return "unschedulable"
        if any(isinstance(outcome, Failure) and outcome.held for _, outcome in outcomes):
            await self._wait_for_preemption(outcomes)
            self._reporter.report_group(group, _PREEMPTING, UNSCHEDULABLE)
            return "waiting_on_preemption"
        for entry, outcome in outcomes:
            if isinstance(outcome, Decision):
                self._groups.set_pod(outcome.assumed, placed=True)
                # Upstream's gang plugin makes pods wait until enough members have a node.
                outcome.waits = self._groups.count_placed(key) < minimum
                self._cycle.bind(outcome)
            else:
                self._failures.handle_unscheduled(entry, outcome)
        self._reporter.report_group(group, None, "")
        return "scheduled"

    async def _try(self, entries: Sequence[QueuedPod]) -> tuple[list[Outcome], str]:
        """Decide on each pod in turn. Return the outcomes of the pods, and the error if one ended the attempt early."""
        # All members share one CycleState, and each is decided with the earlier ones assumed on their nodes, so that
        # two members cannot get the same device. A rejection does not stop the loop: the gang may have enough
        # members without that pod. An error does, and the outcomes are incomplete then.
        state = CycleState()
        outcomes: list[Outcome] = []
        for entry in entries:
            outcome = await self._cycle.decide(entry, state)
            if outcome is None:
                continue
            outcomes.append((entry, outcome))
            if isinstance(outcome, Failure) and outcome.plugins is None:
                return outcomes, f"failed to schedule other pod from a pod group: {outcome.message}"
        return outcomes, ""

    async def _break_off(
        self, entries: Sequence[QueuedPod], outcomes: Sequence[Outcome], problem: str
    ) -> None:
        await self._take_back(outcomes)
        own = {entry.uid: o for entry, o in outcomes if isinstance(o, Failure) and o.plugins is None}
        for entry in entries:
            self._failures.handle_unscheduled(entry, own.get(entry.uid) or Failure(SCHEDULER_ERROR, problem))

    async def _withdraw(self, outcomes: Sequence[Outcome], instead: Failure) -> None:
        await self._take_back(outcomes)
        for entry, outcome in outcomes:
            no_place = isinstance(outcome, Failure) and outcome.held is None
            self._failures.handle_unscheduled(
                entry, outcome if no_place and isinstance(outcome, Failure) else instead
            )

    async def _wait_for_preemption(self, outcomes: Sequence[Outcome]) -> None:
        await self._take_back(outcomes)
        for entry, outcome in outcomes:
            if isinstance(outcome, Decision):
                node_name = outcome.assumed.spec.node_name
                plugins = frozenset({"GangScheduling"})
                outcome = Failure(UNSCHEDULABLE, _PREEMPTING, plugins=plugins, nominated=node_name)
            self._failures.handle_unscheduled(entry, outcome)

    async def _take_back(self, outcomes: Sequence[Outcome]) -> None:
        # The last place first: each was decided with the earlier ones assumed, so releases are undone in the
        # opposite order, as upstream does.
        for _, outcome in reversed(outcomes):
            place = _place(outcome)
            if place is not None:
                await self._cycle.release(place)


def _place(outcome: Decision | Failure) -> Decision | None:
    return outcome if isinstance(outcome, Decision) else outcome.held
