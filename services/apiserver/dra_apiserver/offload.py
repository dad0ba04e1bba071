"""Plain code in threads: because it takes too long for the event loop, or because it waits for webhooks.

The loop goes on meanwhile, a few milliseconds late now and then, as Python's threads take turns. What changed until the
code is done its caller finds out (`storage/guaranteedupdate.py`). In the code, ``wait_for`` hands a coroutine to the
loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")

# More would share one interpreter, and each would make the loop wait.
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
    """What the coroutine gives, which the event loop runs; only in what ``Offload`` runs.

    Raises:
        BaseException: what it raises.
    """
    result: T = _here.wait_for(coroutine)
    return result


def _ended(work: Callable[[], Any], waiting: Callable[[Coroutine[Any, Any, Any]], Any]) -> _Ended:
    _here.wait_for = waiting
    try:
        return _Ended(work())
    except BaseException as error:
        return _Ended(error=error)


class Offload:
    """Runs what takes long or waits, a few at once; what waits leaves its turn to others."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def run(self, work: Callable[[], T]) -> T:
        """Run a function, which may `wait_for` coroutines, while the loop goes on.

        Raises:
            Exception: what it raises.
        """
        loop = asyncio.get_running_loop()
        async with self._turns:
            done: asyncio.Future[_Ended] = loop.create_future()

            def wait_for(coroutine: Coroutine[Any, Any, Any]) -> Any:
                return asyncio.run_coroutine_threadsafe(self._meanwhile(coroutine), loop).result()

            def run() -> None:
                ended = _ended(work, wait_for)
                # The loop may be closed by now: then nothing waits for this.
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(_settle, done, ended)

            threading.Thread(target=run, name="apart", daemon=True).start()
            result: T = (await done).result()
            return result

    async def _meanwhile(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What the coroutine gives; others have this one's turn while it is waited for."""
        self._turns.release()
        try:
            return await coroutine
        finally:
            await self._turns.acquire()


def _settle(done: asyncio.Future[_Ended], ended: _Ended) -> None:
    if not done.done():
        done.set_result(ended)
