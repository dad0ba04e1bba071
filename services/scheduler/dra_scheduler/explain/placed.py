"""The report for the node of a placed pod: the devices of its claims, and the alternatives."""

from collections.abc import Callable, Sequence

import msgspec
from dra_shared.api.node import Node
from dra_shared.api.resource import ResourceClaim

from dra_scheduler.allocator import AllocationError, Allocator, Trace
from dra_scheduler.dra.manager import DRAManager
from dra_scheduler.explain.nodes import NodeReporter, devices_of, taken_by
from dra_scheduler.explain.report import NodeReport

_replace = msgspec.structs.replace


def placed_report(
    manager: DRAManager,
    reporter: NodeReporter,
    node: Node,
    claims: Sequence[ResourceClaim],
    check: Callable[[], None],
) -> NodeReport:
    """Return the report of the pod's node, computed as if the pod's claims were not allocated yet."""
    free = manager.claims.state.copy()
    for claim in claims:
        free.hold(claim.key, None)
    bare = [_replace(claim, status=_replace(claim.status, allocation=None)) for claim in claims]
    trace = Trace()
    allocator = Allocator(manager.features, free, manager.classes.get, manager.snapshot)
    try:
        allocator.allocate(node, bare, check=check, trace=trace)
    except AllocationError:
        trace.results = None
    report = reporter.report(node.metadata.name, True, {}, trace)
    # The devices of the claims were free at allocation time. They may belong to another alternative than the
    # trace's.
    taken = taken_by({claim.key: claim.status.allocation for claim in claims})
    requests = tuple(_replace(each, taken=taken[each.claim, each.request]) for each in report.requests)
    devices = tuple(device for claim in claims for device in devices_of(claim.status.allocation))
    return _replace(report, allocated=devices, requests=requests)
