"""The result of a scheduling cycle: a decision for a node, or a failure (upstream's ``ScheduleResult``)."""

from dataclasses import dataclass

from dra_shared.api.pod import Pod

from dra_scheduler.framework.state import CycleState
from dra_scheduler.queue.entry import QueuedPod


@dataclass(slots=True)
class Decision:
    """A pod that is assumed on a node, but not bound yet.

    ``waits``: other members of its gang are bound later, so the pod's status names the node before the pod is
    bound.
    """

    entry: QueuedPod
    state: CycleState
    pod: Pod
    assumed: Pod
    waits: bool = False


@dataclass(slots=True)
class Failure:
    """A pod that got no node.

    ``reason`` is that of the condition, ``message`` its text, ``event`` the event's text if it differs.
    ``plugins`` rejected the pod; None means an error. ``nominated`` is the node that is being freed for it,
    empty to clear it, None for no change. ``held`` are the resources assumed for the pod on that node, which
    other pods of its group cannot use.
    """

    reason: str
    message: str
    event: str | None = None
    plugins: frozenset[str] | None = None
    nominated: str | None = ""
    held: Decision | None = None
