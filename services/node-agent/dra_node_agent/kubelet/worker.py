"""The life of one pod on its node (pkg/kubelet/pod_workers.go; SyncPod, SyncTerminatingPod in pkg/kubelet/kubelet.go).

The worker syncs the pod after each change of its object, containers or devices. The pod's progress is
defined in :mod:`dra_node_agent.kubelet.lifecycle`. A failed sync is retried from the state that was reached.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import httpx
import msgspec
from dra_shared.api.pod import Pod
from dra_shared.client.errors import ApiError
from dra_shared.client.events import Recorder
from dra_shared.clock import Clock, parse_rfc3339, rfc3339, wait_for
from dra_shared.log import logger

from dra_node_agent.kubelet import messages
from dra_node_agent.kubelet.admission import Rejected
from dra_node_agent.kubelet.cgroups import Cgroups
from dra_node_agent.kubelet.containers import ContainerStarter
from dra_node_agent.kubelet.devicemanager.manager import DeviceManager
from dra_node_agent.kubelet.dra.errors import DraError
from dra_node_agent.kubelet.dra.manager import DraManager
from dra_node_agent.kubelet.lifecycle import PodEvent, PodState, new_lifecycle
from dra_node_agent.kubelet.observed import Observed
from dra_node_agent.kubelet.phases import TERMINAL
from dra_node_agent.kubelet.podcontainers import PodContainers
from dra_node_agent.kubelet.podevents import PodEvents
from dra_node_agent.kubelet.podprobes import PodProbes
from dra_node_agent.kubelet.podstatus import pod_status
from dra_node_agent.kubelet.statuses import StatusReporter
from dra_node_agent.kubelet.termination import stop_containers
from dra_node_agent.kubelet.volumes import MountError, VolumeManager
from dra_node_agent.runtime.base import Runtime, RuntimeFailure, SandboxSpec, State

_FIRST_RETRY, _LONGEST_RETRY = 1.0, 10.0

_log = logger(__name__)


@dataclass(frozen=True)
class WorkerContext:
    """The parts that the workers of one node share."""

    node_name: str
    host_ip: str
    runtime: Runtime
    dra: DraManager
    devices: DeviceManager
    volumes: VolumeManager
    starter: ContainerStarter
    cgroups: Cgroups
    recorder: Recorder
    clock: Clock
    admission: Callable[[Pod], Awaitable[None]]
    shows_health: bool
    """True if statuses have the health of devices (the gate ResourceHealthStatus)."""
    most_grace: float = math.inf


@dataclass(frozen=True)
class _Failure:
    """The reason why the kubelet ended the pod. ``rejected``: the node never admitted it."""

    reason: str
    message: str
    rejected: bool = False


class PodWorker:
    """Brings one pod to the state that its object specifies, and repeats that after each change."""

    def __init__(self, context: WorkerContext, pod: Pod, statuses: StatusReporter) -> None:
        self._context = context
        self.pod = pod
        self._statuses = statuses
        self._life = new_lifecycle()
        self._event = PodEvents(context.recorder, lambda: self.pod)
        self._wake = asyncio.Event()
        self._probes = PodProbes(
            context.runtime, context.clock, context.starter, self._event, on_change=self.poke
        )
        self._containers = PodContainers(
            context.runtime,
            context.clock,
            context.starter,
            lambda: self.pod,
            statuses,
            self._event,
            self._probes,
        )
        self._failure: _Failure | None = None
        self.problem = ""
        """The error of the last sync, which is repeated; empty if it had none."""
        # A fact about the API server, which may become true in any state: the object is deleted.
        self._object_deleted = False
        self._retry = _FIRST_RETRY
        self._renew_at: float | None = None
        # Set once the node has admitted or rejected the pod, or if the pod needs no admission any more.
        self.decided = asyncio.Event()

    # Notifications from the kubelet

    def update(self, pod: Pod) -> None:
        """Handle a change of the pod's object."""
        self.pod = pod
        self._statuses.observe(pod)
        self._wake.set()

    def mark_removed(self) -> None:
        """Remove everything of the pod, because its object is deleted."""
        self._object_deleted = True
        self._statuses.mark_gone()
        self._wake.set()

    def poke(self) -> None:
        """Sync the pod, because its containers or devices may have changed."""
        self._wake.set()

    @property
    def is_terminated(self) -> bool:
        """True if nothing of the pod runs or is prepared, and never will again."""
        return self._life.has_been(PodState.TERMINATED)

    @property
    def object_deleted(self) -> bool:
        """True if the pod's object is deleted, so that everything of the pod has to be removed."""
        return self._object_deleted

    @property
    def is_settled(self) -> bool:
        """True if the last sync succeeded, so that no retry is pending."""
        return self._retry == _FIRST_RETRY

    @property
    def is_admitted(self) -> bool:
        """True if the node has admitted the pod."""
        return self._life.has_been(PodState.ADMITTED)

    async def run(self) -> None:
        """Sync the pod until it is removed."""
        # Invariant: every change sets ``_wake``. It is cleared before a sync and not after it, because a change
        # during a sync may concern what the sync has read already. Then the wait below returns at once.
        # One task runs all syncs of the pod, so no two of them overlap, and a failed one is repeated as a whole.
        while True:
            self._wake.clear()
            delay: float | None
            try:
                delay = await self._sync()
                self._retry, self.problem = _FIRST_RETRY, ""
            except (RuntimeFailure, ApiError, httpx.HTTPError, OSError, DraError, MountError) as error:
                _log.info("pod not in its desired state, trying again", pod=self.pod.key, error=str(error))
                self.problem = str(error) or type(error).__name__
                delay, self._retry = self._retry, min(self._retry * 2, _LONGEST_RETRY)
            except Exception as error:
                self.problem = repr(error)
                _log.exception("pod sync failed, trying again", pod=self.pod.key)
                delay, self._retry = self._retry, min(self._retry * 2, _LONGEST_RETRY)
            if self._life.state is PodState.REMOVED:
                return
            await wait_for(self._wake.wait(), delay, self._context.clock)

    # Starting and running

    async def _sync(self) -> float | None:
        """Do one step towards the specified state. Return the seconds until the next, or None for the next change."""
        # The order of the steps: a pod that has to end is never admitted or started, so that its claims are not
        # prepared in vain. Admission comes before anything of the pod is created on the node. The deadline comes
        # before the containers, because a restarted container would only be killed again.
        if self._must_end() or (self._life.state is PodState.NEW and not await self._try_admission()):
            self.decided.set()
            await self._end()
            return None
        deadline = self._deadline()
        if deadline is not None and deadline <= 0:
            message = "Pod was active on the node longer than the specified deadline"
            self._event("Normal", "DeadlineExceeded", message)
            self._failure = _Failure("DeadlineExceeded", message)
            await self._end()
            return None
        if self._life.state is not PodState.READY_TO_START:
            if self._has_lost_sandbox() and self._containers.are_all_finished():
                # Nothing is left to run, so no sandbox is created for the pod.
                await self._end()
                return None
            await self._set_up()
            if not self._wake.is_set():
                self._report()
        delay = await self._sync_containers()
        if self._containers.are_all_finished():
            await self._end()
            return None
        delays = (delay, deadline, await self._renew_tokens())
        return min((value for value in delays if value is not None), default=None)

    async def _try_admission(self) -> bool:
        try:
            await self._context.admission(self.pod)
        except Rejected as error:
            self._event("Warning", error.reason, str(error))
            self._failure = _Failure(error.reason, f"Pod was rejected: {error}", rejected=True)
            return False
        finally:
            self.decided.set()
        if self._must_end():
            # The pod was deleted while a device plugin was called.
            return False
        self._life.on(PodEvent.ADMIT)
        self._report()
        return True

    def _must_end(self) -> bool:
        return (
            self._object_deleted
            or self._is_deleting()
            or self.pod.status.phase in TERMINAL
            or self._life.has_been(PodState.TERMINATING)
        )

    async def _sync_containers(self) -> float | None:
        """Report ended containers before they are restarted, then start the containers that are due."""
        containers = self._containers
        if containers.has_unreported_end():
            self._report(kept=True)
        if containers.restart_causes():
            self._report(kept=True)
            await containers.remove_all()
            self._report(kept=True)
        delay = await containers.start_next()
        self._report()
        return delay

    async def _set_up(self) -> None:
        """Set up volumes, claims and sandbox, in this order, because containers need all three."""
        # Volumes first: a pod whose Secret or ConfigMap is missing must not hold prepared devices while it waits.
        # The sandbox exists already if the kubelet was restarted while the pod ran. After a reboot it does not.
        resumed = self._context.runtime.sandbox_created(self.pod.metadata.uid) is not None
        if self._has_lost_sandbox():
            self._event("Normal", messages.SANDBOX_CHANGED, messages.SANDBOX_CHANGED_TEXT)
        await self._set_up_volumes()
        if self._life.state is PodState.ADMITTED:
            # A running pod keeps its devices, which the device manager knows from its checkpoint.
            if not resumed:
                await self._prepare_claims()
            self._life.on(PodEvent.PREPARE)
        self._containers.pod_ip = await self._create_sandbox()
        self._life.on(PodEvent.CREATE_SANDBOX)

    def _has_lost_sandbox(self) -> bool:
        """True if the pod had containers before its node was rebooted."""
        lost = self._context.runtime.sandbox_created(self.pod.metadata.uid) is None
        return lost and bool(self._containers.records())

    async def _prepare_claims(self) -> None:
        pod = self.pod
        if not (pod.spec.resource_claims or pod.status.extended_resource_claim_status):
            return
        try:
            await self._context.dra.prepare(pod)
        except DraError as error:
            self._event("Warning", messages.FAILED_PREPARE, f"Failed to prepare dynamic resources: {error}")
            raise

    async def _create_sandbox(self) -> str:
        meta, spec = self.pod.metadata, self.pod.spec
        sandbox = SandboxSpec(
            meta.namespace, meta.name, meta.uid, bool(spec.host_network), spec.hostname or meta.name
        )
        try:
            return await self._context.runtime.create_sandbox(sandbox)
        except RuntimeFailure as error:
            self._event("Warning", messages.FAILED_SANDBOX, f"Failed to create pod sandbox: {error}")
            raise

    async def _set_up_volumes(self) -> None:
        context, containers = self._context, self._containers
        try:
            containers.volumes = await context.volumes.set_up(self.pod, containers.pod_ip)
        except MountError as error:
            self._event("Warning", messages.FAILED_MOUNT, str(error))
            raise
        lifetime = context.volumes.renew_after(self.pod)
        self._renew_at = None if lifetime is None else context.clock.monotonic() + lifetime

    async def _renew_tokens(self) -> float | None:
        """Renew the tokens in the pod's volumes when they are due. Return the seconds until then."""
        if self._renew_at is None:
            return None
        now = self._context.clock.monotonic()
        if now >= self._renew_at:
            await self._set_up_volumes()
        return self._renew_at - now

    def _deadline(self) -> float | None:
        limit, started = self.pod.spec.active_deadline_seconds, self._statuses.newest.start_time
        if limit is None or started is None:
            return None
        age = (self._context.clock.now() - parse_rfc3339(started)).total_seconds()
        return limit - age

    # The end

    def _is_deleting(self) -> bool:
        return self.pod.metadata.deletion_timestamp is not None

    async def _end(self) -> None:
        """Stop and unprepare everything. Then have the object deleted, or remove what is left of the pod."""
        if not self.is_terminated:
            await self._terminate()
        if self._object_deleted:
            uid = self.pod.metadata.uid
            await self._context.runtime.remove_sandbox(uid)
            await self._context.volumes.tear_down(uid)
            self._life.on(PodEvent.REMOVE)
        elif self._is_deleting():
            self._statuses.delete()

    async def _terminate(self) -> None:
        dra = self._context.dra
        if self._life.state is PodState.STOPPED:
            # The claims could not be unprepared. Until they are, the status shows that nothing runs any more.
            self._report()
        else:
            self._probes.stop()
            if self._life.state is not PodState.TERMINATING:
                self._life.on(PodEvent.TERMINATE)
            await self._kill()
            self._life.on(PodEvent.STOP)
        # This has to happen before the pod is reported as finished, because its claims may then be given to
        # another pod.
        if dra.might_need_to_unprepare(self.pod.metadata.uid):
            await dra.unprepare(self.pod)
        # Remove the volumes even if the pod's object still exists, so that secrets and tokens of a finished pod
        # do not remain on the node.
        await self._context.volumes.tear_down(self.pod.metadata.uid)
        self._life.on(PodEvent.UNPREPARE)
        self._report()

    async def _kill(self) -> None:
        """Stop the containers. A shorter grace period that arrives in the meantime replaces the first one."""
        context = self._context
        grace = self._first_grace()
        # Wait for two things at a time: the end of the containers, and changes of the pod. The grace period only ever
        # gets shorter. A shorter one starts the stop again, without its events, which were sent the first time.
        # Any other change is only reported, so that the status stays current during a long grace period.
        killing = asyncio.ensure_future(
            stop_containers(context.runtime, context.clock, self.pod, grace, self._event)
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
                if shorter is None:
                    self._report()
                    continue
                grace = shorter
                killing.cancel()
                await asyncio.gather(killing, return_exceptions=True)
                killing = asyncio.ensure_future(
                    stop_containers(context.runtime, context.clock, self.pod, grace, None)
                )
            await killing
        finally:
            killing.cancel()

    def _first_grace(self) -> float:
        return min(self._given_grace(), self._context.most_grace)

    def _given_grace(self) -> float:
        if self._object_deleted or self._is_deleting():
            return float(self.pod.metadata.deletion_grace_period_seconds or 0)
        given = self.pod.spec.termination_grace_period_seconds
        return 30.0 if given is None else float(given)

    def _shorter_grace(self, grace: float) -> float | None:
        if self._object_deleted and grace > 0:
            return 0.0
        given = self.pod.metadata.deletion_grace_period_seconds
        if self._is_deleting() and given is not None and given < grace:
            return float(given)
        return None

    # The status

    def _report(self, *, kept: bool = False) -> None:
        if self._object_deleted:
            return
        status = pod_status(
            msgspec.structs.replace(self.pod, status=self._statuses.newest),
            self._observe(),
            rfc3339(self._context.clock.now()),
        )
        if self._context.shows_health:
            status = self._context.devices.with_device_health(self.pod, status)
            status = self._context.dra.pod_health.add_health(self.pod, status)
        self._statuses.report(status, kept=kept)

    def _observe(self) -> Observed:
        context, containers = self._context, self._containers
        containers.pod_ip = context.runtime.address(self.pod.metadata.uid) or containers.pod_ip
        records = containers.records()
        running = {name: found[0].id for name, found in records.items() if found[0].state is State.RUNNING}
        probers = {name: self._probes.get(container_id) for name, container_id in running.items()}
        failure = self._failure
        return Observed(
            records=records,
            waiting=containers.waiting,
            started={name: prober.started for name, prober in probers.items() if prober is not None},
            ready={name: prober.ready for name, prober in probers.items() if prober is not None},
            limits=context.cgroups.raised_limits(self.pod),
            has_sandbox=self._life.has_been(PodState.READY_TO_START),
            pod_ip=containers.pod_ip,
            host_ip=context.host_ip,
            runtime=context.runtime.name,
            stopped=self._life.has_been(PodState.STOPPED),
            terminal=self.is_terminated,
            failed_reason=failure.reason if failure is not None else "",
            failed_message=failure.message if failure is not None else "",
            rejected=failure is not None and failure.rejected,
        )
