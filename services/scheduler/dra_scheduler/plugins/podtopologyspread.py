"""PodTopologySpread: spreads pods over zones, hosts or other node labels.

Mirrors upstream's ``pkg/scheduler/framework/plugins/podtopologyspread``.
"""

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
from dra_shared.api.node import Node
from dra_shared.api.pod import Pod, TopologySpreadConstraint
from dra_shared.nodeselector import required_affinity_matches
from dra_shared.selectors import LabelSelector, label_selector

from dra_scheduler.componentconfig.gojson import encode
from dra_scheduler.componentconfig.types import PodTopologySpreadArgs
from dra_scheduler.framework.cache import Cache
from dra_scheduler.framework.events import Action, Event, Interest, Kind
from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.plugin import MAX_NODE_SCORE
from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import SKIP, Status, unresolvable, unschedulable
from dra_scheduler.plugins.podselection import with_label_keys
from dra_scheduler.plugins.siblings import Siblings
from dra_scheduler.plugins.tainttoleration import find_untolerated

_HOSTNAME = "kubernetes.io/hostname"
# Constraints for pods without their own, among the pods of their services and controllers.
_SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(topology_key=_HOSTNAME, max_skew=3, when_unsatisfiable="ScheduleAnyway"),
    TopologySpreadConstraint(
        topology_key="topology.kubernetes.io/zone", max_skew=5, when_unsatisfiable="ScheduleAnyway"
    ),
)
_MISMATCH = "node(s) didn't match pod topology spread constraints"


@dataclass(slots=True)
class _Spread:
    """A constraint, and the number of pods that it counts in each eligible domain."""

    spec: TopologySpreadConstraint
    selector: LabelSelector
    counts: Counter[str] = field(default_factory=Counter)
    domains: set[str] = field(default_factory=set)
    # The weight of one pod in scoring.
    weight: float = 0.0

    def least(self) -> int:
        """Return the smallest number of pods in any domain, or 0 if there are fewer than ``minDomains`` domains."""
        if len(self.domains) < (self.spec.min_domains or 1):
            return 0
        return min((self.counts[domain] for domain in self.domains), default=0)

    def concerns(self, pod: Pod, other: Pod) -> bool:
        """True if ``other`` is counted for ``pod``."""
        return (
            other.metadata.namespace == pod.metadata.namespace
            and other.metadata.deletion_timestamp is None
            and self.selector.matches(other.metadata.labels)
        )

    def count_matching(self, pod: Pod, node: NodeInfo) -> int:
        """Return the number of the node's pods that are counted for ``pod``."""
        return sum(self.concerns(pod, other) for other in node.pods.values())

    def weigh(self, pod: Pod, node: NodeInfo) -> float:
        """Return the raw score of the node. Higher is worse."""
        key = self.spec.topology_key
        domain = _labels(node).get(key)
        if domain is None:
            return 0.0
        count = self.count_matching(pod, node) if key == _HOSTNAME else self.counts[domain]
        return count * self.weight + (self.spec.max_skew - 1)


