"""The cycle of a tree of pod groups: one attempt for all waiting pods. Either enough get nodes, or none.

Mirrors ``scheduleOnePodGroup`` in upstream's ``pkg/scheduler/schedule_one_podgroup.go`` (1.37). A pod group
without a parent is a tree by itself.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from dra_shared.api.pod import Pod
from dra_shared.api.scheduling import PodGroup
from dra_shared.clock import Clock

from dra_scheduler.dra.grouptree import GroupId, GroupTree
from dra_scheduler.dra.podgroups import PodGroups, group_key
from dra_scheduler.failurehandler import FailureHandler
from dra_scheduler.failurereporter import SCHEDULER_ERROR, UNSCHEDULABLE, FailureReporter
from dra_scheduler.framework.groupattempt import Assignment, GroupAttempt
from dra_scheduler.framework.status import Code, Status
from dra_scheduler.metrics import (
    count_generated_placements,
    count_group,
    count_placement,
    observe_group_algorithm,
)
from dra_scheduler.podcycle import PodCycles
from dra_scheduler.queue.entry import QueuedPod
from dra_scheduler.queue.scheduling import SchedulingQueue
from dra_scheduler.scheduleresult import Decision, Failure
from dra_scheduler.treetrial import UNSCHEDULABLE_GROUP, GroupResult, TreeTrial

_GANG = frozenset({"GangScheduling"})

_Entries = Mapping[str, Sequence[QueuedPod]]


class TreeCycle:
    """Tries trees of groups, pod by pod with ``cycle``.

    ``own_policy``: each group's own policy decides whether it may preempt (gate PodGroupPreemptionPolicy).
    ``placements``: messages name placements (gate TopologyAwareWorkloadScheduling). With ``measured``, the
    attempts are counted in metrics.
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
        own_policy: bool,
        placements: bool,
        measured: bool,
    ) -> None:
        self._groups = groups
        self._queue = queue
        self._cycle = cycle
        self._failures = failures
        self._reporter = reporter
        self._clock = clock
        self._own_policy = own_policy
        self._placements = placements
        self._measured = measured

    async def run(self, first: QueuedPod, group: PodGroup) -> None:
        """Try the tree of ``group``. Its pod ``first`` was taken from the queue."""
        started = self._clock.monotonic()
        root = self._groups.root_of(GroupId(group.key))
        tree = self._groups.tree(root) if root is not None else None
        if tree is None:
            # The parent was deleted in the meantime.
            parent = group.spec.parent_composite_pod_group_name
            problem = f'compositepodgroup.scheduling.k8s.io "{parent}" not found'
            self._failures.handle_unscheduled(first, Failure(SCHEDULER_ERROR, problem))
            return
        # From here on this cycle owns the entries. Each has to be bound or handed to the failure handler on every
        # path below, or its pod would never be tried again. The pods are compared before anything is tried: pods
        # that differ in priority or profile cannot be decided together.
        entries = self._entries(first, tree)
        problem = self._problem(tree, entries)
        if problem:
            self._break_off(tree, entries, problem)
            return
        result = await self._attempt(tree, entries, started)
        if self._measured:
            count_group(first.pod.spec.scheduler_name, result, self._clock.monotonic() - started)

    def _entries(self, first: QueuedPod, tree: GroupTree) -> _Entries:
        """Take the waiting pods of the tree from the queue, by group key, in the order in which they are tried."""
        keys = {own.key for own, _ in tree.leaves()}
        # Take all of them at once, so that no member is tried alone meanwhile. The order decides which pods get
        # the places if there are too few: higher priority first, then by the time of the first attempt.
        taken = [first, *self._queue.take_members(lambda pod: group_key(pod) in keys)]
        taken.sort(key=lambda entry: (-(entry.pod.spec.priority or 0), entry.first_attempt or 0.0))
        return {key: [entry for entry in taken if group_key(entry.pod) == key] for key in keys}

    def _problem(self, tree: GroupTree, entries: _Entries) -> str:
        """Return the first difference between pods that must agree (validatePodGroup), or an empty string."""
        priority = tree.group.spec.priority or 0
        policy = (tree.group.spec.preemption_policy or _LOWER) if self._own_policy else ""
        profile = ""
        for pod in self._pods(tree, entries):
            profile, name = profile or pod.spec.scheduler_name, pod.spec.scheduler_name
            if name != profile:
                return f'{_SAME} .spec.schedulerName set, got: "{name}" and "{profile}"'
            own = pod.spec.priority or 0
            if own != priority:
                return f"{_SAME} priority as the pod group's priority, got {own} and {priority}"
            own_policy = pod.spec.preemption_policy or _LOWER
            policy = policy or own_policy
            if own_policy != policy:
                whose = " as the pod group's preemption policy" if self._own_policy else ""
                return f"{_SAME} preemption policy{whose}, got {own_policy} and {policy}"
        return ""

    def _pods(self, tree: GroupTree, entries: _Entries) -> Iterable[Pod]:
        # Waiting pods come before placed ones: the message names the first pod that differs.
        for own, _ in tree.leaves():
            yield from (entry.pod for entry in entries[own.key])
        for own, _ in tree.leaves():
            yield from self._groups.placed_pods(own.key)

    def _break_off(self, tree: GroupTree, entries: _Entries, problem: str) -> None:
        for own, group in tree.leaves():
            for entry in entries[own.key]:
                self._failures.handle_unscheduled(entry, Failure(SCHEDULER_ERROR, problem))
            self._reporter.report_group(group, problem, SCHEDULER_ERROR)

    async def _attempt(self, tree: GroupTree, entries: _Entries, started: float) -> str:
        """Try the tree. Return the result's name in metrics."""
        # First find places for the whole tree, then preempt if it does not fit, then bind or requeue each leaf's
        # pods. Nothing is bound before the result of the whole tree is known: a gang that fits may belong to a
        # composite group that does not, and then its places are released.
        trial = self._trial(entries, counted=True)
        result = await trial.run(tree)
        if self._measured:
            observe_group_algorithm(self._clock.monotonic() - started)
        # Before PostFilter, each group gets the result of the failed group above it, so that PostFilter's message is
        # added to every group's own message below.
        results = dict(trial.results)
        _pass_down(tree, result, results)
        # Preemption only helps a tree that lacks room. After an error it is unknown whether the tree would fit.
        nominated: Mapping[str, str] | None = None
        if result.status.code is Code.UNSCHEDULABLE:
            nominated, status = await self._cycle.group_post_filter(
                self._group_attempt(tree, entries, result)
            )
            _add(results.values(), status)
            if status.code is not Code.SUCCESS:
                nominated = None
        for own, group in tree.leaves():
            self._submit(group, results[own], entries[own.key], nominated)
        if results[tree.id].status.code is Code.ERROR:
            return "error"
        if result.fits:
            return "scheduled"
        return "unschedulable" if nominated is None else "waiting_on_preemption"

    def _trial(self, entries: _Entries, *, counted: bool) -> TreeTrial:
        return TreeTrial(
            self._groups,
            self._cycle,
            entries,
            counted=counted,
            on_placement=self._count_placement if self._placements else None,
            now=self._clock.monotonic,
        )

    def _count_placement(self, profile: str, feasible: bool, seconds: float) -> None:
        if self._measured:
            count_generated_placements(profile, 1)
            count_placement(profile, feasible=feasible, seconds=seconds)

    def _group_attempt(self, tree: GroupTree, entries: _Entries, result: GroupResult) -> GroupAttempt:
        # PostFilter calls this while it pretends that victims are gone, to learn whether the tree would fit then. So
        # the places are released at once, and the attempt is not counted.
        async def schedule() -> tuple[Sequence[Assignment], Status]:
            trial = self._trial(entries, counted=False)
            again = await trial.run(tree)
            found = trial.assignments()
            await trial.give_back()
            return found, again.status

        pods = [entry.pod for own, _ in tree.leaves() for entry in entries[own.key]]
        own = tree.group.spec.preemption_policy if self._own_policy else pods[0].spec.preemption_policy
        return GroupAttempt(
            kind="compositepodgroup" if tree.id.composite else "podgroup",
            uid=tree.group.metadata.uid,
            pods=pods,
            priority=tree.group.spec.priority or 0,
            preempts=own != "Never",
            state=None if tree.id.composite else result.state,
            schedule=schedule,
        )

    def _submit(
        self,
        group: PodGroup,
        result: GroupResult,
        entries: Sequence[QueuedPod],
        nominated: Mapping[str, str] | None,
    ) -> None:
        """Bind or requeue the pods of a group. ``nominated`` are the nodes that are being freed, by pod uid."""
        outcomes = {entry.uid: outcome for entry, outcome in result.outcomes}
        # Go through the entries that were taken from the queue, not through the outcomes. A trial stops early, so
        # some pods have no outcome, and they have to go back to the queue, too.
        for entry in entries:
            if self._queue.get(entry.uid) is not entry:
                continue  # the pod was deleted, or placed by someone else
            outcome = outcomes.get(entry.uid)
            if isinstance(outcome, Decision) and result.fits:
                self._groups.set_pod(outcome.assumed, placed=True)
                self._cycle.bind(outcome)
            else:
                failure = _failure(result, outcome, waits=nominated is not None)
                if nominated is not None and entry.uid in nominated:
                    failure = replace(failure, nominated=nominated[entry.uid])
                self._failures.handle_unscheduled(entry, failure)
        message = result.status.message
        if result.fits:
            self._reporter.report_group(group, None, "")
        elif result.status.code is Code.ERROR:
            self._reporter.report_group(group, message, SCHEDULER_ERROR)
        else:
            self._reporter.report_group(group, message, UNSCHEDULABLE)


