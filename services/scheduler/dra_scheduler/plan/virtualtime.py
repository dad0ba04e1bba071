"""An event loop with virtual time, which advances only when no callback can run, and a clock that follows it.

Nothing in a world in memory waits for input or output. So once no callback is ready, the next event is
known: it is the earliest timer. The caller decides whether to advance to it.
"""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

T = TypeVar("T")


class VirtualTimeLoop(asyncio.BaseEventLoop):
    """An event loop with virtual time. :meth:`idle` returns when no callback is left to run."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = self
        self._elapsed = 0.0
        self._idle: asyncio.Future[float | None] | None = None
        self._called = threading.Event()
        self._threads = 0

    def time(self) -> float:
        """Return the virtual time in seconds since the loop was created."""
        return self._elapsed

    def advance(self, seconds: float) -> None:
        """Advance the time. Timers that are due then run next."""
        self._elapsed += max(0.0, seconds)

    async def idle(self) -> float | None:
        """Wait until no callback can run. Return the seconds until the first timer is due, or None without a timer."""
        self._idle = self.create_future()
        try:
            return await self._idle
        finally:
            self._idle = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` to its end. Use a thread if another loop is running in this one, as in a notebook."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self.run_until_complete(work)
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(self.run_until_complete, work).result()

    def run_in_executor(  # type: ignore[override]  # nothing here depends on what the function gives
        self, executor: Any, func: Any, *args: Any
    ) -> asyncio.Future[Any]:
        """Run the function in a thread. The virtual time stands still until it ends."""
        self._threads += 1
        future: asyncio.Future[Any] = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._thread_ended)
        return future

    def _thread_ended(self, _: asyncio.Future[Any]) -> None:
        self._threads -= 1

    def __del__(self) -> None:
        # The loop holds no operating system resources that need to be closed.
        pass

    # The methods of a selector that the base class calls

    def select(self, timeout: float | None) -> list[Any]:
        """Return no events. ``timeout`` is the time until the next timer, or 0 if callbacks are ready."""
        if timeout == 0:
            return []
        if self._threads:
            # A search runs in a thread. Wait for it without advancing the time.
            self._called.wait()
            self._called.clear()
        elif self._idle is not None and not self._idle.done():
            self._idle.set_result(timeout)
        else:
            assert timeout is not None, "nothing can ever happen"
            self.advance(timeout)
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        """No-op: there are no events."""

    def _write_to_self(self) -> None:
        self._called.set()


class VirtualClock:
    """The loop's time as a clock for services, which starts at ``start``."""

    def __init__(self, loop: VirtualTimeLoop, start: datetime | None = None) -> None:
        self._loop = loop
        self._start = start or datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._loop.time())

    def monotonic(self) -> float:
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
