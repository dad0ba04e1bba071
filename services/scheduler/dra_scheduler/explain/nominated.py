"""Nodes whose free resources are reserved for nominated pods after preemption."""

from collections.abc import Sequence

import msgspec
from dra_shared.api.pod import Pod

from dra_scheduler.explain.report import NodeReport
from dra_scheduler.framework.cache import Cache
from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.runtime import Framework
from dra_scheduler.framework.state import CycleState


def nominated_ahead(cache: Cache, pod: Pod, node_name: str) -> list[Pod]:
    """Return the node's nominated pods that take precedence over the pod, except those that are already assumed."""
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
    """Return the report of a node that fits, with the reasons why it does not fit next to the nominated ``others``."""
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