_LOWER = "PreemptLowerPriority"
_SAME = "all pods in a single pod group should have the same"


def _pass_down(tree: GroupTree, above: GroupResult, results: dict[GroupId, GroupResult]) -> None:
    """Copy the result of a failed group to its children that were not tried, or that fit by themselves."""
    # From the root down: a child's result may be that of its parent, which has to be final before.
    result = results.get(tree.id)
    if result is None or (result.fits and not above.fits):
        result = results[tree.id] = GroupResult(above.status)
    for child in tree.children:
        _pass_down(child, result, results)


def _add(results: Iterable[GroupResult], status: Status) -> None:
    """Add the status of PostFilter to the results."""
    for result in results:
        result.alone = result.status
        if status.is_rejection or status.code is Code.SUCCESS:
            more = (status.message,) if status.message else ()
            result.status = replace(result.status, reasons=(*result.status.reasons, *more))
        else:
            result.status = status


def _failure(result: GroupResult, outcome: Decision | Failure | None, *, waits: bool) -> Failure:
    """Return the failure of a pod in that group. ``waits``: preemption makes room for the group."""
    message = result.status.message
    if result.status.code is Code.ERROR:
        own = isinstance(outcome, Failure) and outcome.plugins is None
        return outcome if own and isinstance(outcome, Failure) else Failure(SCHEDULER_ERROR, message)
    if isinstance(outcome, Failure):
        return outcome
    if isinstance(outcome, Decision):
        # The pod could have a node, but its group does not fit.
        message = message if waits else f"{UNSCHEDULABLE_GROUP}, {message}"
    elif result.alone is not None:
        message = result.alone.message
    return Failure(UNSCHEDULABLE, message, plugins=_GANG)
