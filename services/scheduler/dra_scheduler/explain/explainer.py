"""The explainer: tries a pod again with the allocator's trace on, and reports what happened.

Upstream has no counterpart. Nothing is reserved or written.
"""

import heapq
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
from dra_shared.api.pod import Pod
from dra_shared.api.resource import ResourceClaim
from dra_shared.claims import ClaimReferenceError, claim_name
from dra_shared.clock import Clock

from dra_scheduler.allocator import AllocationError, Allocator, TimeLimit, Trace
from dra_scheduler.dra.manager import DRAManager
from dra_scheduler.explain.groups import GroupExplainer, waiting_for
from dra_scheduler.explain.hint import summarize
from dra_scheduler.explain.missing import missing, missing_driver
from dra_scheduler.explain.nodes import NodeReporter, devices_of
from dra_scheduler.explain.obstacles import Obstacle, obstacles
from dra_scheduler.explain.progress import waits_for
from dra_scheduler.explain.report import (
    Change,
    ClaimReport,
    ClassReport,
    NodeReport,
    NodeSummary,
    PodReport,
)
from dra_scheduler.explain.shortfalls import Shortfalls
from dra_scheduler.explain.text import of_other_class
from dra_scheduler.explain.whatif import WhatIf
from dra_scheduler.framework.cache import Cache
from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.runtime import Framework
from dra_scheduler.framework.state import CycleState
from dra_scheduler.queue.scheduling import SchedulingQueue

_DYNAMIC_RESOURCES = "DynamicResources"
_INTER_POD_AFFINITY = "InterPodAffinity"
# How many pods are tried, one after the other, for being in the way.
_MOST_PODS = 200
# For one explanation altogether, in seconds: nothing else is scheduled meanwhile.
_TIME_LIMIT = 2.0
# For the short form: how many nodes are looked at, those with the most devices left first, and for how many seconds.
_HINT_NODES = 4
_HINT_TIME = 0.02


