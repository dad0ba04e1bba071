"""Runs the services as processes, restarts one that dies, and takes all of them down together.

Each service's standard input is a pipe whose other end only the supervisor holds: however the supervisor ends, the
services see the pipe close and stop.
"""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import msgspec
from dra_shared.client.rest import Client
from dra_shared.clock import Clock, SystemClock

from dra_cli.errors import CommandError

_POLL = 0.02
# With this a process says that its options are wrong.
_USAGE = 2
_GRACE = 5.0
_FIRST_RESTART_DELAY = 0.25
_LONGEST_RESTART_DELAY = 10.0
# A service that ran this long before it died starts again at once.
_STABLE = 30.0


@dataclass
class ServiceSpec:
    """How one service is started: ``python -m module arguments``, ready when ``url``/readyz says so."""

    name: str
    module: str
    url: str
    arguments: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


class Supervisor:
    """Keeps ``specs`` running while the context lasts; see the module's docstring.

    ``report`` gets one line for whatever a user should know; ``changed`` is called when a process was replaced.
    """

    def __init__(
        self,
        specs: Sequence[ServiceSpec],
        logs: Path,
        *,
        report: Callable[[str], None],
        changed: Callable[[], None] = lambda: None,
        clock: Clock | None = None,
    ) -> None:
        self._services = [_Service(spec, logs / f"{spec.name}.log") for spec in specs]
        self._report = report
        self._changed = changed
        self._clock = clock or SystemClock()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        try:
            for service in self._services:
                await service.start()
        except BaseException:
            await self._stop()
            raise
        self._tasks = [asyncio.create_task(self._keep(service)) for service in self._services]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stop()

    def pids(self) -> dict[str, int]:
        """The process id of each service that runs now."""
        return {service.spec.name: service.pid for service in self._services}

    def restarts(self) -> dict[str, int]:
        """How often each service was restarted."""
        return {service.spec.name: service.restarts for service in self._services}

    async def ready(self, timeout: float = 60.0) -> None:
        """Wait until every service is ready.

        Raises:
            CommandError: one of them is not ready after ``timeout`` seconds, or keeps dying; says which and why.
        """
        waiting = list(self._services)
        try:
            async with asyncio.timeout(timeout), Client("http://127.0.0.1", user_agent="dralab") as client:
                while waiting:
                    waiting = [
                        service for service in waiting if not await _is_ready(client, service.spec.url)
                    ]
                    for service in waiting:
                        if service.refused or service.restarts >= 3:
                            raise CommandError(
                                f"{service.spec.name} does not start: {service.last_words()}",
                                _USAGE if service.refused else 1,
                            )
                    await self._clock.sleep(_POLL)
        except TimeoutError:
            service = waiting[0]
            raise CommandError(
                f"{service.spec.name} is not ready after {timeout:.0f} s: {service.last_words()}"
            ) from None

    async def _keep(self, service: "_Service") -> None:
        delay = _FIRST_RESTART_DELAY
        while True:
            started = self._clock.monotonic()
            how = await service.ended()
            if service.refused:
                return
            if self._clock.monotonic() - started > _STABLE:
                delay = _FIRST_RESTART_DELAY
            self._report(f"{service.spec.name} {how}; restarting it in {delay:g} s (log: {service.log})")
            await self._clock.sleep(delay)
            delay = min(delay * 2, _LONGEST_RESTART_DELAY)
            service.restarts += 1
            try:
                await service.start()
                self._changed()
            except OSError as error:
                self._report(f"{service.spec.name}: {error}")

    async def _stop(self) -> None:
        # The API server goes last, so that the others can still write what they must.
        first, *others = self._services
        await asyncio.gather(*(service.stop() for service in others))
        await first.stop()


class _Service:
    def __init__(self, spec: ServiceSpec, log: Path) -> None:
        self.spec = spec
        self.log = log
        self.restarts = 0
        self.refused = False
        """Whether it ended because it does not take its options: it never will."""
        self._process: asyncio.subprocess.Process | None = None
        self._pipe = -1

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    async def start(self) -> None:
        theirs, self._pipe = os.pipe()
        try:
            with self.log.open("ab") as log:
                self._process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-m",
                    self.spec.module,
                    *self.spec.arguments,
                    stdin=theirs,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, **self.spec.environment, "DRALAB_SUPERVISED": "1"},
                    start_new_session=True,
                )
        finally:
            os.close(theirs)

    async def ended(self) -> str:
        assert self._process is not None
        code = await self._process.wait()
        self._close_pipe()
        self.refused = code == _USAGE
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"exited with {code}"

    async def stop(self) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            self._close_pipe()
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(_GRACE):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        self._close_pipe()

    def last_words(self) -> str:
        """The last line of its log, or where to look for it."""
        with contextlib.suppress(OSError):
            lines = self.log.read_text(errors="replace").splitlines()
            if lines:
                return f"{_plain(lines[-1])[:400]} (log: {self.log})"
        return f"see {self.log}"

    def _close_pipe(self) -> None:
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1


def _plain(line: str) -> str:
    """A line of a service's log as people say it: without JSON, and without the program's name."""
    try:
        entry = msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.DecodeError:
        return line.partition(": error: ")[2] or line
    return ": ".join(str(entry[key]) for key in ("event", "resource", "error") if key in entry) or line


async def _is_ready(client: Client, url: str) -> bool:
    client.base_url = url
    try:
        return (await client.raw("GET", "/readyz")).status_code == 200
    except (httpx.HTTPError, OSError):
        return False


def free_port() -> int:
    """A TCP port of the loopback address that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def port_in_use(port: int) -> bool:
    """Whether something listens on that port of the loopback address."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
        return False
