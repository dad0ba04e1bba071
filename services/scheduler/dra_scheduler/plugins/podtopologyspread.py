"""PodTopologySpread: pods spread evenly over zones, hosts or whatever else nodes are labelled with."""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from dra_shared.api.node import Node
from dra_shared.api.pod import Pod, TopologySpreadConstraint
from dra_shared.selectors import LabelSelector, label_selector

from dra_scheduler.framework.cache import Cache
from dra_scheduler.framework.events import Action, Event, Interest, Kind
from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.nodeselector import required_affinity_matches
from dra_scheduler.framework.plugin import MAX_NODE_SCORE
from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import SKIP, Status, unresolvable, unschedulable
from dra_scheduler.plugins.podselection import with_label_keys
from dra_scheduler.plugins.tainttoleration import untolerated

_MISMATCH = "node(s) didn't match pod topology spread constraints"


@dataclass(slots=True)
class _Spread:
    """One constraint, and how many pods it counts in each domain that is in play."""

    spec: TopologySpreadConstraint
    selector: LabelSelector
    counts: Counter[str] = field(default_factory=Counter)
    domains: set[str] = field(default_factory=set)

    def least(self) -> int:
        """The fewest pods that any domain has; 0 while there are fewer domains than there should be."""
        if len(self.domains) < (self.spec.min_domains or 1):
            return 0
        return min((self.counts[domain] for domain in self.domains), default=0)

    def concerns(self, pod: Pod, other: Pod) -> bool:
        """Whether ``other`` counts for ``pod``."""
        return (
            other.metadata.namespace == pod.metadata.namespace
            and other.metadata.deletion_timestamp is None
            and self.selector.matches(other.metadata.labels)
        )


class PodTopologySpread:
    """Filters by constraints that must hold, and scores by those that should."""

    name = "PodTopologySpread"

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def events_to_register(self) -> Sequence[Interest]:
        return (
            Interest(Kind.POD, Action.ADD | Action.DELETE | Action.POD_LABEL, _may_matter),
            Interest(Kind.NODE, Action.ADD | Action.DELETE | Action.NODE_LABEL | Action.NODE_TAINT),
            Interest(Kind.TARGET_POD, Action.POD_LABEL | Action.POD_TOLERATIONS),
        )

    def sign(self, pod: Pod) -> Hashable | None:
        return None if pod.spec.topology_spread_constraints else ()

    def pre_filter(self, state: CycleState, pod: Pod) -> tuple[frozenset[str] | None, Status | None]:
        spreads = self._spreads(pod, "DoNotSchedule")
        if not spreads:
            return None, SKIP
        state.write(self.name, spreads)
        return None, None

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        spreads: list[_Spread] = state.read(self.name, list) or []
        assert node.node is not None
        for spread in spreads:
            domain = node.node.metadata.labels.get(spread.spec.topology_key)
            if domain is None:
                return unresolvable(f"{_MISMATCH} (missing required label)")
            itself = int(spread.selector.matches(pod.metadata.labels))
            if spread.counts[domain] + itself - spread.least() > spread.spec.max_skew:
                return unschedulable(_MISMATCH)
        return None

    def count(self, state: CycleState, pod: Pod, other: Pod, node: NodeInfo, change: int) -> None:
        """``other`` comes to the node (``change`` 1) or leaves it (-1)."""
        spreads: list[_Spread] = state.read(self.name, list) or []
        assert node.node is not None
        labels = node.node.metadata.labels
        if not all(spread.spec.topology_key in labels for spread in spreads):
            return
        for spread in spreads:
            if _in_play(pod, node.node, spread.spec) and spread.concerns(pod, other):
                spread.counts[labels[spread.spec.topology_key]] += change

    def pre_score(self, state: CycleState, pod: Pod) -> Status | None:
        spreads = self._spreads(pod, "ScheduleAnyway")
        if not spreads:
            return SKIP
        state.write("soft spreads", spreads)
        return None

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """More pods already in the node's domains, weighted by how few domains there are, is worse."""
        assert node.node is not None
        spreads: list[_Spread] = state.read("soft spreads", list) or []
        total = 0.0
        for spread in spreads:
            domain = node.node.metadata.labels.get(spread.spec.topology_key)
            if domain is not None:
                weight = math.log(len(spread.domains) + 2)
                total += spread.counts[domain] * weight + (spread.spec.max_skew - 1)
        return round(total)

    def normalize(self, state: CycleState, pod: Pod, scores: dict[str, int]) -> dict[str, int]:
        lowest, highest = min(scores.values()), max(scores.values())
        if highest == 0:
            return dict.fromkeys(scores, MAX_NODE_SCORE)
        return {
            name: MAX_NODE_SCORE * (highest + lowest - score) // highest for name, score in scores.items()
        }

    def _spreads(self, pod: Pod, when: str) -> list[_Spread]:
        specs = [s for s in pod.spec.topology_spread_constraints if s.when_unsatisfiable == when]
        if not specs:
            return []
        keys = [spec.topology_key for spec in specs]
        spreads = []
        for spec in specs:
            selector = with_label_keys(spec.label_selector, pod.metadata.labels, spec.match_label_keys)
            spreads.append(_Spread(spec, label_selector(selector)))
        for node in self._cache.nodes():
            assert node.node is not None
            labels = node.node.metadata.labels
            if not all(key in labels for key in keys):
                continue
            for spread in spreads:
                if _in_play(pod, node.node, spread.spec):
                    domain = labels[spread.spec.topology_key]
                    spread.domains.add(domain)
                    spread.counts[domain] += sum(spread.concerns(pod, o) for o in node.pods.values())
        return spreads


def _in_play(pod: Pod, node: Node, spec: TopologySpreadConstraint) -> bool:
    if spec.node_affinity_policy != "Ignore" and not required_affinity_matches(pod, node):
        return False
    return spec.node_taints_policy != "Honor" or untolerated(pod, node.spec.taints) is None


def _may_matter(pod: Pod, event: Event) -> bool:
    others = [other for other in (event.old, event.new) if other is not None]
    return any(
        other.metadata.namespace == pod.metadata.namespace
        and label_selector(spec.label_selector).matches(other.metadata.labels)
        for spec in pod.spec.topology_spread_constraints
        for other in others
    )