class Explainer:
    """Explains what the scheduler that it is given the parts of would do now, and why."""

    def __init__(
        self,
        cache: Cache,
        queue: SchedulingQueue,
        manager: DRAManager,
        frameworks: Mapping[str, Framework],
        clock: Clock,
        find_pod: Callable[[str], Pod | None],
        groups: GroupExplainer,
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._manager = manager
        self._reporter = NodeReporter(manager)
        self._shortfalls = Shortfalls(manager)
        self._frameworks = frameworks
        self._clock = clock
        self._find_pod = find_pod
        self._groups = groups

    def pod(self, namespace: str, name: str, *, most_nodes: int = 20) -> PodReport | None:
        """Why the pod is where it is; None if there is no such pod. ``most_nodes`` limits the nodes reported."""
        pod = self._find_pod(f"{namespace}/{name}")
        if pod is None:
            return None
        place = pod.spec.node_name or self._cache.place_of(pod.metadata.uid) or ""
        claims = tuple(self._claim_report(claim) for claim in self._claims(pod))
        if place:
            return self._placed(pod, place, claims)
        return self._pending(pod, claims, most_nodes)

    def claim(self, namespace: str, name: str, *, most_nodes: int = 20) -> PodReport | None:
        """As :meth:`pod`, for the pod that the claim is reserved for or waits with; None if there is no such claim."""
        claim = self._manager.claims.get(namespace, name)
        if claim is None:
            return None
        for consumer in claim.status.reserved_for:
            if consumer.resource == "pods":
                report = self.pod(namespace, consumer.name, most_nodes=most_nodes)
                if report is not None:
                    return report
        for entry in self._queue.waiting_for(claim.key):
            return self.pod(namespace, entry.pod.metadata.name, most_nodes=most_nodes)
        state = "allocated" if claim.status.allocation is not None else "unused"
        return PodReport(pod="", state=state, claims=(self._claim_report(claim),))

    def device_class(self, name: str) -> ClassReport | None:
        """What the class selects, and what keeps it from selecting anything; None if there is no such class."""
        return self._shortfalls.device_class(name)

    def shortfalls(self, pod: Pod) -> str:
        """In a few words, what the pod's selectors ask for and no device has; empty if it is nothing."""
        found = self._shortfalls.of_pod(pod, self._claims(pod))
        return f"[{'; '.join(found)}]" if found else ""

    def hint(self, pod: Pod, node_names: Iterable[str]) -> str:
        """In a few words, what of the closest node's devices turned the pod away; empty if that wasn't it."""
        state = self._begin(pod)[0]
        if state is None:
            return ""
        # Of nodes with the same number of devices, and of free ones among them, one is enough.
        sorts: dict[tuple[int, int], str] = {}
        for name in node_names:
            left = self._devices_left(name)
            sorts[left] = min(name, sorts.get(left, name))
        deadline = self._clock.monotonic() + _HINT_TIME
        reports: list[NodeReport] = []
        for left in heapq.nlargest(_HINT_NODES, sorts):
            node = self._cache.node(sorts[left])
            if node is not None:
                reports.append(self._node(state, pod, node)[0])
            if self._clock.monotonic() > deadline:
                break
        shortfalls = self._shortfalls.of_pod(pod, self._claims(pod))
        return summarize(min(reports, key=_distance), shortfalls) if reports else ""

    def _framework(self, pod: Pod) -> Framework:
        return self._frameworks[pod.spec.scheduler_name]

    def _devices_left(self, node_name: str) -> tuple[int, int]:
        """How many devices that the node can reach are free, about, and how many there are."""
        pools = self._manager.snapshot.known_pools(node_name) or ()
        devices = sum(len(pool.devices) for pool in pools)
        return devices - sum(self._manager.claims.state.held_of(pool.id) for pool in pools), devices

    # Pods

    def _placed(self, pod: Pod, place: str, claims: tuple[ClaimReport, ...]) -> PodReport:
        node = self._cache.node(place)
        nodes: tuple[NodeReport, ...] = ()
        own = [claim for claim in self._claims(pod) if claim.status.allocation is not None]
        if node is not None and node.node is not None and own:
            # What the allocator would see if the pod's claims had nothing yet.
            free = self._manager.claims.state.copy()
            for claim in own:
                free.hold(claim.key, None)
            bare = [
                msgspec.structs.replace(claim, status=msgspec.structs.replace(claim.status, allocation=None))
                for claim in own
            ]
            trace = Trace()
            allocator = Allocator(
                self._manager.features, free, self._manager.classes.get, self._manager.snapshot
            )
            try:
                allocator.allocate(node.node, bare, check=self._checker(), trace=trace)
            except AllocationError:
                trace.results = None
            devices = tuple(device for report in claims for device in report.devices)
            report = self._reporter.report(place, True, {}, trace)
            nodes = (msgspec.structs.replace(report, allocated=devices),)
        state, waits = "binding", tuple[str, ...]()
        if not self._cache.is_assumed(pod.metadata.uid):
            state, waits = "placed", waits_for(pod, node.node if node is not None else None)
        if pod.metadata.deletion_timestamp is not None:
            state += ", being deleted"
        return PodReport(
            pod=pod.key,
            state=state,
            node=place,
            phase=pod.status.phase,
            waits_for=waits,
            group=self._groups.report(pod),
            claims=claims,
            nodes=nodes,
        )

    def _pending(self, pod: Pod, claims: tuple[ClaimReport, ...], most_nodes: int) -> PodReport:
        entry = self._queue.get(pod.metadata.uid)
        where = "being deleted" if pod.metadata.deletion_timestamp is not None else "not in the queue yet"
        message, attempts = "", 0
        if pod.spec.scheduler_name not in self._frameworks:
            where = f"left to scheduler {pod.spec.scheduler_name}"
        elif entry is not None:
            where = "gated" if entry.gated else entry.place.value
            message, attempts = entry.message, entry.attempts
        group = self._groups.report(pod)
        report = PodReport(
            pod=pod.key,
            state=f"pending: {where}",
            message=message,
            attempts=attempts,
            group=group,
            claims=claims,
        )
        if pod.spec.scheduler_name not in self._frameworks:
            own = " or ".join(self._frameworks)
            text = f"until a scheduler places it whose name is {pod.spec.scheduler_name}, not {own}"
            return msgspec.structs.replace(report, change=Change(node="", kind="schedulerName", text=text))
        gate = self._framework(pod).pre_enqueue(pod)
        if gate is not None:
            change = self._missing(pod)
            if entry is None or entry.gated or not message:
                return msgspec.structs.replace(report, message=gate.message, change=change)
            # It was tried before, and nothing has happened since that would have it tried again.
            change = change or Change(node="", kind="gate", text=f"until this changes: {gate.message}")
            return msgspec.structs.replace(report, change=change)
        state, status = self._begin(pod)
        if state is None:
            change = self._missing(pod) or Change(node="", kind="pod", text=f"until this changes: {status}")
            return msgspec.structs.replace(report, message=message or status, change=change)
        started = self._clock.monotonic()
        examined: list[tuple[NodeReport, Trace, NodeInfo]] = []
        for node in self._cache.nodes():
            bare, trace = self._node(state, pod, node)
            examined.append((self._with_obstacles(bare, state, pod, node), trace, node))
            if self._clock.monotonic() - started > _TIME_LIMIT:
                break
        examined.sort(key=lambda entry: _distance(entry[0]))
        change = missing_driver(self._manager, self._claims(pod)) or self._change(pod, examined)
        if change is not None and change.node:
            # No node is closer than one that a single change would do for.
            best = change.node
            examined.sort(key=lambda entry: entry[0].node != best)
        if group is not None and any(entry[0].fits for entry in examined):
            change = waiting_for(group)
        shown = tuple(entry[0] for entry in examined[:most_nodes])
        return msgspec.structs.replace(
            report,
            nodes=shown,
            summary=_summary(entry[0] for entry in examined),
            nodes_left_out=len(self._cache.nodes()) - len(shown),
            closest=shown[0].node if shown else "",
            change=change,
            shortfalls=self._shortfalls.of_pod(pod, self._claims(pod)),
        )

    def _begin(self, pod: Pod) -> tuple[CycleState | None, str]:
        """What to try the pod on nodes with; None, and why, if no node is in question."""
        state = CycleState()
        _, status = self._framework(pod).pre_filter(state, pod)
        return (state, "") if status is None else (None, status.message)

    def _node(self, state: CycleState, pod: Pod, node: NodeInfo) -> tuple[NodeReport, Trace]:
        state.trace = trace = Trace()
        framework = self._framework(pod)
        objections = framework.objections(framework.filters(state), state, pod, node)
        reasons = {plugin: status.reasons for plugin, status in objections.items()}
        return self._reporter.report(node.name, not objections, reasons, trace), trace

    def _with_obstacles(self, report: NodeReport, state: CycleState, pod: Pod, node: NodeInfo) -> NodeReport:
        found = {
            plugin: obstacles(plugin, reasons, pod, node) for plugin, reasons in report.objections.items()
        }
        if _INTER_POD_AFFINITY in found:
            found[_INTER_POD_AFFINITY] = self._in_the_way(state, pod, node, _INTER_POD_AFFINITY)
        saw = {plugin: tuple(obstacle.saw for obstacle in each) for plugin, each in found.items() if each}
        remedies = dict.fromkeys(obstacle.remedy for each in found.values() for obstacle in each)
        if not all(found.values()) or "" in remedies:
            remedies = {}
        return msgspec.structs.replace(report, saw=saw, remedies=tuple(remedies))

    def _change(self, pod: Pod, examined: Sequence[tuple[NodeReport, Trace, NodeInfo]]) -> Change | None:
        claims = [c for c in self._claims(pod) if c.status.allocation is None and c.spec.devices.requests]
        what_if = WhatIf(self._manager, self._checker())
        for report, trace, node in examined[:3]:
            plugins = set(report.objections)
            if report.fits or node.node is None:
                continue
            if plugins == {_DYNAMIC_RESOURCES} and trace.requests:
                change = what_if.single_change(node.node, claims, trace)
                if change is not None:
                    return change
            elif report.remedies:
                return Change(node=node.name, kind="node", text=", and ".join(report.remedies))
            elif len(plugins) == 1:
                plugin, reasons = next(iter(report.objections.items()))
                text = f"if it were not for {plugin}: {', '.join(reasons)}"
                return Change(node=node.name, kind="node", text=text)
        return None

    def _missing(self, pod: Pod) -> Change | None:
        return missing(self._manager, pod, self._claims(pod))

    def _in_the_way(self, state: CycleState, pod: Pod, node: NodeInfo, plugin: str) -> list[Obstacle]:
        """The pod, of those tried, without which the plugin would not object to the node."""
        framework = self._framework(pod)
        judges = [each for each in framework.filters(state) if each.name == plugin]
        others = ((other, info) for info in self._cache.nodes() for other in list(info.pods.values()))
        for other, info in itertools.islice(others, _MOST_PODS):
            without, there = node.copy(), info.copy()
            place = without if info is node else there
            framework.remove_pod(state, pod, other, place)
            try:
                gone = not framework.objections(judges, state, pod, without)
            finally:
                framework.add_pod(state, pod, other, place)
            if gone:
                return [
                    Obstacle(
                        f"because of pod {other.key} on node {info.name}", f"if pod {other.key} were gone"
                    )
                ]
        return []

    # Claims

    def _claims(self, pod: Pod) -> list[ResourceClaim]:
        found = []
        for entry in pod.spec.resource_claims:
            try:
                name, _ = claim_name(pod, entry)
            except ClaimReferenceError:
                continue
            claim = None if name is None else self._manager.claims.get(pod.metadata.namespace, name)
            if claim is not None:
                found.append(claim)
        extended = self._manager.claims.for_extended_resources(pod.metadata.uid)
        return [*found, extended] if extended is not None else found

    def _claim_report(self, claim: ResourceClaim) -> ClaimReport:
        pending = self._manager.claims.pending_allocation(claim.metadata.uid)
        return ClaimReport(
            claim=claim.key,
            devices=devices_of(claim.status.allocation or pending),
            reserved_for=tuple(f"{ref.resource}/{ref.name}" for ref in claim.status.reserved_for),
            in_flight=pending is not None,
        )

    def _checker(self) -> Callable[[], None]:
        deadline = self._clock.monotonic() + _TIME_LIMIT

        def check() -> None:
            if self._clock.monotonic() > deadline:
                raise TimeLimit("explaining takes too long")

        return check


def _distance(report: NodeReport) -> tuple[int | str, ...]:
    """How far the node is from taking the pod.

    By objections, then devices of the right class that are missing, then such that are there but won't do; a pool that
    waits for slices may yet have some, and devices that no claim holds are closer than others.
    """
    if not report.requests:
        return len(report.objections), 1 << 30, 0, 0, 0, report.node
    usable = sum(pool.devices for pool in report.pools if not pool.problem)
    foreign, short, idle = 0, 0, 0
    for request in report.requests:
        wanted = max(1, request.count)
        of_class = [device for device in request.devices if not of_other_class(device)]
        there = usable - len(request.devices) + len(of_class) if request.devices else request.suitable
        foreign += max(0, wanted - there)
        short += max(0, wanted - request.suitable)
        idle += sum(all(part.kind != "inUse" for part in device.details) for device in of_class)
    problems = sum(bool(pool.problem) for pool in report.pools)
    return len(report.objections), foreign, short, -problems, -idle, report.node


def _summary(reports: Iterable[NodeReport]) -> tuple[NodeSummary, ...]:
    """Nodes by their objections, the most common first."""
    found: dict[tuple[str, ...], list[str]] = {}
    for report in reports:
        objections = tuple(f"{plugin}: {', '.join(why)}" for plugin, why in report.objections.items())
        found.setdefault(objections, []).append(report.node)
    return tuple(
        NodeSummary(count=len(nodes), objections=objections, nodes=tuple(sorted(nodes)))
        for objections, nodes in sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
    )
