"""The order of nodes in a report, and their summary."""

from collections.abc import Iterable

from dra_scheduler.explain.report import NodeReport, NodeSummary
from dra_scheduler.explain.text import of_other_class


def distance(report: NodeReport) -> tuple[int | str, ...]:
    """Return a sort key for the distance of a node from taking the pod.

    The key compares the plugins' objections, then the number of missing devices of the right class, then the
    devices that exist but were rejected. A node with an incomplete pool is closer, because the pool may get
    more devices. A free device that was rejected is closer than one in use.
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


def summary(reports: Iterable[NodeReport]) -> tuple[NodeSummary, ...]:
    """Group the nodes by their objections, the most common first."""
    found: dict[tuple[str, ...], list[str]] = {}
    for report in reports:
        objections = tuple(f"{plugin}: {', '.join(why)}" for plugin, why in report.objections.items())
        found.setdefault(objections, []).append(report.node)
    return tuple(
        NodeSummary(count=len(nodes), objections=objections, nodes=tuple(sorted(nodes)))
        for objections, nodes in sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
    )
