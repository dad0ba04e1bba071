"""Plain code that may wait: webhooks are called from the middle of functions that the store runs without a pause.

``beside`` runs such a function in a thread, and ``wait_for`` in it hands a coroutine to the event loop. One of the two
always stands still, so the function sees what it would see in the loop.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class _Ended:
    value: Any = None
    error: BaseException | None = None


class _Errands:
    """What goes between the thread and the loop."""

    def __init__(self) -> None:
        self.asked: queue.SimpleQueue[Coroutine[Any, Any, Any] | _Ended] = queue.SimpleQueue()
        self.answered: queue.SimpleQueue[_Ended] = queue.SimpleQueue()


_here = threading.local()


def wait_for(coroutine: Coroutine[Any, Any, T]) -> T:
    """What the coroutine gives, which the event loop runs; only below ``beside``.

    Raises:
        BaseException: what it raises.
    """
    errands: _Errands = _here.errands
    errands.asked.put(coroutine)
    answer = errands.answered.get()
    if answer.error is not None:
        raise answer.error
    result: T = answer.value
    return result


async def beside(work: Callable[[], T]) -> T:
    """Run a function that may `wait_for` coroutines.

    Raises:
        Exception: what it raises.
    """
    errands = _Errands()

    def run() -> None:
        _here.errands = errands
        try:
            errands.asked.put(_Ended(work()))
        except BaseException as error:
            errands.asked.put(_Ended(error=error))

    thread = threading.Thread(target=run, name="beside", daemon=True)
    thread.start()
    while True:
        step = errands.asked.get()
        if isinstance(step, _Ended):
            thread.join()
            if step.error is not None:
                raise step.error
            result: T = step.value
            return result
        try:
            answer = _Ended(await step)
        except (Exception, asyncio.CancelledError) as error:
            # Also the end of the request is the function's to hear of, which then ends.
            answer = _Ended(error=error)
        errands.answered.put(answer)
