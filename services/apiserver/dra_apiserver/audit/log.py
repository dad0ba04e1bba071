"""The audit log's file: one JSON object a line, rotated by size (upstream uses lumberjack)."""

from __future__ import annotations

import gzip
import os
import shutil
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO

from dra_shared.clock import Clock

_DEFAULT_SIZE = 100
_STANDARD_OUTPUT = "-"
_STAMP = "%Y-%m-%dT%H-%M-%S"


def ensure_log_file(path: str) -> None:
    """Create the log file if it does not exist. Like upstream, a server that cannot log does not start.

    Raises:
        OSError: the file cannot be created or written.
    """
    if path != _STANDARD_OUTPUT:
        os.close(_open(Path(path)))


def _open(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


class AuditLog:
    """Appends lines to `path`, or to standard output if it is "-".

    Above `max_size` MiB the file is renamed with a time. At most `max_backups` such files are kept, for at
    most `max_age` days; 0 means no limit. `compress` packs them with gzip.
    """

    def __init__(
        self,
        path: str,
        clock: Clock,
        *,
        max_size: int = 0,
        max_backups: int = 0,
        max_age: int = 0,
        compress: bool = False,
    ) -> None:
        self._path = None if path == _STANDARD_OUTPUT else Path(path)
        self._clock = clock
        self._limit = (max_size or _DEFAULT_SIZE) << 20
        self._backups, self._age, self._compress = max_backups, max_age, compress
        self._file: BinaryIO | None = None
        self._size = 0

    def write(self, line: bytes) -> None:
        """Append a line.

        Raises:
            OSError: the file can't be written.
        """
        if self._path is None:
            sys.stdout.buffer.write(line + b"\n")
            sys.stdout.buffer.flush()
            return
        if self._file is None:
            self._open(self._path)
        if self._size and self._size + len(line) + 1 > self._limit:
            self._rotate(self._path)
        assert self._file is not None
        self._file.write(line + b"\n")
        self._size += len(line) + 1

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self, path: Path) -> None:
        self._file = os.fdopen(_open(path), "wb", buffering=0)
        self._size = self._file.tell() or path.stat().st_size

    def _rotate(self, path: Path) -> None:
        self.close()
        now = self._clock.now().astimezone(UTC)
        stamp = f"{now.strftime(_STAMP)}.{now.microsecond // 1000:03d}"
        backup = path.with_name(f"{path.stem}-{stamp}{path.suffix}")
        path.replace(backup)
        if self._compress:
            with backup.open("rb") as plain, gzip.open(f"{backup}.gz", "wb") as packed:
                shutil.copyfileobj(plain, packed)
            backup.unlink()
        self._prune(path, now)
        self._open(path)

    def _prune(self, path: Path, now: datetime) -> None:
        known = []
        for file in path.parent.glob(f"{path.stem}-*{path.suffix}*"):
            text = file.name.removeprefix(f"{path.stem}-").removesuffix(".gz").removesuffix(path.suffix)
            try:
                known.append((datetime.strptime(text, f"{_STAMP}.%f").replace(tzinfo=UTC), file))
            except ValueError:
                continue
        known.sort(reverse=True)
        oldest = now - timedelta(days=self._age)
        for number, (made, file) in enumerate(known):
            if (self._backups and number >= self._backups) or (self._age and made < oldest):
                file.unlink()
