"""Rewind pods to an earlier state: some keep running, others have to start again. Not part of upstream."""

from __future__ import annotations

from typing import Any

from dra_shared.jsontypes import JsonObject

_CONTAINERS = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
# Status fields that a node reports once it runs the pod.
_OF_THE_NODE = frozenset(
    {*_CONTAINERS, "hostIP", "hostIPs", "podIP", "podIPs", "startTime", "reason", "message"}
)
_SCHEDULED = frozenset({"PodScheduled"})
_OVER = frozenset({"Succeeded", "Failed"})


def has_ended(now: JsonObject, then: JsonObject) -> bool:
    """True if the earlier containers no longer run, because the pod has another node or end, or other containers."""
    return _run(now) != _run(then)


def _run(pod: JsonObject) -> tuple[Any, ...]:
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


def begin(pod: JsonObject) -> bool:
    """Reset the status so that the node starts the containers.

    A pod that had ended, or had no node, is unchanged. Return whether it changed.
    """
    status = pod.get("status") or {}
    if not (pod.get("spec") or {}).get("nodeName") or status.get("phase") in _OVER:
        return False
    kept = {name: value for name, value in status.items() if name not in _OF_THE_NODE}
    conditions = [one for one in status.get("conditions") or () if one.get("type") in _SCHEDULED]
    pod["status"] = {**kept, "phase": "Pending", "conditions": conditions}
    return True
