"""The conditions of a pod that are the kubelet's own (pkg/kubelet/status/generate.go)."""

from collections.abc import Sequence

import msgspec
from dra_shared.api.container import ContainerStatus
from dra_shared.api.pod import Pod, PodCondition, PodStatus
from dra_shared.simulation import SIMULATED

from dra_node_agent.kubelet.observed import Observed
from dra_node_agent.kubelet.phases import FAILED, SUCCEEDED, TERMINAL
from dra_node_agent.kubelet.restarts import ALL_RESTARTING, is_sidecar, may_restart_all, should_restart_all
from dra_node_agent.kubelet.unsimulated import simulation_condition

# Other conditions belong to other writers.
OWNED = ("PodScheduled", "PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", SIMULATED)


def conditions(pod: Pod, status: PodStatus, observed: Observed, now: str) -> tuple[PodCondition, ...]:
    """Return all conditions of the pod: the kubelet's own, and unchanged those of others."""
    ready_to_start = observed.has_sandbox and not observed.stopped
    wanted = [
        PodCondition(type="PodReadyToStartContainers", status="True" if ready_to_start else "False"),
        _initialized_condition(pod, status),
        *_readiness(pod, status),
        PodCondition(type="PodScheduled", status="True"),
    ]
    if may_restart_all(pod):
        wanted.append(_all_restarting(pod, status, observed))
    known = {condition.type: condition for condition in pod.status.conditions}
    simulated = simulation_condition(pod, observed.records)
    if simulated is not None:
        wanted.append(simulated)
    else:
        known.pop(SIMULATED, None)
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
    if not (there and should_restart_all(pod, observed.records, pod.status)):
        return PodCondition(type=ALL_RESTARTING, status="False")
    return PodCondition(
        type=ALL_RESTARTING,
        status="True",
        reason="RestartAllContainersStarted",
        message="container exited with restart policy rule",
    )


def _initialized_condition(pod: Pod, status: PodStatus) -> PodCondition:
    if status.phase == SUCCEEDED:
        return PodCondition(type="Initialized", status="True", reason="PodCompleted")
    incomplete = []
    for container, entry in zip(pod.spec.init_containers, status.init_container_statuses, strict=True):
        done = entry.started if is_sidecar(container) else entry.ready
        if not done and not (is_sidecar(container) and has_main_started(status.container_statuses)):
            incomplete.append(container.name)
    # Once initialized, the pod stays so, even if all its containers restart.
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


def has_main_started(statuses: Sequence[ContainerStatus]) -> bool:
    """True if any of the containers has ever run."""
    return any(
        status.state.running is not None
        or status.state.terminated is not None
        or status.last_state.terminated is not None
        for status in statuses
    )
