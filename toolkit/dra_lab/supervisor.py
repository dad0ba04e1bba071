"""Run the services as processes, restart a service that exits, and stop all of them together.

Each service's standard input is a pipe whose other end only the supervisor holds: whenever the supervisor
ends, even if it is killed, the pipe closes and the services stop. Through a second pipe a service reports
that it listens, so that another program on its port is not mistaken for it.
"""

import asyncio
import contextlib
import os
import signal
import ssl
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx
import msgspec
from dra_shared.client.rest import Client
from dra_shared.clock import Clock, SystemClock
from dra_shared.errors import UserError
from dra_shared.listening import ADDRESS_IN_USE, CANNOT_RUN, REPORT

from dra_lab.forkserver import Forked, ForkServer
from dra_lab.ports import Port, PortTaken

_POLL = 0.02
_LOOK_EVERY = 1.0
# The exit code of a process whose options are wrong.
_USAGE = 2
_GRACE = 5.0
_FIRST_RESTART_DELAY = 0.25
_LONGEST_RESTART_DELAY = 10.0
_ANNOUNCE_AGAIN = 1.0
# A service that ran this long before it exited is restarted at once.
_STABLE = 30.0


@dataclass
class ServiceSpec:
    """The command of a service: ``python -m module --port NUMBER arguments``. It is ready when /readyz says so."""

    name: str
    module: str
    port: Port
    arguments: Sequence[str]
    port_flag: str = "--health-port"
    known: bool = False
    """True if other processes know the service's port, so that it cannot change."""
    environment: Mapping[str, str] = field(default_factory=dict)
    token: str = ""
    """The token for requests to the service."""
    tls: ssl.SSLContext | None = None


