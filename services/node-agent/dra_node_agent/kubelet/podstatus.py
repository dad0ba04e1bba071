"""A pod's status from what runs of it (generateAPIPodStatus in pkg/kubelet/kubelet_pods.go)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
from dra_shared.api.container import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
)
from dra_shared.api.pod import HostIP, Pod, PodCondition, PodIP, PodStatus
from dra_shared.clock import rfc3339

from dra_node_agent.kubelet.qos import qos_class
from dra_node_agent.kubelet.restarts import (
    ALL_RESTARTING,
    is_sidecar,
    may_restart_all,
    restart_all,
    restarts,
)
from dra_node_agent.runtime.base import ContainerRecord, State

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
TERMINAL = frozenset((SUCCEEDED, FAILED))

# The conditions that are the kubelet's own; others are whoever's wrote them.
OWNED = ("PodScheduled", "PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
_RESTARTING = "RestartingAllContainers"
_REMOVED = "The container is removed because RestartAllContainers in place"


@dataclass
class Observed:
    """What the kubelet knows of a pod beyond its object: the newest containers first, by container name.

    ``stopped``: nothing of it will run again; ``terminal``: nor is anything prepared for it any more.
    """

    records: Mapping[str, Sequence[ContainerRecord]] = field(default_factory=dict)
    waiting: Mapping[str, ContainerStateWaiting] = field(default_factory=dict)
    started: Mapping[str, bool] = field(default_factory=dict)
    ready: Mapping[str, bool] = field(default_factory=dict)
    has_sandbox: bool = False
    pod_ip: str = ""
    host_ip: str = ""
    runtime: str = "fake"
    stopped: bool = False
    terminal: bool = False
    failed_reason: str = ""
    failed_message: str = ""
    rejected: bool = False


def ephemeral_containers(pod: Pod) -> tuple[Container, ...]:
    """The pod's ephemeral containers, as containers like any other."""
    shared = Container.__struct_fields__
    return tuple(
        Container(**{name: getattr(entry, name) for name in shared})
        for entry in pod.spec.ephemeral_containers
    )


def pod_status(pod: Pod, observed: Observed, now: str) -> PodStatus:
    """The status to report; ``now`` is the time of conditions that change."""
    old = pod.status
    if observed.rejected:
        return _rejected(pod, observed, now)
    init = tuple(_container_status(pod, c, observed, init=True) for c in pod.spec.init_containers)
    main = tuple(_container_status(pod, c, observed, init=False) for c in pod.spec.containers)
    ephemeral = tuple(
        msgspec.structs.replace(_container_status(pod, c, observed, init=False), ready=False, started=None)
        for c in ephemeral_containers(pod)
    )
    actual = FAILED if observed.failed_reason else _phase(pod, init, main, observed.terminal)
    phase, reason, message = actual, observed.failed_reason, observed.failed_message
    if phase in TERMINAL and not observed.terminal:
        # Reported once everything is given back: until then the claims are in use. Only conditions tell of it.
        phase = old.phase if old.phase in (PENDING, RUNNING) else RUNNING
        reason = message = ""
    if old.phase in TERMINAL:
        phase = actual = old.phase
    status = msgspec.structs.replace(
        old,
        phase=phase,
        reason=reason or old.reason,
        message=message or old.message,
        init_container_statuses=init,
        container_statuses=main,
        ephemeral_container_statuses=ephemeral,
        qos_class=qos_class(pod),
        start_time=old.start_time or now,
        host_ip=observed.host_ip,
        host_ips=(HostIP(ip=observed.host_ip),) if observed.host_ip else (),
        observed_generation=pod.metadata.generation or None,
    )
    if observed.pod_ip:
        status = msgspec.structs.replace(status, pod_ip=observed.pod_ip, pod_ips=(PodIP(ip=observed.pod_ip),))
    judged = msgspec.structs.replace(status, phase=actual)
    status = msgspec.structs.replace(status, conditions=_conditions(pod, judged, observed, now))
    if observed.terminal:
        status = _terminated(pod, status)
    return msgspec.structs.replace(
        status,
        container_statuses=_by_name(status.container_statuses),
        ephemeral_container_statuses=_by_name(status.ephemeral_container_statuses),
    )


