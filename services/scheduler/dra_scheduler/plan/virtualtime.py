"""An event loop whose time passes only when nothing else can happen, and a clock that follows it.

Nothing in a world in memory waits for input or output. So once no callback is ready, what comes next is known: the
earliest timer, and the caller decides whether to go on to it.
"""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

T = TypeVar("T")


class VirtualTimeLoop(asyncio.BaseEventLoop):
    """Runs callbacks; :meth:`idle` returns when there is none left to run."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = self
        self._elapsed = 0.0
        self._idle: asyncio.Future[float | None] | None = None
        self._called = threading.Event()
        self._threads = 0

    def time(self) -> float:
        """Seconds of virtual time since the loop was made."""
        return self._elapsed

    def advance(self, seconds: float) -> None:
        """Let time pass: timers that are due then run next."""
        self._elapsed += max(0.0, seconds)

    async def idle(self) -> float | None:
        """Wait until nothing can run; returns after how many seconds the first timer is due, None without one."""
        self._idle = self.create_future()
        try:
            return await self._idle
        finally:
            self._idle = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` to its end; in a thread where another loop runs in this one, as in a notebook."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self.run_until_complete(work)
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(self.run_until_complete, work).result()

    def run_in_executor(  # type: ignore[override]  # nothing here depends on what the function gives
        self, executor: Any, func: Any, *args: Any
    ) -> asyncio.Future[Any]:
        """As the base class; meanwhile time stands still."""
        self._threads += 1
        future: asyncio.Future[Any] = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._thread_ended)
        return future

    def _thread_ended(self, _: asyncio.Future[Any]) -> None:
        self._threads -= 1

    def __del__(self) -> None:
        # It holds nothing of the operating system that would have to be closed.
        pass

    # What the base class asks of a selector: to wait for events.

    def select(self, timeout: float | None) -> list[Any]:
        """Nothing is ready; ``timeout`` is when the next timer is due. 0: callbacks are."""
        if timeout == 0:
            return []
        if self._threads:
            # A search goes on in a thread: no time passes until it ends.
            self._called.wait()
            self._called.clear()
        elif self._idle is not None and not self._idle.done():
            self._idle.set_result(timeout)
        else:
            assert timeout is not None, "nothing can ever happen"
            self.advance(timeout)
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        self._called.set()


class VirtualClock:
    """The loop's time as a service sees it; it starts at ``start``."""

    def __init__(self, loop: VirtualTimeLoop, start: datetime | None = None) -> None:
        self._loop = loop
        self._start = start or datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._loop.time())

    def monotonic(self) -> float:
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
