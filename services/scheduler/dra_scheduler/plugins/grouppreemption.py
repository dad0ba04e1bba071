"""Preemption for groups of pods: evicts less important pods on any node so that the whole group fits.

Mirrors upstream's ``pkg/scheduler/framework/preemption/podgrouppreemption.go`` (1.37). The group is tried
once without any pod of lower priority. Then these pods are put back one after the other, the most important
first, as long as the group's pods still fit in their places. Devices of victims are not free until the
victims are deleted, so no pods are evicted for devices.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import msgspec
from dra_shared.api.pod import Pod
from dra_shared.api.policy import PodDisruptionBudget
from dra_shared.api.scheduling import CompositePodGroup, PodGroup
from dra_shared.clock import Clock

from dra_scheduler.dra.podgroups import PodGroups, group_key
from dra_scheduler.framework.cache import Cache
from dra_scheduler.framework.groupattempt import Assignment, GroupAttempt
from dra_scheduler.framework.runtime import Framework
from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import Code, Status, unresolvable, unschedulable
from dra_scheduler.plugins.budgets import split_by_budgets
from dra_scheduler.plugins.evictor import Evictor

_NOT_STARTED = "~"


@dataclass(slots=True)
class _Unit:
    """Pods that are evicted together: a single pod, or a group with disruption mode "all"."""

    priority: int
    rank: int
    pods: list[Pod] = field(default_factory=list)

    @property
    def uids(self) -> list[str]:
        return [pod.metadata.uid for pod in self.pods]

    @property
    def importance(self) -> tuple[int, int, int, str]:
        """A sort key that is smaller for more important units."""
        started = min(pod.status.start_time or _NOT_STARTED for pod in self.pods)
        return -self.priority, -self.rank, -len(self.pods), started


class GroupPreemption:
    """Finds victims and evicts them.

    ``took`` is the duration of the last search in seconds, or None if it found no victims.
    """

    def __init__(
        self,
        cache: Cache,
        groups: PodGroups,
        evictor: Evictor,
        framework: Callable[[], Framework],
        budgets: Callable[[], Iterable[PodDisruptionBudget]],
        clock: Clock,
    ) -> None:
        self._cache = cache
        self._groups = groups
        self._evictor = evictor
        self._framework = framework
        self._budgets = budgets
        self._clock = clock
        self.took: float | None = None

    async def run(self, attempt: GroupAttempt) -> tuple[dict[str, str], Status]:
        """Return the nodes that the group's pods are nominated for, by pod uid, and a status."""
        self.took = None
        if not attempt.preempts:
            return {}, unschedulable("not eligible due to preemptionPolicy=Never.")
        if self._waits(attempt):
            return {}, unschedulable("not eligible due to a terminating pod on the nominated node.")
        units = [unit for unit in self._units() if unit.priority < attempt.priority]
        if not units:
            return {}, unresolvable("No preemption victims found for incoming preemptor")
        uids = [uid for unit in units for uid in unit.uids]
        started = self._clock.monotonic()
        self._cache.hide(uids)
        try:
            assignments, status = await attempt.schedule()
            if status.code is not Code.SUCCESS:
                return {}, status
            victims = await self._victims(units, assignments)
        finally:
            self._cache.reveal(uids)
            self.took = self._clock.monotonic() - started
        self._evictor.start_for_group(attempt, victims)
        text = f"found a placement for podgroup, preempting {len(victims)} victims"
        return {one.pod.metadata.uid: one.node_name for one in assignments}, Status(Code.SUCCESS, (text,))

    def _waits(self, attempt: GroupAttempt) -> bool:
        """True if a pod that was preempted for the group is still terminating."""
        names = {self._cache.nominations.node_of(pod.metadata.uid) for pod in attempt.pods} - {""}
        nodes = filter(None, map(self._cache.node, names))
        return any(
            self._unit_of(pod)[1].priority < attempt.priority and is_preempted(pod)
            for node in nodes
            for pod in node.pods.values()
        )

    def _units(self) -> list[_Unit]:
        found: dict[str, _Unit] = {}
        for pod in self._cache.pods():
            uid, unit = self._unit_of(pod)
            found.setdefault(uid, unit).pods.append(pod)
        return list(found.values())

    def _unit_of(self, pod: Pod) -> tuple[str, _Unit]:
        """Return a uid for the unit that the pod is evicted with, and the unit without pods."""
        key = group_key(pod)
        above = self._groups.above(key) if key is not None else []
        if not above:
            return pod.metadata.uid, _Unit(pod.spec.priority or 0, 0)
        whole: PodGroup | CompositePodGroup | None = None
        for group in above:
            mode = group.spec.disruption_mode
            whole = group if isinstance(mode, dict) and "all" in mode else whole
        if whole is None:
            return pod.metadata.uid, _Unit(above[0].spec.priority or 0, 0)
        rank = 2 if isinstance(whole, CompositePodGroup) else 1
        return whole.metadata.uid, _Unit(whole.spec.priority or 0, rank)

    async def _victims(self, units: Sequence[_Unit], assignments: Sequence[Assignment]) -> list[Pod]:
        """Return the victims, the most important first. All other pods are put back."""
        ordered = sorted(units, key=lambda unit: unit.importance)
        pods = [pod for unit in ordered for pod in unit.pods]
        violating, _ = split_by_budgets(pods, tuple(self._budgets()))
        guarded = {pod.metadata.uid for pod in violating}
        gone: list[_Unit] = []
        for unit in sorted(ordered, key=lambda unit: guarded.isdisjoint(unit.uids)):
            self._cache.reveal(unit.uids)
            if not await self._fit(assignments):
                self._cache.hide(unit.uids)
                gone.append(unit)
            # Let bindings and informers run.
            await asyncio.sleep(0)
        return [pod for unit in sorted(gone, key=lambda unit: unit.importance) for pod in unit.pods]

    async def _fit(self, assignments: Sequence[Assignment]) -> bool:
        """True if each pod fits on its node with the earlier ones on theirs."""
        framework, done = self._framework(), list[tuple[Pod, CycleState]]()
        states: dict[str | None, CycleState] = {}
        try:
            for one in assignments:
                state = CycleState(states.setdefault(group_key(one.pod), CycleState()))
                if not self._fits(framework, state, one):
                    return False
                spec = msgspec.structs.replace(one.pod.spec, node_name=one.node_name)
                placed = msgspec.structs.replace(one.pod, spec=spec)
                done.append((placed, state))
                if framework.reserve(state, placed, one.node_name) is not None:
                    return False
                self._cache.assume(placed, one.node_name)
            return True
        finally:
            for pod, state in reversed(done):
                await framework.unreserve(state, pod, pod.spec.node_name)
                self._cache.forget(pod.metadata.uid)

    def _fits(self, framework: Framework, state: CycleState, one: Assignment) -> bool:
        names, status = framework.pre_filter(state, one.pod)
        node = self._cache.node(one.node_name)
        if status is not None or node is None or (names is not None and one.node_name not in names):
            return False
        ahead = self._cache.nominations.ahead_of(one.pod, node.name)
        filters = framework.filters(state)
        return framework.filter_with_nominated_pods(filters, state, one.pod, node, ahead) is None


def is_preempted(pod: Pod) -> bool:
    """True if the pod is terminating because the scheduler preempted it."""
    return pod.metadata.deletion_timestamp is not None and any(
        condition.type == "DisruptionTarget"
        and condition.status == "True"
        and condition.reason == "PreemptionByScheduler"
        for condition in pod.status.conditions
    )
