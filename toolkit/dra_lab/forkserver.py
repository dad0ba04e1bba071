"""A process that has imported the services' modules, and forks each service.

So no service has to import them at its start.

The server is a fork of the process that starts it. The two communicate over a socket: a message requests a
service, with three open files, which are the service's standard input, its log and the pipe on which it
reports. Messages in return say that the service started, and with which exit code it ended. The server ends
when that socket closes. First it waits for its services, whose standard input closes at the same time.
Each service has its own session, files, arguments and environment, as if it had been executed.
"""

import asyncio
import contextlib
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

#: The environment variable with the path of the socket of a process that is warm: see dra_lab.warm.
ADDRESS = "DRALAB_WARM"
#: The processes from which a cluster's services are forked: two fork servers, which import modules in
#: parallel.
SERVERS = (
    (("dra_apiserver.main",), ("dra_apiserver.server", "dra_apiserver.storage.sqlite", "lark", "uvloop")),
    (
        ("dra_controller.main", "dra_scheduler.main", "dra_node_agent.main"),
        (
            "dra_controller.manager",
            "dra_scheduler.wiring",
            "dra_scheduler.plan.routes",
            "dra_node_agent.agent",
            "dra_node_agent.kubelet.websocket",
            "lark",
            "starlette.applications",
            "uvloop",
        ),
    ),
)
_MOST = 1 << 20
_FILES = 3
# Longer than a service needs for its shutdown.
_GRACE = 15.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)


class Forked:
    """The process of a service, with the part of the interface of :class:`asyncio.subprocess.Process` that is
    used here.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ended = asyncio.Event()

    async def wait(self) -> int:
        """Return the exit code once the process has exited; negative for a signal."""
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self._send(signal.SIGKILL)

    def end(self, code: int) -> None:
        """Record the exit code, and wake all waiters."""
        self.returncode = code
        self._ended.set()

    def _send(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)


class ForkServer:
    """The client of a fork server.

    Create it before this process starts a thread, and use it on the process's event loop.

    ``modules`` are the main modules of the services that it can start. ``imports`` are other modules that the
    server imports. If ``server`` is given, it is the connection to an existing fork server, and no new one is
    forked.
    """

    def __init__(
        self, modules: Sequence[str], imports: Sequence[str] = (), server: socket.socket | None = None
    ) -> None:
        self.modules = frozenset(modules)
        self.pid = 0
        """The process id of the server if it is a fork of this process, else 0."""
        self._socket = server or self._fork([*modules, *imports])
        self._socket.setblocking(False)
        self._running: dict[int, Forked] = {}
        self._asked: asyncio.Future[Forked] | None = None
        self._lock = asyncio.Lock()
        self._lost = False

    def _fork(self, imports: Sequence[str]) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if not self.pid:
            ours.close()
            _serve(theirs, imports)
        theirs.close()
        return ours

    @property
    def works(self) -> bool:
        """True if the server can start processes."""
        return not self._lost

    async def spawn(
        self,
        module: str,
        words: Sequence[str],
        environment: Mapping[str, str],
        files: tuple[int, int, int],
        report: str,
    ) -> Forked:
        """Start ``module`` with these arguments.

        ``files`` are its standard input, its log, and the pipe on which it reports.

        ``report`` is the name of the environment variable that has the file descriptor of that pipe in the
        service.

        Raises:
            OSError: the server has ended.
        """
        loop = asyncio.get_running_loop()
        asked = {"module": module, "words": list(words), "environment": dict(environment), "report": report}
        async with self._lock:
            if self._lost:
                raise BrokenPipeError("the fork server has ended")
            self._asked = loop.create_future()
            loop.add_reader(self._socket, self._read)
            socket.send_fds(self._socket, [json.dumps(asked).encode()], files)
            return await self._asked

    def close(self) -> None:
        """End the server. If it is a fork of this process, wait until it has ended. Its services continue."""
        self._lost = True
        with contextlib.suppress(RuntimeError):
            asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.pid, 0)

    def _read(self) -> None:
        while True:
            try:
                data = self._socket.recv(_MOST)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._lose()
                return
            message = json.loads(data)
            if "code" in message:
                process = self._running.pop(message["pid"], None)
                if process is not None:
                    process.end(message["code"])
            elif self._asked is not None and not self._asked.done():
                process = self._running[message["pid"]] = Forked(message["pid"])
                self._asked.set_result(process)

    def _lose(self) -> None:
        """End the server's services, because their exit cannot be observed without the server."""
        self._lost = True
        asyncio.get_running_loop().remove_reader(self._socket)
        for process in self._running.values():
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.end(-signal.SIGKILL)
        self._running.clear()
        if self._asked is not None and not self._asked.done():
            self._asked.set_exception(BrokenPipeError("the fork server has ended"))


def fork_servers() -> list[ForkServer]:
    """Return the fork servers for a cluster's services: one of a warm process, or else new forks of this process.

    Return none if this process has threads: a fork could inherit a lock that is held and never released.
    """
    if server := connect():
        return [ForkServer([module for modules, _ in SERVERS for module in modules], server=server)]
    if threading.active_count() > 1 or sys.platform != "linux":
        return []
    return [ForkServer(modules, imports) for modules, imports in SERVERS]


