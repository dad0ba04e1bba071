"""Queueing hints: the events that may help a pod that waits for its claims."""

from dra_shared.api.pod import Pod
from dra_shared.api.resource import ResourceClaim
from dra_shared.claims import EXTENDED_RESOURCE_ANNOTATION, controller_of
from dra_shared.version import V1_37, Version

from dra_scheduler.framework.events import Event, Keys


def pre_queueing(version: Version) -> tuple[Keys, Keys]:
    """Return the functions that limit updates and deletions of claims to some pods.

    Upstream does this behind the gate SchedulerPreQueueingHints, and otherwise calls the hint for each
    waiting pod. The outcome is the same, so this does not depend on the gate here.
    """
    return interested_in, interested_in_deletion if version < V1_37 else interested_in_freed


def interested_in(event: Event) -> tuple[str, ...] | None:
    """Return the claim that a pod must refer to for the event to matter, or None if it matters to every pod."""
    return None if was_deallocated(event.old, event.new) else (event.new.key,)


def was_deallocated(old: ResourceClaim | None, new: ResourceClaim) -> bool:
    """True if the change freed devices."""
    return old is not None and old.status.allocation is not None and new.status.allocation is None


def interested_in_deletion(event: Event) -> tuple[str, ...] | None:
    """Return the pods interested in a deleted claim until 1.36: only claims for extended resources matter."""
    return None if event.old.metadata.annotations.get(EXTENDED_RESOURCE_ANNOTATION) == "true" else ()


def interested_in_freed(event: Event) -> tuple[str, ...] | None:
    """Return the pods interested in a deleted claim since 1.37: claims that had devices matter as well."""
    return None if event.old.status.allocation is not None else interested_in_deletion(event)


def was_blocking(pod: Pod, claim: ResourceClaim) -> bool:
    """True if a deleted claim for extended resources blocked the pod: the claim was the pod's own, or it had devices.

    The scheduler deletes its claims for extended resources without deallocating them if the pod could not be
    bound.
    """
    owner = controller_of(claim)
    return claim.status.allocation is not None or (owner is not None and owner.uid == pod.metadata.uid)


def is_worth_retry(old: ResourceClaim | None, new: ResourceClaim, used_by_pod: bool) -> bool:
    """True if a claim that was added or changed may make the pod schedulable."""
    if was_deallocated(old, new):
        return True
    if not used_by_pod:
        return False
    return old is None or old.status != new.status
