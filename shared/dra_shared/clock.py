"""Clocks that are passed in, so that tests control time."""

import asyncio
import contextlib
import functools
import heapq
import itertools
import os
import time
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, TypeGuard, runtime_checkable

#: The environment variable that makes a cluster's time pass faster than real time.
SPEED = "DRALAB_SPEED"


class Clock(Protocol):
    """The time functions that services use."""

    def now(self) -> datetime:
        """Return the wall clock time, in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds since a fixed moment. The value never decreases."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after ``seconds``."""
        ...


@runtime_checkable
class TickingClock(Clock, Protocol):
    """A clock whose time passes by itself, like the event loop's."""

    def real(self, seconds: float) -> float:
        """Convert ``seconds`` of this clock to seconds of the event loop."""
        ...


def is_ticking(clock: Clock) -> TypeGuard[TickingClock]:
    """True if the clock's time passes by itself."""
    return _ticks(type(clock))


@functools.cache
def _ticks(kind: type[Clock]) -> bool:
    # Checking a protocol's members takes tens of microseconds, and thousands of nodes call this.
    return issubclass(kind, TickingClock)


async def wait_for(what: Coroutine[Any, Any, object], seconds: float | None, clock: Clock) -> None:
    """Wait for ``what``, but at most ``seconds`` (None: without limit)."""
    if seconds is None:
        await what
        return
    if is_ticking(clock):
        # With thousands of nodes, a timer is much cheaper than two tasks.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(clock.real(seconds)):
                await what
        return
    tasks = {asyncio.ensure_future(what), asyncio.ensure_future(clock.sleep(seconds))}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


class SystemClock:
    """The machine's time, or a faster time with a common start for all processes of a cluster.

    ``DRALAB_SPEED=10@1767225600`` in the environment means ten times as fast since that Unix time.
    """

    def __init__(self, speed: str | None = None) -> None:
        text = os.environ.get(SPEED, "") if speed is None else speed
        factor, _, since = text.partition("@")
        self._speed = float(factor or 1)
        self._since = float(since or 0)

    def now(self) -> datetime:
        if self._speed == 1:
            return datetime.now(UTC)
        return datetime.fromtimestamp(self._since + (time.time() - self._since) * self._speed, UTC)

    def monotonic(self) -> float:
        return time.monotonic() * self._speed

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self._speed)

    def real(self, seconds: float) -> float:
        return seconds / self._speed


class FakeClock:
    """Time that only passes in :meth:`advance`."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = start
        self._elapsed = 0.0
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed + seconds, next(self._order), done))
        await done

    async def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass. Sleepers wake in order, and each runs until it waits again."""
        end = self._elapsed + seconds
        await settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            due, _, done = heapq.heappop(self._sleepers)
            self._set(due)
            if not done.done():
                done.set_result(None)
            await settle()
        self._set(end)
        await settle()

    @property
    def count_sleepers(self) -> int:
        """Return the number of sleepers."""
        return sum(not done.done() for _, _, done in self._sleepers)

    def _set(self, elapsed: float) -> None:
        self._now += timedelta(seconds=elapsed - self._elapsed)
        self._elapsed = elapsed


async def settle(turns: int = 20) -> None:
    """Run ready tasks for some turns of the event loop."""
    for _ in range(turns):
        await asyncio.sleep(0)


def rfc3339(moment: datetime) -> str:
    """Format a time like ``metadata.creationTimestamp``: UTC, whole seconds."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def rfc3339_micro(moment: datetime) -> str:
    """Format a time as in Leases and Events: UTC, microseconds."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def parse_rfc3339(text: str) -> datetime:
    """Parse a time, and return it in UTC.

    Raises:
        ValueError: the text is not an RFC 3339 time.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return moment.astimezone(UTC)
