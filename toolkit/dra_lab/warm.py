"""A process that has imported the modules of all services, for every cluster that a command starts.

It listens on a unix socket. For each ``dralab up`` that connects it forks one process, which is that
cluster's fork server: see :mod:`dra_lab.forkserver`. It ends when its standard input closes. The clusters
continue.
"""

import gc
import importlib
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NoReturn, Self

from dra_lab.forkserver import ADDRESS, SERVERS, adopt, answer

_MOST = 1 << 20
_WAITING = 128


class Warm:
    """The warm process during a ``with`` block. ``environment`` has the variable that tells commands to use it."""

    def __init__(self) -> None:
        # Below /tmp, because a unix socket's path must be short. Only its owner can access the folder.
        self._folder = Path(tempfile.mkdtemp(prefix="dralab-warm-", dir="/tmp"))
        path = self._folder / "socket"
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(str(path))
            listener.listen(_WAITING)
            # The socket listens already: a command that connects before the imports are done waits for them.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "dra_lab.warm", str(listener.fileno())],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[listener.fileno()],
                start_new_session=True,
            )
        self.environment = {ADDRESS: str(path)}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process. The clusters continue."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


def main() -> NoReturn:
    """Serve on the socket whose number is the argument."""
    with socket.socket(fileno=int(sys.argv[1])) as listener:
        for modules, imports in SERVERS:
            for module in (*modules, *imports):
                importlib.import_module(module)
        # Freeze the objects: memory pages that no collection touches stay shared with the forks.
        gc.collect()
        gc.freeze()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # Ignore SIGCHLD, so that the kernel reaps forks.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        _serve(listener)
        # A command that was killed has left its folder.
        shutil.rmtree(Path(listener.getsockname()).parent, ignore_errors=True)
    sys.exit(0)


def _serve(listener: socket.socket) -> None:
    stdin = sys.stdin.fileno()
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        selector.register(stdin, selectors.EVENT_READ)
        while True:
            ready = [key.fileobj for key, _ in selector.select()]
            if stdin in ready:
                return
            connection, _ = listener.accept()
            with connection:
                if not os.fork():
                    listener.close()
                    selector.close()
                    os.dup2(os.open(os.devnull, os.O_RDONLY), stdin)
                    _answer(connection)


def _answer(connection: socket.socket) -> NoReturn:
    """Act as the fork server of the process at the other end of the connection."""
    code = 1
    try:
        os.setsid()
        asked = json.loads(connection.recv(_MOST))
        if adopt(asked):
            connection.send(b"{}")
            answer(connection)
            code = 0
    finally:
        os._exit(code)


if __name__ == "__main__":
    main()
