"""The states of a pod on its node (podSyncStatus and PodWorkerState in pkg/kubelet/pod_workers.go).

A pod only moves forward. The order protects devices: claims are prepared before any container may start,
containers are stopped before claims are unprepared, and only then is the pod reported as finished, because
the scheduler may then give its claims to another pod. docs/node-agent.md has the table.
"""

from enum import StrEnum

from dra_shared.states import StateMachine


class PodState(StrEnum):
    """The progress of a pod on its node."""

    NEW = "New"
    ADMITTED = "Admitted"
    PREPARED = "Prepared"
    # The sandbox exists: containers start, end and restart.
    READY_TO_START = "ReadyToStartContainers"
    TERMINATING = "Terminating"
    STOPPED = "Stopped"
    TERMINATED = "Terminated"
    REMOVED = "Removed"


class PodEvent(StrEnum):
    """The events that move a pod to its next state."""

    ADMIT = "node admits the pod"
    PREPARE = "volumes and claims prepared"
    CREATE_SANDBOX = "sandbox created"
    TERMINATE = "pod ended, rejected, evicted or deleted"
    STOP = "containers stopped"
    UNPREPARE = "claims unprepared"
    REMOVE = "object deleted, sandbox and volumes removed"


LIFECYCLE = {
    PodState.NEW: {PodEvent.ADMIT: PodState.ADMITTED, PodEvent.TERMINATE: PodState.TERMINATING},
    PodState.ADMITTED: {PodEvent.PREPARE: PodState.PREPARED, PodEvent.TERMINATE: PodState.TERMINATING},
    PodState.PREPARED: {
        PodEvent.CREATE_SANDBOX: PodState.READY_TO_START,
        PodEvent.TERMINATE: PodState.TERMINATING,
    },
    PodState.READY_TO_START: {PodEvent.TERMINATE: PodState.TERMINATING},
    PodState.TERMINATING: {PodEvent.STOP: PodState.STOPPED},
    PodState.STOPPED: {PodEvent.UNPREPARE: PodState.TERMINATED},
    PodState.TERMINATED: {PodEvent.REMOVE: PodState.REMOVED},
    PodState.REMOVED: dict[PodEvent, PodState](),
}


def new_lifecycle() -> StateMachine[PodState, PodEvent]:
    """Return the state machine of a new pod."""
    return StateMachine(PodState.NEW, LIFECYCLE)
