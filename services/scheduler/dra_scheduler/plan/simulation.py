"""The scheduler on objects in memory: queue, plugins, preemption, gangs and allocator, with virtual time.

Mirrors ``Scheduler.Run`` of upstream's ``pkg/scheduler/scheduler.go``. The scheduler is the one that
:mod:`dra_scheduler.wiring` builds for the service.
"""

import math
import random
import re
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar

import msgspec
from dra_shared.api.meta import Object
from dra_shared.api.pod import ObjectReference, Pod
from dra_shared.api.resource import ResourceClaim
from dra_shared.api.resources import PODS, RESOURCE_CLAIMS, Resource
from dra_shared.client.events import Recorder
from dra_shared.clock import SystemClock
from dra_shared.refusals import REFUSED

from dra_scheduler.config import SchedulerConfig
from dra_scheduler.explain.report import PodReport
from dra_scheduler.plan.memory import MemoryClient
from dra_scheduler.plan.quotas import Quotas
from dra_scheduler.plan.upkeep import Upkeep, claim_names
from dra_scheduler.plan.virtualtime import VirtualClock, VirtualTimeLoop
from dra_scheduler.plugins.profiles import profiles_of
from dra_scheduler.wiring import Sources, new_scheduler

_FORBIDDEN = re.compile('^pods "[^"]*" is forbidden')

T = TypeVar("T", bound=Object)
R = TypeVar("R")

# Pods that fail with errors are retried forever. After this many seconds without a placement, stop.
_PATIENCE = 120.0


class Stopped(Exception):
    """The caller wants the best answer so far."""


class _Preemptions(Recorder):
    """Records preemptions. Other events are dropped."""

    def __init__(self, client: MemoryClient) -> None:
        super().__init__(client, "plan")
        self.evicted: list[tuple[str, str]] = []

    def event(
        self, involved: ObjectReference, type_: str, reason: str, message: str, action: str = ""
    ) -> None:
        if reason == "Preempted":
            self.evicted.append((f"{involved.namespace}/{involved.name}", message))


