"""Create files and folders that other users cannot read: objects have secrets, and logs have their names."""

import contextlib
import os
import shutil
from pathlib import Path

_FOLDER, _FILE = 0o700, 0o600
_MEMORY = Path("/dev/shm")
# Containers often have only 64 MiB there.
_ROOM = 1 << 30


def scratch_folder() -> Path:
    """Return the parent for a process's temporary folders: in memory if there is enough space, else ``/tmp``.

    Its path is short, because the paths of unix sockets are limited.
    """
    with contextlib.suppress(OSError):
        if os.access(_MEMORY, os.W_OK | os.X_OK) and shutil.disk_usage(_MEMORY).free >= _ROOM:
            return _MEMORY
    return Path("/tmp")


def private_folder(path: Path) -> None:
    """Create the folder and its missing parents with access for the owner only. Restrict a folder that exists."""
    try:
        path.mkdir(mode=_FOLDER)
    except FileExistsError:
        pass
    except FileNotFoundError:
        for folder in (*reversed(path.parents), path):
            with contextlib.suppress(FileExistsError):
                folder.mkdir(mode=_FOLDER)
    # A folder of another user keeps its mode.
    with contextlib.suppress(PermissionError):
        path.chmod(_FOLDER)


def private_file(path: Path) -> None:
    """Create an empty file if it does not exist. Restrict a file that exists to its owner."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE))
    with contextlib.suppress(PermissionError):
        path.chmod(_FILE)
