"""The result of a scheduling cycle: a decision for a node, or why there is none (upstream's ``ScheduleResult``)."""

from dataclasses import dataclass

from dra_shared.api.pod import Pod

from dra_scheduler.framework.state import CycleState
from dra_scheduler.queue.entry import QueuedPod


@dataclass(slots=True)
class Decision:
    """A pod that has a node and is assumed there, but not bound yet.

    ``waits``: others of its gang come after it, so its status names the node before it is bound.
    """

    entry: QueuedPod
    state: CycleState
    pod: Pod
    assumed: Pod
    waits: bool = False


@dataclass(slots=True)
class Failure:
    """A pod that has no node.

    ``reason`` is that of the condition, ``message`` its text, ``event`` the event's where that says more. ``plugins``
    rejected the pod; None: something went wrong. ``nominated`` is the node that is being made free for it, empty if
    none is any more, None for no change. ``held`` is its place there, which others of its group have to respect.
    """

    reason: str
    message: str
    event: str | None = None
    plugins: frozenset[str] | None = None
    nominated: str | None = ""
    held: Decision | None = None
