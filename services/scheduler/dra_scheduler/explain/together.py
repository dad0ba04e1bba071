"""A trial of a gang: find the nodes that its waiting pods would get together now.

Nothing is written, and all changes of the scheduler's state are undone. Follows the pod group cycle of
upstream's ``pkg/scheduler/schedule_one_podgroup.go``: the pods are tried one after the other, each with the
earlier ones assumed. Of equally good nodes the first is taken, while the scheduler picks at random.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import msgspec
from dra_shared.api.pod import Pod

from dra_scheduler.allocator import Trace
from dra_scheduler.dra.grouptree import GroupId, GroupTree, minimum_of
from dra_scheduler.dra.manager import DRAManager
from dra_scheduler.dra.podgroups import PodGroups, group_key
from dra_scheduler.explain.claims import claim_report, claims_of
from dra_scheduler.explain.nominated import nominated_ahead
from dra_scheduler.explain.report import PlaceReport
from dra_scheduler.framework.cache import Cache
from dra_scheduler.framework.diagnosis import Diagnosis
from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.runtime import Framework
from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import Status

_replace = msgspec.structs.replace
# For each pod that is assumed on its node, by uid.
_Held = dict[str, tuple[Framework, CycleState]]
# This many nodes are enough to choose among (upstream's minFeasibleNodesToFind).
_ENOUGH = 100


@dataclass(frozen=True, slots=True)
class Place:
    """The node of a gang's pod, or the reason why it has none.

    If both are empty, the time limit was reached before the pod was tried.
    """

    pod: Pod
    group: str
    node: str = ""
    devices: tuple[str, ...] = ()
    message: str = ""


@dataclass(slots=True)
class Trial:
    """The outcome of a trial, for the waiting pods of a gang or of the tree of groups that the gang belongs to.

    ``own`` is the group of the pod that is being explained. ``placed`` counts the pods of each group that
    already have nodes. ``states`` has the state of each group's attempt.
    """

    tree: GroupTree
    own: str
    placed: dict[str, int]
    places: list[Place] = field(default_factory=list)
    states: dict[str, CycleState] = field(default_factory=dict)

    @property
    def state(self) -> CycleState:
        """The cycle state of the attempt for the group of the pod that is being explained."""
        return self.states.setdefault(self.own, CycleState())

    @property
    def whole(self) -> str:
        """The root composite pod group of all groups in the trial. Empty if there is none."""
        return self.tree.id.key if self.tree.id.composite else ""

    @property
    def complete(self) -> bool:
        """True if every pod was tried."""
        return all(place.node or place.message for place in self.places)

    def problem(self, uid: str, *, fits: bool) -> str:
        """Return why the gang has too few nodes, given whether the pod ``uid`` fits. Empty if it has enough.

        The text is that of upstream's GangScheduling plugin.
        """
        if not self.complete:
            return ""
        counts = dict(self.placed)
        for place in self.places:
            own = place.pod.metadata.uid == uid
            counts[place.group] += fits if own else bool(place.node)
        return _shortage(self.tree, counts, self.own)

    def report(self) -> tuple[PlaceReport, ...]:
        """Return the places in the form of an explanation."""
        return tuple(
            PlaceReport(pod=each.pod.key, node=each.node, devices=each.devices, message=each.message)
            for each in self.places
        )

    def other_claims(self, manager: DRAManager, uid: str) -> Iterator[str]:
        """Yield the keys under which claims of the other pods hold devices."""
        for place in self.places:
            if place.pod.metadata.uid != uid:
                yield from (claim.key for claim in claims_of(manager, place.pod))
        # Include allocations of the trial for extended resources, whose claims do not exist yet.
        for claim in manager.claims.in_flight:
            yield from (claim.key, f"{claim.key} {claim.metadata.uid}")


class GangTrials:
    """Tries gangs. ``gangs``: the gate GangScheduling is on, so a gang's pods get nodes together or not at all."""

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
        """Try the pod's gang.

        Inside the context, the gang's other pods are assumed on their nodes. Yield None without a gang.
        """
        tree = self._tree(pod)
        key = group_key(pod)
        if tree is None or key is None:
            yield None
            return
        groups = [own.key for own, _ in tree.leaves()]
        trial = Trial(tree, key, {group: self._groups.count_placed(group) for group in groups})
        held: _Held = {}
        try:
            for leaf, group in tree.leaves():
                self._try_group(leaf.key, minimum_of(group), trial, held, in_time)
            self._take_back(pod.metadata.uid, held)
            yield trial
        finally:
            for uid in reversed([*held]):
                self._take_back(uid, held)

    def _tree(self, pod: Pod) -> GroupTree | None:
        """Return the tree of the pod's gang, or None if the pod may be scheduled alone."""
        key, group = group_key(pod), self._groups.of(pod)
        root = self._groups.root_of(GroupId(key)) if key is not None and group is not None else None
        tree = self._groups.tree(root) if root is not None and self._gangs else None
        if tree is None or group is None:
            return None
        return tree if tree.id.composite or group.spec.scheduling_policy.gang is not None else None

    def _try_group(
        self, key: str, minimum: int, trial: Trial, held: _Held, in_time: Callable[[], bool]
    ) -> None:
        """Place the waiting pods of one group. If too few pods fit, release their resources for the next groups."""
        places = [self._place(member, key, trial, held, in_time) for member in self._waiting_pods(key)]
        trial.places += places
        if key != trial.own and trial.placed[key] + sum(bool(each.node) for each in places) < minimum:
            for place in reversed(places):
                self._take_back(place.pod.metadata.uid, held)

    def _waiting_pods(self, key: str) -> Sequence[Pod]:
        """Return the pods that the scheduler would try, by priority and age. A dump has the same order."""
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
        group: str,
        trial: Trial,
        held: _Held,
        in_time: Callable[[], bool],
    ) -> Place:
        if not in_time():
            return Place(pod, group)
        framework = self._frameworks[pod.spec.scheduler_name]
        state = CycleState(trial.states.setdefault(group, CycleState()))
        allowed, status = framework.pre_filter(state, pod)
        nodes = self._cache.nodes()
        if status is not None:
            return Place(pod, group, message=Diagnosis(len(nodes), pre_filter=status.message).message)
        feasible, statuses = self._feasible(framework, state, pod, allowed, in_time)
        if not feasible:
            if not in_time():
                return Place(pod, group)
            return Place(pod, group, message=Diagnosis(len(nodes), statuses).message)
        name = _best(framework, state, pod, feasible)
        assumed = _replace(pod, spec=_replace(pod.spec, node_name=name))
        status = framework.reserve(state, assumed, name)
        held[pod.metadata.uid] = framework, state
        if status is not None:
            self._take_back(pod.metadata.uid, held)
            return Place(pod, group, message=status.message)
        self._cache.assume(framework.with_node_statuses(state, assumed), name)
        claims = (claim_report(self._manager, claim) for claim in claims_of(self._manager, pod))
        return Place(pod, group, name, tuple(device for claim in claims for device in claim.devices))

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
            # With a trace, a search on one node has the time limit for explanations.
            state.trace = Trace(alone=False)
            ahead = nominated_ahead(self._cache, pod, node.name)
            status = framework.filter_with_nominated_pods(filters, state, pod, node, ahead)
            if status is None:
                feasible.append(node)
            else:
                statuses[node.name] = status
        return feasible, statuses

    def _take_back(self, uid: str, held: _Held) -> None:
        if uid in held:
            framework, state = held.pop(uid)
            framework.forget(state)
            self._cache.forget(uid)


