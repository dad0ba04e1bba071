"""What tests wait for: an object's state, by name or as a function."""

from collections.abc import Callable

from dra_kube.discovery import ServedResource
from dra_shared.jsontypes import JsonObject

#: A condition of ``wait_for``: by name, or a function from the object to whether it holds.
Condition = str | Callable[[JsonObject], object]

# A pod that has ended does not run again, and its kubelet reports no more of it.
_FINAL = ("Succeeded", "Failed")
_PHASES = ("Pending", "Running", "Succeeded", "Failed")
_OF_RUNNING_PODS = (
    "started",
    "ContainersReady",
    "Initialized",
    "PodReadyToStartContainers",
    "PodScheduled",
    "Ready",
)
# Conditions that stay once they are True, and exclude others (batch/v1 and certificates.k8s.io/v1).
_OPPOSITES = {
    ("jobs", "Complete"): ("FailureTarget", "Failed"),
    ("jobs", "SuccessCriteriaMet"): ("FailureTarget", "Failed"),
    ("jobs", "FailureTarget"): ("SuccessCriteriaMet", "Complete"),
    ("jobs", "Failed"): ("SuccessCriteriaMet", "Complete"),
    ("certificatesigningrequests", "Approved"): ("Denied",),
    ("certificatesigningrequests", "Denied"): ("Approved",),
}

TIMEOUT = 30.0
"""Seconds that a condition has by default."""


def holding(wanted: Condition, resource: ServedResource) -> Callable[[JsonObject], object]:
    """The function of a condition; without a name, that an object of this resource is ready."""
    if callable(wanted):
        return wanted
    if wanted == "gone":
        return lambda _: False
    if wanted == "allocated" or (not wanted and resource.plural == "resourceclaims"):
        return lambda obj: (obj.get("status") or {}).get("allocation")
    if not wanted and resource.plural == "pods":
        return lambda obj: _has(obj, "Ready") or obj["status"].get("phase") == "Succeeded"
    if not wanted:
        return lambda _: True
    return lambda obj: (obj.get("status") or {}).get("phase") == wanted or _has(obj, wanted)


def obstacle(wanted: Condition, resource: ServedResource, obj: JsonObject) -> str:
    """Return the state of an object that keeps it from ever meeting a condition, empty if there is none."""
    if callable(wanted) and wanted is not has_started:
        return ""
    name = "started" if callable(wanted) else wanted
    status = obj.get("status") or {}
    if resource.plural == "pods":
        phase = str(status.get("phase") or "")
        final = phase in _FINAL and (not name or name in _OF_RUNNING_PODS or name in _PHASES)
        return phase if final and not _is_replaced(obj) else ""
    if resource.plural == "namespaces" and name == "Active":
        return "Terminating" if status.get("phase") == "Terminating" else ""
    opposite = _OPPOSITES.get((resource.plural, name), ())
    return next((one for one in opposite if _has(obj, one)), "")


def _is_replaced(pod: JsonObject) -> bool:
    """True if the pod's controller makes another one of the same name when it has ended."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(owner.get("kind") == "StatefulSet" for owner in owners)


def _has(obj: JsonObject, condition: str) -> bool:
    return any(
        one.get("type") == condition and one.get("status") == "True"
        for one in (obj.get("status") or {}).get("conditions") or ()
    )


def has_started(pod: JsonObject) -> bool:
    """Whether a container of the pod has run, and so may have a log."""
    statuses = pod.get("status", {}).get("containerStatuses") or ()
    return any("waiting" not in (one.get("state") or {"waiting": {}}) for one in statuses)
