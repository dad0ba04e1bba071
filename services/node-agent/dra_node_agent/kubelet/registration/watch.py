"""Detection of changes in directories: one inotify instance for a process, or polling without inotify.

The kubelet's own watcher is pkg/kubelet/pluginmanager/pluginwatcher.
"""

import asyncio
import contextlib
import ctypes
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Self

from dra_shared.log import logger

_POLL_SECONDS = 1.0
_IN_ATTRIB, _IN_CREATE, _IN_DELETE = 0x4, 0x100, 0x200
_IN_MOVED_FROM, _IN_MOVED_TO = 0x40, 0x80
_EVENTS = _IN_ATTRIB | _IN_CREATE | _IN_DELETE | _IN_MOVED_FROM | _IN_MOVED_TO
_HEADER = struct.Struct("iIII")

_log = logger(__name__)


class DirectoryWatcher:
    """Calls back when an entry of a watched directory is created, removed or replaced."""

    def __init__(self) -> None:
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._polled: list[Callable[[], None]] = []
        self._poller: asyncio.Task[None] | None = None
        self._libc: ctypes.CDLL | None = None
        self._descriptor = -1

    async def __aenter__(self) -> Self:
        try:
            self._libc = ctypes.CDLL(None, use_errno=True)
            self._descriptor = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, AttributeError):
            self._descriptor = -1
        if self._descriptor >= 0:
            asyncio.get_running_loop().add_reader(self._descriptor, self._read)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._descriptor >= 0:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1
        if self._poller is not None:
            self._poller.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._poller

    def watch(self, directory: Path, callback: Callable[[], None]) -> None:
        """Call ``callback`` after each change in ``directory``, or every second if changes cannot be watched."""
        if self._descriptor >= 0 and self._libc is not None:
            number = self._libc.inotify_add_watch(self._descriptor, os.fsencode(directory), _EVENTS)
            if number >= 0:
                self._callbacks[number] = callback
                return
            _log.warning(
                "directory can't be watched, polling it",
                directory=str(directory),
                error=os.strerror(ctypes.get_errno()),
            )
        if callback not in self._polled:
            self._polled.append(callback)
        if self._poller is None:
            self._poller = asyncio.get_running_loop().create_task(self._poll())

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, 65536)
        except BlockingIOError:
            return
        changed: dict[int, None] = {}
        offset = 0
        while offset < len(data):
            number, _, _, length = _HEADER.unpack_from(data, offset)
            offset += _HEADER.size + length
            # An overflow names no directory, so any of them may have changed.
            changed.update(dict.fromkeys(self._callbacks) if number < 0 else {number: None})
        for number in changed:
            callback = self._callbacks.get(number)
            if callback is not None:
                callback()

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            for callback in self._polled:
                callback()
