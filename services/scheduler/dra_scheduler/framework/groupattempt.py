"""A group's attempt as PostFilter plugins see it (upstream's ``PodGroupInfo`` and ``PodGroupSchedulingFunc``, 1.37)."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from dra_shared.api.pod import Pod

from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import Status


@dataclass(frozen=True, slots=True)
class Assignment:
    """A pod that would get the node."""

    pod: Pod
    node_name: str


@dataclass(frozen=True, slots=True)
class GroupAttempt:
    """A tree of groups that did not get enough nodes.

    ``kind`` and ``uid`` are of the group at its top, ``pods`` all that wait. ``preempts``: it may make others go.
    ``state`` is that of the attempt, if the tree is one group. ``schedule`` tries again on the nodes as they are then,
    and takes nothing.
    """

    kind: str
    uid: str
    pods: Sequence[Pod]
    priority: int
    preempts: bool
    state: CycleState | None
    schedule: Callable[[], Awaitable[tuple[Sequence[Assignment], Status]]]
