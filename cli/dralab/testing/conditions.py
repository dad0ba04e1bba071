"""What tests wait for: an object's state, by name or as a function."""

from collections.abc import Callable
from typing import Any

from dra_cli.discovery import ServedResource

JsonObject = dict[str, Any]
#: A condition of ``wait_for``: by name, or a function from the object to whether it holds.
Condition = str | Callable[[JsonObject], object]

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


def _has(obj: JsonObject, condition: str) -> bool:
    return any(
        one.get("type") == condition and one.get("status") == "True"
        for one in (obj.get("status") or {}).get("conditions") or ()
    )


def has_started(pod: JsonObject) -> bool:
    """Whether a container of the pod has run, and so may have a log."""
    statuses = pod.get("status", {}).get("containerStatuses") or ()
    return any("waiting" not in (one.get("state") or {"waiting": {}}) for one in statuses)
