"""Waiting for a condition.

``until`` is for what another process, thread or socket does, ``blocking_until`` the same in a test without a loop, and
``eventually`` for what other tasks of this loop do.
"""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar, overload

from dra_shared.clock import FakeClock

T = TypeVar("T")
_TURNS = 5000


@overload
async def until(
    condition: Callable[[], Awaitable[T | None]],
    seconds: float = ...,
    clock: FakeClock | None = ...,
    *,
    every: float = ...,
    meanwhile: Callable[[], Awaitable[object]] | None = ...,
    describe: Callable[[], Awaitable[str]] | None = ...,
) -> T: ...


@overload
async def until(
    condition: Callable[[], object],
    seconds: float = ...,
    clock: FakeClock | None = ...,
    *,
    every: float = ...,
    meanwhile: Callable[[], Awaitable[object]] | None = ...,
    describe: Callable[[], Awaitable[str]] | None = ...,
) -> Any: ...


async def until(
    condition: Callable[[], Any],
    seconds: float = 60.0,
    clock: FakeClock | None = None,
    *,
    every: float = 0.002,
    meanwhile: Callable[[], Awaitable[object]] | None = None,
    describe: Callable[[], Awaitable[str]] | None = None,
) -> Any:
    """Return the first true result of ``condition``, asked every so many seconds; fails after ``seconds``.

    Between two calls ``meanwhile`` runs, and time passes on ``clock``, for what retries after real I/O: when it begins
    to wait is not known. A failure is a TimeoutError, or an AssertionError with the text that ``describe`` gives.
    """
    try:
        async with asyncio.timeout(seconds):
            while not (result := await _result(condition)):
                if meanwhile is not None:
                    await meanwhile()
                await asyncio.sleep(every)
                if clock is not None:
                    await clock.advance(1)
            return result
    except TimeoutError:
        if describe is None:
            raise
        raise AssertionError(await describe()) from None


async def _result(condition: Callable[[], Any]) -> Any:
    result = condition()
    return await result if inspect.isawaitable(result) else result


def blocking_until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Return as soon as ``condition`` holds; raises a TimeoutError after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    """True if a process exists and has not ended. Orphans may stay zombies in a container."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


async def eventually(condition: Callable[[], object]) -> None:
    """Return as soon as ``condition`` holds, after turns of the loop and without any time passing."""
    for _ in range(_TURNS):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("the condition never held")
