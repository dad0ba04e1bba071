"""Containers whose program is not simulated: the pod condition that names them, and those that serve webhooks."""

from collections.abc import Mapping, Sequence

from dra_shared.api.container import Container
from dra_shared.api.pod import Pod, PodCondition
from dra_shared.simulation import NOT_SIMULATED, SIMULATED

from dra_node_agent.runtime.base import ContainerRecord, State

_WEBHOOK = "webhook"
# The port of controller-runtime's webhook server, if the operator chooses no other.
_WEBHOOK_PORT = 9443


def simulation_condition(pod: Pod, records: Mapping[str, Sequence[ContainerRecord]]) -> PodCondition | None:
    """Return the condition that names the programs of running containers that are not simulated, or None."""
    names = [container.name for container in (*pod.spec.init_containers, *pod.spec.containers)]
    running = [
        record for name in names for record in records.get(name, ())[:1] if record.state is State.RUNNING
    ]
    texts = [f"{record.name}: {record.unsimulated}" for record in running if record.unsimulated]
    if not texts:
        return None
    return PodCondition(type=SIMULATED, status="False", reason=NOT_SIMULATED, message="; ".join(texts))


def serves_webhook(container: Container) -> bool:
    """True if the container's name, program or a port says that it serves a webhook."""
    words = (container.name, *container.command[:1], *(port.name for port in container.ports))
    return any(_WEBHOOK in word for word in words) or any(
        port.container_port == _WEBHOOK_PORT for port in container.ports
    )
