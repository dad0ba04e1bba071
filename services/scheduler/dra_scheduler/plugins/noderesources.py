"""NodeResourcesFit and NodeResourcesBalancedAllocation: CPU, memory and extended resources.

Mirrors upstream's ``pkg/scheduler/framework/plugins/noderesources``.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence

from dra_shared.api.node import Node
from dra_shared.api.pod import Pod

from dra_scheduler.componentconfig.types import (
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    ResourceSpec,
    ScoringStrategy,
)
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
    is_extended,
    pod_requests,
    scoring_requests,
)
from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import SKIP, Status, unresolvable, unschedulable
from dra_scheduler.plugins.nodehints import would_accept
from dra_scheduler.plugins.scoringstrategy import strategy

_CPU_AND_MEMORY = (ResourceSpec(CPU, 1), ResourceSpec(MEMORY, 1))

Devices = Callable[[str, Node], tuple[int, int]]
"""Returns the number of a node's devices for an extended resource that DRA provides, and how many are in use."""


def _no_devices(_resource: str, _node: Node) -> tuple[int, int]:
    return 0, 0


def shortfalls(
    needs: Mapping[str, int], node: NodeInfo, delegated: Callable[[str], bool] = lambda _: False
) -> list[tuple[str, bool]]:
    """Return the reasons why the node lacks resources, in upstream's words.

    The flag of a reason is True if even the empty node would lack the resource. ``delegated`` is true for
    resources that device classes provide, which the node itself need not have.
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
    """Filters by the remaining resources of the node, and scores nodes by the strategy of ``args``.

    ``delegated`` is true for resources that device classes provide. If the node itself has none of such a
    resource, its devices are scored, which ``devices`` counts.
    """

    name = "NodeResourcesFit"
    # Placements of pod groups are not scored here.
    upstream_points = ("placementScore",)

    def __init__(
        self,
        delegated: Callable[[str], bool] = lambda _: False,
        args: NodeResourcesFitArgs | None = None,
        devices: Devices = _no_devices,
    ) -> None:
        args = args or NodeResourcesFitArgs()
        self._devices = devices
        self._delegated = delegated
        self._ignored = frozenset(args.ignored_resources or ())
        self._ignored_groups = frozenset(args.ignored_resource_groups or ())
        settings = args.scoring_strategy or ScoringStrategy()
        self._strategy = strategy(settings)
        self._scored = tuple(settings.resources or _CPU_AND_MEMORY)

    def events_to_register(self) -> Sequence[Interest]:
        return (
            Interest(Kind.POD, Action.DELETE | Action.POD_SCALE_DOWN, _frees_some),
            Interest(Kind.TARGET_POD, Action.POD_SCALE_DOWN),
            Interest(Kind.NODE, Action.ADD | Action.NODE_ALLOCATABLE, self._may_fit),
            Interest(Kind.DEVICE_CLASS, Action.ADD | Action.UPDATE, hint=_asks_for_devices),
        )

    def _may_fit(self, pod: Pod, event: Event) -> bool:
        if not would_accept(self, pod, event.new):
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
        # Node resources of claims depend on the node. DynamicResources checks them.
        state.write(self.name, pod_requests(pod, claims=False))
        return None, None

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        needs: Amounts | None = state.read(self.name, dict)
        if needs is None:
            needs = pod_requests(pod, claims=False)
        missing: list[tuple[str, bool]] = []
        if len(node.pods) + 1 > node.pods_allowed:
            missing.append(("Too many pods", False))
        if self._ignored or self._ignored_groups:
            needs = {name: value for name, value in needs.items() if not self._ignores(name)}
        if needs:
            missing += shortfalls(needs, node, self._delegated)
        if not missing:
            return None
        reasons = (reason for reason, _ in missing)
        return unresolvable(*reasons) if any(never for _, never in missing) else unschedulable(*reasons)

    def _ignores(self, name: str) -> bool:
        return is_extended(name) and (name in self._ignored or name.partition("/")[0] in self._ignored_groups)

    def pre_score(self, state: CycleState, pod: Pod) -> Status | None:
        state.write("comparable requests", scoring_requests(pod))
        return None

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Score the node by the strategy, over those scored resources that the node has."""
        needs: Amounts = state.read("comparable requests", dict) or {}
        found = []
        for resource in self._scored:
            if not _counts(resource.name, needs):
                continue
            allocatable, used = _totals(node, resource.name, node.comparable, self._devices)
            if allocatable:
                found.append((resource.weight, used + needs.get(resource.name, 0), allocatable))
        return self._strategy(found)


def _totals(node: NodeInfo, name: str, requested: Amounts, devices: Devices) -> tuple[int, int]:
    """Return the node's amount of the resource, and the amount in use."""
    allocatable = node.allocatable.get(name, 0)
    if not allocatable and "/" in name and node.node is not None:
        return devices(name, node.node)
    return allocatable, requested.get(name, 0)


def _counts(name: str, needs: Amounts) -> bool:
    """True if the resource counts for the score. An extended one only counts for pods that request it."""
    return "/" not in name or bool(needs.get(name)) or not is_extended(name)


class NodeResourcesBalancedAllocation:
    """Prefers nodes whose resources would be used evenly: CPU and memory, unless ``args`` has others."""

    name = "NodeResourcesBalancedAllocation"

    def __init__(
        self, args: NodeResourcesBalancedAllocationArgs | None = None, devices: Devices = _no_devices
    ) -> None:
        self._devices = devices
        resources = (args.resources if args is not None else None) or _CPU_AND_MEMORY
        self._resources = tuple(resource.name for resource in resources)

    def sign(self, pod: Pod) -> Hashable:
        return ()

    def pre_score(self, state: CycleState, pod: Pod) -> Status | None:
        needs = pod_requests(pod)
        if not any(needs.get(name) for name in self._resources):
            return SKIP  # a best-effort pod does not change the balance
        state.write(self.name, needs)
        return None

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Return about 75 if the pod hardly changes the balance, more if it improves and less if it gets worse."""
        needs: Amounts = state.read(self.name, dict) or {}
        half = MAX_NODE_SCORE // 2
        # Resources that the pod does not request are left out on both sides.
        asked = [name for name in self._resources if _counts(name, needs)]
        return half + (half + self._balance(node, asked, needs) - self._balance(node, asked, {})) // 2

    def _balance(self, node: NodeInfo, names: Sequence[str], more: Amounts) -> int:
        totals = [(name, *_totals(node, name, node.requested, self._devices)) for name in names]
        return _balance([((used + more.get(name, 0)), allocatable) for name, allocatable, used in totals])


def _balance(parts: Sequence[tuple[int, int]]) -> int:
    """Return 100 if equal fractions of the resources are in use, less the more they differ."""
    fractions = [min(1.0, used / allocatable) for used, allocatable in parts if allocatable]
    deviation = 0.0
    if len(fractions) == 2:
        deviation = abs(fractions[0] - fractions[1]) / 2
    elif len(fractions) > 2:
        mean = sum(fractions) / len(fractions)
        deviation = math.sqrt(sum((part - mean) ** 2 for part in fractions) / len(fractions))
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
