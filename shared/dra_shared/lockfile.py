"""A directory that only one process may use."""

import contextlib
import fcntl
import os
from pathlib import Path

_NAME = "lock"


class DirectoryInUse(OSError):
    """Another process uses the directory."""


class DirectoryLock:
    """Reserves a directory for this process until :meth:`release`, or until the process ends for any reason.

    Args:
        directory: created if it is missing.
        holder: a description of the owner for the error, such as "API server".

    Raises:
        DirectoryInUse: another process uses it.
        OSError: the directory cannot be used.
    """

    def __init__(self, directory: Path, holder: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(directory / _NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            process = os.read(self._descriptor, 20).decode(errors="replace")
            self.release()
            known = f" (pid {process})" if process.isdecimal() else ""
            raise DirectoryInUse(f"{directory} is in use by another {holder}{known}") from None
        # The process ID is only informative, so a full disk is no error.
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, 0)
            os.write(self._descriptor, str(os.getpid()).encode())

    def release(self) -> None:
        """Release the directory."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
