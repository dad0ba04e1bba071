"""The scheduler: takes pods from the queue one at a time, gives each a node, and binds them concurrently."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import msgspec
from dra_shared.api.pod import Pod
from dra_shared.api.resources import NAMESPACES, POD_DISRUPTION_BUDGETS, PODS
from dra_shared.api.scheduling import PodGroup
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
from dra_scheduler.explain.routes import routes
from dra_scheduler.failures import SCHEDULER_ERROR, UNSCHEDULABLE, FailureReporter
from dra_scheduler.framework.cache import Cache
from dra_scheduler.framework.events import Action, Interest, Kind
from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import Status
from dra_scheduler.handlers import EventHandlers
from dra_scheduler.metrics import count_attempt, watch_cache, watch_queue
from dra_scheduler.placement import Attempt, AttemptError, Placement, Unschedulable
from dra_scheduler.plugins.dynamicresources.manager import DRAManager
from dra_scheduler.plugins.dynamicresources.plugin import DynamicResources
from dra_scheduler.plugins.dynamicresources.podgroups import PodGroups, group_key
from dra_scheduler.plugins.registry import Parts, default_framework
from dra_scheduler.queue.entry import QueuedPod
from dra_scheduler.queue.scheduling import SchedulingQueue

_FLUSH_INTERVAL = 30.0

_log = logger(__name__)


@dataclass(slots=True)
class _Decision:
    """A pod that has been given a node, which it holds in the scheduler's opinion only."""

    entry: QueuedPod
    state: CycleState
    pod: Pod
    assumed: Pod


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
        namespaces = self._informers.informer(NAMESPACES).store
        budgets = self._informers.informer(POD_DISRUPTION_BUDGETS).store

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
                namespace_labels=namespace_labels,
                budgets=budgets.list,
                recall=lambda uid, plugin: self._binder.preempt(uid, plugin),
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
        pods = self._informers.informer(PODS).store
        self.explainer = Explainer(
            self.cache, self.queue, self.manager, self.framework, self._clock, pods.get
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
        """Try to give the pod a node; with its whole group, if it is a member of one that is scheduled together."""
        group = self.groups.of(entry.pod)
        if group is not None and group.spec.scheduling_policy.gang is not None:
            await self._schedule_gang(entry, group, group.spec.scheduling_policy.gang.min_count)
            return
        decision = await self._timed_decision(entry, None)
        if decision is not None:
            self._start_binding(decision)
        if group is not None:
            message = None if decision is not None else "none of the group's pods could be scheduled"
            self._reporter.report_group(group, message)

    async def _schedule_gang(self, first: QueuedPod, group: PodGroup, minimum: int) -> None:
        """Either at least ``minimum`` of the gang get nodes, or none does."""
        key = group_key(first.pod)
        assert key is not None
        entries = [first, *self.queue.take_members(lambda pod: group_key(pod) == key)]
        state = CycleState()
        decisions = []
        for entry in entries:
            decision = await self._timed_decision(entry, state)
            if decision is not None:
                decisions.append(decision)
        if len(decisions) + self.groups.placed(key) >= minimum:
            for decision in decisions:
                self.groups.set_pod(decision.assumed, placed=True)
                self._start_binding(decision)
            self._reporter.report_group(group, None)
            return
        message = (
            f"only {len(decisions)} of the {minimum} pods that gang {key} needs at least could be scheduled"
        )
        self._reporter.report_group(group, message)
        for decision in decisions:
            # All is as it was before, so there is nothing new for other pods.
            await self._binder.give_up(decision.state, decision.pod, decision.assumed, announce=False)
            self.queue.reject(
                decision.entry, ("DynamicResources", "NodeResourcesFit", "GangScheduling"), message
            )
            self._reporter.report(decision.pod, UNSCHEDULABLE, message)

    async def _timed_decision(self, entry: QueuedPod, group: CycleState | None) -> _Decision | None:
        started = self._clock.monotonic()
        decision = await self._decide(entry, group)
        count_attempt(entry, decision is not None, self._clock.monotonic() - started)
        return decision

    async def _decide(self, entry: QueuedPod, group: CycleState | None) -> _Decision | None:
        """Choose a node and reserve what the pod uses there; None after telling why that couldn't be."""
        pod = entry.pod
        self._attempt = attempt = self.placement.begin(pod, group)
        try:
            node_name = await self.placement.choose(attempt)
        except Unschedulable as problem:
            await self._reject(entry, attempt.state, problem.diagnosis)
            return None
        except AttemptError as problem:
            self._fail(entry, str(problem))
            return None
        if self.queue.get(pod.metadata.uid) is not entry:
            return None  # deleted, or placed by someone else, while others had their turn
        assumed = _with_node(pod, node_name)
        status = self.framework.reserve(attempt.state, assumed, node_name)
        if status is not None:
            await self.framework.unreserve(attempt.state, assumed, node_name)
            self._fail(entry, status.message)
            return None
        assumed = self._dynamic_resources.with_node_statuses(attempt.state, assumed)
        self.cache.nominations.delete(pod.metadata.uid)
        self.cache.assume(assumed, node_name)
        return _Decision(entry, attempt.state, pod, assumed)

    def _start_binding(self, decision: _Decision) -> None:
        self.queue.decided(decision.entry)
        self._spawn(self._binder.bind(decision.state, decision.pod, decision.assumed))

    async def _reject(self, entry: QueuedPod, state: CycleState, diagnosis: Diagnosis) -> None:
        if not diagnosis.nodes:
            state.nominated = ""
        else:
            status = await self.framework.post_filter(state, entry.pod, diagnosis.statuses)
            diagnosis.post_filter = status.message
        diagnosis.plugins.discard("")
        _log.info("no node for pod, waiting for a change", pod=entry.pod.key, reason=diagnosis.message)
        if not diagnosis.pre_filter and "DynamicResources" in diagnosis.plugins:
            diagnosis.hint = self._hint(entry.pod, diagnosis)
        self.queue.reject(entry, diagnosis.plugins or {""}, diagnosis.message)
        if state.nominated is not None:
            self.cache.nominations.set(entry.pod, state.nominated)
        self._reporter.report(
            entry.pod, UNSCHEDULABLE, diagnosis.message, event=diagnosis.explained, nominated=state.nominated
        )

    def _hint(self, pod: Pod, diagnosis: Diagnosis) -> str:
        """What stands in the way on one of the nodes whose devices would not do."""
        turned_away = (n for n, status in diagnosis.statuses.items() if status.plugin == "DynamicResources")
        return self.explainer.hint(pod, min(turned_away))

    def _fail(self, entry: QueuedPod, message: str) -> None:
        _log.warning("attempt failed, trying again after a back-off", pod=entry.pod.key, error=message)
        self.queue.fail(entry, message)
        self.cache.nominations.delete(entry.uid)
        self._reporter.report(entry.pod, SCHEDULER_ERROR, message, nominated="")

    def _binding_failed(self, pod: Pod, status: Status, announced: bool) -> None:
        current = self.queue.get(pod.metadata.uid)
        if current is None:
            return  # the pod is gone
        self.queue.fail(current, status.message)
        reason = UNSCHEDULABLE if status.rejected else SCHEDULER_ERROR
        self._reporter.report(current.pod, reason, status.message, nominated="", announced=announced)


def _with_node(pod: Pod, node_name: str) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node_name))
