"""The explainer: tries a pod again with the allocator's trace on, and reports the result.

Upstream has no counterpart. Nothing is reserved or written.
"""

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
from dra_shared.api.pod import Pod
from dra_shared.api.resource import ResourceClaim
from dra_shared.clock import Clock
from dra_shared.simulation import unsimulated_programs

from dra_scheduler.allocator import TimeLimit, Trace
from dra_scheduler.dra.manager import DRAManager
from dra_scheduler.explain.claims import allocated_elsewhere, claim_report, claims_of, without_node
from dra_scheduler.explain.groups import (
    GANG_SCHEDULING,
    GroupExplainer,
    queue_state,
    waiting_for,
    waits_for_gang,
)
from dra_scheduler.explain.hint import summarize
from dra_scheduler.explain.missing import find_missing, find_repeated_claim, missing_driver, retry
from dra_scheduler.explain.nodelabels import label_shortfalls
from dra_scheduler.explain.nodes import NodeReporter
from dra_scheduler.explain.nominated import nominated_ahead, with_nominated
from dra_scheduler.explain.obstacles import find_blocking_pod, obstacles
from dra_scheduler.explain.order import distance, summary
from dra_scheduler.explain.placed import placed_report
from dra_scheduler.explain.pools import find_unpublished, with_warnings
from dra_scheduler.explain.progress import binding_waits, waits_for
from dra_scheduler.explain.reach import out_of_reach
from dra_scheduler.explain.relevance import without_foreign
from dra_scheduler.explain.report import Change, ClaimReport, ClassReport, NodeReport, PodReport
from dra_scheduler.explain.shortfalls import Shortfalls
from dra_scheduler.explain.together import GangTrials, Trial
from dra_scheduler.explain.whatif import WhatIf
from dra_scheduler.extenders.chain import Extenders
from dra_scheduler.framework.cache import Cache
from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.runtime import Framework
from dra_scheduler.framework.state import CycleState
from dra_scheduler.queue.scheduling import SchedulingQueue

_DYNAMIC_RESOURCES = "DynamicResources"
_INTER_POD_AFFINITY = "InterPodAffinity"
# The time limit of an explanation, in seconds. The scheduler schedules nothing during that time.
_TIME_LIMIT = 2.0
# The fraction of the time limit that a trial of the pod's gang may take.
_TRIAL_LIMIT = 1.0
# The number of nodes, those closest to accepting the pod, on which single changes are tried.
_CHANGE_NODES = 3
# Limits for the hint in FailedScheduling events: the number of nodes to examine, and the seconds.
_HINT_NODES = 4
_HINT_TIME = 0.02


@dataclass(slots=True)
class _Examined:
    """A node on which the pod was tried."""

    report: NodeReport
    trace: Trace
    node: NodeInfo


