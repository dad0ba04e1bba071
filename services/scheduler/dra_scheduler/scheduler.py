"""The scheduler: takes pods from the queue one at a time, gives each a node, and binds them concurrently."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Self

import msgspec
from dra_shared.api.pod import Pod
from dra_shared.api.resources import NAMESPACES, POD_DISRUPTION_BUDGETS, PODS
from dra_shared.client.events import Recorder
from dra_shared.client.informer import InformerFactory
from dra_shared.client.leader import LeaderElector
from dra_shared.client.rest import Client
from dra_shared.clock import Clock, SystemClock
from dra_shared.log import logger
from dra_shared.service import HealthServer

from dra_scheduler.allocator import Features
from dra_scheduler.binding import Binder, NominationWriter
from dra_scheduler.config import SchedulerConfig
from dra_scheduler.diagnosis import Diagnosis
from dra_scheduler.explain.explainer import Explainer
from dra_scheduler.explain.groups import GroupExplainer
from dra_scheduler.explain.routes import routes
from dra_scheduler.failures import SCHEDULER_ERROR, UNSCHEDULABLE, FailureReporter
from dra_scheduler.framework.cache import Cache
from dra_scheduler.framework.events import Action, Interest, Kind
from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import Code, Status
from dra_scheduler.groupcycle import GroupCycle
from dra_scheduler.handlers import GROUP_GATES, EventHandlers
from dra_scheduler.metrics import count_attempt, watch_cache, watch_queue
from dra_scheduler.outcome import Decision, Failure
from dra_scheduler.placement import Attempt, AttemptError, Placement, Unschedulable
from dra_scheduler.plugins.dynamicresources.manager import DRAManager
from dra_scheduler.plugins.dynamicresources.plugin import DynamicResources
from dra_scheduler.plugins.dynamicresources.podgroups import PodGroups
from dra_scheduler.plugins.registry import Parts, default_framework
from dra_scheduler.plugins.siblings import SiblingSelectors
from dra_scheduler.plugins.volumes.objects import VolumeObjects
from dra_scheduler.plugins.volumes.podvolumes import uses_claims
from dra_scheduler.queue.entry import QueuedPod
from dra_scheduler.queue.scheduling import SchedulingQueue

_FLUSH_INTERVAL = 30.0

_log = logger(__name__)


class Scheduler:
    """Runs from ``async with`` until that ends. It owns ``client`` no more than its caller does.

    ``on_synced`` is called once it knows the cluster.
    """

    def __init__(
        self,
        config: SchedulerConfig,
        *,
        client: Client,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        on_synced: Callable[[], None] = lambda: None,
    ) -> None:
        self.config = config
        self._client = client
        self._clock = clock or SystemClock()
        gates = config.gates
        self.cache = Cache()
        self.manager = DRAManager(
            Features.from_gates(gates),
            taint_rules=gates.enabled("DRADeviceTaints") and gates.enabled("DRADeviceTaintRules"),
            on_nodes=self._devices_changed,
        )
        self.groups = PodGroups()
        host = config.identity.rpartition("_")[0] or config.identity
        self._recorder = Recorder(client, config.scheduler_name, host=host, clock=self._clock, series=True)
        self._dynamic_resources = DynamicResources(
            gates,
            self.manager,
            client,
            pod_groups=self.groups,
            recorder=self._recorder,
            clock=self._clock,
            filter_timeout=config.filter_timeout,
            binding_timeout=config.binding_timeout,
        )
        self._informers = InformerFactory(client, self._clock)
        self._volumes = VolumeObjects(client, self._clock, lambda event: self.queue.move_on(event))
        namespaces = self._informers.informer(NAMESPACES).store
        budgets = self._informers.informer(POD_DISRUPTION_BUDGETS).store
        pods = self._informers.informer(PODS).store

        def namespace_labels(name: str) -> Mapping[str, str]:
            namespace = namespaces.get(name)
            return namespace.metadata.labels if namespace is not None else {}

        self.framework = default_framework(
            Parts(
                gates=gates,
                cache=self.cache,
                manager=self.manager,
                groups=self.groups,
                client=client,
                recorder=self._recorder,
                clock=self._clock,
                volumes=self._volumes,
                namespace_labels=namespace_labels,
                newest_pod=pods.get,
                spawn=self._spawn,
                siblings=SiblingSelectors(self._informers),
                budgets=budgets.list,
                recall=lambda uid, plugin: self._binder.preempt(uid, plugin),
                activate=lambda uids: self.queue.activate(uids),
                binding_timeout=config.binding_timeout,
            ),
            self._dynamic_resources,
        )
        interests = self.framework.interests()
        interests[""] = (Interest(Kind.NODE, Action.ADD),)
        self.queue = SchedulingQueue(
            self._clock,
            self.framework.pre_enqueue,
            interests,
            keys=self._dynamic_resources.index_keys,
        )
        self.placement = Placement(self.framework, self.cache, self._clock, rng or random.Random())
        self._reporter = FailureReporter(client, self._recorder, self._clock, self._spawn)
        self._binder = Binder(
            self.framework,
            self.cache,
            self.queue,
            self._recorder,
            self._binding_failed,
            nominations=(
                NominationWriter(client) if gates.enabled("NominatedNodeNameForExpectation") else None
            ),
        )
        self._with_groups = any(gates.enabled(gate) for gate in GROUP_GATES)
        self._group_cycle = GroupCycle(
            self.groups,
            self.queue,
            decide=self._timed_decision,
            bind=self._start_binding,
            give_up=self._release,
            settle=self._settle,
            report=self._reporter.report_group,
            gangs=gates.enabled("GangScheduling"),
        )
        self.explainer = Explainer(
            self.cache,
            self.queue,
            self.manager,
            self.framework,
            self._clock,
            pods.get,
            GroupExplainer(self.groups, self.queue, self.cache, gangs=gates.enabled("GangScheduling")),
        )
        EventHandlers(
            config.scheduler_name, self.cache, self.queue, self.manager, self.groups, self._pod_gone
        ).register(self._informers, gates)
        self._tasks: set[asyncio.Task[None]] = set()
        self._main: asyncio.Task[None] | None = None
        self._attempt: Attempt | None = None
        self._synced = False
        self._on_synced = on_synced
        self._health: HealthServer | None = None

    @property
    def ready(self) -> bool:
        """Whether it knows the cluster."""
        return self._synced

    @property
    def health_port(self) -> int | None:
        """Where it answers for its health, if it does."""
        return self._health.port if self._health is not None else None

    async def __aenter__(self) -> Self:
        self._main = asyncio.create_task(self._run())
        if self.config.health_port is not None:
            self._health = HealthServer(
                self.config.health_address,
                self.config.health_port,
                {"informers": lambda: self._synced},
                routes(self.explainer, self.manager),
            )
            await self._health.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        tasks = [task for task in (self._main, *self._tasks) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._health is not None:
            await self._health.__aexit__(kind, problem, traceback)

    async def wait(self) -> None:
        """Return when it stops by itself: with the error that made it."""
        assert self._main is not None
        await self._main

    # Running

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._informers.run())
            tasks.create_task(self._mark_synced())
            if self.config.leader_elect:
                elector = LeaderElector(
                    self._client, "kube-scheduler", self.config.identity, clock=self._clock
                )
                tasks.create_task(elector.run(self._lead))
            else:
                tasks.create_task(self._lead())

    async def _mark_synced(self) -> None:
        await self._informers.synced()
        self._synced = True
        self._on_synced()
        _log.info("ready", nodes=len(self.cache.nodes()), claims=len(self.manager.claims))

    async def _lead(self) -> None:
        await self._informers.synced()
        watch_queue(self.queue)
        watch_cache(self.cache)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._flush())
            tasks.create_task(self._schedule_forever())

    async def _flush(self) -> None:
        while True:
            await self._clock.sleep(_FLUSH_INTERVAL)
            self.queue.flush()

    async def _schedule_forever(self) -> None:
        while True:
            entry = await self.queue.pop()
            try:
                await self.schedule(entry)
            except Exception as problem:
                _log.exception("attempt failed unexpectedly", pod=entry.pod.key)
                self.queue.fail(entry, str(problem))
            # Bindings and informers get their turn between any two pods.
            await asyncio.sleep(0)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _devices_changed(self, node_name: str | None) -> None:
        if node_name is None:
            self.cache.touch_all()
        else:
            self.cache.touch(node_name)

    def _pod_gone(self, uid: str) -> None:
        if self._attempt is not None and self._attempt.pod.metadata.uid == uid:
            self._attempt.state.stop = "the pod was deleted"

    # One attempt

    async def schedule(self, entry: QueuedPod) -> None:
        """Try to give the pod a node; with its whole group, if it is a member of one."""
        group = self.groups.of(entry.pod) if self._with_groups else None
        if group is not None:
            await self._group_cycle.run(entry, group)
            return
        outcome = await self._timed_decision(entry, None)
        if isinstance(outcome, Decision):
            self._start_binding(outcome)
        elif outcome is not None:
            self._settle(entry, outcome)

    async def _timed_decision(self, entry: QueuedPod, group: CycleState | None) -> Decision | Failure | None:
        started = self._clock.monotonic()
        try:
            outcome = await self._decide(entry, group)
        except Exception as problem:
            # Not the end of it for the others of a group, who are in flight with this one.
            _log.exception("attempt failed unexpectedly", pod=entry.pod.key)
            outcome = Failure(SCHEDULER_ERROR, str(problem))
        count_attempt(entry, isinstance(outcome, Decision), self._clock.monotonic() - started)
        return outcome

    async def _decide(self, entry: QueuedPod, group: CycleState | None) -> Decision | Failure | None:
        """Choose a node and reserve what the pod uses there; None: the pod went, or someone else placed it."""
        await self._reporter.written(entry.uid)
        pod = entry.pod
        if not self._volumes.synced and uses_claims(pod):
            await self._volumes.known(self._spawn)
        self._attempt = attempt = self.placement.begin(pod, group)
        try:
            node_name = await self.placement.choose(attempt)
        except Unschedulable as problem:
            return await self._no_node(entry, attempt.state, problem.diagnosis)
        except AttemptError as problem:
            return Failure(SCHEDULER_ERROR, str(problem))
        if self.queue.get(pod.metadata.uid) is not entry:
            return None  # while others had their turn
        return await self._hold(entry, attempt.state, node_name)

    async def _hold(self, entry: QueuedPod, state: CycleState, node_name: str) -> Decision | Failure:
        """Have the pod take its place on the node, as far as other pods are concerned."""
        pod = entry.pod
        assumed = _with_node(pod, node_name)
        status = self.framework.reserve(state, assumed, node_name)
        if status is not None:
            await self.framework.unreserve(state, assumed, node_name)
            return Failure(SCHEDULER_ERROR, status.message)
        assumed = self._dynamic_resources.with_node_statuses(state, assumed)
        self.cache.nominations.delete(pod.metadata.uid)
        self.cache.assume(assumed, node_name)
        return Decision(entry, state, pod, assumed)

    def _start_binding(self, decision: Decision) -> None:
        self.queue.decided(decision.entry)
        self._spawn(self._binder.bind(decision))

    async def _release(self, decision: Decision) -> None:
        # All is as it was before, so there is nothing new for other pods.
        await self._binder.give_up(decision, announce=False)

    async def _no_node(self, entry: QueuedPod, state: CycleState, diagnosis: Diagnosis) -> Failure:
        in_the_way = False
        if not diagnosis.nodes:
            state.nominated = ""
        else:
            status = await self.framework.post_filter(state, entry.pod, diagnosis.statuses)
            diagnosis.post_filter = status.message
            # A claim that could not be given back: nothing is going to happen that the pod could wait for.
            in_the_way = (
                status.code is Code.ERROR
                and status.plugin == self._dynamic_resources.name
                and not diagnosis.pre_filter
                and state.group is None
            )
        diagnosis.plugins.discard("")
        if not diagnosis.pre_filter and "DynamicResources" in diagnosis.plugins:
            diagnosis.hint = self._hint(entry.pod, diagnosis)
        failure = Failure(
            UNSCHEDULABLE,
            diagnosis.message,
            diagnosis.explained,
            None if in_the_way else frozenset(diagnosis.plugins or {""}),
            state.nominated,
        )
        if state.group is not None and state.nominated:
            place = await self._hold(entry, state, state.nominated)
            if isinstance(place, Failure):
                return place
            failure.held = place
        return failure

    def _hint(self, pod: Pod, diagnosis: Diagnosis) -> str:
        """What stands in the way on one of the nodes whose devices would not do."""
        turned_away = (n for n, status in diagnosis.statuses.items() if status.plugin == "DynamicResources")
        return self.explainer.hint(pod, min(turned_away))

    def _settle(self, entry: QueuedPod, failure: Failure) -> None:
        """The pod gets no node at this attempt: have it wait, and tell the user."""
        if failure.plugins is None:
            _log.warning(
                "attempt failed, trying again after a back-off", pod=entry.pod.key, error=failure.message
            )
            self.queue.fail(entry, failure.message)
        else:
            _log.info("no node for pod, waiting for a change", pod=entry.pod.key, reason=failure.message)
            self.queue.reject(entry, failure.plugins, failure.message)
        if failure.nominated is not None:
            self.cache.nominations.set(entry.pod, failure.nominated)
        self._reporter.report(
            entry.pod, failure.reason, failure.message, event=failure.event, nominated=failure.nominated
        )

    def _binding_failed(self, pod: Pod, status: Status, announced: bool) -> None:
        current = self.queue.get(pod.metadata.uid)
        if current is None:
            return  # the pod is gone
        self.queue.fail(current, status.message)
        reason = UNSCHEDULABLE if status.rejected else SCHEDULER_ERROR
        self._reporter.report(current.pod, reason, status.message, nominated="", announced=announced)


def _with_node(pod: Pod, node_name: str) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node_name))
