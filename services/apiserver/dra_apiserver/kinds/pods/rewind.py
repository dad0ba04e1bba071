"""Pods that are put back as they were: which go on, and which have to start again. No counterpart upstream."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]

_CONTAINERS = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
# What a node reports once it runs the pod.
_OF_THE_NODE = frozenset(
    {*_CONTAINERS, "hostIP", "hostIPs", "podIP", "podIPs", "startTime", "reason", "message"}
)
_SCHEDULED = frozenset({"PodScheduled"})
_OVER = frozenset({"Succeeded", "Failed"})


def ended(now: Object, then: Object) -> bool:
    """Whether what ran then does not run any more: another node, another end, or other containers."""
    return _run(now) != _run(then)


def _run(pod: Object) -> tuple[Any, ...]:
    status = pod.get("status") or {}
    containers = [
        (one.get("name"), one.get("containerID"), *(one.get("state") or ()))
        for field in _CONTAINERS
        for one in status.get(field) or ()
    ]
    phase = status.get("phase")
    return (
        (pod.get("spec") or {}).get("nodeName"),
        "deletionTimestamp" in pod["metadata"],
        phase if phase in _OVER else "",
        containers,
    )


def begin(pod: Object) -> bool:
    """Have the pod's node start its containers; a pod that was over then, or not on a node, stays as it was."""
    status = pod.get("status") or {}
    if not (pod.get("spec") or {}).get("nodeName") or status.get("phase") in _OVER:
        return False
    kept = {name: value for name, value in status.items() if name not in _OF_THE_NODE}
    conditions = [one for one in status.get("conditions") or () if one.get("type") in _SCHEDULED]
    pod["status"] = {**kept, "phase": "Pending", "conditions": conditions}
    return True
