"""One attempt for all the waiting pods of a group together, as upstream's pod group scheduling cycle."""

from collections.abc import Awaitable, Callable, Sequence

from dra_shared.api.scheduling import PodGroup

from dra_scheduler.failures import SCHEDULER_ERROR, UNSCHEDULABLE
from dra_scheduler.framework.state import CycleState
from dra_scheduler.outcome import Decision, Failure
from dra_scheduler.plugins.dynamicresources.podgroups import PodGroups, group_key
from dra_scheduler.queue.entry import QueuedPod
from dra_scheduler.queue.scheduling import SchedulingQueue

_UNSCHEDULABLE = "pod group is unschedulable"
_TOO_FEW = (
    f"{_UNSCHEDULABLE}, waiting for minCount pods from a gang to be scheduled, "
    "one or more plugins asked to wait and no plugin rejected pod"
)
_PREEMPTING = f"{_UNSCHEDULABLE}, pod group is waiting for preemption to complete"

Outcome = tuple[QueuedPod, Decision | Failure]


class GroupCycle:
    """Tries groups.

    ``decide`` tries one pod and holds its place (None: the pod is gone), ``bind`` goes on with a decision,
    ``give_up`` takes one back, ``settle`` sees to a pod that gets no node, and ``report`` tells of the group.
    """

    def __init__(
        self,
        groups: PodGroups,
        queue: SchedulingQueue,
        *,
        decide: Callable[[QueuedPod, CycleState], Awaitable[Decision | Failure | None]],
        bind: Callable[[Decision], None],
        give_up: Callable[[Decision], Awaitable[None]],
        settle: Callable[[QueuedPod, Failure], None],
        report: Callable[[PodGroup, str | None, str], None],
        gangs: bool,
    ) -> None:
        self._groups = groups
        self._queue = queue
        self._decide = decide
        self._bind = bind
        self._give_up = give_up
        self._settle = settle
        self._report = report
        self._gangs = gangs

    async def run(self, first: QueuedPod, group: PodGroup) -> None:
        """Try the group of ``first``, which has been taken from the queue."""
        key = group_key(first.pod)
        assert key is not None
        gang = group.spec.scheduling_policy.gang if self._gangs else None
        minimum = gang.min_count if gang is not None else 0
        entries = [first, *self._queue.take_members(lambda pod: group_key(pod) == key)]
        entries.sort(key=lambda entry: (-(entry.pod.spec.priority or 0), entry.first_attempt or 0.0))
        outcomes, problem = await self._try(entries)
        held = sum(_place(outcome) is not None for _, outcome in outcomes)
        if problem:
            await self._break_off(entries, outcomes, problem)
            self._report(group, problem, SCHEDULER_ERROR)
        elif not held or held + self._groups.placed(key) < minimum:
            await self._withdraw(
                outcomes, Failure(UNSCHEDULABLE, _TOO_FEW, plugins=frozenset({"GangScheduling"}))
            )
            self._report(group, _UNSCHEDULABLE, UNSCHEDULABLE)
        elif any(isinstance(outcome, Failure) and outcome.held for _, outcome in outcomes):
            await self._wait_for_preemption(outcomes)
            self._report(group, _PREEMPTING, UNSCHEDULABLE)
        else:
            for entry, outcome in outcomes:
                if isinstance(outcome, Decision):
                    self._groups.set_pod(outcome.assumed, placed=True)
                    # Upstream's gang plugin has pods wait until enough of them have got so far.
                    outcome.waits = self._groups.placed(key) < minimum
                    self._bind(outcome)
                else:
                    self._settle(entry, outcome)
            self._report(group, None, "")

    async def _try(self, entries: Sequence[QueuedPod]) -> tuple[list[Outcome], str]:
        """What becomes of each, one after the other, and the error that ends it before the last one."""
        state = CycleState()
        outcomes: list[Outcome] = []
        for entry in entries:
            outcome = await self._decide(entry, state)
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
            self._settle(entry, own.get(entry.uid) or Failure(SCHEDULER_ERROR, problem))

    async def _withdraw(self, outcomes: Sequence[Outcome], instead: Failure) -> None:
        await self._take_back(outcomes)
        for entry, outcome in outcomes:
            no_place = isinstance(outcome, Failure) and outcome.held is None
            self._settle(entry, outcome if no_place and isinstance(outcome, Failure) else instead)

    async def _wait_for_preemption(self, outcomes: Sequence[Outcome]) -> None:
        await self._take_back(outcomes)
        for entry, outcome in outcomes:
            if isinstance(outcome, Decision):
                node_name = outcome.assumed.spec.node_name
                plugins = frozenset({"GangScheduling"})
                outcome = Failure(UNSCHEDULABLE, _PREEMPTING, plugins=plugins, nominated=node_name)
            self._settle(entry, outcome)

    async def _take_back(self, outcomes: Sequence[Outcome]) -> None:
        for _, outcome in reversed(outcomes):
            place = _place(outcome)
            if place is not None:
                await self._give_up(place)


def _place(outcome: Decision | Failure) -> Decision | None:
    return outcome if isinstance(outcome, Decision) else outcome.held