class Supervisor:
    """Keeps ``specs`` running during the context; see the module's docstring.

    ``report`` is called with one line for each event that a user should know. ``changed`` is called when a
    process was replaced or will not be restarted. ``forks`` are fork servers: one that
    has imported a service's module starts that service, faster than a new interpreter.
    """

    def __init__(
        self,
        specs: Sequence[ServiceSpec],
        logs: Path,
        *,
        report: Callable[[str], None],
        changed: Callable[[], None] = lambda: None,
        clock: Clock | None = None,
        forks: Sequence[ForkServer] = (),
    ) -> None:
        self._logs = logs
        self._forks = forks
        self._services = [self._service(spec) for spec in specs]
        self._report = report
        self._changed = changed
        self._clock = clock or SystemClock()
        self._keepers: dict[str, asyncio.Task[None]] = {}

    async def __aenter__(self) -> Self:
        try:
            for service in self._services:
                await service.start()
        except BaseException:
            await self._stop()
            raise
        for service in self._services:
            self._keepers[service.spec.name] = asyncio.create_task(self._keep(service))
        return self

    async def __aexit__(self, *_: object) -> None:
        for keeper in self._keepers.values():
            keeper.cancel()
        await asyncio.gather(*self._keepers.values(), return_exceptions=True)
        await self._stop()

    def _service(self, spec: ServiceSpec) -> "_Service":
        return _Service(spec, self._logs / f"{spec.name}.log", self._forks)

    async def add(self, spec: ServiceSpec) -> None:
        """Start one more service, and keep it running."""
        service = self._service(spec)
        await service.start()
        self._services.append(service)
        self._keepers[spec.name] = asyncio.create_task(self._keep(service))

    async def remove(self, name: str) -> None:
        """Stop a service and do not restart it."""
        keeper = self._keepers.pop(name)
        keeper.cancel()
        await asyncio.gather(keeper, return_exceptions=True)
        gone = next(service for service in self._services if service.spec.name == name)
        self._services.remove(gone)
        await gone.stop()

    def pids(self) -> dict[str, int]:
        """Return the process ids of the running services."""
        return {service.spec.name: service.pid for service in self._services}

    def send(self, name: str, number: int) -> int:
        """Send a signal (0: none) to a service's process, and return its process id.

        Raises:
            UserError: there is no such service, or it does not run.
        """
        service = next((service for service in self._services if service.spec.name == name), None)
        if service is None:
            names = ", ".join(service.spec.name for service in self._services)
            raise UserError(f"there is no service {name!r}: choose {names}", 2)
        if not service.runs:
            raise UserError(f"{name} does not run just now")
        with contextlib.suppress(ProcessLookupError):
            os.kill(service.pid, number)
        return service.pid

    async def is_ready(self, name: str) -> bool:
        """True if the service is ready now."""
        return any([await _is_ready(one) for one in self._services if one.spec.name == name])

    def restarts(self) -> dict[str, int]:
        """Return the number of restarts of each service."""
        return {service.spec.name: service.restarts for service in self._services}

    def refusals(self) -> dict[str, str]:
        """Return the errors of services that reject their options or cannot run with them. They are not restarted."""
        return {service.spec.name: service.last_words() for service in self._services if service.refused}

    async def ready(
        self,
        timeout: float = 60.0,
        only: Sequence[str] = (),
        progress: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        """Wait until every service is ready, or only the services named in ``only``.

        ``timeout`` starts again whenever ``progress`` returns another value, because many nodes on a busy
        machine start slowly.

        Raises:
            PortTaken: another program has the port of a service that cannot move.
            UserError: one of them is not ready after ``timeout`` seconds, or exits repeatedly. The
                message says which one and why.
        """
        waiting = [service for service in self._services if not only or service.spec.name in only]
        looked = changed = self._clock.monotonic()
        seen: object = None
        while True:
            waiting = [service for service in waiting if not await _is_ready(service)]
            for service in self._services:
                service.was_ready = service.was_ready or service not in waiting
            if not waiting:
                return
            _check(waiting)
            now = self._clock.monotonic()
            if progress is not None and now - looked > _LOOK_EVERY:
                looked, before = now, seen
                # Another program on the API server's port may accept the connection and never answer.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_EVERY):
                        seen = await progress()
                changed = now if seen != before else changed
            if now - changed > timeout:
                raise UserError(
                    f"{waiting[0].spec.name} is not ready after {timeout:.0f} s"
                    f"{' without progress' if progress else ''}: {waiting[0].last_words()}"
                )
            await self._clock.sleep(_POLL)

    async def _keep(self, service: "_Service") -> None:
        delay = _FIRST_RESTART_DELAY
        while True:
            started = self._clock.monotonic()
            how = await service.wait_for_exit()
            if service.refused:
                if service.was_ready:
                    self._report(f"{service.spec.name} {how}: {service.last_words()}")
                # The disk is full, which the line above and the service's log report.
                with contextlib.suppress(OSError):
                    self._changed()
                return
            if self._clock.monotonic() - started > _STABLE:
                delay = _FIRST_RESTART_DELAY
            if service.port_taken and not service.spec.known:
                self._move(service)
            else:
                self._report(f"{service.spec.name} {how}; restarting it in {delay:g} s (log: {service.log})")
                service.restarts += 1
            await self._clock.sleep(delay)
            delay = min(delay * 2, _LONGEST_RESTART_DELAY)
            try:
                await service.start()
            except OSError as error:
                self._report(f"{service.spec.name}: {error}")
            else:
                await self._announce(service)

    async def _announce(self, service: "_Service") -> None:
        """Call ``changed`` until a full disk lets it succeed, or the process ends again."""
        failed = False
        while service.runs:
            try:
                self._changed()
                return
            except OSError as error:
                if not failed:
                    self._report(f"{service.spec.name}: {error}")
                failed = True
            await self._clock.sleep(_ANNOUNCE_AGAIN)

    def _move(self, service: "_Service") -> None:
        name, port = service.spec.name, service.spec.port
        taken = port.number
        try:
            port.move()
        except UserError as error:
            self._report(f"{name}: {error}")
        else:
            self._report(f"{name}: port {taken} is in use; it gets {port.number}")

    async def _stop(self) -> None:
        # Stop the API server last, so that the others can still write their last changes.
        first, *others = self._services
        await asyncio.gather(*(service.stop() for service in others))
        await first.stop()


class _Service:
    def __init__(self, spec: ServiceSpec, log: Path, forks: Sequence[ForkServer]) -> None:
        self.spec = spec
        self._forks = forks
        self.log = log
        self.restarts = 0
        self.was_ready = False
        self.usage = False
        self.refused = False
        """True if the process exited because it rejects its options. A restart would not help."""
        self.port_taken = False
        """True if the process exited because another program listens on its port."""
        self._process: asyncio.subprocess.Process | Forked | None = None
        self._pipe = -1
        self._report = -1
        self._listens = False

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def listens(self) -> bool:
        """True if the service has reported that it listens on its port."""
        if self._report >= 0:
            with contextlib.suppress(BlockingIOError):
                self._listens = bool(os.read(self._report, 1024))
                os.close(self._report)
                self._report = -1
        return self._listens

    async def start(self) -> None:
        theirs, self._pipe = os.pipe()
        self._report, report = os.pipe()
        os.set_blocking(self._report, False)
        self.port_taken = self._listens = False
        try:
            with self.log.open("ab") as log:
                self._process = await self._spawn(theirs, log.fileno(), report)
        finally:
            os.close(theirs)
            os.close(report)

    async def _spawn(self, stdin: int, log: int, report: int) -> asyncio.subprocess.Process | Forked:
        """Fork the service from a server that has imported it, or else execute it."""
        spec = self.spec
        words = [spec.port_flag, str(spec.port.number), *spec.arguments]
        environment = {**os.environ, **spec.environment, "DRALAB_SUPERVISED": "1"}
        for server in self._forks:
            if spec.module in server.modules and server.works:
                # The receiver is gone, or does not accept a message of this size.
                with contextlib.suppress(OSError):
                    return await server.spawn(spec.module, words, environment, (stdin, log, report), REPORT)
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            spec.module,
            *words,
            stdin=stdin,
            stdout=log,
            stderr=log,
            env={**environment, REPORT: str(report)},
            pass_fds=(report,),
            start_new_session=True,
        )

    async def wait_for_exit(self) -> str:
        assert self._process is not None
        code = await self._process.wait()
        self._close_pipes()
        self.usage = code == _USAGE
        self.refused = code in (_USAGE, CANNOT_RUN)
        self.port_taken = code == ADDRESS_IN_USE
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"exited with {code}"

    async def stop(self) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            self._close_pipes()
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
        self._close_pipes()

    def last_words(self) -> str:
        """Return the last line of the service's log, or the path of the log."""
        with contextlib.suppress(OSError):
            lines = self.log.read_text(errors="replace").splitlines()
            if lines:
                return f"{_plain(lines[-1])[:400]} (log: {self.log})"
        return f"see {self.log}"

    def _close_pipes(self) -> None:
        for pipe in (self._pipe, self._report):
            if pipe >= 0:
                os.close(pipe)
        self._pipe = self._report = -1


def _check(waiting: Sequence[_Service]) -> None:
    """Raise an error if one of the waiting services can never become ready."""
    for service in waiting:
        if service.port_taken and service.spec.known:
            raise PortTaken(service.spec.port.number)
        if service.refused or service.restarts >= 3:
            raise UserError(
                f"{service.spec.name} does not start: {service.last_words()}", _USAGE if service.usage else 1
            )


def _plain(line: str) -> str:
    """Return a line of a service's log as plain text: without JSON, and without the program's name."""
    try:
        entry = msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.DecodeError:
        return line.partition(": error: ")[2] or line
    return ": ".join(str(entry[key]) for key in ("event", "resource", "error") if key in entry) or line


async def _is_ready(service: _Service) -> bool:
    if not service.listens:
        return False
    spec = service.spec
    try:
        async with Client(
            spec.port.url, user_agent="dralab", token=spec.token, ssl_context=spec.tls
        ) as client:
            return (await client.raw("GET", "/readyz")).status_code == 200
    except (httpx.HTTPError, OSError):
        return False
