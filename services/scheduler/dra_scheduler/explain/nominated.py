"""Nodes that keep room for pods for which preemption has made it."""

from collections.abc import Sequence

import msgspec
from dra_shared.api.pod import Pod

from dra_scheduler.explain.report import NodeReport
from dra_scheduler.framework.cache import Cache
from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.runtime import Framework
from dra_scheduler.framework.state import CycleState


def nominated_ahead(cache: Cache, pod: Pod, node_name: str) -> list[Pod]:
    """Return the node's nominated pods that the pod must leave room for, without those that are assumed already."""
    ahead = cache.nominations.ahead_of(pod, node_name)
    return [other for other in ahead if cache.place_of(other.metadata.uid) is None]


def with_nominated(
    report: NodeReport,
    framework: Framework,
    state: CycleState,
    pod: Pod,
    node: NodeInfo,
    others: Sequence[Pod],
) -> NodeReport:
    """Return the report of a node that fits with the objections to it once the nominated ``others`` are there."""
    filters = framework.filters(state)
    status = framework.filter_with_nominated_pods(filters, state, pod, node, others) if others else None
    if status is None:
        return report
    names = ", ".join(other.key for other in others)
    return msgspec.structs.replace(
        report,
        fits=False,
        objections={status.plugin: status.reasons},
        saw={status.plugin: (f"room is kept for pods that are nominated for the node: {names}",)},
        remedies=(f"if pods that are nominated for the node did not need it: {names}",),
    )