def _rejected(pod: Pod, observed: Observed, now: str) -> PodStatus:
    """The status of a pod that the node does not take: nothing of it was ever looked at (rejectPod)."""
    old = pod.status
    return msgspec.structs.replace(
        old,
        phase=FAILED,
        reason=observed.failed_reason,
        message=observed.failed_message,
        conditions=tuple(entry for entry in old.conditions if entry.type not in OWNED),
        qos_class=qos_class(pod),
        start_time=old.start_time or now,
        observed_generation=pod.metadata.generation or None,
    )


def _by_name(statuses: Sequence[ContainerStatus]) -> tuple[ContainerStatus, ...]:
    return tuple(sorted(statuses, key=lambda status: status.name))


def _container_status(pod: Pod, container: Container, observed: Observed, *, init: bool) -> ContainerStatus:
    records = observed.records.get(container.name, ())
    latest = records[0] if records else None
    previous = records[1] if len(records) > 1 else None
    status = pod.status
    known = {
        s.name: s
        for s in (
            *status.init_container_statuses,
            *status.container_statuses,
            *status.ephemeral_container_statuses,
        )
    }
    old = known.get(container.name)
    # What is being deleted is not started again, so it does not wait for that.
    deleting = pod.metadata.deletion_timestamp is not None
    waiting = None if deleting else observed.waiting.get(container.name)
    if latest is None:
        if old is not None and old.state.waiting is None and restart_all(pod, observed.records, status):
            return _removed(pod, old)
        if old is not None and old.state.terminated is not None:
            return msgspec.structs.replace(old, allocated_resources_status=())
        last = old.last_state if old is not None else ContainerState()
        restart_count = old.restart_count if old is not None else 0
        if old is not None and old.state.running is not None and last.terminated is None:
            last = ContainerState(
                terminated=_unknown("deleted.  The container used to be Running"),
            )
            restart_count += not deleting
        return ContainerStatus(
            name=container.name,
            image=container.image,
            started=False,
            state=ContainerState(waiting=waiting or _default_waiting(pod)),
            last_state=last,
            restart_count=restart_count,
        )
    state = _state(latest, observed.runtime)
    last = _state(previous, observed.runtime) if previous is not None else ContainerState()
    if previous is None and old is not None:
        # What ended before may have been removed from the runtime.
        replaced = (
            old.state.terminated is not None and old.container_id != f"{observed.runtime}://{latest.id}"
        )
        last = old.state if replaced else old.last_state
    if (
        latest.state is State.EXITED
        and waiting is not None
        and restarts(pod, container, latest.exit_code, init=init)
    ):
        state, last = ContainerState(waiting=waiting), state
    running = latest.state is State.RUNNING
    started = running and observed.started.get(container.name, container.startup_probe is None)
    if init and not is_sidecar(container):
        ready = latest.state is State.EXITED and latest.exit_code == 0
        started = running
    else:
        ready = running and started and observed.ready.get(container.name, container.readiness_probe is None)
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
        resources=container.resources,
        allocated_resources=container.resources.requests,
    )


def _removed(pod: Pod, old: ContainerStatus) -> ContainerStatus:
    kept = old
    if old.state.terminated is None:
        kept = ContainerStatus(name=old.name, image=old.image, started=False)
    return msgspec.structs.replace(
        kept,
        state=ContainerState(waiting=ContainerStateWaiting(reason=_RESTARTING, message=_REMOVED)),
        last_state=ContainerState(
            terminated=ContainerStateTerminated(exit_code=137, reason=_RESTARTING, message=_REMOVED)
        ),
        restart_count=old.restart_count + 1,
        allocated_resources_status=(),
    )