class PodTopologySpread:
    """Filters by required constraints and scores by soft ones.

    A pod without constraints has those of ``args``, or else the system's, among the pods of its services and
    controller.
    """

    name = "PodTopologySpread"

    def __init__(
        self,
        cache: Cache,
        siblings: Siblings = lambda pod: None,
        args: PodTopologySpreadArgs | None = None,
    ) -> None:
        self._cache = cache
        self._siblings = siblings
        self._system = args is None or args.defaulting_type != "List"
        self._defaults: Sequence[TopologySpreadConstraint] = _SYSTEM_DEFAULTS
        if args is not None and not self._system:
            self._defaults = msgspec.convert(
                encode(args.default_constraints or []), list[TopologySpreadConstraint]
            )

    def events_to_register(self) -> Sequence[Interest]:
        return (
            Interest(Kind.POD, Action.ADD | Action.DELETE | Action.POD_LABEL, self._may_matter),
            Interest(
                Kind.NODE,
                Action.ADD | Action.DELETE | Action.NODE_LABEL | Action.NODE_TAINT,
                self._domains_change,
            ),
            Interest(Kind.TARGET_POD, Action.POD_LABEL | Action.POD_TOLERATIONS, self._changes_itself),
        )

    def sign(self, pod: Pod) -> Hashable | None:
        if pod.spec.topology_spread_constraints or self._new_spreads(pod, "DoNotSchedule"):
            return None
        return self._siblings(pod) is not None

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
        """Count ``other`` as added to the node (``change`` 1) or removed from it (-1)."""
        spreads: list[_Spread] = state.read(self.name, list) or []
        assert node.node is not None
        labels = node.node.metadata.labels
        if not all(spread.spec.topology_key in labels for spread in spreads):
            return
        for spread in spreads:
            if _in_play(pod, node.node, spread.spec) and spread.concerns(pod, other):
                spread.counts[labels[spread.spec.topology_key]] += change

    def pre_score(self, state: CycleState, pod: Pod) -> Status | None:
        wishes = self._new_spreads(pod, "ScheduleAnyway")
        if not wishes:
            return SKIP
        state.write("soft spreads", wishes)
        return None

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Return 0. The scores are computed in normalize, because they depend on the set of feasible nodes."""
        return 0

    def normalize(self, state: CycleState, pod: Pod, scores: dict[str, int]) -> dict[str, int]:
        """Score the nodes: more matching pods in a node's domains, weighted by the number of domains, are worse."""
        wishes: list[_Spread] = state.read("soft spreads", list) or []
        candidates = [node for name in scores if (node := self._cache.node(name)) is not None]
        # System default constraints apply to a node only for labels that it has.
        strict = bool(pod.spec.topology_spread_constraints) or not self._system
        qualified = [n for n in candidates if not strict or _has_labels(n, wishes)]
        counted = [node for node in self._cache.nodes() if not strict or _has_labels(node, wishes)]
        for wish in wishes:
            _count_domains(pod, wish, counted, qualified)
        raw = {node.name: round(sum(wish.weigh(pod, node) for wish in wishes)) for node in qualified}
        lowest, highest = min(raw.values(), default=0), max(raw.values(), default=0)
        if highest == 0:
            return {name: MAX_NODE_SCORE if name in raw else 0 for name in scores}
        return {
            name: MAX_NODE_SCORE * (highest + lowest - raw[name]) // highest if name in raw else 0
            for name in scores
        }

    def _new_spreads(self, pod: Pod, when: str) -> list[_Spread]:
        """Return the pod's constraints of that kind, its own or the default ones, without counts."""
        if not pod.spec.topology_spread_constraints:
            defaults = [spec for spec in self._defaults if spec.when_unsatisfiable == when]
            selector = self._siblings(pod) if defaults else None
            return [] if selector is None else [_Spread(spec, selector) for spec in defaults]
        return [
            _Spread(
                spec,
                label_selector(
                    with_label_keys(spec.label_selector, pod.metadata.labels, spec.match_label_keys)
                ),
            )
            for spec in pod.spec.topology_spread_constraints
            if spec.when_unsatisfiable == when
        ]

    def _spreads(self, pod: Pod, when: str) -> list[_Spread]:
        spreads = self._new_spreads(pod, when)
        keys = [spread.spec.topology_key for spread in spreads]
        if not spreads:
            return []
        for node in self._cache.nodes():
            assert node.node is not None
            labels = node.node.metadata.labels
            if not all(key in labels for key in keys):
                continue
            for spread in spreads:
                if _in_play(pod, node.node, spread.spec):
                    domain = labels[spread.spec.topology_key]
                    spread.domains.add(domain)
                    spread.counts[domain] += spread.count_matching(pod, node)
        return spreads

    # Queueing hints

    def _may_matter(self, pod: Pod, event: Event) -> bool:
        others = [other for other in (event.old, event.new) if other is not None]
        if any(other.metadata.namespace != pod.metadata.namespace for other in others):
            return False
        hard = self._new_spreads(pod, "DoNotSchedule")
        counts = [[spread.selector.matches(other.metadata.labels) for spread in hard] for other in others]
        return counts[0] != counts[1] if len(others) == 2 else any(counts[0])

    def _changes_itself(self, pod: Pod, event: Event) -> bool:
        hard = self._new_spreads(pod, "DoNotSchedule")
        honors = any(spread.spec.node_taints_policy == "Honor" for spread in hard)
        if honors and event.old.spec.tolerations != event.new.spec.tolerations:
            return True
        before, after = event.old.metadata.labels, event.new.metadata.labels
        return any(spread.selector.matches(before) != spread.selector.matches(after) for spread in hard)

    def _domains_change(self, pod: Pod, event: Event) -> bool:
        keys = [spread.spec.topology_key for spread in self._new_spreads(pod, "DoNotSchedule")]
        labels = [node.metadata.labels for node in (event.old, event.new) if node is not None]
        counts = [all(key in of_node for key in keys) for of_node in labels]
        if len(labels) == 1 or counts[0] != counts[1]:
            return any(counts)
        return counts[0] and (
            any(labels[0][key] != labels[1][key] for key in keys)
            or event.old.spec.taints != event.new.spec.taints
        )


def _count_domains(
    pod: Pod, wish: _Spread, counted: Sequence[NodeInfo], qualified: Sequence[NodeInfo]
) -> None:
    key = wish.spec.topology_key
    if key == _HOSTNAME:
        wish.weight = math.log(len(qualified) + 2)
        return
    wish.domains = {_labels(node).get(key, "") for node in qualified}
    wish.weight = math.log(len(wish.domains) + 2)
    for node in counted:
        assert node.node is not None
        domain = _labels(node).get(key, "")
        if domain in wish.domains and _in_play(pod, node.node, wish.spec):
            wish.counts[domain] += wish.count_matching(pod, node)


def _labels(node: NodeInfo) -> Mapping[str, str]:
    assert node.node is not None
    return node.node.metadata.labels


def _has_labels(node: NodeInfo, spreads: Sequence[_Spread]) -> bool:
    return all(spread.spec.topology_key in _labels(node) for spread in spreads)


def _in_play(pod: Pod, node: Node, spec: TopologySpreadConstraint) -> bool:
    if spec.node_affinity_policy != "Ignore" and not required_affinity_matches(pod.spec, node):
        return False
    return spec.node_taints_policy != "Honor" or find_untolerated(pod, node.spec.taints) is None
