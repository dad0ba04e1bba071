"""Explanations of pods and claims, made by trying again with the allocator's trace on."""

from collections.abc import Callable, Iterable, Sequence

import msgspec
from dra_shared.api.pod import Pod
from dra_shared.api.resource import AllocationResult, ResourceClaim
from dra_shared.claims import ClaimReferenceError, claim_name
from dra_shared.clock import Clock

from dra_scheduler.allocator import AllocationError, Allocator, DeviceID, TimeLimit, Trace
from dra_scheduler.allocator.reasons import CapacityShort, DeadEnd, InUse, Picked, Reason
from dra_scheduler.allocator.trace import RequestTrace
from dra_scheduler.explain.details import detail
from dra_scheduler.explain.groups import GroupExplainer, waiting_for
from dra_scheduler.explain.report import (
    Change,
    ClaimReport,
    DeviceReport,
    NodeReport,
    NodeSummary,
    PodReport,
    PoolReport,
    ReasonReport,
    RequestReport,
)
from dra_scheduler.explain.text import gists, of_other_class, values_of
from dra_scheduler.explain.whatif import WhatIf, claim_key
from dra_scheduler.framework.cache import Cache
from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.runtime import Framework
from dra_scheduler.framework.state import CycleState
from dra_scheduler.plugins.dynamicresources.manager import DRAManager
from dra_scheduler.plugins.dynamicresources.memory import AttemptMemory
from dra_scheduler.queue.scheduling import SchedulingQueue

_DYNAMIC_RESOURCES = "DynamicResources"
# For one explanation altogether, in seconds: nothing else is scheduled meanwhile.
_TIME_LIMIT = 2.0
# How many reasons of a request, and how many altogether, a short explanation gives; and their length.
_HINT_GROUPS = 2
_HINT_PARTS = 3
_HINT_LENGTH = 120