class Simulation:
    """A world in memory that the scheduler and the caller change.

    ``seed`` decides between nodes with equal scores. ``running`` is called between attempts and returns
    False to stop.
    """

    def __init__(
        self,
        config: SchedulerConfig | None = None,
        *,
        seed: int = 0,
        start: datetime | None = None,
        running: Callable[[], bool] = lambda: True,
    ) -> None:
        self._loop = VirtualTimeLoop()
        clock = VirtualClock(self._loop, start)
        self.client = MemoryClient(clock)
        self._events = _Preemptions(self.client)
        self.running = running
        self._seed, self._rng = seed, random.Random(seed)
        informers = self.client.informers
        sources = Sources(informers, informers, lambda _: self._events, SystemClock(), announces=False)
        config = config or SchedulerConfig()
        self._profiles = frozenset(profile.scheduler_name for profile in profiles_of(config))
        extended = config.gates.enabled("DRAExtendedResource")
        self._quotas = Quotas(self.client, extended_resources=extended)
        self.upkeep = Upkeep(self.client, self._quotas)
        # New pods that the API server refuses, with its messages.
        self._refused: dict[str, str] = {}
        self._refused_claims: dict[str, str] = {}
        self.scheduler = new_scheduler(
            config, client=self.client, clock=clock, rng=self._rng, sources=sources
        )

    def close(self) -> None:
        """Close the scheduler. The objects can still be read."""
        if not self._loop.is_closed():
            self._loop.run(self.scheduler.stop())
            self._loop.close()

    @property
    def elapsed_seconds(self) -> float:
        """The virtual time in seconds since the start."""
        return self._loop.time()

    @property
    def preemptions(self) -> list[tuple[str, str]]:
        """The pods that were preempted, each with the event's text."""
        return self._events.evicted

    def add(self, resource: Resource[T], obj: T) -> None:
        """Add or update the object. An object without a uid, from a manifest, gets one."""
        if not obj.metadata.uid:
            uid = f"plan-{resource.plural}-{obj.key}"
            obj = msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, uid=uid))
        if isinstance(obj, Pod) and not obj.spec.node_name and obj.spec.resource_claims:
            self.client.put(PODS, self.upkeep.with_claims(obj))
        else:
            self.client.put(resource, obj)

    def create(self, pod: Pod) -> None:
        """Add a new pod, unless the API server would refuse it."""
        # The message must have the name of this copy of the pod.
        own = f'pods "{pod.metadata.name}" is forbidden'
        refusal = _FORBIDDEN.sub(lambda _: own, pod.metadata.annotations.get(REFUSED, ""))
        refusal = refusal or self._quotas.refusal_of_pod(pod)
        if refusal:
            self._refused[pod.key] = refusal
        else:
            self._refused.pop(pod.key, None)
            self.add(PODS, pod)

    def create_other(self, resource: Resource[T], obj: T) -> None:
        """Add or update an object that new pods refer to. A claim that exceeds a quota is not created."""
        if isinstance(obj, ResourceClaim) and self.client.find(RESOURCE_CLAIMS, obj.key) is None:
            refusal = self._quotas.refusal_of_claim(obj)
            if refusal:
                self._refused_claims[obj.key] = refusal
                return
        self.add(resource, obj)

    @contextmanager
    def without_quotas(self) -> Iterator[None]:
        """Do not enforce quotas inside the context: the question is about devices or about existing pods."""
        self._quotas.enforced = False
        try:
            yield
        finally:
            self._quotas.enforced = True

    def message(self, key: str, default: str = "not tried") -> str:
        """Return the reason why the pod with that key has no node."""
        refusal, pod = self.refusal(key), self.pod(key)
        entry = self.scheduler.queue.get(pod.metadata.uid) if pod is not None else None
        text = entry.message if entry is not None else self._why_not_queued(pod) or default
        if pod is None:
            return refusal or text
        return f"{text} ({refusal})" if refusal else text

    def _why_not_queued(self, pod: Pod | None) -> str:
        """Return the reason why the scheduler ignores the pod, or an empty string."""
        if pod is None or pod.spec.scheduler_name in self._profiles:
            return ""
        served = ", ".join(sorted(self._profiles))
        return f'no profile of the scheduler is for schedulerName "{pod.spec.scheduler_name}", only for: {served}'

    def refusal(self, key: str) -> str:
        """Return why the API server refuses the pod with that key or one of its claims, or an empty string."""
        if found := self._refused.get(key) or self.upkeep.refusals.get(key):
            return found
        pod = self.pod(key) if self._refused_claims else None
        entries = pod.spec.resource_claims if pod is not None else ()
        space = key.partition("/")[0]
        names = (f"{space}/{entry.resource_claim_name}" for entry in entries)
        return next((self._refused_claims[name] for name in names if name in self._refused_claims), "")

    def with_refusal(self, report: PodReport) -> PodReport:
        """Return the report with the reason why the API server refuses a claim of the pod."""
        refusal = self.refusal(report.pod)
        if not refusal:
            return report
        message = f"{report.message} ({refusal})" if report.message else refusal
        return msgspec.structs.replace(report, message=message)

    def is_refused(self, key: str) -> bool:
        """Return True if the API server refuses the pod with that key."""
        return key in self._refused

    def load(self, objects: Iterable[tuple[Resource[Any], Iterable[Object]]]) -> None:
        """Add many objects, resource by resource. Waiting pods are last, in the order of creation."""
        for resource, each in objects:
            for obj in sorted(each, key=_queue_order) if resource is PODS else each:
                self.add(resource, obj)
        self._quotas.compare_with_objects()

    def remove(self, resource: Resource[T], key: str) -> None:
        """Remove the object with that key."""
        self.client.drop(resource, key)

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Undo all changes at the end of the context. Every trial starts in the same state."""
        self.scheduler.restart()
        self._rng.seed(self._seed)
        self.client.checkpoint()
        refusals = dict(self.upkeep.refusals)
        try:
            yield
        finally:
            self.client.rollback()
            self._refused.clear()
            self._refused_claims.clear()
            self.upkeep.refusals = refusals
            self._events.evicted.clear()

    def pod(self, key: str) -> Pod | None:
        """Return the current pod, or None."""
        return self.client.find(PODS, key)

    def devices(self, pod: Pod) -> tuple[str, ...]:
        """Return the devices of the pod's claims as ``driver/pool/device``."""
        find = self.client.find
        keys = [f"{pod.metadata.namespace}/{name}" for name in claim_names(pod)]
        claims = [claim for key in keys if (claim := find(RESOURCE_CLAIMS, key)) is not None]
        return tuple(
            f"{result.driver}/{result.pool}/{result.device}"
            for claim in claims
            if claim.status.allocation is not None
            for result in claim.status.allocation.devices.results
        )

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine that does not wait for timers or other tasks, such as an explanation."""
        return self._loop.run(work)

    def settle(self, until: Callable[[], float] = lambda: math.inf) -> None:
        """Schedule until nothing changes any more, or until :attr:`elapsed_seconds` reaches the result of ``until``.

        Raises:
            Stopped: ``running`` returned False.
        """
        self._loop.run(self._settle(until))

    def pass_until(self, elapsed: float) -> None:
        """Advance the virtual time without running anything."""
        self._loop.advance(elapsed - self._loop.time())

    async def _settle(self, until: Callable[[], float]) -> None:
        queue, loop, scheduler = self.scheduler.queue, self._loop, self.scheduler
        give_up = loop.time() + _PATIENCE
        while True:
            entry = queue.try_pop()
            if entry is not None:
                if not self.running():
                    queue.fail(entry, "stopped")
                    raise Stopped
                await scheduler.try_schedule(entry)
                # Finish bindings and evictions before the next pod is tried.
                await loop.idle()
                continue
            due = await loop.idle()
            if queue.has_active():
                continue
            waits = [seconds for seconds in (due, queue.next_due()) if seconds is not None]
            if not waits or loop.time() + min(waits) > min(give_up, until()):
                return
            loop.advance(min(waits))


def _queue_order(pod: Any) -> tuple[bool, str, str]:
    return not pod.spec.node_name, pod.metadata.creation_timestamp or "", pod.key
