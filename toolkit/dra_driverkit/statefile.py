"""A driver's state in a file: read again if another instance of the driver wrote it, and written as a whole."""

import os
from pathlib import Path

from dra_driverkit.files import write_atomically


class StateFile:
    """A file that the two instances of a rolling update share. The caller holds a lock while it reads or writes."""

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        self._path = str(path)
        self._durable = durable
        self._seen: tuple[int, int, int] | None = None

    @property
    def path(self) -> Path:
        """The path of the file."""
        return Path(self._path)

    def has_changed(self) -> bool:
        """True if the file differs from the one that was last read or written, or does not exist."""
        return self._stamp() is None or self._stamp() != self._seen

    # Deprecated: the name in 0.1, kept for one release.
    changed = has_changed

    def read(self) -> bytes:
        """Return the content of the file.

        Raises:
            FileNotFoundError: the file does not exist.
            OSError: it cannot be read.
        """
        stamp = self._stamp()
        data = self.path.read_bytes()
        self._seen = stamp
        return data

    def write(self, data: bytes) -> None:
        """Replace the content of the file. With ``durable``, it is synced to the disk.

        Raises:
            OSError: it cannot be written; the old content is kept.
        """
        write_atomically(self.path, data, durable=self._durable)
        self._seen = self._stamp()

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            stat = os.stat(self._path)
        except FileNotFoundError:
            return None
        return stat.st_ino, stat.st_mtime_ns, stat.st_size
