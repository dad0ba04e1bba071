"""Computes a pod's status (generateAPIPodStatus in pkg/kubelet/kubelet_pods.go)."""

from collections.abc import Sequence

import msgspec
from dra_shared.api.container import Container, ContainerState, ContainerStateTerminated, ContainerStatus
from dra_shared.api.pod import HostIP, Pod, PodIP, PodStatus

from dra_node_agent.kubelet.containerstatus import RESTARTING, container_status, unknown_end
from dra_node_agent.kubelet.observed import Observed
from dra_node_agent.kubelet.phases import FAILED, PENDING, RUNNING, SUCCEEDED, TERMINAL
from dra_node_agent.kubelet.podconditions import OWNED, conditions, has_main_started
from dra_node_agent.kubelet.qos import qos_class
from dra_node_agent.kubelet.restarts import is_sidecar, should_restart


def ephemeral_containers(pod: Pod) -> tuple[Container, ...]:
    """Return the pod's ephemeral containers as ordinary containers."""
    shared = Container.__struct_fields__
    return tuple(
        Container(**{name: getattr(entry, name) for name in shared})
        for entry in pod.spec.ephemeral_containers
    )


def pod_status(pod: Pod, observed: Observed, now: str) -> PodStatus:
    """Return the status to report. ``now`` is the time for changed conditions."""
    old = pod.status
    if observed.rejected:
        return _rejected_status(pod, observed, now)
    init = tuple(container_status(pod, c, observed, init=True) for c in pod.spec.init_containers)
    main = tuple(container_status(pod, c, observed, init=False) for c in pod.spec.containers)
    ephemeral = tuple(
        msgspec.structs.replace(container_status(pod, c, observed, init=False), ready=False, started=None)
        for c in ephemeral_containers(pod)
    )
    actual = FAILED if observed.failed_reason else _phase(pod, init, main, observed.terminal)
    phase, reason, message = actual, observed.failed_reason, observed.failed_message
    if phase in TERMINAL and not observed.terminal:
        # The end is reported once everything is released, because the claims are in use until then. Only
        # conditions show it.
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
    status = msgspec.structs.replace(status, conditions=conditions(pod, judged, observed, now))
    if observed.terminal:
        status = _terminated_status(pod, status)
    return msgspec.structs.replace(
        status,
        container_statuses=_by_name(status.container_statuses),
        ephemeral_container_statuses=_by_name(status.ephemeral_container_statuses),
    )


def _rejected_status(pod: Pod, observed: Observed, now: str) -> PodStatus:
    """Return the status of a pod that the node rejects. None of its containers was ever started (rejectPod)."""
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


def _terminated_status(pod: Pod, status: PodStatus) -> PodStatus:
    """Return the last status of a pod none of whose containers will run again (TerminatePod in pkg/kubelet/status)."""
    main, init = status.container_statuses, status.init_container_statuses
    if _was_initialized(pod, status):
        main = tuple(map(_ended_status, main))
    begun = [entry.state.waiting is None or entry.last_state.terminated is not None for entry in init]
    # At least one init container counts as started.
    last = max((index for index, value in enumerate(begun) if value), default=0) + 1
    return msgspec.structs.replace(
        status,
        phase=status.phase if status.phase in TERMINAL else FAILED,
        container_statuses=main,
        init_container_statuses=(*map(_ended_status, init[:last]), *init[last:]),
    )


def _ended_status(status: ContainerStatus) -> ContainerStatus:
    if status.state.terminated is not None:
        return status
    return msgspec.structs.replace(status, state=ContainerState(terminated=unknown_end("terminated")))


def _was_initialized(pod: Pod, status: PodStatus) -> bool:
    """True if the regular containers could ever start."""
    if not pod.spec.init_containers or has_main_started(status.container_statuses):
        return True
    last, entry = pod.spec.init_containers[-1], status.init_container_statuses[-1]
    if is_sidecar(last):
        return entry.state.running is not None and bool(entry.started)
    ends = (entry.state.terminated, entry.last_state.terminated)
    return any(end is not None and end.exit_code == 0 for end in ends)


def _phase(pod: Pod, init: Sequence[ContainerStatus], main: Sequence[ContainerStatus], terminal: bool) -> str:
    failed = initializing = starting = False
    running = waiting = stopped = succeeded = 0
    restarting = False
    began = has_main_started(main)
    for container, status in zip(pod.spec.init_containers, init, strict=True):
        ended = _last_end(status)
        if is_sidecar(container):
            running += status.state.running is not None
            starting |= status.state.running is not None and not status.started
            waiting += status.state.running is None and ended is None
        elif ended is None:
            initializing = True
        elif ended.exit_code != 0:
            failed |= ended.reason != RESTARTING and not should_restart(
                pod, container, ended.exit_code, init=True
            )
    for container, status in zip(pod.spec.containers, main, strict=True):
        ended = _last_end(status)
        if status.state.running is not None:
            running += 1
        elif ended is None:
            waiting += 1
        else:
            stopped += 1
            succeeded += ended.exit_code == 0
            restarting |= ended.reason == RESTARTING or should_restart(pod, container, ended.exit_code)
    if failed:
        return FAILED
    if initializing or (starting and not began) or waiting or not (running or stopped):
        return PENDING
    if running or (restarting and not terminal):
        return RUNNING
    return SUCCEEDED if succeeded == stopped else FAILED


def _last_end(status: ContainerStatus) -> ContainerStateTerminated | None:
    """Return the end of a container that does not run, or None if it never ended."""
    if status.state.running is not None:
        return None
    return status.state.terminated or status.last_state.terminated
