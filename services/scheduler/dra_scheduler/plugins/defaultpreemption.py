"""DefaultPreemption: evicts pods of lower priority to make room.

Mirrors upstream's ``pkg/scheduler/framework/plugins/defaultpreemption`` and
``pkg/scheduler/framework/preemption/preemption.go``.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

from dra_shared.api.pod import Pod
from dra_shared.api.policy import PodDisruptionBudget

from dra_scheduler.componentconfig.types import DefaultPreemptionArgs
from dra_scheduler.extenders.chain import Extenders
from dra_scheduler.extenders.client import ExtenderError, Victims
from dra_scheduler.framework.cache import Cache
from dra_scheduler.framework.diagnosis import histogram
from dra_scheduler.framework.groupattempt import GroupAttempt
from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.runtime import Framework
from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import Code, Status, error, unresolvable, unschedulable
from dra_scheduler.metrics import PREEMPTIONS, count_group_preemption
from dra_scheduler.plugins.budgets import split_by_budgets
from dra_scheduler.plugins.evictor import Evictor
from dra_scheduler.plugins.grouppreemption import GroupPreemption, is_preempted

T = TypeVar("T")


class DryRuns(Generic[T]):
    """Results by node for one signature. ``circumstances`` is everything else that the results depend on."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._position = cache.position
        self._circumstances: Hashable = None
        self._results: dict[str, T] = {}

    def refresh(self, circumstances: Hashable) -> None:
        """Forget the results of nodes that changed, or all of them if the circumstances changed."""
        changed = self._cache.changed_since(self._position)
        if changed is None or circumstances != self._circumstances:
            self._results.clear()
        else:
            for name in changed:
                self._results.pop(name, None)
        self._position = self._cache.position
        self._circumstances = circumstances

    def get(self, name: str) -> T | None:
        """Return the cached result for the node, or None."""
        return self._results.get(name)

    def keep(self, name: str, result: T) -> None:
        """Cache the result for the current state of the node."""
        self._results[name] = result


# Sorts after every start time.
_NOT_STARTED = "~"


@dataclass
class _Candidate:
    """A node, its victims with the most important first, and how many of them violate a budget.

    Pods with the same signature share it, so its cost is computed once.
    """

    node: str
    victims: list[Pod]
    violations: int

    @cached_property
    def cost(self) -> tuple[int, int, int, int]:
        """The violations, and the priorities of the victims: the highest, their sum and their number."""
        priorities = [_priority(victim) for victim in self.victims]
        # Shift priorities so that fewer victims are better even if their priorities are negative.
        return self.violations, max(priorities), sum(p + (1 << 31) for p in priorities), len(priorities)

    @cached_property
    def earliest_start(self) -> str:
        """The start time of the most important victim that started first."""
        highest = max(map(_priority, self.victims))
        return min(_start_time(victim) for victim in self.victims if _priority(victim) == highest)