def _shortage(tree: GroupTree, counts: Mapping[str, int], own: str) -> str:
    """Return why the group ``own`` or a group above it has too few nodes. Empty if all have enough."""
    for group in _path(tree, own):
        if _enough(group, counts):
            continue
        if not group.id.composite:
            return f"minCount ({group.minimum}) cannot be satisfied: {counts[own]} scheduled, 0 remaining"
        fitting = sum(_enough(child, counts) for child in group.children)
        text = f"minCount ({group.minimum}) cannot be satisfied: {fitting} scheduled, 0 remaining"
        return f"composite pod group {group.id.key}: {text}"
    return ""


def _path(tree: GroupTree, own: str) -> list[GroupTree]:
    """Return the group ``own`` and the groups above it, the lowest first. Empty if it is not in the tree."""
    if not tree.id.composite:
        return [tree] if tree.id.key == own else []
    for child in tree.children:
        found = _path(child, own)
        if found:
            return [*found, tree]
    return []


def _enough(tree: GroupTree, counts: Mapping[str, int]) -> bool:
    if not tree.id.composite:
        return counts[tree.id.key] >= tree.minimum
    return sum(_enough(child, counts) for child in tree.children) >= tree.minimum


def _turn(pod: Pod) -> tuple[int, str, str]:
    return -(pod.spec.priority or 0), pod.metadata.creation_timestamp or "", pod.metadata.name


def _best(framework: Framework, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> str:
    """Return the node with the highest score; of several, the first one."""
    scorers = framework.scorers(state, pod)
    if len(nodes) == 1 or not scorers or framework.score_problem:
        return nodes[0].name
    raw = {node.name: tuple(plugin.score(state, pod, node) for plugin, _ in scorers) for node in nodes}
    totals = framework.total(scorers, state, pod, raw)
    return max(totals, key=lambda name: totals[name])
