"""One pod's life on its node: what the kubelet's pod worker does (pkg/kubelet/pod_workers.go, kuberuntime)."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx
import msgspec
from dra_shared.api.container import Container, ContainerStateWaiting
from dra_shared.api.pod import ObjectReference, Pod
from dra_shared.api.resources import PODS
from dra_shared.client.errors import ApiError
from dra_shared.client.events import Recorder, reference
from dra_shared.clock import Clock, parse_rfc3339, rfc3339, wait_for
from dra_shared.log import logger

from dra_node_agent.kubelet import messages
from dra_node_agent.kubelet.admission import Rejected
from dra_node_agent.kubelet.backoff import Backoff
from dra_node_agent.kubelet.containers import ContainerStarter
from dra_node_agent.kubelet.dra.manager import DraError, DraManager
from dra_node_agent.kubelet.podstatus import (
    TERMINAL,
    Observed,
    ephemeral_containers,
    pod_status,
)
from dra_node_agent.kubelet.probes import LIVENESS, ProbeFailure, Prober, has_probes
from dra_node_agent.kubelet.restarts import causes_restart_of_all, is_sidecar, may_restart_all, restarts
from dra_node_agent.kubelet.statuses import StatusReporter
from dra_node_agent.kubelet.termination import stop_containers
from dra_node_agent.kubelet.volumes import MountError, VolumeManager
from dra_node_agent.runtime.base import ContainerRecord, Runtime, RuntimeFailure, SandboxSpec, State

_FIRST_RETRY, _LONGEST_RETRY = 1.0, 10.0
# A container keeps this many past attempts, for its last state and the log of the previous one.
_PAST_ATTEMPTS = 1

_log = logger(__name__)


@dataclass(frozen=True)
class WorkerContext:
    """What the workers of one node share."""

    node_name: str
    host_ip: str
    runtime: Runtime
    dra: DraManager
    volumes: VolumeManager
    starter: ContainerStarter
    recorder: Recorder
    clock: Clock
    admission: Callable[[Pod], None]


class PodWorker:
    """Brings one pod to the state that its object asks for, again after each change of either."""

    def __init__(self, context: WorkerContext, pod: Pod, statuses: StatusReporter) -> None:
        self._context = context
        self.pod = pod
        self._statuses = statuses
        self._wake = asyncio.Event()
        self._backoff = Backoff()
        self._waiting: dict[str, ContainerStateWaiting] = {}
        self._probers: dict[str, Prober] = {}
        self._pod_ip = ""
        self._has_sandbox = False
        self._prepared = False
        self._admitted = False
        self._settled = True
        self._stopped = False
        self._finished = False
        self._removed = False
        self._failed_reason = self._failed_message = ""
        self._rejected = False
        self._retry = _FIRST_RETRY
        self._volumes: dict[str, Path] = {}
        self._renew_at: float | None = None

    # What the kubelet tells

    def update(self, pod: Pod) -> None:
        """The pod's object has changed."""
        self.pod = pod
        self._statuses.seen(pod)
        self._wake.set()

    def removed(self) -> None:
        """The pod's object is gone: everything of it goes."""
        self._removed = True
        self._statuses.gone()
        self._wake.set()

    def poke(self) -> None:
        """Something about the pod's containers or devices has changed."""
        self._wake.set()

    @property
    def finished(self) -> bool:
        """Whether nothing of the pod runs or is prepared any more, and never will again."""
        return self._finished

    @property
    def settled(self) -> bool:
        """Whether the last sync went well: nothing waits for another try."""
        return self._settled

    @property
    def admitted(self) -> bool:
        """Whether the node has taken the pod."""
        return self._admitted

    async def run(self) -> None:
        """Look after the pod until it is gone."""
        context = self._context
        while True:
            self._wake.clear()
            delay: float | None
            try:
                delay = await self._sync()
                self._retry, self._settled = _FIRST_RETRY, True
            except (RuntimeFailure, ApiError, httpx.HTTPError, OSError, DraError, MountError) as error:
                self._settled = False
                _log.info("pod not in its desired state, trying again", pod=self.pod.key, error=str(error))
                delay, self._retry = self._retry, min(self._retry * 2, _LONGEST_RETRY)
            except Exception:
                _log.exception("pod sync failed, trying again", pod=self.pod.key)
                delay, self._retry = self._retry, min(self._retry * 2, _LONGEST_RETRY)
            if self._removed and self._finished:
                return
            await wait_for(self._wake.wait(), delay, context.clock)

    # Bringing the pod on

    async def _sync(self) -> float | None:
        if self._removed or self._finished or self._terminating():
            return await self._end()
        if self.pod.status.phase in TERMINAL:
            return await self._end()
        if not self._admitted:
            try:
                self._context.admission(self.pod)
            except Rejected as error:
                self._event("Warning", error.reason, str(error))
                self._rejected = True
                return await self._fail(error.reason, f"Pod was rejected: {error}")
            self._admitted = True
            self._report()
        deadline = self._deadline()
        if deadline is not None and deadline <= 0:
            message = "Pod was active on the node longer than the specified deadline"
            self._event("Normal", "DeadlineExceeded", message)
            return await self._fail("DeadlineExceeded", message)
        if await self._set_up() and not self._wake.is_set():
            self._report()
        if self._some_ended():
            self._report(kept=True)
        if self._causes_restart_of_all():
            await self._reset()
        delay = await self._step()
        self._report()
        if self._over():
            return await self._end()
        delays = (delay, deadline, await self._renew_tokens())
        return min((value for value in delays if value is not None), default=None)

    async def _set_up(self) -> bool:
        """Claims, volumes and sandbox; True where something was done."""
        if self._has_sandbox and self._prepared:
            return False
        context, pod = self._context, self.pod
        resumed = bool(self._records())
        await self._set_up_volumes()
        if not self._prepared:
            # A pod that already runs keeps what it has; the manager knows it from its checkpoint.
            if not resumed and (pod.spec.resource_claims or pod.status.extended_resource_claim_status):
                try:
                    await context.dra.prepare(pod)
                except DraError as error:
                    self._event(
                        "Warning", messages.FAILED_PREPARE, f"Failed to prepare dynamic resources: {error}"
                    )
                    raise
            self._prepared = True
        meta = pod.metadata
        try:
            self._pod_ip = await context.runtime.create_sandbox(
                SandboxSpec(
                    meta.namespace,
                    meta.name,
                    meta.uid,
                    bool(pod.spec.host_network),
                    pod.spec.hostname or meta.name,
                )
            )
        except RuntimeFailure as error:
            self._event("Warning", messages.FAILED_SANDBOX, f"Failed to create pod sandbox: {error}")
            raise
        self._has_sandbox = True
        return True

    async def _set_up_volumes(self) -> None:
        context = self._context
        try:
            self._volumes = await context.volumes.set_up(self.pod, self._pod_ip)
        except MountError as error:
            self._event("Warning", messages.FAILED_MOUNT, str(error))
            raise
        lifetime = context.volumes.renew_after(self.pod)
        self._renew_at = None if lifetime is None else context.clock.monotonic() + lifetime

    async def _renew_tokens(self) -> float | None:
        """Renew the tokens in the pod's volumes when it is time; gives the seconds until then."""
        if self._renew_at is None:
            return None
        now = self._context.clock.monotonic()
        if now >= self._renew_at:
            await self._set_up_volumes()
        return self._renew_at - now

    async def _step(self) -> float | None:
        """Start what is to be started now; gives the seconds until there may be more to do."""
        pod = self.pod
        delays: list[float] = []
        self._follow_probes()
        for container in ephemeral_containers(pod):
            # Started once, whatever the others do, and never again.
            if self._latest(container.name) is None and not self._ran_before(container.name):
                delays += await self._start(container, None, init=False)
        began = any(self._latest(container.name) is not None for container in pod.spec.containers)
        for container in pod.spec.init_containers:
            latest = self._latest(container.name)
            if is_sidecar(container):
                if latest is None or latest.state is State.EXITED:
                    delays += await self._start(container, latest, init=True)
                if not began and not self._started(container):
                    return min(delays, default=None)
                continue
            if began or (latest is not None and latest.state is State.EXITED and latest.exit_code == 0):
                continue
            if latest is None or (
                latest.state is State.EXITED and restarts(pod, container, latest.exit_code, init=True)
            ):
                delays += await self._start(container, latest, init=True)
            return min(delays, default=None)
        for container in pod.spec.containers:
            latest = self._latest(container.name)
            if latest is None or (
                latest.state is State.EXITED and restarts(pod, container, latest.exit_code)
            ):
                delays += await self._start(container, latest, init=False)
        return min(delays, default=None)

    def _causes_restart_of_all(self) -> list[str]:
        """The names of the containers that have ended in such a way that all of them start anew."""
        if not may_restart_all(self.pod):
            return []
        records, spec = self._records(), self.pod.spec
        return [
            container.name
            for container in (*spec.containers, *spec.init_containers)
            if causes_restart_of_all(container, records.get(container.name, ()))
        ]

    async def _reset(self) -> None:
        """Remove all containers, those that are the reason for it last."""
        self._report(kept=True)
        runtime, records = self._context.runtime, self._records()
        causes = self._causes_restart_of_all()
        containers = (*self.pod.spec.containers, *self.pod.spec.init_containers)
        for container in sorted(containers, key=lambda container: container.name in causes):
            for record in records.get(container.name, ()):
                if record.state is State.RUNNING:
                    self._event("Normal", messages.KILLING, "killing", container=container)
                    await runtime.stop(record.id, 0)
                await runtime.remove(record.id)
        self._waiting.clear()
        self._report(kept=True)

    def _ran_before(self, ephemeral: str) -> bool:
        """Whether the status tells of an ephemeral container of which the runtime knows nothing any more."""
        statuses = self._statuses.newest.ephemeral_container_statuses
        return any(status.name == ephemeral and status.state.waiting is None for status in statuses)

    async def _start(
        self, container: Container, latest: ContainerRecord | None, *, init: bool
    ) -> list[float]:
        """Start the container, unless it has to wait; gives the waiting time, if there is any."""
        context, pod = self._context, self.pod
        key = container.name
        now = context.clock.monotonic()
        attempt = self._restart_count(key)
        if latest is not None:
            attempt = latest.attempt + 1
            ended = latest.finished_at or context.clock.now()
            failed_at = now - max((context.clock.now() - ended).total_seconds(), 0.0)
            left = self._backoff.remaining(key, failed_at, now)
            full = f"{pod.metadata.name}_{pod.metadata.namespace}({pod.metadata.uid})"
            if left > 0:
                if key not in self._waiting:
                    self._event(
                        "Warning", messages.BACK_OFF, messages.backing_off(key, full), container=container
                    )
                self._waiting[key] = ContainerStateWaiting(
                    reason="CrashLoopBackOff",
                    message=messages.back_off_waiting(self._backoff.delay(key), key, full),
                )
                return [left]
            self._backoff.next(key, failed_at, now)
        try:
            await context.starter.start(
                pod, container, attempt, self._volumes, self._pod_ip, self._event, init=init
            )
        except RuntimeFailure as error:
            self._waiting[key] = ContainerStateWaiting(reason=error.reason, message=str(error))
            return [self._failed_start(key, now)]
        self._waiting.pop(key, None)
        await self._forget_past_attempts(key)
        self._follow_probes()
        return []

    def _restart_count(self, name: str) -> int:
        status = self._statuses.newest
        known = (*status.init_container_statuses, *status.container_statuses)
        return next((entry.restart_count for entry in known if entry.name == name), 0)

    def _failed_start(self, key: str, now: float) -> float:
        self._backoff.next(f"{key} start", now, now)
        return min(self._backoff.delay(f"{key} start"), _LONGEST_RETRY)

    async def _forget_past_attempts(self, name: str) -> None:
        for record in self._records().get(name, ())[1 + _PAST_ATTEMPTS :]:
            await self._context.runtime.remove(record.id)

    # Probes

    def _follow_probes(self) -> None:
        running = {}
        containers = {c.name: c for c in (*self.pod.spec.init_containers, *self.pod.spec.containers)}
        for name, records in self._records().items():
            if records[0].state is State.RUNNING and name in containers and has_probes(containers[name]):
                running[records[0].id] = containers[name]
        for container_id in self._probers.keys() - running.keys():
            self._probers.pop(container_id).stop()
        for container_id, container in running.items():
            if container_id not in self._probers:
                self._probers[container_id] = prober = Prober(
                    self._context.runtime,
                    self._context.clock,
                    container,
                    container_id,
                    self._pod_ip,
                    on_change=self.poke,
                    on_failure=self._probe_failure(container, container_id),
                )
                prober.start()

    def _probe_failure(self, container: Container, container_id: str) -> Callable[[ProbeFailure], None]:
        def failed(failure: ProbeFailure) -> None:
            self._event("Warning", messages.UNHEALTHY, failure.message, container=container)
            if failure.conclusive and failure.kind != "Readiness":
                text = (
                    messages.liveness_failed(container.name)
                    if failure.kind == LIVENESS
                    else messages.startup_failed(container.name)
                )
                self._event("Normal", messages.KILLING, text, container=container)
                grace = self.pod.spec.termination_grace_period_seconds
                self._context.starter.tasks.start(
                    self._context.runtime.stop(container_id, 30 if grace is None else grace)
                )

        return failed

    def _stop_probes(self) -> None:
        for prober in self._probers.values():
            prober.stop()
        self._probers.clear()

    # The end

    def _terminating(self) -> bool:
        return self.pod.metadata.deletion_timestamp is not None

    def _over(self) -> bool:
        """Whether nothing of the pod runs, or will."""
        pod = self.pod
        main = [(container, self._latest(container.name)) for container in pod.spec.containers]
        for container in pod.spec.init_containers:
            latest = self._latest(container.name)
            if (
                is_sidecar(container)
                or latest is None
                or latest.state is State.RUNNING
                or latest.exit_code == 0
            ):
                continue
            if not restarts(pod, container, latest.exit_code, init=True):
                return True
        return all(
            latest is not None
            and latest.state is State.EXITED
            and not restarts(pod, container, latest.exit_code)
            for container, latest in main
        )

    async def _fail(self, reason: str, message: str) -> float | None:
        self._failed_reason, self._failed_message = reason, message
        return await self._end()

    async def _end(self) -> float | None:
        """Stop everything, give everything back, and let the pod go."""
        context = self._context
        if not self._finished:
            self._stop_probes()
            if self._stopped:
                # Something could not be given back: until it can, the pod shows that nothing runs any more.
                self._report()
            await self._kill()
            self._stopped = True
            # Before the pod is declared ended: from then on its claims may be given to another.
            if context.dra.might_need_to_unprepare(self.pod.metadata.uid):
                await context.dra.unprepare(self.pod)
            self._finished = True
            self._report()
        if self._removed:
            await context.runtime.remove_sandbox(self.pod.metadata.uid)
            await context.volumes.tear_down(self.pod.metadata.uid)
        elif self._terminating():
            self._statuses.delete()
        return None

    async def _kill(self) -> None:
        pod = self.pod
        if self._removed or self._terminating():
            grace = float(pod.metadata.deletion_grace_period_seconds or 0)
        else:
            given = pod.spec.termination_grace_period_seconds
            grace = 30.0 if given is None else float(given)
        killing = asyncio.ensure_future(
            stop_containers(self._context.runtime, self._context.clock, pod, grace, self._event)
        )
        try:
            while not killing.done():
                waker = asyncio.ensure_future(self._wake.wait())
                await asyncio.wait((killing, waker), return_when=asyncio.FIRST_COMPLETED)
                waker.cancel()
                if killing.done():
                    break
                self._wake.clear()
                shorter = self._shorter_grace(grace)
                if shorter is not None:
                    grace = shorter
                    killing.cancel()
                    await asyncio.gather(killing, return_exceptions=True)
                    killing = asyncio.ensure_future(
                        stop_containers(self._context.runtime, self._context.clock, self.pod, grace, None)
                    )
                else:
                    self._report()
            await killing
        finally:
            killing.cancel()

    def _shorter_grace(self, grace: float) -> float | None:
        if self._removed and grace > 0:
            return 0.0
        asked = self.pod.metadata.deletion_grace_period_seconds
        if self._terminating() and asked is not None and asked < grace:
            return float(asked)
        return None

    def _deadline(self) -> float | None:
        limit, started = self.pod.spec.active_deadline_seconds, self._statuses.newest.start_time
        if limit is None or started is None:
            return None
        age = (self._context.clock.now() - parse_rfc3339(started)).total_seconds()
        return limit - age

    # Seeing and telling

    def _records(self) -> dict[str, list[ContainerRecord]]:
        found: dict[str, list[ContainerRecord]] = {}
        for record in self._context.starter.records(self.pod.metadata.uid):
            found.setdefault(record.name, []).append(record)
        for records in found.values():
            records.sort(key=lambda record: record.attempt, reverse=True)
        return found

    def _latest(self, name: str) -> ContainerRecord | None:
        records = self._records().get(name)
        return records[0] if records else None

    def _started(self, container: Container) -> bool:
        latest = self._latest(container.name)
        if latest is None or latest.state is not State.RUNNING:
            return False
        prober = self._probers.get(latest.id)
        return prober.started if prober is not None else True

    def _some_ended(self) -> bool:
        """Whether a container that the newest status shows running has exited: seen before it is started again."""
        status = self._statuses.newest
        return any(
            entry.state.running is not None
            and (latest := self._latest(entry.name)) is not None
            and latest.state is State.EXITED
            for entry in (*status.init_container_statuses, *status.container_statuses)
        )

    def _report(self, *, kept: bool = False) -> None:
        if self._removed:
            return
        records = self._records()
        self._pod_ip = self._context.runtime.address(self.pod.metadata.uid) or self._pod_ip
        running = {name: found[0].id for name, found in records.items() if found[0].state is State.RUNNING}
        probers = {name: self._probers.get(container_id) for name, container_id in running.items()}
        observed = Observed(
            records=records,
            waiting=self._waiting,
            started={name: prober.started for name, prober in probers.items() if prober is not None},
            ready={name: prober.ready for name, prober in probers.items() if prober is not None},
            has_sandbox=self._has_sandbox,
            pod_ip=self._pod_ip,
            host_ip=self._context.host_ip,
            runtime=self._context.runtime.name,
            stopped=self._stopped or self._finished,
            terminal=self._finished,
            failed_reason=self._failed_reason,
            failed_message=self._failed_message,
            rejected=self._rejected,
        )
        status = pod_status(self._with_reported_status(), observed, rfc3339(self._context.clock.now()))
        self._statuses.report(self._context.dra.with_device_health(self.pod, status), kept=kept)

    def _with_reported_status(self) -> Pod:
        return msgspec.structs.replace(self.pod, status=self._statuses.newest)

    def _event(self, type_: str, reason: str, message: str, *, container: Container | None = None) -> None:
        ref: ObjectReference = reference(PODS, self.pod)
        if container is not None:
            kind = "initContainers" if container in self.pod.spec.init_containers else "containers"
            if any(container.name == entry.name for entry in self.pod.spec.ephemeral_containers):
                kind = "ephemeralContainers"
            ref = msgspec.structs.replace(ref, field_path=f"spec.{kind}{{{container.name}}}")
        self._context.recorder.event(ref, type_, reason, message)