class DefaultPreemption:
    """Evicts pods of lower priority from the node where this costs least, so that the pod fits at its next attempt.

    ``args`` has the percentage and the minimum number of candidate nodes. ``extenders`` may remove some.
    ``for_groups`` does the same for groups of pods. ``measured``: count it in the service's metrics.
    """

    name = "DefaultPreemption"

    def __init__(
        self,
        cache: Cache,
        evictor: Evictor,
        *,
        framework: Callable[[], Framework],
        budgets: Callable[[], Iterable[PodDisruptionBudget]] = tuple,
        args: DefaultPreemptionArgs | None = None,
        extenders: Extenders | None = None,
        for_groups: GroupPreemption | None = None,
        measured: bool = False,
    ) -> None:
        args = args or DefaultPreemptionArgs(
            min_candidate_nodes_percentage=10, min_candidate_nodes_absolute=100
        )
        self._percent = args.min_candidate_nodes_percentage or 0
        self._least = args.min_candidate_nodes_absolute or 0
        self._cache = cache
        self._evictor = evictor
        self._framework = framework
        self._budgets = budgets
        self._extenders = extenders or Extenders()
        self._for_groups = for_groups
        self._measured = measured

    def pre_enqueue(self, pod: Pod) -> Status | None:
        if self._evictor.is_running(pod.metadata.uid):
            return unresolvable("waiting for the preemption for this pod to be finished")
        return None

    async def post_filter(
        self, state: CycleState, pod: Pod, statuses: Mapping[str, Status]
    ) -> tuple[str | None, Status]:
        if self._measured:
            PREEMPTIONS.inc()
        if pod.spec.preemption_policy == "Never":
            return None, unschedulable("preemption: not eligible due to preemptionPolicy=Never.")
        nominated = self._cache.nominations.node_of(pod.metadata.uid)
        if (
            nominated in statuses
            and statuses[nominated].code is Code.UNSCHEDULABLE
            and self._waits(pod, nominated)
        ):
            return None, unschedulable(
                "preemption: not eligible due to a terminating pod on the nominated node."
            )
        candidates, refusals = self._candidates(state, pod, statuses)
        if not candidates:
            errors = dict.fromkeys(s.message for s in refusals.values() if s.code is Code.ERROR)
            if errors:
                text = ", ".join(errors)
                return None, error(f"preemption: [{text}]" if len(errors) > 1 else f"preemption: {text}")
            total = len(self._cache.nodes())
            return "", unschedulable(f"preemption: 0/{total} nodes are available: {histogram(refusals)}.")
        if self._extenders:
            try:
                candidates = await self._left_by_extenders(pod, candidates)
            except ExtenderError as problem:
                return None, error(f"preemption: {problem}")
            if not candidates:
                return None, unschedulable("preemption: no candidate node for preemption")
        chosen = _cheapest(candidates)
        self._evictor.start(pod, chosen.node, chosen.victims)
        return chosen.node, Status(Code.SUCCESS)

    async def group_post_filter(self, attempt: GroupAttempt) -> tuple[Mapping[str, str], Status]:
        if self._for_groups is None:
            return {}, unschedulable()
        nominated, status = await self._for_groups.run(attempt)
        if self._measured:
            count_group_preemption(status.code.value, self._for_groups.took)
        return nominated, Status(status.code, (f"pod group preemption: {status.message}",))

    async def _left_by_extenders(self, pod: Pod, candidates: Sequence[_Candidate]) -> list[_Candidate]:
        """Return the candidates that the extenders accept. Raises ExtenderError."""
        victims = {one.node: Victims(one.victims, one.violations) for one in candidates}
        nodes = {info.name: info for info in self._cache.nodes()}
        left = await self._extenders.preempt(pod, victims, nodes)
        return [_Candidate(name, list(found.pods), found.violations) for name, found in left.items()]

    def _waits(self, pod: Pod, name: str) -> bool:
        """True if a pod that was preempted for this pod is still terminating on the node."""
        node = self._cache.node(name)
        return node is not None and any(
            _priority(other) < _priority(pod) and is_preempted(other) for other in node.pods.values()
        )

    def _candidates(
        self, state: CycleState, pod: Pod, statuses: Mapping[str, Status]
    ) -> tuple[list[_Candidate], dict[str, Status]]:
        """Return the nodes where preemption would make the pod fit, and the reasons why it would not on others."""
        hopeful = [name for name, status in statuses.items() if status.code is Code.UNSCHEDULABLE]
        refusals = {
            name: unresolvable("Preemption is not helpful for scheduling")
            for name in statuses.keys() - set(hopeful)
        }
        enough = min(len(hopeful), max(len(hopeful) * self._percent // 100, self._least))
        budgets = tuple(self._budgets())
        runs = self._runs(state, pod, budgets)
        harmless: list[_Candidate] = []
        harmful: list[_Candidate] = []
        for name in hopeful:
            found = runs.get(name)
            if found is None:
                state.sharing.allowed = True
                found = self._victims(state, pod, name, budgets)
                if state.sharing.allowed:
                    runs.keep(name, found)
            if isinstance(found, Status):
                refusals[name] = found
                continue
            (harmful if found.violations else harmless).append(found)
            if harmless and len(harmless) + len(harmful) >= enough:
                break
        return harmless + harmful, refusals

    def _runs(
        self, state: CycleState, pod: Pod, budgets: Sequence[PodDisruptionBudget]
    ) -> DryRuns[_Candidate | Status]:
        """Return the cached results for nodes from earlier pods with the same signature."""
        runs: DryRuns[_Candidate | Status] = state.sharing.data.setdefault(self.name, DryRuns(self._cache))
        # Pods assumed during a group's cycle are not in the cache's log of changes, so do not share these
        # results.
        alone = object() if state.group is not None else None
        versions = tuple((budget.key, budget.metadata.resource_version) for budget in budgets)
        runs.refresh((_priority(pod), versions, alone))
        return runs

    def _victims(
        self, state: CycleState, pod: Pod, name: str, budgets: Sequence[PodDisruptionBudget]
    ) -> _Candidate | Status:
        """Return the smallest and least important set of victims that makes the pod fit, or the reason for none."""
        node = self._cache.node(name)
        lower = [other for other in node.pods.values() if _priority(other) < _priority(pod)] if node else []
        if node is None or not lower:
            return unresolvable("No preemption victims found for incoming pod")
        framework, trial = self._framework(), node.copy()
        for other in lower:
            framework.remove_pod(state, pod, other, trial)
        gone = {other.metadata.uid: other for other in lower}
        try:
            status = self._judge(framework, state, pod, trial)
            if status is not None:
                return status
            by_importance = _by_importance(lower)
            guarded, others = split_by_budgets(by_importance, budgets)
            violations = 0
            for index, other in enumerate((*guarded, *others)):
                framework.add_pod(state, pod, other, trial)
                if self._judge(framework, state, pod, trial) is None:
                    del gone[other.metadata.uid]
                else:
                    framework.remove_pod(state, pod, other, trial)
                    violations += index < len(guarded)
            victims = [other for other in by_importance if other.metadata.uid in gone]
        finally:
            # PreFilter counted the whole cluster, so subtract the pods that are gone in this dry run.
            for other in gone.values():
                framework.add_pod(state, pod, other, trial)
        if not victims:
            return error(f'expected at least one victim pod on node "{name}"')
        return _Candidate(name, victims, violations)

    def _judge(self, framework: Framework, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        ahead = self._cache.nominations.ahead_of(pod, node.name)
        return framework.filter_with_nominated_pods(framework.filters(state), state, pod, node, ahead)


def _priority(pod: Pod) -> int:
    return pod.spec.priority or 0


def _start_time(pod: Pod) -> str:
    return pod.status.start_time or _NOT_STARTED


def _by_importance(pods: Sequence[Pod]) -> list[Pod]:
    """Sort the pods by importance: high priority first, then long running.

    Among pods that have not started the last one is first, because upstream uses the current time as their
    start.
    """

    def importance(item: tuple[int, Pod]) -> tuple[int, str, int]:
        index, pod = item
        return -_priority(pod), _start_time(pod), index if pod.status.start_time else -index

    return [pod for _, pod in sorted(enumerate(pods), key=importance)]


def _cheapest(candidates: Sequence[_Candidate]) -> _Candidate:
    """Return the cheapest candidate (upstream's pickOneNodeForPreemption). Ties are broken by name."""
    least = min([candidate.cost for candidate in candidates])
    left = [candidate for candidate in candidates if candidate.cost == least]
    latest = max([candidate.earliest_start for candidate in left])
    return min((c for c in left if c.earliest_start == latest), key=lambda candidate: candidate.node)
