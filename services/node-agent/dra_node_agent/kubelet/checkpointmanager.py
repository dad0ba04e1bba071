"""Checkpoints on disk (pkg/kubelet/checkpointmanager): the file is always complete, even after a crash."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

from dra_driverkit.files import write_atomically


class CheckpointStore:
    """One checkpoint's file. Concurrent writes are merged, and older content never replaces newer content."""

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        # A string takes a third of the memory of a Path, and each node has a dozen of them.
        self._path = str(path)
        self._durable = durable
        self._wanted = 0
        self._written = 0
        self._turn = asyncio.Lock()
        self._disk = threading.Lock()

    @property
    def path(self) -> Path:
        """The path of the file."""
        return Path(self._path)

    def read(self) -> bytes | None:
        """Return the content, or None if the file does not exist. Raises OSError."""
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None

    async def write(self, content: Callable[[], bytes]) -> None:
        """Return once the current result of ``content``, or a newer one, is on disk. Raises OSError."""
        self._wanted += 1
        mine = self._wanted
        async with self._turn:
            if self._written >= mine:
                return
            version, data = self._wanted, content()
            if self._durable:
                await asyncio.to_thread(self._write, version, data)
            else:
                self._write(version, data)

    def _write(self, version: int, content: bytes) -> None:
        # The thread of a cancelled caller keeps running. The lock and the version keep the order.
        with self._disk:
            if version > self._written:
                write_atomically(self.path, content, durable=self._durable)
                self._written = version
