"""The section about one node in an explanation, made from the allocator's trace."""

from collections import Counter
from collections.abc import Mapping, Sequence

from dra_shared.api.resource import AllocationResult
from dra_shared.claims import controller_of
from dra_shared.plurals import count

from dra_scheduler.allocator import DeviceID, Trace
from dra_scheduler.allocator.reasons import CapacityShort, InUse, Picked, Reason
from dra_scheduler.dra.manager import DRAManager
from dra_scheduler.explain.details import detail
from dra_scheduler.explain.report import DeviceReport, NodeReport, PoolReport, ReasonReport, RequestReport
from dra_scheduler.explain.whatif import claim_key


class NodeReporter:
    """Converts traces to reports."""

    def __init__(self, manager: DRAManager) -> None:
        self._manager = manager

    def report(
        self, name: str, fits: bool, objections: dict[str, tuple[str, ...]], trace: Trace
    ) -> NodeReport:
        """Return the report of one node from the trace of an attempt on it."""
        keys = dict.fromkeys(request.claim for request in trace.requests)
        taken = taken_by(dict(zip(keys, trace.results or (), strict=False)))
        pools = []
        for pool in trace.pools:
            problem = pool.invalid
            if pool.incomplete:
                slices = f"{pool.slices_known} of {count(pool.slices_wanted, 'slice')}"
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
                suitable=len(request.suitable),
                reached=request.reached,
                taken=taken[request.claim, request.request],
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
        allocated = tuple(device for result in trace.results or () for device in devices_of(result))
        return NodeReport(
            node=name,
            fits=fits,
            objections=objections,
            pools=tuple(pools),
            requests=requests,
            allocated=allocated,
        )

    def _text(self, reason: Reason) -> str:
        """Return the reason as text. For devices in use, it names the pods that use the claims."""
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
        """Return the pods that the claims are reserved for or are being allocated for."""
        users: list[str] = []
        for key in keys:
            namespace, _, name = claim_key(key).partition("/")
            claim = self._manager.claims.get(namespace, name)
            if claim is None:
                # A claim for extended resources is created only when its pod is bound.
                uid = key.rpartition(" ")[2]
                claim = next(
                    (each for each in self._manager.claims.in_flight if each.metadata.uid == uid), None
                )
                owner = controller_of(claim) if claim is not None else None
                users += [owner.name] if owner is not None else []
            else:
                users += [ref.name for ref in claim.status.reserved_for]
        return users


def taken_by(allocations: Mapping[str, AllocationResult | None]) -> Counter[tuple[str, str]]:
    """Count the devices of claims' allocations by claim and request."""
    return Counter(
        (key, result.request)
        for key, allocation in allocations.items()
        if allocation is not None
        for result in allocation.devices.results
    )


def devices_of(allocation: AllocationResult | None) -> tuple[str, ...]:
    """Return the allocation's devices as ``driver/pool/device``, with the share id if there is one."""
    if allocation is None:
        return ()
    return tuple(
        f"{result.driver}/{result.pool}/{result.device}"
        + (f" (share {result.share_id})" if result.share_id else "")
        for result in allocation.devices.results
    )
