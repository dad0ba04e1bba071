"""An explanation as a tree for people to read."""

from collections.abc import Iterable

from dra_scheduler.explain.report import NodeReport, PodReport, RequestReport

_MOST_DEVICES = 16


def render(report: PodReport) -> str:
    """The whole report."""
    title = f"pod {report.pod}" if report.pod else "no pod"
    lines = [f"{title}: {report.state}" + (f" on {report.node}" if report.node else "")]
    if report.message:
        lines.append(f"  said last: {report.message}")
    for claim in report.claims:
        devices = ", ".join(claim.devices) or "not allocated"
        lines.append(f"  claim {claim.claim}: {devices}" + (" (being stored)" if claim.in_flight else ""))
        if claim.reserved_for:
            lines.append(f"    reserved for {', '.join(claim.reserved_for)}")
    if report.change is not None:
        lines.append(f"  node {report.change.node} would take it {report.change.text}")
    for node in report.nodes:
        lines += ["  " + line for line in _node(node)]
    if report.nodes_left_out:
        lines.append(f"  and {report.nodes_left_out} more nodes")
    return "\n".join(lines) + "\n"


def _node(node: NodeReport) -> Iterable[str]:
    yield f"node {node.node}: " + ("fits" if node.fits else "does not fit")
    for plugin, reasons in node.objections.items():
        yield f"  {plugin}: {', '.join(reasons)}"
    for pool in node.pools:
        suffix = f" ({pool.problem})" if pool.problem else ""
        yield f"  pool {pool.driver}/{pool.pool} generation {pool.generation}: {pool.devices} devices{suffix}"
    for request in node.requests:
        yield from ("  " + line for line in _request(request))
    if node.allocated:
        yield f"  devices: {', '.join(node.allocated)}"


def _request(request: RequestReport) -> Iterable[str]:
    yield f"request {request.request} of claim {request.claim} (class {request.device_class})"
    for device in request.devices[:_MOST_DEVICES]:
        yield f"  {device.device}: {'; '.join(device.reasons)}"
    if len(request.devices) > _MOST_DEVICES:
        yield f"  and {len(request.devices) - _MOST_DEVICES} more devices"
