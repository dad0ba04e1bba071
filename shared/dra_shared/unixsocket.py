"""Unix sockets, including those whose path is longer than the kernel accepts."""

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

_LONGEST = 100
_BACKLOG = 128


def unix_listener(path: Path) -> socket.socket:
    """Return a socket that listens at ``path`` for this user only. An existing socket is replaced.

    Raises:
        OSError: it cannot listen there.
    """
    path.unlink(missing_ok=True)
    with contextlib.ExitStack() as on_error:
        made = on_error.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        with _short(path) as short:
            made.bind(short)
        path.chmod(0o600)
        made.listen(_BACKLOG)
        made.setblocking(False)
        on_error.pop_all()
    return made


def unix_connection(path: Path) -> socket.socket:
    """Connect to the socket at ``path``.

    Raises:
        OSError: no process listens there.
    """
    with contextlib.ExitStack() as on_error:
        made = on_error.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        made.setblocking(False)
        with _short(path) as short:
            made.connect(short)
        on_error.pop_all()
    return made


@contextlib.contextmanager
def _short(path: Path) -> Iterator[str]:
    """Yield an equivalent path of at most 107 bytes, the kernel's limit for sockets."""
    if len(os.fsencode(path)) <= _LONGEST:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH if hasattr(os, "O_PATH") else os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
