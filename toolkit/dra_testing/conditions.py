"""Conditions for ``wait_for``: the state of an object, by name or as a function."""

from collections.abc import Callable

from dra_kube.discovery import ServedResource
from dra_shared.jsontypes import JsonObject

#: A condition of ``wait_for``: a name, or a function that returns a true value if the object meets it.
Condition = str | Callable[[JsonObject], object]

# A pod in one of these phases does not run again, and its kubelet no longer updates its status.
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
# By condition: the conditions that make it unreachable, because a True value of theirs is final (batch/v1 and
# certificates.k8s.io/v1).
_OPPOSITES = {
    ("jobs", "Complete"): ("FailureTarget", "Failed"),
    ("jobs", "SuccessCriteriaMet"): ("FailureTarget", "Failed"),
    ("jobs", "FailureTarget"): ("SuccessCriteriaMet", "Complete"),
    ("jobs", "Failed"): ("SuccessCriteriaMet", "Complete"),
    ("certificatesigningrequests", "Approved"): ("Denied",),
    ("certificatesigningrequests", "Denied"): ("Approved",),
}

TIMEOUT = 30.0
"""The default timeout in seconds."""


def predicate(wanted: Condition, resource: ServedResource) -> Callable[[JsonObject], object]:
    """Return the function for a condition. The empty condition means that an object of this resource is ready."""
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
    """Return the state of an object that prevents it from ever meeting the condition, or "" if there is none."""
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
    """True if the pod's controller creates another pod of the same name after it has ended."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(owner.get("kind") == "StatefulSet" for owner in owners)


def _has(obj: JsonObject, condition: str) -> bool:
    return any(
        one.get("type") == condition and one.get("status") == "True"
        for one in (obj.get("status") or {}).get("conditions") or ()
    )


def has_started(pod: JsonObject) -> bool:
    """True if a container of the pod has run, and may have a log."""
    statuses = pod.get("status", {}).get("containerStatuses") or ()
    return any("waiting" not in (one.get("state") or {"waiting": {}}) for one in statuses)
