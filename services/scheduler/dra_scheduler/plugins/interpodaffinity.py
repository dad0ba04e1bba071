"""InterPodAffinity: required and preferred affinity and anti-affinity between pods.

Mirrors upstream's ``pkg/scheduler/framework/plugins/interpodaffinity``.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from dra_shared.api.node import Node
from dra_shared.api.pod import Pod, PodAffinityTerm

from dra_scheduler.componentconfig.types import InterPodAffinityArgs
from dra_scheduler.framework.cache import Cache
from dra_scheduler.framework.events import Action, Event, Interest, Kind
from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.plugin import MAX_NODE_SCORE
from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import SKIP, Status, unresolvable, unschedulable
from dra_scheduler.plugins.podselection import (
    NamespaceLabels,
    Term,
    preferred_terms,
    required_affinity,
    required_anti_affinity,
    term,
)

_Domain = tuple[str, str]


@dataclass(slots=True)
class _Counts:
    """The numbers of pods in each domain that satisfy the pod's terms, or whose terms it would violate."""

    affinity: list[Term] = field(default_factory=list)
    anti_affinity: list[Term] = field(default_factory=list)
    # Domains with a pod that satisfies all affinity terms, with a pod that matches an anti-affinity term, and
    # with a pod whose own anti-affinity matches this pod.
    wanted: Counter[_Domain] = field(default_factory=Counter)
    unwanted: Counter[_Domain] = field(default_factory=Counter)
    forbidden: Counter[_Domain] = field(default_factory=Counter)
    satisfies_itself: bool = False


