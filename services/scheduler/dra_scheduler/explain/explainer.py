"""Explanations of pods and claims, made by trying again with the allocator's trace on."""

from collections.abc import Callable, Sequence

import msgspec
from dra_shared.api.pod import Pod
from dra_shared.api.resource import AllocationResult, ResourceClaim
from dra_shared.claims import ClaimReferenceError, claim_name
from dra_shared.clock import Clock

from dra_scheduler.allocator import AllocationError, Allocator, TimeLimit, Trace
from dra_scheduler.allocator.reasons import InUse, Reason
from dra_scheduler.explain.report import (
    Change,
    ClaimReport,
    DeviceReport,
    NodeReport,
    PodReport,
    PoolReport,
    RequestReport,
)
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
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._manager = manager
        self._framework = framework
        self._clock = clock
        self._find_pod = find_pod

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
        return PodReport(pod=pod.key, state=state, node=place, claims=claims, nodes=nodes)

    def _pending(self, pod: Pod, claims: tuple[ClaimReport, ...], most_nodes: int) -> PodReport:
        entry = self._queue.get(pod.metadata.uid)
        where = "not handled by this scheduler"
        message, attempts = "", 0
        if entry is not None:
            where = "gated" if entry.gated else entry.place.value
            message, attempts = entry.message, entry.attempts
        report = PodReport(
            pod=pod.key, state=f"pending: {where}", message=message, attempts=attempts, claims=claims
        )
        gate = self._framework.pre_enqueue(pod)
        if gate is not None:
            return msgspec.structs.replace(report, message=gate.message)
        state = self._begin(pod)
        if state is None:
            return report
        started = self._clock.monotonic()
        examined: list[tuple[NodeReport, Trace, NodeInfo]] = []
        for node in self._cache.nodes():
            examined.append((*self._node(state, pod, node), node))
            if self._clock.monotonic() - started > _TIME_LIMIT:
                break
        examined.sort(key=lambda entry: _distance(entry[0]))
        change = self._change(state, examined)
        shown = tuple(entry[0] for entry in examined[:most_nodes])
        return msgspec.structs.replace(
            report,
            nodes=shown,
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
                devices=tuple(
                    DeviceReport(device=str(device), reasons=tuple(self._text(reason) for reason in reasons))
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
        if not isinstance(reason, InUse):
            return str(reason)
        users = []
        for key in reason.claims:
            namespace, _, name = claim_key(key).partition("/")
            claim = self._manager.claims.get(namespace, name)
            users += [ref.name for ref in claim.status.reserved_for] if claim is not None else []
        return f"{reason} ({', '.join(users)})" if users else str(reason)

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


def _distance(report: NodeReport) -> tuple[int, int, int, str]:
    """How far the node is from taking the pod: objections, then requests not reached, then devices nearly good."""
    unreached = sum(not request.devices for request in report.requests)
    near = sum(len(device.reasons) == 1 for request in report.requests for device in request.devices)
    return len(report.objections), unreached if report.requests else 1 << 30, -near, report.node


def summarize(report: NodeReport) -> str:
    """The commonest reasons that the devices of one node were turned away for, in one line."""
    counts: dict[str, int] = {}
    for request in report.requests:
        for device in request.devices:
            for reason in device.reasons:
                counts[reason] = counts.get(reason, 0) + 1
    problems = [f"pool {pool.pool} {pool.problem}" for pool in report.pools if pool.problem]
    common = sorted(counts, key=lambda reason: (-counts[reason], reason))[:2]
    found = problems[:1] + [f"{counts[reason]} {reason}" for reason in common]
    return f"[{report.node}: {'; '.join(found)}]" if found else ""
