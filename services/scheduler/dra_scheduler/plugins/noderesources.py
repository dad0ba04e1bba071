"""NodeResourcesFit and NodeResourcesBalancedAllocation: CPU, memory and extended resources.

Mirrors upstream's ``pkg/scheduler/framework/plugins/noderesources``.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence

from dra_shared.api.pod import Pod

from dra_scheduler.framework.events import Action, Event, Interest, Kind
from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.plugin import MAX_NODE_SCORE
from dra_scheduler.framework.resize import as_resized
from dra_scheduler.framework.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    Amounts,
    amounts,
    pod_requests,
    scoring_requests,
)
from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import SKIP, Status, unresolvable, unschedulable
from dra_scheduler.plugins.nodehints import would_do

_SCORED = (CPU, MEMORY)


def shortfalls(
    needs: Mapping[str, int], node: NodeInfo, delegated: Callable[[str], bool] = lambda _: False
) -> list[tuple[str, bool]]:
    """What the node lacks for the needs, in upstream's words, each with whether even the empty node would.

    ``delegated`` says which resources the node itself need not have, because device classes provide them.
    """
    missing: list[tuple[str, bool]] = []
    names = [name for name in (CPU, MEMORY, EPHEMERAL_STORAGE) if name in needs]
    names += sorted(name for name in needs if name not in (CPU, MEMORY, EPHEMERAL_STORAGE))
    for name in names:
        value = needs[name]
        if value <= 0:
            continue
        allocatable = node.allocatable.get(name, 0)
        if allocatable == 0 and delegated(name):
            continue
        if value > allocatable - node.requested.get(name, 0):
            missing.append((f"Insufficient {name}", value > allocatable))
    return missing


class NodeResourcesFit:
    """Filters by what is left of the node's resources, and prefers the node with the most left.

    ``delegated`` says whether a resource is one that device classes stand for.
    """

    name = "NodeResourcesFit"

    def __init__(self, delegated: Callable[[str], bool] = lambda _: False) -> None:
        self._delegated = delegated

    def events_to_register(self) -> Sequence[Interest]:
        return (
            Interest(Kind.POD, Action.DELETE | Action.POD_SCALE_DOWN, _frees_some),
            Interest(Kind.TARGET_POD, Action.POD_SCALE_DOWN),
            Interest(Kind.NODE, Action.ADD | Action.NODE_ALLOCATABLE, self._may_fit),
            Interest(Kind.DEVICE_CLASS, Action.ADD | Action.UPDATE, hint=_asks_for_devices),
        )

    def _may_fit(self, pod: Pod, event: Event) -> bool:
        if not would_do(self, pod, event.new):
            return False
        if event.old is None:
            return True
        before, after = amounts(event.old.status.allocatable), amounts(event.new.status.allocatable)
        needs = [name for name, value in pod_requests(pod).items() if value]
        return any(after.get(name, 0) > before.get(name, 0) for name in (PODS, *needs)) or any(
            self._delegated(name) and not after.get(name) for name in needs
        )

    def sign(self, pod: Pod) -> Hashable:
        return tuple(sorted(pod_requests(pod).items())), tuple(sorted(scoring_requests(pod).items()))

    def pre_filter(self, state: CycleState, pod: Pod) -> tuple[frozenset[str] | None, Status | None]:
        # What claims take from the node depends on the node; DynamicResources checks that.
        state.write(self.name, pod_requests(pod, claims=False))
        return None, None

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        needs: Amounts | None = state.read(self.name, dict)
        if needs is None:
            needs = pod_requests(pod, claims=False)
        missing: list[tuple[str, bool]] = []
        if len(node.pods) + 1 > node.pods_allowed:
            missing.append(("Too many pods", False))
        if needs:
            missing += shortfalls(needs, node, self._delegated)
        if not missing:
            return None
        reasons = (reason for reason, _ in missing)
        return unresolvable(*reasons) if any(never for _, never in missing) else unschedulable(*reasons)

    def pre_score(self, state: CycleState, pod: Pod) -> Status | None:
        state.write("comparable requests", scoring_requests(pod))
        return None

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """The mean over CPU and memory of the share that stays free (LeastAllocated)."""
        needs: Amounts = state.read("comparable requests", dict) or {}
        total = weights = 0
        for name in _SCORED:
            allocatable = node.allocatable.get(name, 0)
            if allocatable == 0:
                continue
            weights += 1
            wanted = node.comparable.get(name, 0) + needs.get(name, 0)
            if wanted <= allocatable:
                total += (allocatable - wanted) * MAX_NODE_SCORE // allocatable
        return total // weights if weights else 0


class NodeResourcesBalancedAllocation:
    """Prefers nodes where CPU and memory would be used up evenly."""

    name = "NodeResourcesBalancedAllocation"

    def sign(self, pod: Pod) -> Hashable:
        return ()

    def pre_score(self, state: CycleState, pod: Pod) -> Status | None:
        needs = pod_requests(pod)
        if not any(needs.get(name) for name in _SCORED):
            return SKIP  # a best-effort pod doesn't change the balance
        state.write(self.name, needs)
        return None

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Around 75 where the pod changes little, more where the balance gets better and less where it gets worse."""
        needs: Amounts = state.read(self.name, dict) or {}
        half = MAX_NODE_SCORE // 2
        return half + (half + _balance(node, needs) - _balance(node, {})) // 2


def _balance(node: NodeInfo, more: Amounts) -> int:
    """100 where CPU and memory are used in equal parts, with ``more`` in use than is now; 50 in the worst case."""
    fractions = []
    for name in _SCORED:
        allocatable = node.allocatable.get(name, 0)
        if allocatable:
            fractions.append(min(1.0, (node.requested.get(name, 0) + more.get(name, 0)) / allocatable))
    deviation = abs(fractions[0] - fractions[1]) / 2 if len(fractions) == 2 else 0.0
    return int((1 - deviation) * MAX_NODE_SCORE)


def _frees_some(pod: Pod, event: Event) -> bool:
    if event.new is None:
        return True
    before, after = pod_requests(as_resized(event.old)), pod_requests(as_resized(event.new))
    return any(before.get(name, 0) > after.get(name, 0) for name, value in pod_requests(pod).items() if value)


def _asks_for_devices(pod: Pod, event: Event) -> bool:
    names = {event.new.spec.extended_resource_name}
    if event.old is None:
        names.add(f"deviceclass.resource.kubernetes.io/{event.new.metadata.name}")
    elif event.old.spec.extended_resource_name == event.new.spec.extended_resource_name:
        return False
    return any(name in names for name in pod_requests(pod))