class Explainer:
    """Explains what the scheduler that it is given the parts of would do now, and why."""

    def __init__(
        self,
        cache: Cache,
        queue: SchedulingQueue,
        manager: DRAManager,
        framework: Framework,
        clock: Clock,
        find_pod: Callable[[str], Pod | None],
        groups: GroupExplainer,
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._manager = manager
        self._framework = framework
        self._clock = clock
        self._find_pod = find_pod
        self._groups = groups

    def pod(self, namespace: str, name: str, *, most_nodes: int = 20) -> PodReport | None:
        """Why the pod is where it is; None if there is no such pod. ``most_nodes`` are told of, the closest first."""
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

    def hint(self, pod: Pod, node_name: str) -> str:
        """In a few words, what of the node's devices turned the pod away; empty if that wasn't it."""
        node = self._cache.node(node_name)
        if node is None:
            return ""
        state = self._begin(pod)
        if state is None:
            return ""
        report, _ = self._node(state, pod, node)
        return summarize(report)

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
            report = self._node_report(place, True, {}, trace)
            nodes = (msgspec.structs.replace(report, allocated=devices),)
        state = "binding" if self._cache.is_assumed(pod.metadata.uid) else "placed"
        group = self._groups.report(pod)
        return PodReport(pod=pod.key, state=state, node=place, group=group, claims=claims, nodes=nodes)

    def _pending(self, pod: Pod, claims: tuple[ClaimReport, ...], most_nodes: int) -> PodReport:
        entry = self._queue.get(pod.metadata.uid)
        where = "not handled by this scheduler"
        message, attempts = "", 0
        if entry is not None:
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
        gate = self._framework.pre_enqueue(pod)
        if gate is not None:
            change = self._missing(pod)
            if entry is None or entry.gated or not message:
                return msgspec.structs.replace(report, message=gate.message, change=change)
            # It was tried before, and nothing has happened since that would have it tried again.
            change = change or Change(node="", kind="gate", text=f"until this changes: {gate.message}")
            return msgspec.structs.replace(report, change=change)
        state = self._begin(pod)
        if state is None:
            return msgspec.structs.replace(report, change=self._missing(pod))
        started = self._clock.monotonic()
        examined: list[tuple[NodeReport, Trace, NodeInfo]] = []
        for node in self._cache.nodes():
            examined.append((*self._node(state, pod, node), node))
            if self._clock.monotonic() - started > _TIME_LIMIT:
                break
        examined.sort(key=lambda entry: _distance(entry[0]))
        change = self._change(state, examined)
        if change is not None:
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
        )

    def _begin(self, pod: Pod) -> CycleState | None:
        state = CycleState()
        _, status = self._framework.pre_filter(state, pod)
        return None if status is not None else state

    def _node(self, state: CycleState, pod: Pod, node: NodeInfo) -> tuple[NodeReport, Trace]:
        state.trace = trace = Trace()
        objections = self._framework.objections(self._framework.filters(state), state, pod, node)
        reasons = {plugin: status.reasons for plugin, status in objections.items()}
        return self._node_report(node.name, not objections, reasons, trace), trace

    def _change(
        self, state: CycleState, examined: Sequence[tuple[NodeReport, Trace, NodeInfo]]
    ) -> Change | None:
        memory = state.read(_DYNAMIC_RESOURCES, AttemptMemory)
        what_if = WhatIf(self._manager, self._checker())
        for report, trace, node in examined[:3]:
            plugins = set(report.objections)
            if report.fits or node.node is None:
                continue
            if plugins == {_DYNAMIC_RESOURCES} and memory is not None and trace.requests:
                claims = [claim for _, claim in memory.claims.unallocated() if claim.spec.devices.requests]
                change = what_if.single_change(node.node, claims, trace)
                if change is not None:
                    return change
            elif len(plugins) == 1:
                plugin, reasons = next(iter(report.objections.items()))
                text = f"if it were not for {plugin}: {', '.join(reasons)}"
                return Change(node=node.name, kind="node", text=text)
        return None

    def _missing(self, pod: Pod) -> Change | None:
        """What doesn't exist that the pod can't go without: a claim, or a class that a claim asks for."""
        for entry in pod.spec.resource_claims:
            try:
                name, _ = claim_name(pod, entry)
            except ClaimReferenceError as problem:
                return Change(node="", kind="claim", text=f"until its claim is made: {problem}")
            if name is not None and self._manager.claims.get(pod.metadata.namespace, name) is None:
                text = f"until ResourceClaim {pod.metadata.namespace}/{name} exists"
                return Change(node="", kind="claim", text=text)
        for claim in self._claims(pod):
            for request in claim.spec.devices.requests:
                parts = request.first_available if request.exactly is None else (request.exactly,)
                for part in parts:
                    if self._manager.classes.get(part.device_class_name) is None:
                        text = f"until device class {part.device_class_name} exists"
                        return Change(node="", kind="class", text=text)
        if pod.spec.scheduling_gates:
            names = ", ".join(gate.name for gate in pod.spec.scheduling_gates)
            return Change(
                node="", kind="schedulingGate", text=f"until scheduling gates {names} are taken away"
            )
        return None

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
            devices=_devices(claim.status.allocation or pending),
            reserved_for=tuple(f"{ref.resource}/{ref.name}" for ref in claim.status.reserved_for),
            in_flight=pending is not None,
        )

    def _node_report(
        self, name: str, fits: bool, objections: dict[str, tuple[str, ...]], trace: Trace
    ) -> NodeReport:
        pools = []
        for pool in trace.pools:
            problem = pool.invalid
            if pool.incomplete:
                slices = f"{pool.slices_known} of {pool.slices_wanted} slices"
                problem = f"incomplete: {slices} of generation {pool.generation}"
            pools.append(
                PoolReport(
                    driver=pool.driver,
                    pool=pool.pool,
                    generation=pool.generation,
                    devices=pool.devices,
                    problem=problem,
                )
            )
        requests = tuple(
            RequestReport(
                claim=request.claim,
                request=request.request,
                device_class=request.device_class,
                count=request.count,
                suitable=_suitable(trace, request),
                devices=tuple(
                    DeviceReport(
                        device=str(device),
                        reasons=tuple(self._text(reason) for reason in reasons),
                        details=tuple(self._detail(device, reason) for reason in reasons),
                    )
                    for device, reasons in request.devices.items()
                ),
            )
            for request in trace.requests
        )
        allocated = tuple(device for result in trace.results or () for device in _devices(result))
        return NodeReport(
            node=name,
            fits=fits,
            objections=objections,
            pools=tuple(pools),
            requests=requests,
            allocated=allocated,
        )

    def _text(self, reason: Reason) -> str:
        """The reason in words, and which pods the claims are for that stand in the way."""
        users = self._users(reason.claims) if isinstance(reason, InUse) else []
        return f"{reason} ({', '.join(users)})" if users else str(reason)

    def _detail(self, device: DeviceID, reason: Reason) -> ReasonReport:
        keys: tuple[str, ...] = ()
        if isinstance(reason, InUse | Picked):
            keys = reason.claims
        elif isinstance(reason, CapacityShort):
            keys = self._manager.claims.state.owner(device)
        return detail(reason, [*map(claim_key, keys)], self._users(keys))

    def _users(self, keys: Sequence[str]) -> list[str]:
        """The pods that the claims are reserved for."""
        users = []
        for key in keys:
            namespace, _, name = claim_key(key).partition("/")
            claim = self._manager.claims.get(namespace, name)
            users += [ref.name for ref in claim.status.reserved_for] if claim is not None else []
        return users

    def _checker(self) -> Callable[[], None]:
        deadline = self._clock.monotonic() + _TIME_LIMIT

        def check() -> None:
            if self._clock.monotonic() > deadline:
                raise TimeLimit("explaining takes too long")

        return check


