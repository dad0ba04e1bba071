"""A pod in the queue, with its attempts (upstream's ``framework.QueuedPodInfo``)."""

import enum
from dataclasses import dataclass, field

from dra_shared.api.pod import Pod


class Place(enum.Enum):
    """Where a pod is."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    WAITING = "unschedulable"
    IN_FLIGHT = "in flight"


@dataclass(slots=True, eq=False)
class QueuedPod:
    """A pod that has no node yet. Times are the clock's ``monotonic`` seconds."""

    pod: Pod
    since: float
    place: Place = Place.ACTIVE
    attempts: int = 0
    first_attempt: float | None = None
    rejections: int = 0
    errors: int = 0
    # The plugins that turned the pod away at its last attempt, or keep it out of the active queue.
    rejected_by: frozenset[str] = frozenset()
    gated: bool = False
    message: str = ""
    keys: tuple[str, ...] = field(default=())
    # Entries of heaps and timers that were made for an older state than this are void.
    version: int = 0

    @property
    def profile(self) -> str:
        """The name of the profile that schedules the pod; it never changes."""
        return self.pod.spec.scheduler_name

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid
