"""TaintToleration and NodeUnschedulable: nodes reject pods that do not tolerate their taints.

Mirrors upstream's ``pkg/scheduler/framework/plugins/tainttoleration`` and ``nodeunschedulable``.
"""

from collections.abc import Hashable, Sequence

from dra_shared.api.node import Taint
from dra_shared.api.pod import Pod
from dra_shared.taints import tolerates

from dra_scheduler.framework.cache import Cache
from dra_scheduler.framework.events import Action, Interest, Kind
from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.plugin import default_normalize
from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import SKIP, Status, unresolvable
from dra_scheduler.plugins.nodehints import hint_for_acceptance

_KEEPS_OUT = ("NoSchedule", "NoExecute")


def find_untolerated(pod: Pod, taints: Sequence[Taint], effects: Sequence[str] = _KEEPS_OUT) -> Taint | None:
    """Return the first taint with one of the effects that the pod does not tolerate, or None."""
    for taint in taints:
        if taint.effect in effects and not any(tolerates(t, taint) for t in pod.spec.tolerations):
            return taint
    return None


class TaintToleration:
    """Filters by NoSchedule and NoExecute taints, and prefers nodes with few PreferNoSchedule ones."""

    name = "TaintToleration"

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def events_to_register(self) -> Sequence[Interest]:
        return (
            Interest(Kind.NODE, Action.ADD | Action.NODE_TAINT, hint_for_acceptance(self)),
            Interest(Kind.TARGET_POD, Action.POD_TOLERATIONS),
        )

    def sign(self, pod: Pod) -> Hashable:
        return tuple((t.key, t.operator, t.value, t.effect) for t in pod.spec.tolerations)

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        assert node.node is not None
        if node.node.spec.taints and find_untolerated(pod, node.node.spec.taints) is not None:
            return unresolvable("node(s) had untolerated taint(s)")
        return None

    def pre_score(self, state: CycleState, pod: Pod) -> Status | None:
        return None if self._cache.soft_taints else SKIP

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        assert node.node is not None
        return sum(
            taint.effect == "PreferNoSchedule"
            and find_untolerated(pod, (taint,), ("PreferNoSchedule",)) is not None
            for taint in node.node.spec.taints
        )

    def normalize(self, state: CycleState, pod: Pod, scores: dict[str, int]) -> dict[str, int]:
        return default_normalize(scores, reverse=True)


class NodeUnschedulable:
    """Rejects cordoned nodes."""

    name = "NodeUnschedulable"
    _taint = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")

    def events_to_register(self) -> Sequence[Interest]:
        return (
            Interest(Kind.NODE, Action.ADD | Action.NODE_TAINT, hint_for_acceptance(self)),
            Interest(Kind.TARGET_POD, Action.POD_TOLERATIONS, lambda _, event: bool(self.sign(event.new))),
        )

    def sign(self, pod: Pod) -> Hashable:
        return any(tolerates(t, self._taint) for t in pod.spec.tolerations)

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        assert node.node is not None
        if node.node.spec.unschedulable and find_untolerated(pod, (self._taint,)) is not None:
            return unresolvable("node(s) were unschedulable")
        return None
