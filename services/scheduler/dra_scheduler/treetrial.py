"""One trial for a tree of pod groups: finds nodes for pods so that every gang in it has enough.

Mirrors ``podGroupSchedulingRecursiveAlgorithm`` and its callees in upstream's
``pkg/scheduler/schedule_one_podgroup.go`` (1.37). A group that fails releases its pods' resources at once,
so that later groups may use them. Only one placement is tried: all nodes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from dra_scheduler.dra.grouptree import GroupId, GroupTree
from dra_scheduler.dra.podgroups import PodGroups
from dra_scheduler.framework.groupattempt import Assignment
from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import Code, Status, error, unschedulable
from dra_scheduler.podcycle import PodCycles
from dra_scheduler.queue.entry import QueuedPod
from dra_scheduler.scheduleresult import Decision, Failure

UNSCHEDULABLE_GROUP = "pod group is unschedulable"

_SUCCESS = Status(Code.SUCCESS)

Outcome = tuple[QueuedPod, Decision | Failure]


@dataclass(slots=True)
class GroupResult:
    """The result of a group. ``outcomes`` are those of its pods that were tried, in ``state``.

    ``scheduled``: one of its pods got a node in this trial. ``alone`` is the status without the message of
    PostFilter.
    """

    status: Status
    outcomes: list[Outcome] = field(default_factory=list)
    state: CycleState = field(default_factory=CycleState)
    scheduled: bool = False
    alone: Status | None = None

    @property
    def fits(self) -> bool:
        return self.status.code is Code.SUCCESS


class TreeTrial:
    """Tries the pods of a tree, with ``entries`` by group key. Pods that get a place are assumed there.

    ``counted``: count the attempts in the service's metrics. ``on_placement`` is called with the profile,
    whether the group fits, and the time, whenever a group was tried on a placement. Without it, messages
    name no placements (gate TopologyAwareWorkloadScheduling).
    """

    def __init__(
        self,
        groups: PodGroups,
        cycle: PodCycles,
        entries: Mapping[str, Sequence[QueuedPod]],
        *,
        counted: bool,
        on_placement: Callable[[str, bool, float], None] | None = None,
        now: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._groups = groups
        self._cycle = cycle
        self._entries = entries
        self._counted = counted
        self._on_placement = on_placement
        self._now = now
        self._held: list[Decision] = []
        self.results: dict[GroupId, GroupResult] = {}

    async def run(self, tree: GroupTree) -> GroupResult:
        """Try the whole tree. If it fails, no pod is assumed afterwards."""
        result = await self._try(tree)
        if result.fits and not result.scheduled:
            # Nothing failed, but no pod was scheduled either.
            result.status = unschedulable(UNSCHEDULABLE_GROUP)
        if not result.fits:
            await self.give_back()
        return result

    def assignments(self) -> list[Assignment]:
        """Return the pods that are assumed on a node in this trial, with the nodes."""
        return [Assignment(held.pod, held.assumed.spec.node_name) for held in self._held]

    async def give_back(self, keep: int = 0) -> None:
        """Undo the assumed places except the first ``keep`` of them, starting with the last."""
        while len(self._held) > keep:
            await self._cycle.release(self._held.pop())

    async def _try(self, tree: GroupTree) -> GroupResult:
        # Invariant: ``_held`` has the places of the groups that fit so far, in the order in which they were taken. A
        # group that fails cuts it back to its own start, and no further, so that its earlier siblings keep theirs.
        before = len(self._held)
        result = await (self._try_children(tree) if tree.id.composite else self._try_placement(tree))
        if not result.fits:
            await self.give_back(before)
            result.scheduled = False
        self.results[tree.id] = result
        return result

    async def _try_placement(self, tree: GroupTree) -> GroupResult:
        started = self._now()
        result = await self._try_pods(tree)
        entries = self._entries.get(tree.id.key, ())
        if self._on_placement is None or result.status.code is Code.ERROR or not entries:
            return result
        self._on_placement(entries[0].profile, result.fits, self._now() - started)
        if not result.fits:
            reasons = result.status.reasons
            shown = UNSCHEDULABLE_GROUP if reasons[0] == UNSCHEDULABLE_GROUP else result.status.message
            text = f"0/1 placements are available, reported placement status: {shown}"
            result.status = unschedulable(UNSCHEDULABLE_GROUP, text)
        return result

    async def _try_pods(self, tree: GroupTree) -> GroupResult:
        entries, key = self._entries.get(tree.id.key, ()), tree.id.key
        placed, left = self._groups.count_placed(key), len(entries)
        result = GroupResult(_feasible(tree.minimum, placed, left))
        if result.status.code is Code.UNSCHEDULABLE:
            result.status = unschedulable(UNSCHEDULABLE_GROUP, *result.status.reasons)
            return result
        # After each pod, ``placed + left`` is the most that the group can still reach. The loop stops as soon as this
        # is below the minimum, because the remaining pods cannot change the result. It does not stop once the
        # minimum is reached: the other pods get places as well, if there are any.
        for entry in entries:
            outcome = await self._cycle.decide(entry, result.state, counted=self._counted)
            left -= 1
            if outcome is not None:
                result.outcomes.append((entry, outcome))
            if isinstance(outcome, Decision):
                self._held.append(outcome)
                result.scheduled = True
                placed += 1
            elif outcome is not None and outcome.plugins is None:
                result.status = error(f"failed to schedule other pod from a pod group: {outcome.message}")
                return result
            result.status = _feasible(tree.minimum, placed, left)
            if result.status.code is Code.UNSCHEDULABLE:
                return result
        return result

    async def _try_children(self, tree: GroupTree) -> GroupResult:
        status = await self._children_status(tree)
        if status.code is Code.ERROR:
            # The children get this error, whatever their own results.
            self._forget(tree)
            return GroupResult(status)
        below = (self.results.get(child.id) for child in tree.children)
        scheduled = any(result is not None and result.scheduled for result in below)
        if status.code is not Code.SUCCESS:
            text = f"0/1 placements are available, first placement status: {status.message}"
            status = unschedulable(UNSCHEDULABLE_GROUP, text)
        return GroupResult(status, scheduled=scheduled)

    async def _children_status(self, tree: GroupTree) -> Status:
        fitting, left = 0, len(tree.children)
        status = _feasible(tree.minimum, fitting, left)
        if status.code is Code.UNSCHEDULABLE:
            return status
        # The same bound for groups: stop when too few children are left for the minimum. Groups that fit keep their
        # places meanwhile, so that later siblings are tried with them assumed.
        for child in tree.children:
            result = await self._try(child)
            if result.status.code is Code.ERROR:
                text = f"composite pod group evaluation failed due to child error: {result.status.message}"
                return error(text)
            left -= 1
            fitting += result.fits
            status = _feasible(tree.minimum, fitting, left)
            if status.code is Code.UNSCHEDULABLE:
                break
        return status

    def _forget(self, tree: GroupTree) -> None:
        for child in tree.children:
            self.results.pop(child.id, None)
            self._forget(child)


def _feasible(minimum: int, placed: int, left: int) -> Status:
    """Return whether the gang has enough pods, may still get enough, or cannot (GangScheduling's PlacementFeasible)."""
    if placed >= minimum:
        return _SUCCESS
    counts = f"{placed} scheduled, {left} remaining"
    if placed + left < minimum:
        return unschedulable(f"minCount ({minimum}) cannot be satisfied: {counts}")
    return Status(Code.WAIT, (f"minCount ({minimum}) is not yet satisfied: {counts}",))