def connect() -> socket.socket | None:
    """Connect to a fork server, or return None if the environment names none of this installation."""
    path = os.environ.get(ADDRESS)
    if not path:
        return None
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with contextlib.suppress(OSError):
        connection.connect(path)
        connection.send(json.dumps(_surroundings()).encode())
        if connection.recv(_MOST):
            return connection
    connection.close()
    return None


def _surroundings() -> dict[str, Any]:
    """Return the state of this process that a fork needs besides the environment."""
    mask = os.umask(0)
    os.umask(mask)
    return {"code": _program(), "folder": os.getcwd(), "path": sys.path, "umask": mask}


def adopt(surroundings: Mapping[str, Any]) -> bool:
    """Set the working directory, the import path and the umask of another process.

    Return False if that process runs other code.
    """
    if surroundings["code"] != _program():
        return False
    os.chdir(surroundings["folder"])
    os.umask(surroundings["umask"])
    sys.path[:] = surroundings["path"]
    return True


def _program() -> list[str]:
    """Return the Python executable and the location of the code."""
    return [sys.executable, str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]


def _serve(asks: socket.socket, modules: Sequence[str]) -> NoReturn:
    """Import, then fork for each request until the socket closes."""
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # Close the inherited streams, so that a reader of the command's output does not wait for this process.
        null = os.open(os.devnull, os.O_RDWR)
        for standard in range(3):
            os.dup2(null, standard)
        for module in modules:
            importlib.import_module(module)
        # Freeze the objects: memory pages that no collection touches stay shared with the forks.
        gc.collect()
        gc.freeze()
        answer(asks)
        code = 0
    finally:
        # An import error is reported when the service is executed instead of forked.
        os._exit(code)


def answer(asks: socket.socket) -> None:
    """Fork a process for each request until the socket closes. Then wait for the forks to end."""
    awake, wakes = socket.socketpair()
    for end in (awake, wakes):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    forks: set[int] = set()
    with selectors.DefaultSelector() as selector:
        selector.register(asks, selectors.EVENT_READ)
        selector.register(awake, selectors.EVENT_READ)
        # The requesting process may be killed at any moment.
        with contextlib.suppress(OSError):
            while True:
                ready = [key.fileobj for key, _ in selector.select()]
                if awake in ready:
                    awake.recv(_MOST)
                    for pid, code in _reap(forks):
                        asks.send(json.dumps({"pid": pid, "code": code}).encode())
                if asks in ready:
                    data, files, _, _ = socket.recv_fds(asks, _MOST, _FILES)
                    if not data:
                        break
                    forks.add(_fork(asks, (awake, wakes), json.loads(data), files))
        selector.unregister(asks)
        _end_all(forks, selector)


def _end_all(forks: set[int], selector: selectors.BaseSelector) -> None:
    """Wait for the forks to end after their standard input was closed.

    Kill those that do not end in time, such as stopped ones.
    """
    deadline = time.monotonic() + _GRACE
    while forks and (left := deadline - time.monotonic()) > 0:
        for key, _ in selector.select(left):
            os.read(key.fd, _MOST)
        _reap(forks)
    for pid in forks:
        os.kill(pid, signal.SIGKILL)


def _reap(forks: set[int]) -> list[tuple[int, int]]:
    """Remove the forks that have ended from the set, and return them with their exit codes."""
    found = []
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG)) != (0, 0):
            found.append((ended[0], os.waitstatus_to_exitcode(ended[1])))
    forks.difference_update(pid for pid, _ in found)
    return found


def _fork(
    asks: socket.socket,
    wakers: tuple[socket.socket, socket.socket],
    request: dict[str, Any],
    files: list[int],
) -> int:
    pid = os.fork()
    if not pid:
        signal.set_wakeup_fd(-1)
        for one in (asks, *wakers):
            one.close()
        _become(request, *files)
    for file in files:
        os.close(file)
    with contextlib.suppress(OSError):
        asks.send(json.dumps({"pid": pid}).encode())
    return pid


def _become(request: dict[str, Any], stdin: int, log: int, report: int) -> NoReturn:
    """Turn this fork into the service, and run it until the process ends."""
    code = 1
    try:
        os.setsid()
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        for file, standard in ((stdin, 0), (log, 1), (log, 2)):
            os.dup2(file, standard)
        for file in (stdin, log):
            os.close(file)
        # The standard streams of the first process may be replaced, as in a test.
        sys.stdin = os.fdopen(0, closefd=False)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", 1, closefd=False) for number in (1, 2))
        os.environ.clear()
        os.environ.update(request["environment"], **{request["report"]: str(report)})
        module = request["module"]
        sys.argv = [module, *request["words"]]
        # Set the name that top and ps show. The arguments stay those of the forking process.
        with contextlib.suppress(OSError):
            Path("/proc/self/comm").write_text(module.partition(".")[0])
        code = _code(importlib.import_module(module).main)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _code(main: Any) -> int:
    """Run a service's ``main``, and return its exit code, which it returns or raises with ``SystemExit``."""
    try:
        result = main()
    except SystemExit as ended:
        result = ended.code
    if isinstance(result, str):
        print(result, file=sys.stderr)
        return 1
    return int(result or 0)
