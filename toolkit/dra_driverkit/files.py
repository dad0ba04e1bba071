"""Files that have either their old or their new content after a crash, and short paths for sockets."""

import contextlib
import errno
import hashlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# The kernel limits a socket's path to 107 characters. Drivers append about as many as this leaves.
_LONGEST_ROOT = 50


@dataclass(eq=False)
class FullDisk:
    """A simulated full disk: the folder below which writes fail, and the number of writes that failed."""

    folder: Path
    refused: int = 0


_FULL: list[FullDisk] = []


@contextlib.contextmanager
def full_disk(folder: Path) -> Iterator[FullDisk]:
    """Raise errors of a full disk for all writes below ``folder`` during the context, as a fault on demand."""
    disk = FullDisk(folder.resolve())
    _FULL.append(disk)
    try:
        yield disk
    finally:
        _FULL.remove(disk)


def check_space(path: Path) -> None:
    """Raise the error of a full disk if ``path`` is on one.

    Raises:
        OSError: the disk is full.
    """
    for disk in _FULL:
        if path.resolve().is_relative_to(disk.folder):
            disk.refused += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


def write_atomically(path: Path, data: bytes, *, durable: bool = True, mode: int = 0o600) -> None:
    """Replace the content of ``path``. With ``durable``, it is also synced to the disk.

    Raises:
        OSError: it cannot be written; the old content is kept.
    """
    check_space(path)
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        try:
            left = memoryview(data)
            while left:
                # A disk that is nearly full accepts only a part.
                left = left[os.write(descriptor, left) :]
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def directories(folder: Path) -> list[str]:
    """Return the names of the directories in ``folder``, without links. Empty if it does not exist."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []


def short_path(directory: Path) -> Path:
    """Return ``directory``, or a link to it that is short enough for sockets below it."""
    if len(str(directory)) <= _LONGEST_ROOT:
        return directory
    name = hashlib.sha256(str(directory).encode()).hexdigest()[:12]
    base = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())
    if len(str(base)) > _LONGEST_ROOT - 20 or not base.is_dir():
        base = Path("/tmp")
    link = base / f"dralab-{os.getuid()}-{name}"
    with contextlib.suppress(FileExistsError):
        link.symlink_to(directory)
    if not link.is_symlink() or link.readlink() != directory:
        raise OSError(f"{link} is in the way: it should be a link to {directory}")
    return link
