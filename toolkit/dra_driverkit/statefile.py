"""A driver's state in a file: read again when another instance of the driver wrote it, and written as a whole."""

import os
from pathlib import Path

from dra_driverkit.files import write_atomically


class StateFile:
    """One file, which the two instances of a rolling update share; a lock around both is the caller's."""

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        self._path = str(path)
        self._durable = durable
        self._seen: tuple[int, int, int] | None = None

    @property
    def path(self) -> Path:
        """The file."""
        return Path(self._path)

    def changed(self) -> bool:
        """Whether the file is another one than was read or written last; also where there is none."""
        return self._stamp() is None or self._stamp() != self._seen

    def read(self) -> bytes:
        """Its content.

        Raises:
            FileNotFoundError: there is none.
            OSError: it cannot be read.
        """
        stamp = self._stamp()
        data = self.path.read_bytes()
        self._seen = stamp
        return data

    def write(self, data: bytes) -> None:
        """Replace its content; with ``durable`` it survives a power cut from then on.

        Raises:
            OSError: it cannot be written; the old content stays.
        """
        write_atomically(self.path, data, durable=self._durable)
        self._seen = self._stamp()

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            stat = os.stat(self._path)
        except FileNotFoundError:
            return None
        return stat.st_ino, stat.st_mtime_ns, stat.st_size
