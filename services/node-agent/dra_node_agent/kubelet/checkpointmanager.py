"""Checkpoints on disk (pkg/kubelet/checkpointmanager): what is written last is there, whole, after a crash."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

from dra_driverkit.files import write_atomically


class CheckpointStore:
    """One checkpoint's file. Concurrent writes share one, and older content never replaces newer."""

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        # Text takes a third of what a Path does, and each node has a dozen of them.
        self._path = str(path)
        self._durable = durable
        self._wanted = 0
        self._written = 0
        self._turn = asyncio.Lock()
        self._disk = threading.Lock()

    @property
    def path(self) -> Path:
        """The file."""
        return Path(self._path)

    def read(self) -> bytes | None:
        """The content; None where there is no file. Raises OSError."""
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None

    async def write(self, content: Callable[[], bytes]) -> None:
        """Return once what ``content`` gives now, or newer, is on disk. Raises OSError."""
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
        # A caller that is cancelled leaves its thread running: the lock and the version keep the order.
        with self._disk:
            if version > self._written:
                write_atomically(self.path, content, durable=self._durable)
                self._written = version
