"""A directory that one process has for itself."""

import contextlib
import fcntl
import os
from pathlib import Path

_NAME = "lock"


class DirectoryInUse(OSError):
    """Another process has the directory."""


class DirectoryLock:
    """Keeps a directory for this process until :meth:`release`, or until the process ends, however it ends.

    Args:
        directory: it is made where it is missing.
        holder: what has such a directory, for the error: "API server".

    Raises:
        DirectoryInUse: another process has it.
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
        # The number is a help only; a full disk takes none.
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, 0)
            os.write(self._descriptor, str(os.getpid()).encode())

    def release(self) -> None:
        """Let others have the directory."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
