"""Files and folders that other users of the machine may not read: objects hold secrets, logs their names."""

import contextlib
import os
import shutil
from pathlib import Path

_FOLDER, _FILE = 0o700, 0o600
_MEMORY = Path("/dev/shm")
# Containers often have 64 MiB there.
_ROOM = 1 << 30


def scratch() -> Path:
    """Where a folder belongs that ends with its process: in memory where there is room, else in ``/tmp``.

    Its path is short, as that of a unix socket must be.
    """
    with contextlib.suppress(OSError):
        if os.access(_MEMORY, os.W_OK | os.X_OK) and shutil.disk_usage(_MEMORY).free >= _ROOM:
            return _MEMORY
    return Path("/tmp")


def private_folder(path: Path) -> None:
    """Make the folder, and those above it that are missing, for its owner alone; one that is there is closed too."""
    try:
        path.mkdir(mode=_FOLDER)
    except FileExistsError:
        pass
    except FileNotFoundError:
        for folder in (*reversed(path.parents), path):
            with contextlib.suppress(FileExistsError):
                folder.mkdir(mode=_FOLDER)
    # Another's folder stays as its owner wants it.
    with contextlib.suppress(PermissionError):
        path.chmod(_FOLDER)


def private_file(path: Path) -> None:
    """Make the file, empty, where there is none; one that is there is closed to others."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE))
    with contextlib.suppress(PermissionError):
        path.chmod(_FILE)
