"""NodeAffinity and NodeName: the nodes that the pod's spec names or selects.

Mirrors upstream's ``pkg/scheduler/framework/plugins/nodeaffinity`` and ``nodename``.
"""

from collections.abc import Hashable, Sequence

import msgspec
from dra_shared.api.pod import NodeAffinity as Affinity
from dra_shared.api.pod import Pod, PreferredSchedulingTerm
from dra_shared.nodeselector import (
    matches,
    named_nodes,
    required_affinity_matches,
    required_selector,
    term_matches,
)

from dra_scheduler.componentconfig.gojson import encode
from dra_scheduler.componentconfig.types import NodeAffinityArgs
from dra_scheduler.framework.events import Action, Interest, Kind
from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.plugin import default_normalize
from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import SKIP, Status, unresolvable
from dra_scheduler.plugins.nodehints import hint_for_acceptance


class NodeAffinity:
    """Filters by ``nodeSelector`` and required node affinity, and scores by preferred node affinity.

    ``args`` may add affinity to every pod.
    """

    name = "NodeAffinity"

    def __init__(self, args: NodeAffinityArgs | None = None) -> None:
        added = (
            msgspec.convert(encode(args.added_affinity), Affinity) if args and args.added_affinity else None
        )
        self._required = added.required_during_scheduling_ignored_during_execution if added else None
        self._preferred = added.preferred_during_scheduling_ignored_during_execution if added else ()

    def events_to_register(self) -> Sequence[Interest]:
        return (Interest(Kind.NODE, Action.ADD | Action.NODE_LABEL, hint_for_acceptance(self)),)

    def sign(self, pod: Pod) -> Hashable:
        affinity = pod.spec.affinity
        terms = b"" if affinity is None else msgspec.json.encode(affinity.node_affinity)
        return tuple(sorted(pod.spec.node_selector.items())), terms

    def pre_filter(self, state: CycleState, pod: Pod) -> tuple[frozenset[str] | None, Status | None]:
        selector = required_selector(pod.spec)
        if selector is None:
            return None, None if pod.spec.node_selector or self._required is not None else SKIP
        names = named_nodes(selector)
        if names is not None and not names:
            return None, unresolvable("pod affinity terms conflict")
        return names, None

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        assert node.node is not None
        if self._required is not None and not matches(self._required, node.node):
            return unresolvable("node(s) didn't match scheduler-enforced node affinity")
        if not required_affinity_matches(pod.spec, node.node):
            return unresolvable("node(s) didn't match Pod's node affinity/selector")
        return None

    def pre_score(self, state: CycleState, pod: Pod) -> Status | None:
        return None if self._preferred or _preferred_terms(pod) else SKIP

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        assert node.node is not None
        terms = (*self._preferred, *_preferred_terms(pod))
        return sum(term.weight for term in terms if term_matches(term.preference, node.node))

    def normalize(self, state: CycleState, pod: Pod, scores: dict[str, int]) -> dict[str, int]:
        return default_normalize(scores)


class NodeName:
    """Filters by ``spec.nodeName``, for pods that are scheduled although they have one."""

    name = "NodeName"

    def events_to_register(self) -> Sequence[Interest]:
        return (Interest(Kind.NODE, Action.ADD),)

    def sign(self, pod: Pod) -> Hashable:
        return pod.spec.node_name

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        if pod.spec.node_name and pod.spec.node_name != node.name:
            return unresolvable("node(s) didn't match the requested node name")
        return None


def _preferred_terms(pod: Pod) -> Sequence[PreferredSchedulingTerm]:
    affinity = pod.spec.affinity
    if affinity is None or affinity.node_affinity is None:
        return ()
    return affinity.node_affinity.preferred_during_scheduling_ignored_during_execution
