"""Pods in PreBind, whose binding a preemption can still cancel.

Mirrors upstream's ``pkg/scheduler/framework/runtime/pods_in_prebind_map.go``.
"""

import asyncio
from typing import Any


class PodsInPreBind:
    """The running PreBind task of each pod, by uid. The binder adds and removes tasks, preemption cancels them."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[Any]] = {}

    def add(self, uid: str, task: asyncio.Task[Any]) -> None:
        """Record that the pod's PreBind has started as ``task``."""
        self._tasks[uid] = task

    def remove(self, uid: str) -> None:
        """Record that the pod's PreBind has ended. An unknown uid is ignored."""
        self._tasks.pop(uid, None)

    def cancel(self, uid: str, plugin: str) -> bool:
        """Cancel the pod's binding on behalf of ``plugin``. False if it is too late or the pod is not in PreBind."""
        task = self._tasks.get(uid)
        if task is None or task.done():
            return False
        return task.cancel(f"preempted by {plugin}")
