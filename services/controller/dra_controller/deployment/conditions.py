"""The conditions of a Deployment's status.

Mirrors pkg/controller/deployment/progress.go and util/deployment_util.go.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from dra_shared.api.apps import Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet
from dra_shared.clock import parse_rfc3339, rfc3339
from msgspec.structs import replace

from dra_controller.deployment.rolling import limits, replicas_of

AVAILABLE, PROGRESSING, FAILURE = "Available", "Progressing", "ReplicaFailure"
TIMED_OUT = "ProgressDeadlineExceeded"
_NO_DEADLINE = 2**31 - 1


def find(status: DeploymentStatus, kind: str) -> DeploymentCondition | None:
    """Return the condition of that type; None if there is none."""
    return next((entry for entry in status.conditions if entry.type == kind), None)


def with_condition(
    status: DeploymentStatus, now: datetime, kind: str, value: str, reason: str, message: str
) -> DeploymentStatus:
    """Return ``status`` with the condition set, unless status and reason are unchanged."""
    old = find(status, kind)
    if old is not None and (old.status, old.reason) == (value, reason):
        return status
    moment = rfc3339(now)
    changed = old.last_transition_time if old is not None and old.status == value else moment
    new = DeploymentCondition(
        type=kind,
        status=value,
        reason=reason,
        message=message,
        last_update_time=moment,
        last_transition_time=changed,
    )
    return replace(status, conditions=(*(c for c in status.conditions if c.type != kind), new))


def without_condition(status: DeploymentStatus, kind: str) -> DeploymentStatus:
    """Return ``status`` without the condition of that type."""
    return replace(status, conditions=tuple(c for c in status.conditions if c.type != kind))


def count_replicas(
    deployment: Deployment, everything: Sequence[ReplicaSet], newest: ReplicaSet | None
) -> DeploymentStatus:
    """Return the status with the numbers of replicas."""
    available = sum(rs.status.available_replicas or 0 for rs in everything)
    unavailable = max(0, sum(replicas_of(rs) for rs in everything) - available)
    return replace(
        deployment.status,
        observed_generation=deployment.metadata.generation or None,
        replicas=sum(rs.status.replicas for rs in everything) or None,
        updated_replicas=(newest.status.replicas if newest is not None else 0) or None,
        ready_replicas=sum(rs.status.ready_replicas or 0 for rs in everything) or None,
        available_replicas=available or None,
        unavailable_replicas=unavailable or None,
        terminating_replicas=sum(rs.status.terminating_replicas or 0 for rs in everything),
    )


def with_availability(deployment: Deployment, status: DeploymentStatus, now: datetime) -> DeploymentStatus:
    """Return ``status`` with the Available condition."""
    _, unavailable = limits(deployment)
    if (status.available_replicas or 0) >= replicas_of(deployment) - unavailable:
        text = "Deployment has minimum availability."
        return with_condition(status, now, AVAILABLE, "True", "MinimumReplicasAvailable", text)
    text = "Deployment does not have minimum availability."
    return with_condition(status, now, AVAILABLE, "False", "MinimumReplicasUnavailable", text)


def has_deadline(deployment: Deployment) -> bool:
    """Return True if the Deployment has a progress deadline, after which a roll-out counts as failed."""
    seconds = deployment.spec.progress_deadline_seconds
    return seconds is not None and seconds != _NO_DEADLINE


def is_complete(deployment: Deployment, status: DeploymentStatus) -> bool:
    """Return True if all pods are of the new template and available."""
    wanted = replicas_of(deployment)
    return (
        (status.updated_replicas or 0) == wanted
        and (status.replicas or 0) == wanted
        and (status.available_replicas or 0) == wanted
        and (status.observed_generation or 0) >= deployment.metadata.generation
    )


def is_progressing(old: DeploymentStatus, new: DeploymentStatus) -> bool:
    """Return True if the roll-out made progress between both statuses."""
    old_updated, new_updated = old.updated_replicas or 0, new.updated_replicas or 0
    return (
        new_updated > old_updated
        or (new.replicas or 0) - new_updated < (old.replicas or 0) - old_updated
        or (new.ready_replicas or 0) > (old.ready_replicas or 0)
        or (new.available_replicas or 0) > (old.available_replicas or 0)
    )


def deadline_left(deployment: Deployment, status: DeploymentStatus, now: datetime) -> float | None:
    """Return the seconds until the roll-out has taken too long; None if that cannot happen or it is complete."""
    progress = find(status, PROGRESSING)
    if (
        progress is None
        or progress.last_update_time is None
        or not has_deadline(deployment)
        or progress.reason == "NewReplicaSetAvailable"
    ):
        return None
    end = parse_rfc3339(progress.last_update_time) + timedelta(
        seconds=deployment.spec.progress_deadline_seconds or 0
    )
    return (end - now).total_seconds()


def with_progress(
    deployment: Deployment,
    status: DeploymentStatus,
    everything: Sequence[ReplicaSet],
    newest: ReplicaSet | None,
    now: datetime,
) -> DeploymentStatus:
    """Return ``status`` with the Progressing and ReplicaFailure conditions."""
    if not has_deadline(deployment):
        status = without_condition(status, PROGRESSING)
    current = find(deployment.status, PROGRESSING)
    done = (
        (status.replicas or 0) == (status.updated_replicas or 0)
        and current is not None
        and current.reason == "NewReplicaSetAvailable"
    )
    if has_deadline(deployment) and not done:
        subject = f'ReplicaSet "{newest.metadata.name}"' if newest is not None else None
        subject = subject or f'Deployment "{deployment.metadata.name}"'
        left = deadline_left(deployment, status, now)
        if is_complete(deployment, status):
            text = f"{subject} has successfully progressed."
            status = with_condition(status, now, PROGRESSING, "True", "NewReplicaSetAvailable", text)
        elif is_progressing(deployment.status, status):
            text = f"{subject} is progressing."
            refreshed = status
            if current is not None and current.reason == "ReplicaSetUpdated":
                # Only the time is updated, so that the deadline starts again.
                refreshed = without_condition(status, PROGRESSING)
            status = with_condition(refreshed, now, PROGRESSING, "True", "ReplicaSetUpdated", text)
            if current is not None and current.status == "True":
                status = _keep_transition(status, current)
        elif current is not None and current.reason == TIMED_OUT:
            pass
        elif left is not None and left < 0:
            text = f"{subject} has timed out progressing."
            status = with_condition(status, now, PROGRESSING, "False", TIMED_OUT, text)
    failures = [c for rs in everything for c in rs.status.conditions if c.type == FAILURE]
    if failures:
        first = failures[0]
        return with_condition(status, now, FAILURE, first.status, first.reason, first.message)
    return without_condition(status, FAILURE)


def _keep_transition(status: DeploymentStatus, old: DeploymentCondition) -> DeploymentStatus:
    return replace(
        status,
        conditions=tuple(
            replace(c, last_transition_time=old.last_transition_time) if c.type == old.type else c
            for c in status.conditions
        ),
    )
