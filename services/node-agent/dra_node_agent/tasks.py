"""Background tasks that belong to an object: failures are logged, and the tasks end when the object is closed."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from dra_shared.log import logger

_log = logger(__name__)


# An empty set takes four times as much memory as a reference to this one, and most sets of a node stay
# empty.
_NONE: frozenset[asyncio.Task[None]] = frozenset()


class Tasks:
    """A set of background tasks."""

    __slots__ = ("_running",)

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] | frozenset[asyncio.Task[None]] = _NONE

    def __len__(self) -> int:
        return len(self._running)

    def start(self, work: Coroutine[Any, Any, None], name: str | None = None) -> asyncio.Task[None]:
        """Run ``work`` in the background. An exception from it is logged."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        if isinstance(self._running, frozenset):
            self._running = {task}
        else:
            self._running.add(task)
        task.add_done_callback(self._forget)
        return task

    def cancel(self) -> None:
        """Cancel all tasks."""
        for task in self._running:
            task.cancel()

    async def close(self) -> None:
        """Cancel all tasks and wait for them."""
        current = asyncio.current_task()
        running = [task for task in self._running if task is not current]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _forget(self, task: asyncio.Task[None]) -> None:
        if isinstance(self._running, set):
            self._running.discard(task)
            self._running = self._running or _NONE
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("background task failed", task=task.get_name(), exc_info=error)