class InterPodAffinity:
    """Filters by required affinity and anti-affinity in both directions, and scores by preferred terms.

    ``args`` has the weight of other pods' required affinity, and whether other pods' preferences count for a
    pod without preferences.
    """

    name = "InterPodAffinity"

    def __init__(
        self, cache: Cache, namespace_labels: NamespaceLabels, args: InterPodAffinityArgs | None = None
    ) -> None:
        args = args or InterPodAffinityArgs(hard_pod_affinity_weight=1)
        self._hard_weight = args.hard_pod_affinity_weight or 0
        self._ignores_others = args.ignore_preferred_terms_of_existing_pods
        self._cache = cache
        self._namespace_labels = namespace_labels

    def events_to_register(self) -> Sequence[Interest]:
        return (
            Interest(Kind.POD, Action.ADD | Action.DELETE | Action.POD_LABEL, self._may_matter),
            Interest(Kind.NODE, Action.ADD | Action.NODE_LABEL, _domains_change),
            Interest(Kind.TARGET_POD, Action.POD_LABEL),
        )

    def sign(self, pod: Pod) -> Hashable | None:
        # If any pod has affinity terms, a verdict depends on pods of other nodes.
        return () if self._without_affinity(pod) else None

    def pre_filter(self, state: CycleState, pod: Pod) -> tuple[frozenset[str] | None, Status | None]:
        if self._without_affinity(pod):
            return None, SKIP
        counts = _Counts(
            affinity=[term(pod, spec) for spec in required_affinity(pod)],
            anti_affinity=[term(pod, spec) for spec in required_anti_affinity(pod)],
        )
        for node in self._cache.nodes():
            assert node.node is not None
            for other in node.pods.values():
                self._count_wishes(counts, node.node, other, 1)
            for other in node.anti_affine.values():
                self._count_objections(counts, node.node, pod, other, 1)
        counts.satisfies_itself = all(t.selects(pod, self._namespace_labels) for t in counts.affinity)
        state.write(self.name, counts)
        return None, None

    def count(self, state: CycleState, pod: Pod, other: Pod, node: NodeInfo, change: int) -> None:
        """Count ``other`` as added to the node (``change`` 1) or removed from it (-1)."""
        counts = state.read(self.name, _Counts)
        if counts is not None and node.node is not None:
            self._count_wishes(counts, node.node, other, change)
            self._count_objections(counts, node.node, pod, other, change)

    def _count_objections(self, counts: _Counts, node: Node, pod: Pod, other: Pod, change: int) -> None:
        for spec in required_anti_affinity(other):
            against = term(other, spec)
            domain = against.domain(node)
            if domain is not None and against.selects(pod, self._namespace_labels):
                counts.forbidden[against.topology_key, domain] += change

    def _count_wishes(self, counts: _Counts, node: Node, other: Pod, change: int) -> None:
        if counts.affinity and all(t.selects(other, self._namespace_labels) for t in counts.affinity):
            for affinity in counts.affinity:
                domain = affinity.domain(node)
                if domain is not None:
                    counts.wanted[affinity.topology_key, domain] += change
        for anti in counts.anti_affinity:
            domain = anti.domain(node)
            if domain is not None and anti.selects(other, self._namespace_labels):
                counts.unwanted[anti.topology_key, domain] += change

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        counts = state.read(self.name, _Counts)
        if counts is None or node.node is None:
            return None
        if not self._affinity_holds(counts, node.node):
            return unresolvable("node(s) didn't match pod affinity rules")
        for anti in counts.anti_affinity:
            domain = anti.domain(node.node)
            if domain is not None and counts.unwanted[anti.topology_key, domain]:
                return unschedulable("node(s) didn't match pod anti-affinity rules")
        labels = node.node.metadata.labels
        if any(count and labels.get(key) == value for (key, value), count in counts.forbidden.items()):
            return unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")
        return None

    @staticmethod
    def _affinity_holds(counts: _Counts, node: Node) -> bool:
        domains = [(affinity.topology_key, affinity.domain(node)) for affinity in counts.affinity]
        if any(value is None for _, value in domains):
            return False
        if all(value is not None and counts.wanted[key, value] for key, value in domains):
            return True
        # If no pod matches the affinity terms yet, a pod that matches them itself may be the first of its set.
        return not any(counts.wanted.values()) and counts.satisfies_itself

    def pre_score(self, state: CycleState, pod: Pod) -> Status | None:
        if self._without_affinity(pod):
            return SKIP
        liked: Counter[_Domain] = Counter()
        own = [(term(pod, spec), weight) for spec, weight in preferred_terms(pod)]
        if self._ignores_others and not own:
            return SKIP
        for node in self._cache.nodes():
            assert node.node is not None
            for other in node.pods.values():
                theirs = [(term(other, spec), weight) for spec, weight in preferred_terms(other)]
                if self._hard_weight:
                    theirs += [(term(other, spec), self._hard_weight) for spec in required_affinity(other)]
                for terms, about in ((own, other), (theirs, pod)):
                    for one, weight in terms:
                        domain = one.domain(node.node)
                        if domain is not None and one.selects(about, self._namespace_labels):
                            liked[one.topology_key, domain] += weight
        if not liked:
            return SKIP
        state.write("liked domains", liked)
        return None

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        assert node.node is not None
        liked: Counter[_Domain] = state.read("liked domains", Counter) or Counter()
        labels = node.node.metadata.labels
        return sum(weight for (key, value), weight in liked.items() if labels.get(key) == value)

    def normalize(self, state: CycleState, pod: Pod, scores: dict[str, int]) -> dict[str, int]:
        lowest, highest = min(scores.values()), max(scores.values())
        if lowest == highest:
            return dict.fromkeys(scores, 0)
        spread = highest - lowest
        return {name: int(MAX_NODE_SCORE * (score - lowest) / spread) for name, score in scores.items()}

    def _without_affinity(self, pod: Pod) -> bool:
        affinity = pod.spec.affinity
        return not self._cache.affine_pods and (
            affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None)
        )

    def _may_matter(self, pod: Pod, event: Event) -> bool:
        """Decide whether the pod event may matter, as upstream's hint does for added, changed and deleted pods."""
        if event.old is None:
            return self._all_select(pod, required_affinity(pod), event.new)
        anti = required_anti_affinity(pod)
        if event.new is None:
            return self._all_select(pod, anti, event.old) or self._all_select(
                event.old, required_anti_affinity(event.old), pod
            )
        terms = required_affinity(pod)
        return (not self._all_select(pod, terms, event.old) and self._all_select(pod, terms, event.new)) or (
            self._all_select(pod, anti, event.old) and not self._all_select(pod, anti, event.new)
        )

    def _all_select(self, owner: Pod, specs: Sequence[PodAffinityTerm], other: Pod) -> bool:
        """True if all of the terms match the other pod. False if there are no terms."""
        return bool(specs) and all(term(owner, s).selects(other, self._namespace_labels) for s in specs)


def _domains_change(pod: Pod, event: Event) -> bool:
    if event.old is None:
        # A new node's domain may have no pods that this pod's anti-affinity avoids. As upstream, the
        # anti-affinity of other pods against this pod is ignored.
        return bool(required_anti_affinity(pod)) or any(
            spec.topology_key in event.new.metadata.labels for spec in required_affinity(pod)
        )
    before, after = event.old.metadata.labels, event.new.metadata.labels
    return any(
        spec.topology_key in after and before.get(spec.topology_key) != after[spec.topology_key]
        for spec in required_affinity(pod)
    ) or any(
        spec.topology_key in before and after.get(spec.topology_key) != before[spec.topology_key]
        for spec in required_anti_affinity(pod)
    )
