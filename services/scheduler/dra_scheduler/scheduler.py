"""The scheduler: takes pods from the queue one at a time and tries each. :mod:`.wiring` builds it.

Mirrors ``Scheduler.Run`` and ``ScheduleOne`` in upstream's ``pkg/scheduler``.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Self

from dra_shared.client.informer import InformerFactory
from dra_shared.client.leader import LeaderElector
from dra_shared.clock import Clock
from dra_shared.log import logger
from dra_shared.service import HealthServer

from dra_scheduler.config import SchedulerConfig
from dra_scheduler.dra.manager import DRAManager
from dra_scheduler.dra.podgroups import PodGroups
from dra_scheduler.explain.explainer import Explainer
from dra_scheduler.explain.routes import routes
from dra_scheduler.extenders.chain import Extenders
from dra_scheduler.failurehandler import FailureHandler
from dra_scheduler.framework.cache import Cache
from dra_scheduler.groupcycle import GroupCycle
from dra_scheduler.metrics import watch_cache, watch_queue
from dra_scheduler.podcycle import PodCycles
from dra_scheduler.queue.entry import QueuedPod
from dra_scheduler.queue.scheduling import SchedulingQueue
from dra_scheduler.scheduleresult import Decision
from dra_scheduler.tasks import Tasks
from dra_scheduler.treecycle import TreeCycle

_FLUSH_INTERVAL = 30.0

_log = logger(__name__)


class Scheduler:
    """Runs inside ``async with``.

    ``elector``, if any, decides when it may schedule. ``on_synced`` is called once its informers are synced.
    ``while_leading`` runs as long as it may schedule.
    """

    def __init__(
        self,
        config: SchedulerConfig,
        clock: Clock,
        *,
        informers: InformerFactory,
        cache: Cache,
        queue: SchedulingQueue,
        manager: DRAManager,
        groups: PodGroups,
        pod_cycle: PodCycles,
        group_cycle: GroupCycle | TreeCycle,
        failures: FailureHandler,
        explainer: Explainer,
        tasks: Tasks,
        extenders: Extenders,
        while_leading: Callable[[], Coroutine[Any, Any, None]],
        elector: LeaderElector | None,
        on_synced: Callable[[], None],
    ) -> None:
        self.config = config
        self.cache = cache
        self.queue = queue
        self.manager = manager
        self.explainer = explainer
        self._clock = clock
        self._informers = informers
        self._groups = groups
        self._pod_cycle = pod_cycle
        self._group_cycle = group_cycle
        self._failures = failures
        self._tasks = tasks
        self._extenders = extenders
        self._while_leading = while_leading
        self._elector = elector
        self._on_synced = on_synced
        self._synced = False
        self._main: asyncio.Task[None] | None = None
        self._health: HealthServer | None = None
        self._routes = routes(self.explainer, self.manager, self.cache.node_objects)

    def add_routes(self, more: Mapping[str, Callable[[Any], Awaitable[Any]]]) -> None:
        """Serve these paths on the health port, too. Must be called before the start."""
        self._routes |= more

    @property
    def informers(self) -> InformerFactory:
        """The informers, with the observed objects of the cluster."""
        return self._informers

    @property
    def ready(self) -> bool:
        """True if its informers are synced."""
        return self._synced

    @property
    def health_port(self) -> int | None:
        """The port of its health endpoint, or None."""
        return self._health.port if self._health is not None else None

    async def __aenter__(self) -> Self:
        self._main = asyncio.create_task(self._run())
        if self.config.health_port is not None:
            self._health = HealthServer(
                self.config.health_address,
                self.config.health_port,
                {"informers": lambda: self._synced},
                self._routes,
                guard=self.config.guard,
                tls=self.config.tls,
            )
            await self._health.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._main is not None:
            self._main.cancel()
            await asyncio.gather(self._main, return_exceptions=True)
        await self.stop()
        if self._health is not None:
            await self._health.__aexit__(kind, problem, traceback)

    async def wait(self) -> None:
        """Return when it stops by itself, raising its error."""
        assert self._main is not None
        await self._main

    async def schedule(self, entry: QueuedPod) -> None:
        """Try to schedule the pod, together with its group if it has one."""
        group = self._groups.of(entry.pod)
        if group is not None:
            await self._group_cycle.run(entry, group)
            return
        outcome = await self._pod_cycle.decide(entry)
        if isinstance(outcome, Decision):
            self._pod_cycle.bind(outcome)
        elif outcome is not None:
            self._failures.handle_unscheduled(entry, outcome)

    async def try_schedule(self, entry: QueuedPod) -> None:
        """Try to schedule the pod. After an unexpected error, the pod is retried."""
        try:
            await self.schedule(entry)
        except Exception as problem:
            _log.exception("attempt failed unexpectedly", pod=entry.pod.key)
            self.queue.fail(entry, str(problem))

    def restart(self) -> None:
        """Forget earlier attempts, so that decisions are those of a new scheduler with the same objects."""
        self._pod_cycle.restart()

    async def stop(self) -> None:
        """Cancel the background tasks."""
        await self._tasks.cancel()
        await self._extenders.aclose()

    async def _run(self) -> None:
        if self._elector is not None and self.config.waits_to_watch:
            await self._elector.run(self._watch_and_lead)
            return
        lead = self._lead() if self._elector is None else self._elector.run(self._lead)
        await self._watch(lead)

    async def _watch_and_lead(self) -> None:
        await self._watch(self._lead())

    async def _watch(self, lead: Coroutine[Any, Any, None]) -> None:
        """Run the informers, and lead once this replica may."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._informers.run())
            tasks.create_task(self._mark_synced())
            tasks.create_task(lead)

    async def _mark_synced(self) -> None:
        await self._informers.wait_for_sync()
        self._synced = True
        self._on_synced()
        _log.info("ready", nodes=len(self.cache.nodes()), claims=len(self.manager.claims))

    async def _lead(self) -> None:
        await self._informers.wait_for_sync()
        watch_queue(self.queue)
        watch_cache(self.cache)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._flush())
            tasks.create_task(self._while_leading())
            tasks.create_task(self._schedule_forever())

    async def _flush(self) -> None:
        while True:
            await self._clock.sleep(_FLUSH_INTERVAL)
            self.queue.flush()

    async def _schedule_forever(self) -> None:
        while True:
            await self.try_schedule(await self.queue.pop())
            # Yield to the event loop between two pods, so that bindings and informers run.
            await asyncio.sleep(0)
