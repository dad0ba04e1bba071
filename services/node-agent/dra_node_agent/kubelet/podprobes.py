"""The probes of one pod's containers (pkg/kubelet/prober/prober_manager.go)."""

from collections.abc import Callable, Mapping

from dra_shared.api.container import Container
from dra_shared.api.pod import Pod
from dra_shared.clock import Clock

from dra_node_agent.kubelet import messages
from dra_node_agent.kubelet.containers import ContainerStarter, EventSink
from dra_node_agent.kubelet.probes import LIVENESS, ProbeFailure, Prober, has_probes
from dra_node_agent.runtime.base import ContainerRecord, Runtime, State


class PodProbes:
    """One prober for each running container with probes. ``on_change`` is called when a result changes."""

    def __init__(
        self,
        runtime: Runtime,
        clock: Clock,
        starter: ContainerStarter,
        event: EventSink,
        on_change: Callable[[], None],
    ) -> None:
        self._runtime = runtime
        self._clock = clock
        self._starter = starter
        self._event = event
        self._on_change = on_change
        self._probers: dict[str, Prober] = {}

    def get(self, container_id: str) -> Prober | None:
        """Return the container's prober, or None."""
        return self._probers.get(container_id)

    def sync(self, pod: Pod, pod_ip: str, latest: Mapping[str, ContainerRecord]) -> None:
        """Probe exactly the containers that run now, ``latest`` by name."""
        containers = {c.name: c for c in (*pod.spec.init_containers, *pod.spec.containers)}
        running = {
            record.id: containers[name]
            for name, record in latest.items()
            if record.state is State.RUNNING and name in containers and has_probes(containers[name])
        }
        for container_id in self._probers.keys() - running.keys():
            self._probers.pop(container_id).stop()
        for container_id, container in running.items():
            if container_id not in self._probers:
                self._probers[container_id] = prober = Prober(
                    self._runtime,
                    self._clock,
                    container,
                    container_id,
                    pod_ip,
                    on_change=self._on_change,
                    on_failure=self._on_failure(pod, container, container_id),
                )
                prober.start()

    def stop(self) -> None:
        """Stop all probes."""
        for prober in self._probers.values():
            prober.stop()
        self._probers.clear()

    def _on_failure(
        self, pod: Pod, container: Container, container_id: str
    ) -> Callable[[ProbeFailure], None]:
        # The grace period of a pod's spec never changes.
        given = pod.spec.termination_grace_period_seconds
        grace = 30 if given is None else given

        def handle_failure(failure: ProbeFailure) -> None:
            self._event("Warning", messages.UNHEALTHY, failure.message, container=container)
            if failure.conclusive and failure.kind != "Readiness":
                text = (
                    messages.liveness_failed(container.name)
                    if failure.kind == LIVENESS
                    else messages.startup_failed(container.name)
                )
                self._event("Normal", messages.KILLING, text, container=container)
                self._starter.tasks.start(self._runtime.stop(container_id, grace))

        return handle_failure
