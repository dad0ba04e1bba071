"""DefaultPreemption: pods of lower priority make room."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import httpx
from dra_shared.api.pod import Pod, PodCondition, PodStatus
from dra_shared.api.resources import PODS
from dra_shared.client.errors import ApiError, NotFound
from dra_shared.client.events import Recorder, reference
from dra_shared.client.rest import Client, PatchType
from dra_shared.clock import Clock, rfc3339
from dra_shared.log import logger

from dra_scheduler.diagnosis import histogram
from dra_scheduler.framework.cache import Cache
from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import Code, Status, error, unresolvable, unschedulable

# Whether the pod would fit on a node with other pods than it has.
Fits = Callable[[CycleState, Pod, NodeInfo], bool]

_log = logger(__name__)


@dataclass(slots=True)
class _Candidate:
    node: str
    victims: list[Pod]


class DefaultPreemption:
    """Evicts pods of lower priority from the node where that costs least, so that the pod fits at its next attempt."""

    name = "DefaultPreemption"

    def __init__(self, cache: Cache, client: Client, recorder: Recorder, clock: Clock, fits: Fits) -> None:
        self._cache = cache
        self._client = client
        self._recorder = recorder
        self._clock = clock
        self._fits = fits

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
        refusals: dict[str, Status] = {}
        candidates: list[_Candidate] = []
        for name, status in statuses.items():
            if status.code is not Code.UNSCHEDULABLE:
                refusals[name] = unresolvable("Preemption is not helpful for scheduling")
                continue
            victims = self._victims(state, pod, name)
            if victims:
                candidates.append(_Candidate(name, victims))
            else:
                refusals[name] = unresolvable("No preemption victims found for incoming pod")
        if not candidates:
            state.nominated = ""
            total = len(self._cache.nodes())
            return unschedulable(f"preemption: 0/{total} nodes are available: {histogram(refusals)}.")
        chosen = min(candidates, key=_cost)
        status = await self._evict(pod, chosen)
        if status.code is Code.SUCCESS:
            state.nominated = chosen.node
        return status

    def _waits(self, pod: Pod, name: str) -> bool:
        """Whether a pod that was preempted for it is still on its way out."""
        node = self._cache.node(name)
        return node is not None and any(
            _priority(other) < _priority(pod) and _is_preempted(other) for other in node.pods.values()
        )

    def _victims(self, state: CycleState, pod: Pod, name: str) -> list[Pod]:
        """The fewest and least important pods of the node without which the pod fits; none: that can't be."""
        node = self._cache.node(name)
        if node is None:
            return []
        trial = node.copy()
        lower = [other for other in node.pods.values() if _priority(other) < _priority(pod)]
        for other in lower:
            trial.remove_pod(other.metadata.uid)
        if not lower or not self._fits(state, pod, trial):
            return []
        victims = []
        for other in sorted(lower, key=_importance):
            trial.add_pod(other)
            if not self._fits(state, pod, trial):
                trial.remove_pod(other.metadata.uid)
                victims.append(other)
        return victims

    async def _evict(self, pod: Pod, chosen: _Candidate) -> Status:
        for victim in chosen.victims:
            if victim.metadata.deletion_timestamp is not None:
                continue
            try:
                await self._delete(pod, victim, chosen.node)
            except NotFound:
                continue
            except (ApiError, httpx.HTTPError, OSError, TimeoutError) as failure:
                return error(failure)
            self._recorder.event(
                reference(PODS, victim),
                "Normal",
                "Preempted",
                f"Preempted by pod {pod.metadata.uid} on node {chosen.node}",
                "Preempting",
            )
        _log.info(
            "preempted", pod=pod.key, node=chosen.node, victims=[victim.key for victim in chosen.victims]
        )
        return Status(Code.SUCCESS)

    async def _delete(self, pod: Pod, victim: Pod, node: str) -> None:
        name, namespace = victim.metadata.name, victim.metadata.namespace
        condition = PodCondition(
            type="DisruptionTarget",
            status="True",
            reason="PreemptionByScheduler",
            message=f"{pod.spec.scheduler_name}: preempting to accommodate a higher priority pod",
            last_transition_time=rfc3339(self._clock.now()),
        )
        body = {"metadata": {"uid": victim.metadata.uid}, "status": PodStatus(conditions=(condition,))}
        await self._client.patch(
            PODS, name, body, namespace, patch_type=PatchType.STRATEGIC, subresource="status"
        )
        await self._client.delete(PODS, name, namespace, uid=victim.metadata.uid)


def _priority(pod: Pod) -> int:
    return pod.spec.priority or 0


def _is_preempted(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None and any(
        condition.type == "DisruptionTarget"
        and condition.status == "True"
        and condition.reason == "PreemptionByScheduler"
        for condition in pod.status.conditions
    )


def _importance(pod: Pod) -> tuple[int, str]:
    """Sorts the pods first that it would be worst to evict: high priority, then long running."""
    return -_priority(pod), pod.status.start_time or ""


def _cost(candidate: _Candidate) -> tuple[int, int, int, str]:
    priorities = [_priority(victim) for victim in candidate.victims]
    return max(priorities), sum(priorities), len(priorities), candidate.node
