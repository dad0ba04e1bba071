"""Keys to be reconciled: each at most once in the queue, never by two workers at a time.

A key added while it is worked on comes again afterwards, so no change is lost; failures come back after a delay that
doubles with each (5 ms to 1000 s), as client-go's default rate limiter has it.
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
    """The queue takes and gives no more keys."""


class Retry(Exception):
    """Raised by a reconcile function: not possible yet, for a reason that the message gives in full."""


class QueueObserver(Protocol):
    """Observes what goes through a queue; durations are in seconds."""

    def added(self) -> None:
        """A key was added that was not in the queue."""

    def retried(self) -> None:
        """A key failed and will come again."""

    def taken(self, waited: float) -> None:
        """A worker took a key that had been ready for so long."""

    def finished(self, worked: float) -> None:
        """A worker is done with a key after so long."""


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
        # When a key that is in the queue was added, and when one that is worked on was taken.
        self._since: dict[K, float] = {}

    def __len__(self) -> int:
        """How many keys are ready to be worked on."""
        return len(self._ready)

    @property
    def idle(self) -> bool:
        """Whether nothing is ready or being worked on; keys that wait for their time do not count."""
        return not self._ready and not self._active

    def running(self) -> list[float]:
        """Seconds that each key has been worked on so far; known only while there is an observer."""
        now = self._clock.monotonic()
        return [now - self._since[key] for key in self._active if key in self._since]

    def add(self, key: K) -> None:
        """Have ``key`` worked on as soon as a worker is free."""
        if self._shut_down or key in self._dirty:
            return
        self._dirty.add(key)
        if self.observer is not None:
            self.observer.added()
        if key not in self._active:
            self._make_ready(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Have ``key`` worked on after ``seconds``; if it already waits, whichever comes first."""
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
        """Have ``key`` worked on again after a delay that doubles with each call until :meth:`forget`."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        if self.observer is not None:
            self.observer.retried()
        self.add_after(key, min(self._base_delay * 2**failures, self._longest))

    def forget(self, key: K) -> None:
        """The key succeeded: its next failure is the first again."""
        self._failures.pop(key, None)

    def requeues(self, key: K) -> int:
        """How often the key failed in a row."""
        return self._failures.get(key, 0)

    async def get(self) -> K:
        """The next key; :meth:`done` must follow.

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
            self.observer.taken(self._lap(key))
        return key

    def done(self, key: K) -> None:
        """The worker has finished with ``key``; if it was added meanwhile, it is ready again."""
        self._active.discard(key)
        if self.observer is not None:
            self.observer.finished(self._lap(key))
        self._since.pop(key, None)
        if key in self._dirty:
            self._make_ready(key)

    def shut_down(self) -> None:
        """Take no more keys, and let every worker end."""
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
        """Seconds since this was last asked of the key, or since it became ready."""
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
    """Reconcile keys until the queue is shut down; a key that fails comes again, later each time.

    After ``max_retries`` retries a key that still fails is dropped, until it is added again.
    """

    def failed(key: K) -> None:
        if max_retries is None or queue.requeues(key) < max_retries:
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
                failed(key)
            except Exception:
                _log.exception("reconcile failed, trying again", queue=name, key=key)
                failed(key)
            else:
                queue.forget(key)
            finally:
                queue.done(key)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(workers):
            tasks.create_task(work())
