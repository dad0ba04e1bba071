"""The containers of one pod: those that run, start next or wait (computePodActions, SyncPod in kuberuntime).

Containers start in this order: ephemeral containers as soon as they are added; init containers one after the
other, each until it ends, or for a sidecar until it has started; the main containers after all of these.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from dra_shared.api.container import Container, ContainerStateWaiting
from dra_shared.api.pod import Pod
from dra_shared.backoff import Backoff
from dra_shared.clock import Clock

from dra_node_agent.kubelet import messages
from dra_node_agent.kubelet.containers import ContainerStarter, EventSink
from dra_node_agent.kubelet.podprobes import PodProbes
from dra_node_agent.kubelet.podstatus import ephemeral_containers
from dra_node_agent.kubelet.restarts import causes_restart_of_all, is_sidecar, may_restart_all, should_restart
from dra_node_agent.kubelet.statuses import StatusReporter
from dra_node_agent.runtime.base import ContainerRecord, Runtime, RuntimeFailure, State

_LONGEST_START_RETRY = 10.0
# The number of past attempts that are kept for a container's last state and previous log.
_PAST_ATTEMPTS = 1


class PodContainers:
    """Starts and restarts the containers of the pod that ``current`` returns.

    ``volumes`` and ``pod_ip`` are passed to containers. ``waiting`` has the reasons why containers do not
    run.
    """

    def __init__(
        self,
        runtime: Runtime,
        clock: Clock,
        starter: ContainerStarter,
        current: Callable[[], Pod],
        statuses: StatusReporter,
        event: EventSink,
        probes: PodProbes,
    ) -> None:
        self._runtime = runtime
        self._clock = clock
        self._starter = starter
        self._current = current
        self._statuses = statuses
        self._event = event
        self._probes = probes
        self._backoff = Backoff()
        self.volumes: Mapping[str, Path] = {}
        self.pod_ip = ""
        self.waiting: dict[str, ContainerStateWaiting] = {}

    # Running containers

    def records(self) -> dict[str, list[ContainerRecord]]:
        """Return the containers by name, with the newest attempt first."""
        found: dict[str, list[ContainerRecord]] = {}
        for record in self._starter.records(self._current().metadata.uid):
            found.setdefault(record.name, []).append(record)
        for records in found.values():
            records.sort(key=lambda record: record.attempt, reverse=True)
        return found

    def has_unreported_end(self) -> bool:
        """True if the newest status shows an exited container as running.

        Its end is reported before it is restarted, so that no end is missed.
        """
        status = self._statuses.newest
        return any(
            entry.state.running is not None
            and (latest := self._latest(entry.name)) is not None
            and latest.state is State.EXITED
            for entry in (*status.init_container_statuses, *status.container_statuses)
        )

    def are_all_finished(self) -> bool:
        """True if no container runs or will ever run again."""
        pod = self._current()
        for container in pod.spec.init_containers:
            latest = self._latest(container.name)
            if is_sidecar(container) or latest is None or latest.state is State.RUNNING:
                continue
            if latest.exit_code != 0 and not should_restart(pod, container, latest.exit_code, init=True):
                return True
        return all(
            (latest := self._latest(container.name)) is not None
            and latest.state is State.EXITED
            and not should_restart(pod, container, latest.exit_code)
            for container in pod.spec.containers
        )

    # Starting

    async def start_next(self) -> float | None:
        """Start the containers that are due. Return the seconds until more may be due."""
        pod = self._current()
        self._follow_probes()
        delays = await self._start_ephemeral(pod)
        initialized, more = await self._start_init(pod)
        delays += more
        if initialized:
            for container in pod.spec.containers:
                latest = self._latest(container.name)
                if latest is None or (
                    latest.state is State.EXITED and should_restart(pod, container, latest.exit_code)
                ):
                    delays += await self._start(container, latest, init=False)
        return min(delays, default=None)

    async def _start_ephemeral(self, pod: Pod) -> list[float]:
        delays: list[float] = []
        for container in ephemeral_containers(pod):
            # Each ephemeral container is started once, independently of the others, and never restarted.
            if self._latest(container.name) is None and not self._has_run_before(container.name):
                delays += await self._start(container, None, init=False)
        return delays

    async def _start_init(self, pod: Pod) -> tuple[bool, list[float]]:
        """Start the next init container, and restart sidecars. Return True if the main containers may run."""
        delays: list[float] = []
        began = any(self._belongs_to_sandbox(self._latest(one.name)) for one in pod.spec.containers)
        for container in pod.spec.init_containers:
            latest = self._latest(container.name)
            if is_sidecar(container):
                if latest is None or latest.state is State.EXITED:
                    delays += await self._start(container, latest, init=True)
                if not began and not self._is_started(container):
                    return False, delays
                continue
            # After a reboot the pod has another sandbox, in which nothing is initialized.
            again = not self._belongs_to_sandbox(latest)
            if began or (not again and latest is not None and _has_succeeded(latest)):
                continue
            if latest is None or (
                latest.state is State.EXITED
                and (again or should_restart(pod, container, latest.exit_code, init=True))
            ):
                delays += await self._start(container, latest, init=True)
            return False, delays
        return True, delays

    async def _start(
        self, container: Container, latest: ContainerRecord | None, *, init: bool
    ) -> list[float]:
        """Start the container unless it must wait. Return the seconds to wait, if any."""
        key = container.name
        now = self._clock.monotonic()
        attempt = self._restart_count(key)
        if latest is not None:
            attempt = latest.attempt + 1
            if left := self._back_off(container, latest, now):
                return [left]
        try:
            await self._starter.start(
                self._current(), container, attempt, self.volumes, self.pod_ip, self._event, init=init
            )
        except RuntimeFailure as error:
            self.waiting[key] = ContainerStateWaiting(reason=error.reason, message=str(error))
            return [self._delay_start(key, now)]
        self.waiting.pop(key, None)
        for record in self.records().get(key, ())[1 + _PAST_ATTEMPTS :]:
            await self._runtime.remove(record.id)
        self._follow_probes()
        return []

    def _back_off(self, container: Container, latest: ContainerRecord, now: float) -> float:
        """Return the seconds until the container may restart. 0 if it may now, which extends the next backoff."""
        key, meta = container.name, self._current().metadata
        ended = latest.finished_at or self._clock.now()
        failed_at = now - max((self._clock.now() - ended).total_seconds(), 0.0)
        left = self._backoff.remaining_delay(key, failed_at, now)
        if left <= 0:
            self._backoff.next(key, failed_at, now)
            return 0.0
        full = f"{meta.name}_{meta.namespace}({meta.uid})"
        if key not in self.waiting:
            self._event("Warning", messages.BACK_OFF, messages.backing_off(key, full), container=container)
        self.waiting[key] = ContainerStateWaiting(
            reason="CrashLoopBackOff",
            message=messages.back_off_waiting(self._backoff.delay(key), key, full),
        )
        return left

    def _delay_start(self, key: str, now: float) -> float:
        self._backoff.next(f"{key} start", now, now)
        return min(self._backoff.delay(f"{key} start"), _LONGEST_START_RETRY)

    def _restart_count(self, name: str) -> int:
        status = self._statuses.newest
        known = (*status.init_container_statuses, *status.container_statuses)
        return next((entry.restart_count for entry in known if entry.name == name), 0)

    def _has_run_before(self, ephemeral: str) -> bool:
        """True if the pod's status has the ephemeral container, although the runtime no longer has it."""
        statuses = self._statuses.newest.ephemeral_container_statuses
        return any(status.name == ephemeral and status.state.waiting is None for status in statuses)

    def _is_started(self, container: Container) -> bool:
        latest = self._latest(container.name)
        if latest is None or latest.state is not State.RUNNING:
            return False
        prober = self._probes.get(latest.id)
        return prober.started if prober is not None else True

    def _belongs_to_sandbox(self, record: ContainerRecord | None) -> bool:
        """True if the container was started in the pod's present sandbox, not in one before a reboot."""
        created = self._runtime.sandbox_created(self._current().metadata.uid)
        if record is None or created is None:
            return False
        return record.started_at is None or record.started_at >= created

    def _latest(self, name: str) -> ContainerRecord | None:
        records = self.records().get(name)
        return records[0] if records else None

    def _follow_probes(self) -> None:
        latest = {name: records[0] for name, records in self.records().items()}
        self._probes.sync(self._current(), self.pod_ip, latest)

    # Restarting all containers

    def restart_causes(self) -> list[str]:
        """Return the names of containers whose end restarts all containers of the pod."""
        pod = self._current()
        if not may_restart_all(pod):
            return []
        records = self.records()
        return [
            container.name
            for container in (*pod.spec.containers, *pod.spec.init_containers)
            if causes_restart_of_all(container, records.get(container.name, ()))
        ]

    async def remove_all(self) -> None:
        """Remove all containers, those whose end caused the restart last.

        After a crash halfway, the cause is still present.
        """
        spec, records, causes = self._current().spec, self.records(), self.restart_causes()
        containers = (*spec.containers, *spec.init_containers)
        for container in sorted(containers, key=lambda container: container.name in causes):
            for record in records.get(container.name, ()):
                if record.state is State.RUNNING:
                    self._event("Normal", messages.KILLING, "killing", container=container)
                    await self._runtime.stop(record.id, 0)
                await self._runtime.remove(record.id)
        self.waiting.clear()


def _has_succeeded(record: ContainerRecord) -> bool:
    return record.state is State.EXITED and record.exit_code == 0