class Explainer:
    """Explains what the scheduler would do now, and why.

    It uses the live scheduler's own cache, queue and framework.
    """

    def __init__(
        self,
        cache: Cache,
        queue: SchedulingQueue,
        manager: DRAManager,
        frameworks: Mapping[str, Framework],
        clock: Clock,
        find_pod: Callable[[str], Pod | None],
        groups: GroupExplainer,
        trials: GangTrials,
        shortfalls: Shortfalls,
        extenders: Extenders,
        has_template: Callable[[str], bool] | None = None,
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._manager = manager
        self._reporter = NodeReporter(manager)
        self._shortfalls = shortfalls
        self._frameworks = frameworks
        self._clock = clock
        self._find_pod = find_pod
        self._groups = groups
        self._trials = trials
        self._extenders = extenders
        self._has_template = has_template

    def pod(self, namespace: str, name: str, *, most_nodes: int = 20) -> PodReport | None:
        """Explain the state of the pod, or return None if it does not exist. ``most_nodes`` limits the nodes."""
        pod = self._find_pod(f"{namespace}/{name}")
        if pod is None:
            return None
        place = pod.spec.node_name or self._cache.place_of(pod.metadata.uid) or ""
        claims = tuple(claim_report(self._manager, claim) for claim in self._claims(pod))
        if place:
            return self._report_placed(pod, place, claims)
        return self._report_pending(pod, claims, most_nodes)

    def claim(self, namespace: str, name: str, *, most_nodes: int = 20) -> PodReport | None:
        """Explain the pod that uses the claim or waits for it, or return None if the claim does not exist."""
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
        return PodReport(
            pod="",
            state=state,
            claims=(claim_report(self._manager, claim),),
            unpublished=find_unpublished(self._manager, [claim], others=False),
        )

    def device_class(self, name: str) -> ClassReport | None:
        """Report the devices that the class selects and why it selects no others, or None if it does not exist."""
        return self._shortfalls.device_class(name)

    def shortfalls(self, pod: Pod) -> str:
        """Describe briefly which requirements of the pod's selectors no device meets. Empty if there are none."""
        found = self._shortfalls.of_pod(pod, self._claims(pod))
        return f"[{'; '.join(found)}]" if found else ""

    def hint(self, pod: Pod, node_names: Iterable[str]) -> str:
        """Describe briefly why the closest node's devices were rejected. Empty if devices were not the reason."""
        state = self._begin(pod)[0]
        if state is None:
            return ""
        # Examine one of the nodes that have the same number of devices and of free devices.
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
        return summarize(min(reports, key=distance), shortfalls) if reports else ""

    def _framework(self, pod: Pod) -> Framework:
        return self._frameworks[pod.spec.scheduler_name]

    def _devices_left(self, node_name: str) -> tuple[int, int]:
        """Return the approximate number of free devices that the node can reach, and the number of all."""
        pools = self._manager.snapshot.known_pools(node_name) or ()
        devices = sum(len(pool.devices) for pool in pools)
        return devices - sum(self._manager.claims.state.held_of(pool.id) for pool in pools), devices

    # Pods

    def _report_placed(self, pod: Pod, place: str, claims: tuple[ClaimReport, ...]) -> PodReport:
        node = self._cache.node(place)
        nodes: tuple[NodeReport, ...] = ()
        own = [claim for claim in self._claims(pod) if claim.status.allocation is not None]
        if node is not None and node.node is not None and own:
            report = placed_report(self._manager, self._reporter, node.node, own, self._checker())
            [report] = without_foreign(self._manager, [report], [report])
            nodes = (with_warnings(self._manager, report),)
        state, waits = "binding", binding_waits(self._claims(pod))
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
            not_simulated=unsimulated_programs(pod.status.conditions),
            group=self._groups.report(pod),
            claims=claims,
            unpublished=find_unpublished(self._manager, self._claims(pod), others=False),
            nodes=nodes,
        )

    def _report_pending(self, pod: Pod, claims: tuple[ClaimReport, ...], most_nodes: int) -> PodReport:
        entry = self._queue.get(pod.metadata.uid)
        where = "being deleted" if pod.metadata.deletion_timestamp is not None else "not in the queue yet"
        message, attempts = "", 0
        if pod.spec.scheduler_name not in self._frameworks:
            where = f"left to scheduler {pod.spec.scheduler_name}"
        elif entry is not None:
            where, message = queue_state(self._queue, entry)
            attempts = entry.attempts
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
            change = self._missing_change(pod)
            report = msgspec.structs.replace(report, shortfalls=self._cluster_shortfalls(pod))
            if entry is None or entry.gated or not message:
                return msgspec.structs.replace(report, message=gate.message, change=change)
            # It was tried before, and no event has happened since that would cause a retry.
            change = change or Change(node="", kind="gate", text=f"until this changes: {gate.message}")
            return msgspec.structs.replace(report, change=change)
        started = self._clock.monotonic()

        def in_time(limit: float = _TIME_LIMIT) -> bool:
            return self._clock.monotonic() - started <= limit

        with self._trials.around(pod, lambda: in_time(_TRIAL_LIMIT)) as trial:
            if group is not None and trial is not None:
                group = msgspec.structs.replace(group, together=trial.report())
            report = msgspec.structs.replace(report, group=group)
            return self._try_nodes(pod, report, trial, most_nodes, in_time)

    def _try_nodes(
        self,
        pod: Pod,
        report: PodReport,
        trial: Trial | None,
        most_nodes: int,
        in_time: Callable[[], bool],
    ) -> PodReport:
        """Add the nodes to the report, after the trial has placed the other pods of the gang."""
        state, status = self._begin(pod, trial.state if trial is not None else None)
        if state is None:
            change: Change | None = self._missing_change(pod) or Change(
                node="", kind="pod", text=f"until this changes: {status}"
            )
            return msgspec.structs.replace(
                report,
                message=report.message or status,
                change=change,
                shortfalls=self._cluster_shortfalls(pod),
            )
        examined = self._examine(state, pod, trial, in_time)
        unknown = trial is not None and not trial.complete
        # A node that fits the pod, but not the rest of its gang, is closer than a node that does not fit the
        # pod.
        examined.sort(
            key=lambda each: (not waits_for_gang(each.report, unknown), distance(each.report)),
        )
        # Obstacles take long to find, so only the closest nodes get them.
        for each in examined[: max(most_nodes, _CHANGE_NODES)]:
            each.report = self._with_obstacles(each.report, state, pod, each.node)
        change = find_repeated_claim(self._manager, pod) or missing_driver(self._manager, self._claims(pod))
        if report.group is not None and any(waits_for_gang(each.report, unknown) for each in examined):
            change = change or waiting_for(report.group, trial.whole if trial is not None else "")
        change = change or self._change(pod, examined, trial)
        if change is not None and change.node:
            # A node on which a single change would make the pod fit is the closest of all.
            best = change.node
            examined.sort(key=lambda each: each.report.node != best)
        entry = self._queue.get(pod.metadata.uid)
        if change is None and entry is not None and any(each.report.fits for each in examined):
            change = retry(entry.place)
        reports = [each.report for each in examined]
        nodes = self._cache.node_objects()
        unreachable = out_of_reach(self._manager, reports, nodes) if len(examined) == len(nodes) else []
        shown = without_foreign(self._manager, reports[:most_nodes], reports)
        return msgspec.structs.replace(
            report,
            nodes=tuple(with_warnings(self._manager, each) for each in shown),
            summary=summary(reports),
            nodes_left_out=len(nodes) - len(shown),
            not_examined=len(nodes) - len(examined),
            closest=shown[0].node if shown else "",
            change=change or (None if nodes else Change(node="", kind="node", text="until there is a node")),
            shortfalls=(*self._cluster_shortfalls(pod), *unreachable),
            unpublished=find_unpublished(self._manager, self._claims(pod), others=True),
            not_asked=self._extenders.filter_names(pod),
        )

    def _cluster_shortfalls(self, pod: Pod) -> tuple[str, ...]:
        """Return the pod's requirements that neither nodes nor devices of the cluster satisfy."""
        nodes, claims = self._cache.node_objects(), self._claims(pod)
        of_nodes = (*label_shortfalls(pod, nodes), *without_node(claims, nodes))
        return (*of_nodes, *self._shortfalls.of_pod(pod, claims))

    def _examine(
        self, state: CycleState, pod: Pod, trial: Trial | None, in_time: Callable[[], bool]
    ) -> list["_Examined"]:
        """Try the pod on each node until the time is up. Nodes with the most free devices are first."""
        nodes = sorted(self._cache.nodes(), key=lambda node: self._devices_left(node.name), reverse=True)
        problem = trial.problem(pod.metadata.uid, fits=True) if trial is not None else ""
        examined: list[_Examined] = []
        for node in nodes:
            report, trace = self._node(state, pod, node)
            if report.fits and problem:
                objections = {GANG_SCHEDULING: (problem,)}
                report = msgspec.structs.replace(report, fits=False, objections=objections)
            examined.append(_Examined(report, trace, node))
            if not in_time():
                break
        return examined

    def _begin(self, pod: Pod, group: CycleState | None = None) -> tuple[CycleState | None, str]:
        """Run PreFilter. Return the cycle state, or None and the reason if PreFilter rejects the pod on all nodes."""
        state = CycleState(group)
        _, status = self._framework(pod).pre_filter(state, pod)
        return (state, "") if status is None else (None, status.message)

    def _node(self, state: CycleState, pod: Pod, node: NodeInfo) -> tuple[NodeReport, Trace]:
        state.trace = trace = Trace()
        framework = self._framework(pod)
        objections = framework.objections(framework.filters(state), state, pod, node)
        reasons = {plugin: status.reasons for plugin, status in objections.items()}
        report = self._reporter.report(node.name, not reasons, reasons, trace)
        if report.fits:
            others = nominated_ahead(self._cache, pod, node.name)
            report = with_nominated(report, framework, state, pod, node, others)
        return report, trace

    def _with_obstacles(self, report: NodeReport, state: CycleState, pod: Pod, node: NodeInfo) -> NodeReport:
        if report.saw:
            return report
        found = {
            plugin: obstacles(plugin, reasons, pod, node) for plugin, reasons in report.objections.items()
        }
        if _DYNAMIC_RESOURCES in found:
            found[_DYNAMIC_RESOURCES] = allocated_elsewhere(self._manager, pod, node)
        if _INTER_POD_AFFINITY in found:
            found[_INTER_POD_AFFINITY] = find_blocking_pod(
                self._framework(pod), self._cache.nodes(), state, pod, node, _INTER_POD_AFFINITY
            )
        saw = {plugin: tuple(obstacle.saw for obstacle in each) for plugin, each in found.items() if each}
        remedies = dict.fromkeys(obstacle.remedy for each in found.values() for obstacle in each)
        if not all(found.values()) or "" in remedies:
            remedies = {}
        return msgspec.structs.replace(report, saw=saw, remedies=tuple(remedies))

    def _change(self, pod: Pod, examined: Sequence["_Examined"], trial: Trial | None) -> Change | None:
        keep = trial.other_claims(self._manager, pod.metadata.uid) if trial is not None else ()
        what_if = WhatIf(self._manager, self._checker(), keep)
        for each in examined[:_CHANGE_NODES]:
            report, trace, node = each.report, each.trace, each.node
            plugins = set(report.objections)
            if report.fits or node.node is None:
                continue
            if plugins == {_DYNAMIC_RESOURCES} and trace.requests:
                change = what_if.single_change(node.node, trace)
                if change is not None:
                    return change
            elif report.remedies:
                return Change(node=node.name, kind="node", text=", and ".join(report.remedies))
            elif len(plugins) == 1:
                plugin, reasons = next(iter(report.objections.items()))
                text = f"if it were not for {plugin}: {', '.join(reasons)}"
                return Change(node=node.name, kind="node", text=text)
        return None

    def _missing_change(self, pod: Pod) -> Change | None:
        return find_missing(self._manager, pod, self._claims(pod), self._has_template)

    # Claims

    def _claims(self, pod: Pod) -> list[ResourceClaim]:
        return claims_of(self._manager, pod)

    def _checker(self) -> Callable[[], None]:
        deadline = self._clock.monotonic() + _TIME_LIMIT

        def check() -> None:
            if self._clock.monotonic() > deadline:
                raise TimeLimit("explaining takes too long")

        return check
