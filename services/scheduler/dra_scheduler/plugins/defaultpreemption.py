"""DefaultPreemption: pods of lower priority make room."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import httpx
from dra_shared.api.pod import Pod, PodCondition, PodStatus
from dra_shared.api.policy import PodDisruptionBudget
from dra_shared.api.resources import PODS
from dra_shared.client.errors import ApiError, NotFound
from dra_shared.client.events import Recorder, reference
from dra_shared.client.rest import Client, PatchType
from dra_shared.clock import Clock, rfc3339
from dra_shared.log import logger

from dra_scheduler.diagnosis import histogram
from dra_scheduler.framework.cache import Cache
from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.runtime import Framework
from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import Code, Status, error, unresolvable, unschedulable
from dra_scheduler.plugins.budgets import split_by_budgets

# Of upstream's DefaultPreemptionArgs: the search ends once so many nodes would do, in percent and at least.
_MIN_CANDIDATES_PERCENT = 10
_MIN_CANDIDATES = 100

_FAILURES = (ApiError, httpx.HTTPError, OSError, TimeoutError)
# Later than any time that a pod started at.
_NOT_STARTED = "~"

_log = logger(__name__)


@dataclass(slots=True)
class _Candidate:
    """A node, the pods that would have to go, the most important first, and how many of those budgets protect."""

    node: str
    victims: list[Pod]
    violations: int


class DefaultPreemption:
    """Evicts pods of lower priority from the node where that costs least, so that the pod fits at its next attempt.

    ``recall`` has the binding of a pod given up that has only been decided on, if there is still time.
    """

    name = "DefaultPreemption"

    def __init__(
        self,
        cache: Cache,
        client: Client,
        recorder: Recorder,
        clock: Clock,
        *,
        framework: Callable[[], Framework],
        budgets: Callable[[], Iterable[PodDisruptionBudget]] = tuple,
        recall: Callable[[str, str], bool] = lambda uid, plugin: False,
    ) -> None:
        self._cache = cache
        self._client = client
        self._recorder = recorder
        self._clock = clock
        self._framework = framework
        self._budgets = budgets
        self._recall = recall

    async def post_filter(self, state: CycleState, pod: Pod, statuses: Mapping[str, Status]) -> Status:
        if pod.spec.preemption_policy == "Never":
            return unschedulable("preemption: not eligible due to preemptionPolicy=Never.")
        nominated = self._cache.nominations.node_of(pod.metadata.uid)
        if (
            nominated in statuses
            and statuses[nominated].code is Code.UNSCHEDULABLE
            and self._waits(pod, nominated)
        ):
            return unschedulable("preemption: not eligible due to a terminating pod on the nominated node.")
        candidates, refusals = self._candidates(state, pod, statuses)
        if not candidates:
            state.nominated = ""
            total = len(self._cache.nodes())
            return unschedulable(f"preemption: 0/{total} nodes are available: {histogram(refusals)}.")
        chosen = _cheapest(candidates)
        going = [victim for victim in chosen.victims if victim.metadata.deletion_timestamp is None]
        if going:
            await self._end_nominations(pod, chosen.node)
        status = await self._evict(pod, chosen.node, going)
        if status.code is Code.SUCCESS:
            state.nominated = chosen.node
        return status

    def _waits(self, pod: Pod, name: str) -> bool:
        """Whether a pod that was preempted for it is still on its way out."""
        node = self._cache.node(name)
        return node is not None and any(
            _priority(other) < _priority(pod) and _is_preempted(other) for other in node.pods.values()
        )

    def _candidates(
        self, state: CycleState, pod: Pod, statuses: Mapping[str, Status]
    ) -> tuple[list[_Candidate], dict[str, Status]]:
        """Nodes where preemption would help, those that violate no budget first; and why it would not on others."""
        hopeful = [name for name, status in statuses.items() if status.code is Code.UNSCHEDULABLE]
        refusals = {
            name: unresolvable("Preemption is not helpful for scheduling")
            for name in statuses.keys() - set(hopeful)
        }
        enough = min(len(hopeful), max(len(hopeful) * _MIN_CANDIDATES_PERCENT // 100, _MIN_CANDIDATES))
        budgets = tuple(self._budgets())
        harmless: list[_Candidate] = []
        harmful: list[_Candidate] = []
        for name in hopeful:
            found = self._victims(state, pod, name, budgets)
            if isinstance(found, Status):
                refusals[name] = found
                continue
            (harmful if found.violations else harmless).append(found)
            if harmless and len(harmless) + len(harmful) >= enough:
                break
        return harmless + harmful, refusals

    def _victims(
        self, state: CycleState, pod: Pod, name: str, budgets: Sequence[PodDisruptionBudget]
    ) -> _Candidate | Status:
        """The fewest and least important pods of the node without which the pod fits, or why that can't be."""
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
            guarded, others = split_by_budgets(sorted(lower, key=_importance), budgets)
            violations = 0
            for index, other in enumerate((*guarded, *others)):
                framework.add_pod(state, pod, other, trial)
                if self._judge(framework, state, pod, trial) is None:
                    del gone[other.metadata.uid]
                else:
                    framework.remove_pod(state, pod, other, trial)
                    violations += index < len(guarded)
            victims = sorted(gone.values(), key=_importance)
        finally:
            # What PreFilter counted is for the cluster as it is.
            for other in gone.values():
                framework.add_pod(state, pod, other, trial)
        if not victims:
            return error(f'expected at least one victim pod on node "{name}"')
        return _Candidate(name, victims, violations)

    def _judge(self, framework: Framework, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        ahead = self._cache.nominations.ahead_of(pod, node.name)
        return framework.filter_beside(framework.filters(state), state, pod, node, ahead)

    async def _evict(self, pod: Pod, node_name: str, victims: Sequence[Pod]) -> Status:
        for victim in victims:
            text = f"Preempted by pod {pod.metadata.uid} on node {node_name}"
            if self._recall(victim.metadata.uid, self.name):
                text += " (in kube-scheduler memory)."
            else:
                try:
                    await self._delete(pod, victim)
                except NotFound:
                    continue
                except _FAILURES as failure:
                    return error(failure)
            self._recorder.event(reference(PODS, victim), "Normal", "Preempted", text, "Preempting")
        _log.info("preempted", pod=pod.key, node=node_name, victims=[victim.key for victim in victims])
        return Status(Code.SUCCESS)

    async def _delete(self, pod: Pod, victim: Pod) -> None:
        name, namespace = victim.metadata.name, victim.metadata.namespace
        condition = PodCondition(
            type="DisruptionTarget",
            status="True",
            reason="PreemptionByScheduler",
            message=f"{pod.spec.scheduler_name}: preempting to accommodate a higher priority pod",
            observed_generation=victim.metadata.generation or None,
            last_transition_time=rfc3339(self._clock.now()),
        )
        body = {"metadata": {"uid": victim.metadata.uid}, "status": PodStatus(conditions=(condition,))}
        await self._client.patch(
            PODS, name, body, namespace, patch_type=PatchType.STRATEGIC, subresource="status"
        )
        await self._client.delete(PODS, name, namespace, uid=victim.metadata.uid)

    async def _end_nominations(self, pod: Pod, node_name: str) -> None:
        """Pods of lower priority that the node was made free for find another place sooner if they look for one."""
        for other in self._cache.nominations.on(node_name):
            if _priority(other) >= _priority(pod):
                continue
            self._cache.nominations.delete(other.metadata.uid)
            meta = other.metadata
            body = {"metadata": {"uid": meta.uid}, "status": {"nominatedNodeName": None}}
            try:
                await self._client.patch(
                    PODS,
                    meta.name,
                    body,
                    meta.namespace,
                    patch_type=PatchType.STRATEGIC,
                    subresource="status",
                )
            except _FAILURES as failure:
                _log.warning("nomination not ended", pod=other.key, node=node_name, error=str(failure))


def _priority(pod: Pod) -> int:
    return pod.spec.priority or 0


def _is_preempted(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None and any(
        condition.type == "DisruptionTarget"
        and condition.status == "True"
        and condition.reason == "PreemptionByScheduler"
        for condition in pod.status.conditions
    )


def _started(pod: Pod) -> str:
    return pod.status.start_time or _NOT_STARTED


def _importance(pod: Pod) -> tuple[int, str]:
    """Sorts the pods first that it would be worst to evict: high priority, then long running."""
    return -_priority(pod), _started(pod)


def _cheapest(candidates: Sequence[_Candidate]) -> _Candidate:
    """Upstream's pickOneNodeForPreemption; what is equal in all of that is settled by the name."""
    costs = {candidate.node: _cost(candidate) for candidate in candidates}
    least = min(costs.values())
    left = [candidate for candidate in candidates if costs[candidate.node] == least]
    latest = max(map(_earliest_start, left))
    return min((c for c in left if _earliest_start(c) == latest), key=lambda candidate: candidate.node)


def _cost(candidate: _Candidate) -> tuple[int, int, int, int]:
    priorities = [_priority(victim) for victim in candidate.victims]
    # Shifted, so that of victims with negative priorities fewer are better, too.
    return candidate.violations, max(priorities), sum(p + (1 << 31) for p in priorities), len(priorities)


def _earliest_start(candidate: _Candidate) -> str:
    """When the first of the node's most important victims started."""
    highest = max(map(_priority, candidate.victims))
    return min(_started(victim) for victim in candidate.victims if _priority(victim) == highest)
