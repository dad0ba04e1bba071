"""Queueing hints: which events may help a pod that waits for its claims."""

from dra_shared.api.pod import Pod
from dra_shared.api.resource import ResourceClaim
from dra_shared.claims import EXTENDED_RESOURCE_ANNOTATION, controller_of
from dra_shared.version import V1_37, Version

from dra_scheduler.framework.events import Event, Keys


def pre_queueing(version: Version) -> tuple[Keys, Keys]:
    """What narrows changes and deletions of claims to some pods.

    Upstream does it behind the gate SchedulerPreQueueingHints, and asks each waiting pod without. No outcome depends
    on that, and every pod that comes has an event of its claim, so here it does not depend on the gate.
    """
    return interested_in, special if version < V1_37 else freed


def interested_in(event: Event) -> tuple[str, ...] | None:
    """The claim that a pod must refer to for the event to matter to it; None: it matters to every pod."""
    return None if deallocated(event.old, event.new) else (event.new.key,)


def deallocated(old: ResourceClaim | None, new: ResourceClaim) -> bool:
    """Whether the change made devices free."""
    return old is not None and old.status.allocation is not None and new.status.allocation is None


def special(event: Event) -> tuple[str, ...] | None:
    """As :func:`interested_in`, for deleted claims until 1.36: only those for extended resources matter."""
    return None if event.old.metadata.annotations.get(EXTENDED_RESOURCE_ANNOTATION) == "true" else ()


def freed(event: Event) -> tuple[str, ...] | None:
    """As :func:`special`, since 1.37: also a claim matters that had devices when it went."""
    return None if event.old.status.allocation is not None else special(event)


def out_of_the_way(pod: Pod, claim: ResourceClaim) -> bool:
    """Whether a claim for extended resources that went kept the pod out: it was its own, or had devices.

    The scheduler deletes those itself when it could not bind their pod, without deallocating them first.
    """
    owner = controller_of(claim)
    return claim.status.allocation is not None or (owner is not None and owner.uid == pod.metadata.uid)


def worth_a_try(old: ResourceClaim | None, new: ResourceClaim, used_by_pod: bool) -> bool:
    """Whether a claim that came or changed so may make the pod schedulable."""
    if deallocated(old, new):
        return True
    if not used_by_pod:
        return False
    return old is None or old.status != new.status