def _default_waiting(pod: Pod) -> ContainerStateWaiting:
    return ContainerStateWaiting(
        reason="PodInitializing" if pod.spec.init_containers else "ContainerCreating"
    )


def _unknown(when: str) -> ContainerStateTerminated:
    return ContainerStateTerminated(
        exit_code=137,
        reason="ContainerStatusUnknown",
        message=f"The container could not be located when the pod was {when}",
    )


def _terminated(pod: Pod, status: PodStatus) -> PodStatus:
    """The last status of a pod of which nothing will run any more (TerminatePod in pkg/kubelet/status)."""
    main, init = status.container_statuses, status.init_container_statuses
    if _was_initialized(pod, status):
        main = tuple(map(_ended, main))
    begun = [entry.state.waiting is None or entry.last_state.terminated is not None for entry in init]
    # One init container at least counts as begun.
    last = max((index for index, value in enumerate(begun) if value), default=0) + 1
    return msgspec.structs.replace(
        status,
        phase=status.phase if status.phase in TERMINAL else FAILED,
        container_statuses=main,
        init_container_statuses=(*map(_ended, init[:last]), *init[last:]),
    )


def _ended(status: ContainerStatus) -> ContainerStatus:
    if status.state.terminated is not None:
        return status
    return msgspec.structs.replace(status, state=ContainerState(terminated=_unknown("terminated")))


def _was_initialized(pod: Pod, status: PodStatus) -> bool:
    """Whether the regular containers ever had their turn."""
    if not pod.spec.init_containers or main_began(status.container_statuses):
        return True
    last, entry = pod.spec.init_containers[-1], status.init_container_statuses[-1]
    if is_sidecar(last):
        return entry.state.running is not None and bool(entry.started)
    ends = (entry.state.terminated, entry.last_state.terminated)
    return any(end is not None and end.exit_code == 0 for end in ends)


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


def _phase(pod: Pod, init: Sequence[ContainerStatus], main: Sequence[ContainerStatus], terminal: bool) -> str:
    failed = initializing = starting = False
    running = waiting = stopped = succeeded = 0
    restarting = False
    began = main_began(main)
    for container, status in zip(pod.spec.init_containers, init, strict=True):
        ended = _last_end(status)
        if is_sidecar(container):
            running += status.state.running is not None
            starting |= status.state.running is not None and not status.started
            waiting += status.state.running is None and ended is None
        elif ended is None:
            initializing = True
        elif ended.exit_code != 0:
            failed |= ended.reason != _RESTARTING and not restarts(pod, container, ended.exit_code, init=True)
    for container, status in zip(pod.spec.containers, main, strict=True):
        ended = _last_end(status)
        if status.state.running is not None:
            running += 1
        elif ended is None:
            waiting += 1
        else:
            stopped += 1
            succeeded += ended.exit_code == 0
            restarting |= ended.reason == _RESTARTING or restarts(pod, container, ended.exit_code)
    if failed:
        return FAILED
    if initializing or (starting and not began) or waiting or not (running or stopped):
        return PENDING
    if running or (restarting and not terminal):
        return RUNNING
    return SUCCEEDED if succeeded == stopped else FAILED


def _last_end(status: ContainerStatus) -> ContainerStateTerminated | None:
    """How the container ended that does not run, if it ever did."""
    if status.state.running is not None:
        return None
    return status.state.terminated or status.last_state.terminated


def main_began(statuses: Sequence[ContainerStatus]) -> bool:
    """Whether any of the containers has ever run."""
    return any(
        status.state.running is not None
        or status.state.terminated is not None
        or status.last_state.terminated is not None
        for status in statuses
    )


