"""A trial of a gang: where its waiting pods would go together now. Nothing is written, and all is taken back.

Follows the pod group cycle of upstream's ``pkg/scheduler/schedule_one_podgroup.go``: the pods are tried one after the
other, each with those before it assumed. Of equally good nodes the first is taken, where the scheduler picks at random.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import msgspec
from dra_shared.api.pod import Pod

from dra_scheduler.allocator import Trace
from dra_scheduler.dra.manager import DRAManager
from dra_scheduler.dra.podgroups import PodGroups, group_key
from dra_scheduler.explain.claims import claim_report, claims_of
from dra_scheduler.explain.report import PlaceReport
from dra_scheduler.framework.cache import Cache
from dra_scheduler.framework.diagnosis import Diagnosis
from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.runtime import Framework
from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import Status

_replace = msgspec.structs.replace
# So many nodes are enough to choose among (upstream's minFeasibleNodesToFind).
_ENOUGH = 100


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pod of the gang would go, or why it would get no node; without either, time was up before its turn."""

    pod: Pod
    node: str = ""
    devices: tuple[str, ...] = ()
    message: str = ""


@dataclass(slots=True)
class Trial:
    """What became of the gang's pods that wait. ``placed`` are its pods that have nodes already."""

    minimum: int
    placed: int
    places: list[Place] = field(default_factory=list)
    state: CycleState = field(default_factory=CycleState)

    @property
    def complete(self) -> bool:
        """True if every pod was tried."""
        return all(place.node or place.message for place in self.places)

    def problem(self, uid: str, *, fits: bool) -> str:
        """Return why the gang has too few nodes although the pod ``uid`` fits or not; empty if it has enough.

        Upstream's text of the plugin GangScheduling.
        """
        others = sum(bool(place.node) for place in self.places if place.pod.metadata.uid != uid)
        scheduled = self.placed + others + fits
        if scheduled >= self.minimum or not self.complete:
            return ""
        return f"minCount ({self.minimum}) cannot be satisfied: {scheduled} scheduled, 0 remaining"

    def report(self) -> tuple[PlaceReport, ...]:
        """Return the places for an explanation."""
        return tuple(
            PlaceReport(pod=each.pod.key, node=each.node, devices=each.devices, message=each.message)
            for each in self.places
        )

    def other_claims(self, manager: DRAManager, uid: str) -> Iterator[str]:
        """Yield the keys under which claims of the other pods hold devices."""
        for place in self.places:
            if place.pod.metadata.uid != uid:
                for claim in claims_of(manager, place.pod):
                    yield from (claim.key, f"{claim.key} {claim.metadata.uid}")


class GangTrials:
    """Tries gangs; ``gangs``: a gang's pods get nodes together or not at all."""

    def __init__(
        self,
        groups: PodGroups,
        cache: Cache,
        manager: DRAManager,
        frameworks: Mapping[str, Framework],
        *,
        gangs: bool,
    ) -> None:
        self._groups = groups
        self._cache = cache
        self._manager = manager
        self._frameworks = frameworks
        self._gangs = gangs

    @contextmanager
    def around(self, pod: Pod, in_time: Callable[[], bool]) -> Iterator[Trial | None]:
        """Try the pod's gang. Within the context its other pods are assumed on their nodes; None without a gang."""
        key, group = group_key(pod), self._groups.of(pod)
        gang = group.spec.scheduling_policy.gang if group is not None and self._gangs else None
        if key is None or gang is None:
            yield None
            return
        trial = Trial(gang.min_count, self._groups.placed(key))
        held: dict[str, tuple[Framework, CycleState]] = {}
        try:
            for member in self._waiting(key):
                trial.places.append(self._place(member, trial, held, in_time))
            self._take_back(pod.metadata.uid, held)
            yield trial
        finally:
            for uid in reversed([*held]):
                self._take_back(uid, held)

    def _waiting(self, key: str) -> Sequence[Pod]:
        """The pods that the scheduler would try, by priority and age: the same order on a cluster and on its dump."""
        waiting = []
        for pod in self._groups.members(key):
            framework = self._frameworks.get(pod.spec.scheduler_name)
            if framework is None or self._cache.place_of(pod.metadata.uid) or pod.spec.node_name:
                continue
            if framework.pre_enqueue(pod) is None:
                waiting.append(pod)
        return sorted(waiting, key=_turn)

    def _place(
        self,
        pod: Pod,
        trial: Trial,
        held: dict[str, tuple[Framework, CycleState]],
        in_time: Callable[[], bool],
    ) -> Place:
        if not in_time():
            return Place(pod)
        framework = self._frameworks[pod.spec.scheduler_name]
        state = CycleState(trial.state)
        allowed, status = framework.pre_filter(state, pod)
        nodes = self._cache.nodes()
        if status is not None:
            return Place(pod, message=Diagnosis(len(nodes), pre_filter=status.message).message)
        feasible, statuses = self._feasible(framework, state, pod, allowed, in_time)
        if not feasible:
            if not in_time():
                return Place(pod)
            return Place(pod, message=Diagnosis(len(nodes), statuses).message)
        name = _best(framework, state, pod, feasible)
        assumed = _replace(pod, spec=_replace(pod.spec, node_name=name))
        status = framework.reserve(state, assumed, name)
        held[pod.metadata.uid] = framework, state
        if status is not None:
            self._take_back(pod.metadata.uid, held)
            return Place(pod, message=status.message)
        self._cache.assume(framework.with_node_statuses(state, assumed), name)
        claims = (claim_report(self._manager, claim) for claim in claims_of(self._manager, pod))
        return Place(pod, name, tuple(device for claim in claims for device in claim.devices))

    def _feasible(
        self,
        framework: Framework,
        state: CycleState,
        pod: Pod,
        allowed: frozenset[str] | None,
        in_time: Callable[[], bool],
    ) -> tuple[list[NodeInfo], dict[str, Status]]:
        nodes = self._cache.nodes()
        filters = framework.filters(state)
        feasible: list[NodeInfo] = []
        statuses: dict[str, Status] = {}
        for node in nodes:
            if len(feasible) >= _ENOUGH or not in_time():
                break
            if allowed is not None and node.name not in allowed:
                continue
            # With a trace a search on one node has a time limit that suits explanations.
            state.trace = Trace(alone=False)
            ahead = self._cache.nominations.ahead_of(pod, node.name)
            status = framework.filter_with_nominated_pods(filters, state, pod, node, ahead)
            if status is None:
                feasible.append(node)
            else:
                statuses[node.name] = status
        return feasible, statuses

    def _take_back(self, uid: str, held: dict[str, tuple[Framework, CycleState]]) -> None:
        if uid in held:
            framework, state = held.pop(uid)
            framework.forget(state)
            self._cache.forget(uid)


def _turn(pod: Pod) -> tuple[int, str, str]:
    return -(pod.spec.priority or 0), pod.metadata.creation_timestamp or "", pod.metadata.name


def _best(framework: Framework, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> str:
    """The node with the highest score, the first of several."""
    scorers = framework.scorers(state, pod)
    if len(nodes) == 1 or not scorers or framework.score_problem:
        return nodes[0].name
    raw = {node.name: tuple(plugin.score(state, pod, node) for plugin, _ in scorers) for node in nodes}
    totals = framework.total(scorers, state, pod, raw)
    return max(totals, key=lambda name: totals[name])
