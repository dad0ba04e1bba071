"""Computes a container's status (convertToAPIContainerStatuses in pkg/kubelet/kubelet_pods.go)."""

from collections.abc import Sequence

import msgspec
from dra_shared.api.container import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    ResourceRequirements,
)
from dra_shared.api.pod import Pod, PodStatus
from dra_shared.clock import rfc3339

from dra_node_agent.kubelet.observed import Observed
from dra_node_agent.kubelet.restarts import is_sidecar, should_restart, should_restart_all
from dra_node_agent.kubelet.unsimulated import serves_webhook
from dra_node_agent.runtime.base import ContainerRecord, State

RESTARTING = "RestartingAllContainers"
_REMOVED = "The container is removed because RestartAllContainers in place"


def container_status(pod: Pod, container: Container, observed: Observed, *, init: bool) -> ContainerStatus:
    """Return the status to report for one container of the pod."""
    records = observed.records.get(container.name, ())
    old = _find_reported(pod.status, container.name)
    # Containers of a pod that is being deleted are not restarted, so they have no waiting state.
    deleting = pod.metadata.deletion_timestamp is not None
    waiting = None if deleting else observed.waiting.get(container.name)
    if not records:
        return _without_record(pod, container, observed, old, waiting)
    latest = records[0]
    state, last = _state(latest, observed.runtime), _last_state(records, old, observed.runtime)
    if (
        latest.state is State.EXITED
        and waiting is not None
        and should_restart(pod, container, latest.exit_code, init=init)
    ):
        state, last = ContainerState(waiting=waiting), state
    started, ready = _started_and_ready(container, latest, observed, init=init)
    return ContainerStatus(
        name=container.name,
        image=latest.image,
        image_id=latest.image_id,
        container_id=f"{observed.runtime}://{latest.id}",
        ready=ready,
        started=started,
        restart_count=max(latest.attempt, old.restart_count if old is not None else 0),
        state=state,
        last_state=last,
        resources=_resources(container, observed),
        allocated_resources=container.resources.requests,
    )


def _resources(container: Container, observed: Observed) -> ResourceRequirements:
    """Return the resources that were requested from the runtime."""
    limits = observed.limits.get(container.name)
    if limits is None:
        return container.resources
    return msgspec.structs.replace(container.resources, limits=dict(limits))


def _find_reported(status: PodStatus, name: str) -> ContainerStatus | None:
    """Return the newest reported status of the container ``name``, or None."""
    entries = (
        *status.ephemeral_container_statuses,
        *status.container_statuses,
        *status.init_container_statuses,
    )
    return next((entry for entry in entries if entry.name == name), None)


def _without_record(
    pod: Pod,
    container: Container,
    observed: Observed,
    old: ContainerStatus | None,
    waiting: ContainerStateWaiting | None,
) -> ContainerStatus:
    """Return the status of a container that the runtime does not have yet or no longer has."""
    last, restart_count = ContainerState(), 0
    if old is not None:
        if old.state.waiting is None and should_restart_all(pod, observed.records, pod.status):
            return _removed_status(pod, old)
        if old.state.terminated is not None:
            return msgspec.structs.replace(old, allocated_resources_status=())
        last, restart_count = old.last_state, old.restart_count
        if old.state.running is not None and last.terminated is None:
            last = ContainerState(terminated=unknown_end("deleted.  The container used to be Running"))
            restart_count += pod.metadata.deletion_timestamp is None
    return ContainerStatus(
        name=container.name,
        image=container.image,
        started=False,
        state=ContainerState(waiting=waiting or _default_waiting(pod)),
        last_state=last,
        restart_count=restart_count,
    )


def _last_state(
    records: Sequence[ContainerRecord], old: ContainerStatus | None, runtime: str
) -> ContainerState:
    if len(records) > 1:
        return _state(records[1], runtime)
    if old is None:
        return ContainerState()
    # The runtime may have removed the previous container.
    replaced = old.state.terminated is not None and old.container_id != f"{runtime}://{records[0].id}"
    return old.state if replaced else old.last_state


def _started_and_ready(
    container: Container, latest: ContainerRecord, observed: Observed, *, init: bool
) -> tuple[bool, bool]:
    running = latest.state is State.RUNNING
    if init and not is_sidecar(container):
        return running, latest.state is State.EXITED and latest.exit_code == 0
    started = running and observed.started.get(container.name, container.startup_probe is None)
    ready = running and started and observed.ready.get(container.name, container.readiness_probe is None)
    # Keep the container not ready. Otherwise the API server would call its webhook, which nothing serves, and
    # fail requests.
    return started, ready and not (latest.unsimulated and serves_webhook(container))


def _removed_status(pod: Pod, old: ContainerStatus) -> ContainerStatus:
    kept = old
    if old.state.terminated is None:
        kept = ContainerStatus(name=old.name, image=old.image, started=False)
    return msgspec.structs.replace(
        kept,
        state=ContainerState(waiting=ContainerStateWaiting(reason=RESTARTING, message=_REMOVED)),
        last_state=ContainerState(
            terminated=ContainerStateTerminated(exit_code=137, reason=RESTARTING, message=_REMOVED)
        ),
        restart_count=old.restart_count + 1,
        allocated_resources_status=(),
    )


def _default_waiting(pod: Pod) -> ContainerStateWaiting:
    return ContainerStateWaiting(
        reason="PodInitializing" if pod.spec.init_containers else "ContainerCreating"
    )


def unknown_end(when: str) -> ContainerStateTerminated:
    """Return the termination of a container that the runtime lost. ``when`` completes upstream's sentence."""
    return ContainerStateTerminated(
        exit_code=137,
        reason="ContainerStatusUnknown",
        message=f"The container could not be located when the pod was {when}",
    )


def _state(record: ContainerRecord, runtime: str) -> ContainerState:
    started = rfc3339(record.started_at) if record.started_at is not None else None
    if record.state is State.RUNNING:
        return ContainerState(running=ContainerStateRunning(started_at=started))
    return ContainerState(
        terminated=ContainerStateTerminated(
            container_id=f"{runtime}://{record.id}",
            exit_code=record.exit_code,
            reason=record.reason or ("Completed" if record.exit_code == 0 else "Error"),
            message=record.message,
            signal=record.signal,
            started_at=started,
            finished_at=rfc3339(record.finished_at) if record.finished_at is not None else None,
        )
    )