def _conditions(pod: Pod, status: PodStatus, observed: Observed, now: str) -> tuple[PodCondition, ...]:
    ready_to_start = observed.has_sandbox and not observed.stopped
    wanted = [
        PodCondition(type="PodReadyToStartContainers", status="True" if ready_to_start else "False"),
        _initialized(pod, status),
        *_readiness(pod, status),
        PodCondition(type="PodScheduled", status="True"),
    ]
    if may_restart_all(pod):
        wanted.append(_all_restarting(pod, status, observed))
    known = {condition.type: condition for condition in pod.status.conditions}
    result = []
    for condition in wanted:
        old = known.pop(condition.type, None)
        same = old is not None and old.status == condition.status
        if condition.type == "PodScheduled" and old is not None:
            condition = old
        result.append(
            msgspec.structs.replace(
                condition,
                last_transition_time=old.last_transition_time if same and old is not None else now,
                observed_generation=None
                if condition.type == ALL_RESTARTING
                else pod.metadata.generation or None,
            )
        )
    return (*result, *known.values())


def _all_restarting(pod: Pod, status: PodStatus, observed: Observed) -> PodCondition:
    if status.phase in TERMINAL:
        reason = "PodCompleted" if status.phase == SUCCEEDED else "PodFailed"
        return PodCondition(type=ALL_RESTARTING, status="False", reason=reason)
    there = any(
        container.name in observed.records for container in (*pod.spec.init_containers, *pod.spec.containers)
    )
    if not (there and restart_all(pod, observed.records, pod.status)):
        return PodCondition(type=ALL_RESTARTING, status="False")
    return PodCondition(
        type=ALL_RESTARTING,
        status="True",
        reason="RestartAllContainersStarted",
        message="container exited with restart policy rule",
    )


def _initialized(pod: Pod, status: PodStatus) -> PodCondition:
    if status.phase == SUCCEEDED:
        return PodCondition(type="Initialized", status="True", reason="PodCompleted")
    incomplete = []
    for container, entry in zip(pod.spec.init_containers, status.init_container_statuses, strict=True):
        done = entry.started if is_sidecar(container) else entry.ready
        if not done and not (is_sidecar(container) and main_began(status.container_statuses)):
            incomplete.append(container.name)
    # What was initialized once stays so, also where all its containers start anew.
    known = any(entry.type == "Initialized" and entry.status == "True" for entry in pod.status.conditions)
    if incomplete and not known:
        return PodCondition(
            type="Initialized",
            status="False",
            reason="ContainersNotInitialized",
            message=f"containers with incomplete status: [{' '.join(incomplete)}]",
        )
    return PodCondition(type="Initialized", status="True")


def _readiness(pod: Pod, status: PodStatus) -> tuple[PodCondition, PodCondition]:
    containers = _containers_ready(pod, status)
    ready = msgspec.structs.replace(containers, type="Ready")
    if containers.status == "True":
        known = {condition.type: condition.status for condition in pod.status.conditions}
        unready = []
        for gate in pod.spec.readiness_gates:
            name, value = gate.condition_type, known.get(gate.condition_type)
            if value is None:
                unready.append(f'corresponding condition of pod readiness gate "{name}" does not exist.')
            elif value != "True":
                unready.append(f'the status of pod readiness gate "{name}" is not "True", but {value}')
        if unready:
            ready = PodCondition(
                type="Ready", status="False", reason="ReadinessGatesNotReady", message=", ".join(unready)
            )
    return ready, containers


def _containers_ready(pod: Pod, status: PodStatus) -> PodCondition:
    kind = "ContainersReady"
    if status.phase == SUCCEEDED:
        return PodCondition(type=kind, status="False", reason="PodCompleted")
    if status.phase == FAILED:
        return PodCondition(type=kind, status="False", reason="PodFailed")
    unready = [
        entry.name
        for container, entry in zip(pod.spec.init_containers, status.init_container_statuses, strict=True)
        if is_sidecar(container) and not entry.ready
    ]
    unready += [entry.name for entry in status.container_statuses if not entry.ready]
    if not unready:
        return PodCondition(type=kind, status="True")
    return PodCondition(
        type=kind,
        status="False",
        reason="ContainersNotReady",
        message=f"containers with unready status: [{' '.join(unready)}]",
    )
