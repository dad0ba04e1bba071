"""Run code in threads because it takes too long for the event loop, or because it waits for webhooks.

The loop continues meanwhile, a few milliseconds late at times, because Python's threads take turns. The
caller checks afterwards whether data changed (`storage/guaranteedupdate.py`). In the code, ``wait_for``
passes a coroutine to the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")

# More threads would share one interpreter, and each would delay the loop.
_AT_ONCE = 2


@dataclass(slots=True)
class _Ended:
    value: Any = None
    error: BaseException | None = None

    def result(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value


class _Here(threading.local):
    wait_for: Callable[[Coroutine[Any, Any, Any]], Any]


_here = _Here()


def wait_for(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in the event loop, and return its result. Only for code that ``Offload`` runs.

    Raises:
        BaseException: the exception of the coroutine.
    """
    waiting = getattr(_here, "wait_for", None)
    if waiting is None:
        coroutine.close()
        raise RuntimeError("only code that Offload runs may wait")
    result: T = waiting(coroutine)
    return result


def _run_caught(work: Callable[[], Any], waiting: Callable[[Coroutine[Any, Any, Any]], Any]) -> _Ended:
    _here.wait_for = waiting
    try:
        return _Ended(work())
    except BaseException as error:
        return _Ended(error=error)


class Offload:
    """Runs long functions in threads, a few at a time. While one waits for a coroutine, another may run."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def run(self, work: Callable[[], T]) -> T:
        """Run a function, which may `wait_for` coroutines, while the loop continues.

        Raises:
            Exception: the exception of the function.
        """
        loop = asyncio.get_running_loop()
        async with self._turns:
            done: asyncio.Future[_Ended] = loop.create_future()

            def wait_for(coroutine: Coroutine[Any, Any, Any]) -> Any:
                return asyncio.run_coroutine_threadsafe(self._meanwhile(coroutine), loop).result()

            def run() -> None:
                ended = _run_caught(work, wait_for)
                # If the loop is closed, nothing waits for the result.
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(_settle, done, ended)

            threading.Thread(target=run, name="apart", daemon=True).start()
            result: T = (await done).result()
            return result

    async def _meanwhile(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Return the result of the coroutine. Other functions take this one's turn meanwhile."""
        self._turns.release()
        try:
            return await coroutine
        finally:
            await self._turns.acquire()


def _settle(done: asyncio.Future[_Ended], ended: _Ended) -> None:
    if not done.done():
        done.set_result(ended)
