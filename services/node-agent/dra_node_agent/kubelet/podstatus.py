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
from dra_node_agent.runtime.base import ContainerRecord, State

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
TERMINAL = frozenset((SUCCEEDED, FAILED))


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


def is_sidecar(container: Container) -> bool:
    """Whether an init container keeps running beside the main containers."""
    return container.restart_policy == "Always"


def ephemeral_containers(pod: Pod) -> tuple[Container, ...]:
    """The pod's ephemeral containers, as containers like any other."""
    shared = Container.__struct_fields__
    return tuple(
        Container(**{name: getattr(entry, name) for name in shared})
        for entry in pod.spec.ephemeral_containers
    )


def restarts(pod: Pod, container: Container, exit_code: int, *, init: bool = False) -> bool:
    """Whether the container is started again after it exited with ``exit_code``."""
    for rule in container.restart_policy_rules:
        if rule.action != "Restart" or rule.exit_codes is None:
            continue
        if (rule.exit_codes.operator == "In") == (exit_code in rule.exit_codes.values):
            return True
    policy = container.restart_policy or pod.spec.restart_policy or "Always"
    if init and not is_sidecar(container):
        return exit_code != 0 and policy != "Never"
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def pod_status(pod: Pod, observed: Observed, now: str) -> PodStatus:
    """The status to report; ``now`` is the time of conditions that change."""
    old = pod.status
    init = tuple(_container_status(pod, c, observed, init=True) for c in pod.spec.init_containers)
    main = tuple(_container_status(pod, c, observed, init=False) for c in pod.spec.containers)
    ephemeral = tuple(
        msgspec.structs.replace(_container_status(pod, c, observed, init=False), ready=False, started=None)
        for c in ephemeral_containers(pod)
    )
    actual = FAILED if observed.failed_reason else _phase(pod, init, main, observed.stopped)
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
    return msgspec.structs.replace(status, conditions=_conditions(pod, judged, observed, now))


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
    waiting = observed.waiting.get(container.name)
    if latest is None:
        if old is not None and old.state.terminated is not None:
            return old
        lost = old is not None and old.state.running is not None
        state = ContainerState(waiting=waiting or _default_waiting(pod, observed))
        last = old.last_state if old is not None else ContainerState()
        if observed.terminal or (lost and observed.failed_reason):
            state = ContainerState(
                terminated=ContainerStateTerminated(
                    exit_code=137,
                    reason="ContainerStatusUnknown",
                    message="The container could not be located when the pod was terminated",
                )
            )
        return ContainerStatus(
            name=container.name,
            image=container.image,
            started=False,
            state=state,
            last_state=last,
            restart_count=old.restart_count if old is not None else 0,
            allocated_resources_status=old.allocated_resources_status if old is not None else (),
        )
    state = _state(latest, observed.runtime)
    last = _state(previous, observed.runtime) if previous is not None else ContainerState()
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
        restart_count=latest.attempt,
        state=state,
        last_state=last,
        resources=container.resources,
        allocated_resources=container.resources.requests,
        allocated_resources_status=old.allocated_resources_status if old is not None else (),
    )


def _default_waiting(pod: Pod, observed: Observed) -> ContainerStateWaiting:
    if pod.spec.init_containers and observed.has_sandbox:
        return ContainerStateWaiting(reason="PodInitializing")
    return ContainerStateWaiting(
        reason="PodInitializing" if pod.spec.init_containers else "ContainerCreating"
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


def _phase(
    pod: Pod, init: Sequence[ContainerStatus], main: Sequence[ContainerStatus], stopped_for_good: bool
) -> str:
    initializing = failed = False
    for container, status in zip(pod.spec.init_containers, init, strict=True):
        if is_sidecar(container):
            initializing |= not status.started and status.state.terminated is None and not main_began(main)
            continue
        terminated = status.state.terminated or (
            status.last_state.terminated if status.state.waiting is not None else None
        )
        if status.state.running is not None or terminated is None:
            initializing = True
        elif terminated.exit_code != 0:
            initializing = True
            failed |= not restarts(pod, container, terminated.exit_code, init=True)
    if failed:
        return FAILED
    if initializing and not main_began(main):
        return PENDING
    running = waiting = stopped = succeeded = 0
    restarting = False
    for container, status in zip(pod.spec.containers, main, strict=True):
        if status.state.running is not None:
            running += 1
            continue
        ended = status.state.terminated
        if ended is None and status.state.waiting is not None:
            ended = status.last_state.terminated
        if ended is None:
            waiting += 1
            continue
        stopped += 1
        succeeded += ended.exit_code == 0
        restarting |= not stopped_for_good and restarts(pod, container, ended.exit_code)
    if waiting:
        return PENDING
    if running or restarting:
        return RUNNING
    if not stopped:
        return PENDING
    return SUCCEEDED if succeeded == stopped else FAILED


def main_began(statuses: Sequence[ContainerStatus]) -> bool:
    """Whether any of the containers has ever run."""
    return any(
        status.state.running is not None
        or status.state.terminated is not None
        or status.last_state.terminated is not None
        for status in statuses
    )


def _conditions(pod: Pod, status: PodStatus, observed: Observed, now: str) -> tuple[PodCondition, ...]:
    ready_to_start = observed.has_sandbox and not observed.terminal
    wanted = [
        PodCondition(type="PodReadyToStartContainers", status="True" if ready_to_start else "False"),
        _initialized(pod, status),
        *_readiness(pod, status),
        PodCondition(type="PodScheduled", status="True"),
    ]
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
                observed_generation=pod.metadata.generation or None,
            )
        )
    return (*result, *known.values())


def _initialized(pod: Pod, status: PodStatus) -> PodCondition:
    if status.phase == SUCCEEDED:
        return PodCondition(type="Initialized", status="True", reason="PodCompleted")
    incomplete = []
    for container, entry in zip(pod.spec.init_containers, status.init_container_statuses, strict=True):
        done = entry.started if is_sidecar(container) else entry.ready
        if not done and not (is_sidecar(container) and main_began(status.container_statuses)):
            incomplete.append(container.name)
    if incomplete:
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
