"""Validate the statuses of workloads: their counts must be consistent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.counts import check_counts
from dra_apiserver.errors import FieldError, invalid

Check = Callable[[JsonObject, JsonObject], list[FieldError]]


@dataclass(frozen=True, slots=True)
class CountsCheck:
    """Validates a new status, also against the old one.

    The fields `counts` must not be negative, and the fields `parts` must not exceed `replicas`. `ready` is the
    field that `availableReplicas` must not exceed, in upstream's spelling.
    """

    counts: Sequence[str]
    parts: Sequence[str] = ()
    ready: str = ""

    def __call__(self, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        status, before = obj.get("status") or {}, old.get("status") or {}
        errors = check_counts(status, self.counts, "status")
        for name in self.parts:
            if status.get(name, 0) > status.get("replicas", 0):
                text = "cannot be greater than status.replicas"
                errors.append(invalid(f"status.{name}", status.get(name, 0), text))
        available = status.get("availableReplicas", 0)
        if self.ready and available > status.get("readyReplicas", 0):
            text = f"cannot be greater than {self.ready}"
            errors.append(invalid("status.availableReplicas", available, text))
        known, collisions = before.get("collisionCount"), status.get("collisionCount")
        if (
            "collisionCount" in self.counts
            and known is not None
            and (collisions is None or collisions < known)
        ):
            errors.append(invalid("status.collisionCount", collisions or 0, "cannot be decremented"))
        return errors


_REPLICAS = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration")
check_controller_status = CountsCheck(_REPLICAS, _REPLICAS[1:4], "readyReplicas")
check_daemon_set_status = CountsCheck(
    (
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    )
)
check_deployment_status = CountsCheck(
    (
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ),
    ("updatedReplicas", "readyReplicas", "availableReplicas"),
    "readyReplicas",
)
check_replica_set_status = CountsCheck((*_REPLICAS, "terminatingReplicas"), _REPLICAS[1:4], "readyReplicas")
check_stateful_set_status = CountsCheck(
    (
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ),
    ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"),
    "status.readyReplicas",
)