def _devices(allocation: AllocationResult | None) -> tuple[str, ...]:
    if allocation is None:
        return ()
    return tuple(
        f"{result.driver}/{result.pool}/{result.device}"
        + (f" (share {result.share_id})" if result.share_id else "")
        for result in allocation.devices.results
    )


def _suitable(trace: Trace, request: RequestTrace) -> int:
    """How many devices the request could have if there was nothing else to satisfy."""
    devices = sum(pool.devices for pool in trace.pools if not pool.incomplete and not pool.invalid)
    turned_away = sum(
        any(not isinstance(reason, Picked | DeadEnd) for reason in reasons)
        for reasons in request.devices.values()
    )
    return max(0, devices - turned_away) if request.devices or trace.results is not None else 0


def _distance(report: NodeReport) -> tuple[int, int, int, int, str]:
    """How far the node is from taking the pod.

    By objections, then devices of the right class that are missing, then such that are there but won't do; a pool that
    waits for slices may yet have some.
    """
    if not report.requests:
        return len(report.objections), 1 << 30, 0, 0, report.node
    usable = sum(pool.devices for pool in report.pools if not pool.problem)
    foreign, short = 0, 0
    for request in report.requests:
        wanted = max(1, request.count)
        of_class = usable - sum(of_other_class(device) for device in request.devices)
        foreign += max(0, wanted - (of_class if request.devices else request.suitable))
        short += max(0, wanted - request.suitable)
    problems = sum(bool(pool.problem) for pool in report.pools)
    return len(report.objections), foreign, short, -problems, report.node


def _summary(reports: Iterable[NodeReport]) -> tuple[NodeSummary, ...]:
    """How many nodes say what, the most common first."""
    found: dict[tuple[str, ...], list[str]] = {}
    for report in reports:
        said = tuple(f"{plugin}: {', '.join(why)}" for plugin, why in report.objections.items())
        found.setdefault(said, []).append(report.node)
    return tuple(
        NodeSummary(count=len(nodes), objections=said, nodes=tuple(sorted(nodes)))
        for said, nodes in sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
    )


def summarize(report: NodeReport) -> str:
    """Why the devices of one node were turned away, in one line: those that were nearest to success."""
    found: list[str] = []
    for request in report.requests:
        if request.suitable < request.count != 1:
            found.append(f"request {request.request} wants {request.count} devices, {request.suitable} suit")
        groups = gists(request.devices)
        telling = [gist for gist, devices in groups.items() if not of_other_class(devices[0])] or [*groups]
        for gist in telling[:_HINT_GROUPS]:
            devices = groups[gist]
            if all(part.kind == "deadEnd" for part in devices[0].details):
                continue
            classes = {part.device_class for part in devices[0].details if not part.error}
            said = _cut(gist) if "" in classes or len(classes) != 1 else f"not of class {classes.pop()}"
            values = values_of(devices)
            seen = f" ({_cut(values[0])})" if len(values) == 1 and not said.startswith("not of") else ""
            found.append(f"{len(devices)} {'device' if len(devices) == 1 else 'devices'} {said}{seen}")
    found = found[:_HINT_PARTS]
    found += [f"pool {pool.pool} {pool.problem}" for pool in report.pools if pool.problem][:1]
    return f"[{report.node}: {'; '.join(found)}]" if found else ""


def _cut(text: str) -> str:
    return text if len(text) <= _HINT_LENGTH else text[: _HINT_LENGTH - 1] + "…"
