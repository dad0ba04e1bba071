"""A queue of keys to reconcile. Each key is queued at most once, and never processed by two workers at a time.

A key that is added while it is processed is queued again afterwards, so no change is lost. A failed key is
retried after a delay that doubles with each failure (5 ms to 1000 s), like client-go's default rate limiter.
"""

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, Protocol, TypeVar

import httpx

from dra_shared.client.errors import ApiError, Conflict
from dra_shared.clock import Clock, SystemClock
from dra_shared.log import logger

K = TypeVar("K", bound=Hashable)

_BASE_DELAY = 0.005
_LONGEST_DELAY = 1000.0

_log = logger(__name__)


class ShutDown(Exception):
    """The queue is shut down."""


class Retry(Exception):
    """Raised by a reconcile function that cannot succeed yet. The message is the full reason."""


class QueueObserver(Protocol):
    """Observes the queue. Durations are in seconds."""

    def on_add(self) -> None:
        """A key was added that was not in the queue."""

    def on_retry(self) -> None:
        """A key failed and will be retried."""

    def on_get(self, waited: float) -> None:
        """A worker took a key that was ready for ``waited`` seconds."""

    def on_done(self, worked: float) -> None:
        """A worker finished a key after ``worked`` seconds."""


class WorkQueue(Generic[K]):
    """A queue of keys; see the module's docstring."""

    def __init__(
        self, clock: Clock | None = None, *, base_delay: float = _BASE_DELAY, longest: float = _LONGEST_DELAY
    ) -> None:
        self._clock = clock or SystemClock()
        self._base_delay = base_delay
        self._longest = longest
        self._ready: deque[K] = deque()
        self._dirty: set[K] = set()
        self._active: set[K] = set()
        self._failures: dict[K, int] = {}
        self._waiting: list[tuple[float, int, K]] = []
        self._due: dict[K, float] = {}
        self._order = itertools.count()
        self._getters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.Task[None] | None = None
        self._shut_down = False
        self.observer: QueueObserver | None = None
        # The time at which a queued key was added, or an active key was taken.
        self._since: dict[K, float] = {}

    def __len__(self) -> int:
        """Return the number of keys that are ready."""
        return len(self._ready)

    @property
    def idle(self) -> bool:
        """True if no key is ready or being processed. Keys whose delay has not passed do not count."""
        return not self._ready and not self._active

    def running_times(self) -> list[float]:
        """Return the seconds since each active key was taken. Only recorded while there is an observer."""
        now = self._clock.monotonic()
        return [now - self._since[key] for key in self._active if key in self._since]

    def add(self, key: K) -> None:
        """Queue ``key`` to be processed as soon as a worker is free."""
        if self._shut_down or key in self._dirty:
            return
        self._dirty.add(key)
        if self.observer is not None:
            self.observer.on_add()
        if key not in self._active:
            self._make_ready(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Queue ``key`` after ``seconds``. If it is already delayed, the earlier time applies."""
        if self._shut_down:
            return
        if seconds <= 0:
            self.add(key)
            return
        due = self._clock.monotonic() + seconds
        if self._due.get(key, float("inf")) <= due:
            return
        self._due[key] = due
        heapq.heappush(self._waiting, (due, next(self._order), key))
        self._restart_timer()

    def add_rate_limited(self, key: K) -> None:
        """Queue ``key`` after a delay that doubles with each call until :meth:`forget`."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        if self.observer is not None:
            self.observer.on_retry()
        self.add_after(key, min(self._base_delay * 2**failures, self._longest))

    def forget(self, key: K) -> None:
        """Reset the key's failures after a success."""
        self._failures.pop(key, None)

    def count_requeues(self, key: K) -> int:
        """Return the number of failures of the key in a row."""
        return self._failures.get(key, 0)

    async def get(self) -> K:
        """Return the next key. The caller must call :meth:`done` afterwards.

        Raises:
            ShutDown: the queue was shut down.
        """
        while not self._ready:
            if self._shut_down:
                raise ShutDown
            getter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                if getter.done() and not getter.cancelled():
                    self._wake_getter()
                raise
        key = self._ready.popleft()
        self._dirty.discard(key)
        self._active.add(key)
        if self.observer is not None:
            self.observer.on_get(self._lap(key))
        return key

    def done(self, key: K) -> None:
        """Finish ``key``. If it was added meanwhile, it is ready again."""
        self._active.discard(key)
        if self.observer is not None:
            self.observer.on_done(self._lap(key))
        self._since.pop(key, None)
        if key in self._dirty:
            self._make_ready(key)

    def shut_down(self) -> None:
        """Accept no more keys, and end every worker."""
        self._shut_down = True
        if self._timer is not None:
            self._timer.cancel()
        while self._getters:
            self._wake_getter()

    def _make_ready(self, key: K) -> None:
        self._ready.append(key)
        if self.observer is not None:
            self._since[key] = self._clock.monotonic()
        self._wake_getter()

    def _lap(self, key: K) -> float:
        """Return the seconds since the last call for the key, or since it became ready."""
        now = self._clock.monotonic()
        before, self._since[key] = self._since.get(key, now), now
        return now - before

    def _wake_getter(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _restart_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().create_task(self._release_due())

    async def _release_due(self) -> None:
        while self._waiting:
            due, _, key = self._waiting[0]
            if self._due.get(key) != due:
                heapq.heappop(self._waiting)
                continue
            wait = due - self._clock.monotonic()
            if wait > 0:
                await self._clock.sleep(wait)
                continue
            heapq.heappop(self._waiting)
            del self._due[key]
            self.add(key)
        self._timer = None


async def run_workers(
    queue: WorkQueue[K],
    reconcile: Callable[[K], Awaitable[None]],
    workers: int = 1,
    name: str = "",
    max_retries: int | None = None,
) -> None:
    """Reconcile keys until the queue is shut down. Failed keys are retried with increasing delays.

    After ``max_retries`` retries, a failing key is dropped until it is added again.
    """

    def requeue(key: K) -> None:
        if max_retries is None or queue.count_requeues(key) < max_retries:
            queue.add_rate_limited(key)
            return
        _log.warning("dropped after all retries", queue=name, key=key, retries=max_retries)
        queue.forget(key)

    async def work() -> None:
        while True:
            try:
                key = await queue.get()
            except ShutDown:
                return
            try:
                await reconcile(key)
            except (Retry, ApiError, httpx.HTTPError, OSError, TimeoutError) as error:
                level = "debug" if isinstance(error, Conflict) else "info"
                getattr(_log, level)("reconcile failed, trying again", queue=name, key=key, error=str(error))
                requeue(key)
            except Exception:
                _log.exception("reconcile failed, trying again", queue=name, key=key)
                requeue(key)
            else:
                queue.forget(key)
            finally:
                queue.done(key)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(workers):
            tasks.create_task(work())
