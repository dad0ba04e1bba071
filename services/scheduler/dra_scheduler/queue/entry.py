"""A pod in the queue, with its attempts (upstream's ``framework.QueuedPodInfo``)."""

import enum
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from dra_shared.api.pod import Pod


class Place(enum.Enum):
    """The part of the queue that a pod is in."""

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
    # The plugins that rejected the pod at its last attempt, or that keep the pod out of the active queue.
    rejected_by: frozenset[str] = frozenset()
    gated: bool = False
    message: str = ""
    keys: tuple[str, ...] = field(default=())
    # Increased when the entry moves. Heap items and timers for an older version are ignored.
    version: int = 0

    @property
    def profile(self) -> str:
        """The name of the profile that schedules the pod. It never changes."""
        return self.pod.spec.scheduler_name

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid

    @property
    def group(self) -> tuple[str, str] | None:
        """Namespace and name of the pod's group. It never changes."""
        group = self.pod.spec.scheduling_group
        return (self.pod.metadata.namespace, group.pod_group_name) if group and group.pod_group_name else None


def entities(entries: Iterable[QueuedPod]) -> Counter[tuple[str, str]]:
    """Count pods without a group and groups, by place and ``pod`` or ``podgroup``."""
    found: set[tuple[str, str, str | tuple[str, str]]] = set()
    for entry in entries:
        place = "gated" if entry.gated else entry.place.value
        found.add((place, "podgroup", entry.group) if entry.group else (place, "pod", entry.uid))
    return Counter((place, kind) for place, kind, _ in found)
