"""The rules for restarting containers that have ended (ContainerShouldRestart in pkg/api/v1/pod)."""

from collections.abc import Mapping, Sequence

from dra_shared.api.container import Container, ContainerRestartRule
from dra_shared.api.pod import Pod, PodStatus

from dra_node_agent.runtime.base import ContainerRecord, State

RESTART, RESTART_ALL = "Restart", "RestartAllContainers"
ALL_RESTARTING = "AllContainersRestarting"


def is_sidecar(container: Container) -> bool:
    """True if an init container keeps running with the main containers."""
    return container.restart_policy == "Always"


def should_restart(pod: Pod, container: Container, exit_code: int, *, init: bool = False) -> bool:
    """True if the container is restarted after it exited with ``exit_code``."""
    rule = _matching_rule(container, exit_code)
    if rule is not None and rule.action in (RESTART, RESTART_ALL):
        return True
    policy = container.restart_policy or pod.spec.restart_policy or "Always"
    if init and not is_sidecar(container):
        return exit_code != 0 and policy != "Never"
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def may_restart_all(pod: Pod) -> bool:
    """True if the end of some container may restart all of the pod's containers."""
    return any(
        rule.action == RESTART_ALL
        for container in _containers(pod)
        for rule in container.restart_policy_rules
    )


def should_restart_all(pod: Pod, records: Mapping[str, Sequence[ContainerRecord]], status: PodStatus) -> bool:
    """True if all of the pod's containers have to restart, by the runtime's records or the pod's status."""
    if not may_restart_all(pod):
        return False
    if any(entry.type == ALL_RESTARTING and entry.status == "True" for entry in status.conditions):
        return True
    ended = {
        entry.name: entry.state.terminated.exit_code
        for entry in (*status.init_container_statuses, *status.container_statuses)
        if entry.state.terminated is not None
    }
    return any(
        causes_restart_of_all(container, records.get(container.name, ()))
        or (container.name in ended and _restarts_all(container, ended[container.name]))
        for container in _containers(pod)
    )


def causes_restart_of_all(container: Container, records: Sequence[ContainerRecord]) -> bool:
    """True if the container's newest record ended in a way that restarts all containers."""
    return bool(
        records and records[0].state is State.EXITED and _restarts_all(container, records[0].exit_code)
    )


def _restarts_all(container: Container, exit_code: int) -> bool:
    rule = _matching_rule(container, exit_code)
    return rule is not None and rule.action == RESTART_ALL


def _matching_rule(container: Container, exit_code: int) -> ContainerRestartRule | None:
    for rule in container.restart_policy_rules:
        codes = rule.exit_codes
        if codes is not None and (codes.operator == "In") == (exit_code in codes.values):
            return rule
    return None


def _containers(pod: Pod) -> tuple[Container, ...]:
    return (*pod.spec.init_containers, *pod.spec.containers)
