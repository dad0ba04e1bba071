"""File locks between processes, for rolling updates of a driver."""

import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from dra_shared.clock import Clock

_POLL_SECONDS = 0.1


class LockTimeout(Exception):
    """Another process has held the lock for too long."""


class FileLock:
    """An exclusive flock on a file. It also excludes other tasks of this process."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = str(path)
        self._clock = clock

    @asynccontextmanager
    async def hold(self, timeout_seconds: float = 10.0) -> AsyncIterator[None]:
        """Hold the lock.

        Raises:
            LockTimeout: another process did not release it within ``timeout_seconds``.
            OSError: the file cannot be opened.
        """
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            deadline = self._clock.monotonic() + timeout_seconds
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if self._clock.monotonic() >= deadline:
                        raise LockTimeout(f"timeout acquiring lock ({self._path})") from None
                    await self._clock.sleep(_POLL_SECONDS)
            yield
        finally:
            os.close(descriptor)

    # Deprecated: the name in 0.1, kept for one release.
    held = hold
