"""Functions that wait. No other module of the tests polls; ``tests/test_layout.py`` checks it.

There are two ways to wait. ``until_object`` waits for the state of an object, through a watch. ``until`` waits for a
condition while other tasks, injected time or another process advance. Tests without an event loop, such as those that
call the command line or Playwright, use ``blocking_until`` for the latter. Limits in seconds only end tests that hang.
"""

import asyncio
import contextlib
import inspect
import itertools
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar, overload

from dra_shared.api.meta import Object
from dra_shared.api.resources import Resource
from dra_shared.client.errors import Expired
from dra_shared.client.rest import Client, EventType
from dra_shared.clock import FakeClock

T = TypeVar("T")
Obj = TypeVar("Obj", bound=Object)
_SECONDS = 60.0
_TURNS = 500
# Between two evaluations of a condition: 2 ms grow to this within a second.
_LONGEST_PAUSE = 0.02


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
    seconds: float = _SECONDS,
    clock: FakeClock | None = None,
    *,
    every: float = 0.002,
    meanwhile: Callable[[], Awaitable[object]] | None = None,
    describe: Callable[[], Awaitable[str]] | None = None,
) -> Any:
    """Return the first true result of ``condition``.

    The condition is evaluated after each turn of the loop, and later every so many seconds. Between two evaluations
    ``meanwhile`` runs, and ``clock`` advances by a second: code that retries after real I/O begins to sleep at an
    unknown time. Without them the time between two evaluations grows, because a process that is awaited needs the
    cores itself. After ``seconds`` a TimeoutError is raised, or an AssertionError with the text from ``describe``.
    """
    alone = clock is None and meanwhile is None
    turns = _TURNS if alone else 0
    pause = every
    try:
        async with asyncio.timeout(seconds):
            for turn in itertools.count():
                result = condition()
                if inspect.isawaitable(result):
                    # The condition does I/O, so evaluate it less often.
                    result, turns = await result, 0
                if result:
                    return result
                if meanwhile is not None:
                    await meanwhile()
                if turn < turns:
                    await asyncio.sleep(0)
                else:
                    await asyncio.sleep(pause)
                    if alone:
                        pause = max(every, min(pause * 1.05, _LONGEST_PAUSE))
                if clock is not None:
                    await clock.advance(1)
    except TimeoutError:
        if describe is None:
            raise
        raise AssertionError(await describe()) from None


async def until_object(
    client: Client,
    resource: Resource[Obj],
    name: str,
    condition: Callable[[Obj | None], object],
    namespace: str | None = None,
) -> Obj | None:
    """Return the first state of the object for which ``condition`` holds. The state is None without the object.

    Fails with an AssertionError that has the last state.
    """
    selector = f"metadata.name={name}"
    seen: Obj | None = None
    try:
        async with asyncio.timeout(_SECONDS):
            while True:
                listed = await client.list(resource, namespace, field_selector=selector)
                seen = next(iter(listed.items), None)
                if condition(seen):
                    return seen
                events = client.watch(
                    resource,
                    namespace,
                    resource_version=listed.resource_version,
                    field_selector=selector,
                    bookmarks=False,
                )
                # A watch may end at any time. Then read the object and watch again.
                with contextlib.suppress(Expired):
                    async for event in events:
                        seen = None if event.type is EventType.DELETED else event.object
                        if condition(seen):
                            return seen
    except TimeoutError:
        raise AssertionError(f"{resource.kind} {name} remained in this state: {seen}") from None


def blocking_until(condition: Callable[[], object], seconds: float = _SECONDS) -> None:
    """Return as soon as ``condition`` holds, or raise a TimeoutError after ``seconds``."""
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
