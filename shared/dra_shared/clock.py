"""Time as something that is handed in, so that tests decide how it passes."""

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

#: The environment variable that hurries a cluster's time.
SPEED = "DRALAB_SPEED"


class Clock(Protocol):
    """What a service may know of time."""

    def now(self) -> datetime:
        """The wall clock, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after ``seconds``."""
        ...


@runtime_checkable
class TickingClock(Clock, Protocol):
    """A clock whose time passes by itself, as the event loop's does."""

    def real(self, seconds: float) -> float:
        """How many of the event loop's seconds pass meanwhile."""
        ...


def is_ticking(clock: Clock) -> TypeGuard[TickingClock]:
    """Whether the clock's time passes by itself."""
    return _ticks(type(clock))


@functools.cache
def _ticks(kind: type[Clock]) -> bool:
    # To look a protocol's members up takes tens of microseconds, and nodes wait by thousands.
    return issubclass(kind, TickingClock)


async def wait_for(what: Coroutine[Any, Any, object], seconds: float | None, clock: Clock) -> None:
    """Wait for ``what``, but no longer than ``seconds`` (None: as long as it takes)."""
    if seconds is None:
        await what
        return
    if is_ticking(clock):
        # Nodes wait by thousands: a timer takes a fraction of what tasks do.
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
    """The machine's time, or one that passes faster since a moment that all processes of a cluster share.

    ``DRALAB_SPEED=10@1767225600`` in the environment says that: ten times as fast since that Unix time.
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
    """Time that stands still until :meth:`advance` moves it."""

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
    def sleepers(self) -> int:
        """How many are asleep."""
        return sum(not done.done() for _, _, done in self._sleepers)

    def _set(self, elapsed: float) -> None:
        self._now += timedelta(seconds=elapsed - self._elapsed)
        self._elapsed = elapsed


async def settle(turns: int = 20) -> None:
    """Let every task that can run do so for some turns of the event loop."""
    for _ in range(turns):
        await asyncio.sleep(0)


def rfc3339(moment: datetime) -> str:
    """A time as ``metadata.creationTimestamp`` has it: UTC, whole seconds."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def rfc3339_micro(moment: datetime) -> str:
    """A time as Leases and Events have it: UTC, microseconds."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def parse_rfc3339(text: str) -> datetime:
    """The moment that ``text`` names, in UTC.

    Raises:
        ValueError: it is no RFC 3339 time.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return moment.astimezone(UTC)
