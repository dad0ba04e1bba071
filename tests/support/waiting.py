"""Functions that wait. No other module of the tests polls; ``tests/test_layout.py`` checks it.

``until_object`` waits for the state of an object, through a watch. The others wait for a condition: ``eventually``
while other tasks of this loop run and no time passes, ``until`` while injected time passes or another process, thread
or socket works. ``blocking_until`` does the same in a test without a loop. Limits in seconds only end tests that hang.
"""

import asyncio
import contextlib
import inspect
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
                # A watch may end at any time. Then all begins again.
                with contextlib.suppress(Expired):
                    async for event in events:
                        seen = None if event.type is EventType.DELETED else event.object
                        if condition(seen):
                            return seen
    except TimeoutError:
        raise AssertionError(f"{resource.kind} {name} remained in this state: {seen}") from None


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
