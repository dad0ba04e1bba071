"""The rules for when a node counts as lost, and the taints that follow from its conditions. Pure.

Mirrors ``monitorNodeHealth`` in pkg/controller/nodelifecycle/node_lifecycle_controller.go.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dra_shared.api.coordination import Lease
from dra_shared.api.node import Node, NodeCondition, Taint

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_PRESSURES = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
_KEPT = {NOT_READY, UNREACHABLE, _UNSCHEDULABLE, *_PRESSURES.values()}
# Node labels that also exist under a second name for older clients.
_SECOND_NAMES = {
    "kubernetes.io/arch": "beta.kubernetes.io/arch",
    "kubernetes.io/os": "beta.kubernetes.io/os",
}
KUBELET_CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


@dataclass(frozen=True)
class Probe:
    """The last observed report of a node, and when it changed, by the clock of this process.

    The node's clock does not matter, because only the fact of a change counts.
    """

    heartbeat: str | None
    renewal: str | None
    seen: float


def condition(node: Node, kind: str) -> NodeCondition | None:
    """Return the node's condition of that type; None if there is none."""
    return next((entry for entry in node.status.conditions if entry.type == kind), None)


def observe(node: Node, lease: Lease | None, previous: Probe | None, now: float) -> Probe:
    """Return the new observation."""
    ready = condition(node, "Ready")
    # When this controller sets conditions to Unknown, the heartbeat times do not change.
    heartbeat = f"{ready.last_heartbeat_time} {ready.status != 'Unknown'}" if ready is not None else None
    renewal = lease.spec.renew_time if lease is not None else None
    if previous is not None and previous.renewal == renewal and previous.heartbeat == heartbeat:
        return previous
    if (
        previous is not None
        and previous.renewal == renewal
        and ready is not None
        and ready.status == "Unknown"
        and (previous.heartbeat or "").split(" ")[0] == str(ready.last_heartbeat_time)
    ):
        return Probe(heartbeat, renewal, previous.seen)
    return Probe(heartbeat, renewal, now)


def lost_conditions(node: Node, now: str) -> tuple[NodeCondition, ...]:
    """Return the conditions of the node once it is lost."""
    result = [entry for entry in node.status.conditions if entry.type not in KUBELET_CONDITIONS]
    for kind in KUBELET_CONDITIONS:
        known = condition(node, kind)
        if known is None:
            result.append(
                NodeCondition(
                    type=kind,
                    status="Unknown",
                    reason="NodeStatusNeverUpdated",
                    message="Kubelet never posted node status.",
                    last_heartbeat_time=node.metadata.creation_timestamp,
                    last_transition_time=now,
                )
            )
        elif known.status == "Unknown":
            result.append(known)
        else:
            result.append(
                NodeCondition(
                    type=kind,
                    status="Unknown",
                    reason="NodeStatusUnknown",
                    message="Kubelet stopped posting node status.",
                    last_heartbeat_time=known.last_heartbeat_time,
                    last_transition_time=now,
                )
            )
    return tuple(result)


def missing_labels(node: Node) -> dict[str, str]:
    """Return the labels whose second name is missing or has a different value."""
    labels = node.metadata.labels
    return {
        second: labels[first]
        for first, second in _SECOND_NAMES.items()
        if first in labels and labels.get(second) != labels[first]
    }


def taints(node: Node, now: str) -> tuple[Taint, ...]:
    """Return the taints that follow from the node's conditions. Those that exist already keep their time."""
    ready = condition(node, "Ready")
    wanted: list[tuple[str, str]] = []
    if ready is not None and ready.status == "False":
        wanted += [(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")]
    elif ready is not None and ready.status == "Unknown":
        wanted += [(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]
    elif ready is None:
        # The node has not reported yet. Keep the NoExecute taint with which it was registered: until the
        # node reports, that taint decides about its pods.
        wanted += [
            (t.key, t.effect) for t in node.spec.taints if (t.key, t.effect) == (NOT_READY, "NoExecute")
        ]
    for kind, key in _PRESSURES.items():
        entry = condition(node, kind)
        if entry is not None and entry.status == "True":
            wanted.append((key, "NoSchedule"))
    if node.spec.unschedulable:
        wanted.append((_UNSCHEDULABLE, "NoSchedule"))
    others = [taint for taint in node.spec.taints if taint.key not in _KEPT]
    return (*others, *(_taint(node.spec.taints, key, effect, now) for key, effect in wanted))


def _taint(present: Sequence[Taint], key: str, effect: str, now: str) -> Taint:
    for taint in present:
        if (taint.key, taint.effect) == (key, effect):
            return taint
    return Taint(key=key, effect=effect, time_added=now)
