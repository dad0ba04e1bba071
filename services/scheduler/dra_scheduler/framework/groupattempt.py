"""A group's attempt in PostFilter (upstream's ``PodGroupInfo`` and ``PodGroupSchedulingFunc``, 1.37)."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from dra_shared.api.pod import Pod

from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import Status


@dataclass(frozen=True, slots=True)
class Assignment:
    """A pod and the node that it would get."""

    pod: Pod
    node_name: str


@dataclass(frozen=True, slots=True)
class GroupAttempt:
    """A tree of groups that did not get enough nodes.

    ``kind`` and ``uid`` are those of the root group, ``pods`` all waiting pods. ``preempts``: the group may
    preempt other pods. ``state`` is the attempt's state if the tree is a single group. ``schedule`` tries the
    group again on the current nodes without reserving anything.
    """

    kind: str
    uid: str
    pods: Sequence[Pod]
    priority: int
    preempts: bool
    state: CycleState | None
    schedule: Callable[[], Awaitable[tuple[Sequence[Assignment], Status]]]
